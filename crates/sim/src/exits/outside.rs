//! The world behind the exits: destinations that answer, refuse, or do not.
//!
//! A destination knows of each connection only what its exit shows it. It answers a SYN
//! with a SYN-ACK, and takes a reset as the end; all that it heard is remembered for
//! the test, with the exit that it came from.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use quell_packet::build::{self, Segment};
use quell_packet::{FlowKey, IpPacket, TcpView};

/// How a destination meets what is sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It answers after this.
    Answers(Duration),
    /// It refuses after this.
    Refuses(Duration),
    /// It says nothing.
    Silent,
}

/// What a destination heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// A SYN.
    Syn,
    /// A reset.
    Reset,
    /// Another segment.
    Segment,
    /// Something that is no TCP.
    Other,
}

/// All destinations.
#[derive(Debug, Default)]
pub struct Outside {
    manners: BTreeMap<(usize, Ipv4Addr), Manner>,
    heard: Vec<(Duration, usize, Heard, IpAddr)>,
}

impl Outside {
    /// How `destination` meets what comes from any exit that nothing else was said of.
    pub fn set(&mut self, destination: Ipv4Addr, manner: Manner) {
        self.manners.insert((usize::MAX, destination), manner);
    }

    /// How `destination` meets what comes from one exit.
    pub fn set_behind(&mut self, exit: usize, destination: Ipv4Addr, manner: Manner) {
        self.manners.insert((exit, destination), manner);
    }

    /// What was heard since the last call: when, behind which exit, what, from whom.
    pub fn take_heard(&mut self) -> Vec<(Duration, usize, Heard, IpAddr)> {
        std::mem::take(&mut self.heard)
    }

    fn manner(&self, exit: usize, destination: IpAddr) -> Manner {
        let IpAddr::V4(destination) = destination else {
            return Manner::Silent;
        };
        let own = self.manners.get(&(exit, destination));
        let any = self.manners.get(&(usize::MAX, destination));
        *own.or(any).unwrap_or(&Manner::Silent)
    }

    /// A packet comes out of an exit; what is answered, and after how long.
    pub(super) fn handle(
        &mut self,
        exit: usize,
        packet: &Bytes,
        at: Duration,
    ) -> Option<(Duration, Bytes)> {
        let view = IpPacket::parse(packet).ok()?;
        let (source, key) = (view.source(), FlowKey::of(&view));
        let tcp = (view.protocol() == 6).then(|| TcpView::parse(view.payload()).ok());
        let heard = match tcp.flatten() {
            Some(tcp) if tcp.is_rst() => Heard::Reset,
            Some(tcp) if tcp.is_opening() => Heard::Syn,
            Some(_) => Heard::Segment,
            None => Heard::Other,
        };
        self.heard.push((at, exit, heard, source));
        let tcp = tcp.flatten()?;
        let acked = tcp.sequence().wrapping_add(1);
        let answer = |flags| segment(key.reversed(), 9_000, acked, flags);
        match (heard, self.manner(exit, view.destination())) {
            (Heard::Syn, Manner::Answers(wait)) => Some((wait, answer(SYN | ACK))),
            (Heard::Syn, Manner::Refuses(wait)) => Some((wait, answer(RST | ACK))),
            _ => None,
        }
    }
}

pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;

/// A segment without data.
pub(super) fn segment(key: FlowKey, sequence: u32, acknowledgement: u32, flags: u8) -> Bytes {
    let segment = Segment {
        sequence,
        acknowledgement,
        flags,
        window: 65_535,
        options: &[],
    };
    let source = SocketAddr::new(key.source, key.source_port);
    let destination = SocketAddr::new(key.destination, key.destination_port);
    Bytes::from(build::tcp(source, destination, &segment, &[]))
}
