//! Opening a flow's outside connection, and telling the client how it went.
//!
//! What a client's application sees is what it would see without the tunnel: "connection refused" is a reset, "no route
//! to host" an ICMP error followed by a reset (some systems believe only the one, some only the other), and silence is
//! silence, until we give up and say that the host is unreachable.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use quell_packet::IpPacket;
use quell_packet::icmp::Unreachable;
use quell_stack::{End, Memory, Patience, Relay, Tcp, answer, spare};
use tokio::net::{TcpSocket, TcpStream};

use super::super::books::Event;
use super::super::config::UserspaceConfig;
use super::{Entry, Flow};

/// A socket for a destination, that speaks from `source` if there is one.
///
/// # Errors
/// The host has none to give.
pub(super) fn socket(destination: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpSocket> {
    let socket = spare(match destination {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    })?;
    if let Some(source) = source {
        #[cfg(target_os = "linux")]
        choose_port_late(&socket)?;
        socket.bind(SocketAddr::new(source, 0))?;
    }
    Ok(socket)
}

/// Leaves the port to the connecting (ip(7), IP_BIND_ADDRESS_NO_PORT): chosen by `bind` it would be taken for all
/// destinations, and some 28,000 flows would be all there are.
#[cfg(target_os = "linux")]
fn choose_port_late(socket: &TcpSocket) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};
    use std::os::fd::AsFd as _;

    setsockopt(&socket.as_fd(), sockopt::IpBindAddressNoPort, &true)?;
    Ok(())
}

/// A flow's life.
pub(super) async fn serve(
    mut entry: Entry,
    flow: Rc<Flow>,
    socket: TcpSocket,
    destination: SocketAddr,
) {
    let stream = match connect(&entry, &flow, socket, destination).await {
        Ok(stream) => stream,
        Err(failure) => return failure.tell(&mut entry, &flow),
    };
    let bytes = entry.common.config.buffer_bytes(entry.established_others());
    let Ok(mut memory) = Memory::for_two(bytes) else {
        return Failure::Exhausted.tell(&mut entry, &flow);
    };
    entry.set_established();
    let Some(syn) = flow.syn.borrow_mut().take() else {
        return;
    };
    let common = Rc::clone(&entry.common);
    let config = &common.config;
    let end = (destination, config.mtu);
    let Some(tcp) = Tcp::listen(&common.outbox, &flow.feed, end, syn, &mut memory) else {
        return;
    };
    let relay = Relay::new(tcp, stream, bytes::Bytes::new(), patience(config));
    entry.end = match relay.run().await {
        End::Closed => Event::TcpClosed,
        End::ResetByPeer => Event::TcpResetByClient,
        End::ResetByHost => Event::TcpResetOutside,
        End::Idle => Event::TcpIdle,
    };
}

/// The client's own handshake may take as long as we waited for the outside's.
const fn patience(config: &UserspaceConfig) -> Patience {
    Patience {
        handshake: config.tcp_connect_timeout,
        idle: config.tcp_idle,
        idle_transitory: config.tcp_idle_transitory,
    }
}

/// Why there is no outside connection.
enum Failure {
    Abandoned,
    TimedOut,
    Refused,
    Unreachable,
    Prohibited,
    Exhausted,
}

async fn connect(
    entry: &Entry,
    flow: &Flow,
    socket: TcpSocket,
    destination: SocketAddr,
) -> Result<TcpStream, Failure> {
    let limit = entry.common.config.tcp_connect_timeout;
    let connecting = tokio::time::timeout(limit, socket.connect(destination));
    tokio::pin!(connecting);
    let outcome = loop {
        tokio::select! {
            outcome = &mut connecting => break outcome,
            () = flow.feed.woken() => if flow.abandoned.get() {
                return Err(Failure::Abandoned);
            },
        }
    };
    let stream = match outcome {
        Err(_) => return Err(Failure::TimedOut),
        Ok(Err(error)) => return Err(Failure::of(&error)),
        Ok(Ok(stream)) => stream,
    };
    // What the client sends is passed on as it comes: its own TCP has decided how to pack it. A socket that cannot be
    // told so is slower, nothing else.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the library's enum is open, and every other error is answered like a refusal"
        )]
        match error.kind() {
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            io::ErrorKind::NetworkDown => Self::Unreachable,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::PermissionDenied => Self::Prohibited,
            io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::AddrInUse
            | io::ErrorKind::OutOfMemory => Self::Exhausted,
            _ => Self::Refused,
        }
    }

    /// What the client is told: an ICMP error, a reset, both, or nothing.
    const fn answer(&self) -> (Option<Unreachable>, bool) {
        match self {
            Self::Abandoned => (None, false),
            Self::TimedOut => (Some(Unreachable::Host), false),
            Self::Refused | Self::Exhausted => (None, true),
            Self::Unreachable => (Some(Unreachable::Host), true),
            Self::Prohibited => (Some(Unreachable::AdminProhibited), true),
        }
    }

    fn tell(&self, entry: &mut Entry, flow: &Flow) {
        entry.end = match self {
            Self::Abandoned => Event::TcpAbandoned,
            Self::TimedOut => Event::TcpConnectTimedOut,
            Self::Refused => Event::TcpRefused,
            Self::Unreachable | Self::Prohibited => Event::TcpUnreachable,
            Self::Exhausted => Event::TcpCutOff,
        };
        let syn = flow.syn.borrow();
        let Some(Ok(ip)) = syn.as_deref().map(IpPacket::parse) else {
            return;
        };
        let (error, resets) = self.answer();
        let outbox = &entry.common.outbox;
        if let Some(why) = error {
            answer::unreachable(&ip, why, outbox);
        }
        if resets {
            answer::reset(&ip, outbox);
        }
    }
}
