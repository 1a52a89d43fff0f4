//! What a datagram carries, and what became of it.
//!
//! A link only knows datagrams. To say what a *loss* cost, each datagram is parsed once, when an end hands it over, and the
//! result travels with it: a [`Parcel`]. When the last reference to a parcel that never arrived is dropped, wherever that
//! happens (in the link, in a queue that was cleared, at an end that was closed), its cargo is lost. No code path can forget
//! to count, because forgetting a parcel *is* counting it.

use std::cell::{Cell, RefCell};
use std::ops::AddAssign;
use std::rc::Rc;

use bytes::Bytes;
use quell_wire::frame::{Frame, Frames};

/// What datagrams carry: how many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cargo {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Whole packets: DGRAM frames.
    pub packets: u64,
    /// PACKs, resent ones included.
    pub packs: u64,
    /// ACKs.
    pub acks: u64,
    /// SKIPs.
    pub skips: u64,
    /// PINGs.
    pub pings: u64,
    /// PONGs.
    pub pongs: u64,
    /// Bytes of ACKs and SKIPs.
    pub ack_bytes: u64,
    /// Bytes of PINGs and PONGs.
    pub ping_bytes: u64,
}

impl Cargo {
    /// What `datagram` carries, up to its first malformed frame.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        let mut cargo = Self {
            datagrams: 1,
            bytes: datagram.len() as u64,
            ..Self::default()
        };
        let mut frames = Frames::new(datagram);
        let mut before = frames.remaining();
        let mut other = 0;
        while let Some(Ok(frame)) = frames.next() {
            let (count, bytes) = match frame {
                Frame::Dgram(_) => (&mut cargo.packets, &mut other),
                Frame::Pack(_) => (&mut cargo.packs, &mut other),
                Frame::Ack(_) => (&mut cargo.acks, &mut cargo.ack_bytes),
                Frame::Skip(_) => (&mut cargo.skips, &mut cargo.ack_bytes),
                Frame::Ping(_) => (&mut cargo.pings, &mut cargo.ping_bytes),
                Frame::Pong(_) => (&mut cargo.pongs, &mut cargo.ping_bytes),
            };
            *count += 1;
            *bytes += (before - frames.remaining()) as u64;
            before = frames.remaining();
        }
        cargo
    }
}

impl AddAssign for Cargo {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.packs += other.packs;
        self.acks += other.acks;
        self.skips += other.skips;
        self.pings += other.pings;
        self.pongs += other.pongs;
        self.ack_bytes += other.ack_bytes;
        self.ping_bytes += other.ping_bytes;
    }
}

/// What became of all parcels of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fate {
    /// Handed over by the sending end.
    pub sent: Cargo,
    /// Arrived, each parcel counted once.
    pub arrived: Cargo,
    /// Arrived once more: copies made by the link.
    pub copies: Cargo,
    /// Gone without having arrived.
    pub lost: Cargo,
}

/// The running sum of one direction, shared with all its parcels.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Rc<RefCell<Fate>>);

impl Tally {
    pub(super) fn fate(&self) -> Fate {
        *self.0.borrow()
    }

    /// Puts a datagram on its way.
    pub(super) fn parcel(&self, bytes: Bytes) -> Rc<Parcel> {
        let cargo = Cargo::of(&bytes);
        self.0.borrow_mut().sent += cargo;
        Rc::new(Parcel {
            bytes,
            cargo,
            arrived: Cell::new(false),
            tally: self.clone(),
        })
    }
}

/// One datagram on its way.
#[derive(Debug)]
pub(super) struct Parcel {
    bytes: Bytes,
    cargo: Cargo,
    arrived: Cell<bool>,
    tally: Tally,
}

impl Parcel {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The datagram, which counts as arrived by this call.
    pub(super) fn open(&self) -> Bytes {
        let again = self.arrived.replace(true);
        let mut fate = self.tally.0.borrow_mut();
        if again {
            fate.copies += self.cargo;
        } else {
            fate.arrived += self.cargo;
        }
        self.bytes.clone()
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        if !self.arrived.get() {
            self.tally.0.borrow_mut().lost += self.cargo;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::frame;

    #[test]
    fn a_parcel_arrives_once_is_copied_once_or_is_lost() {
        let tally = Tally::default();
        let mut datagram = Vec::new();
        frame::write_dgram(&mut datagram, b"abc");
        frame::write_dgram(&mut datagram, b"");
        let datagram = Bytes::from(datagram);
        let arrives = tally.parcel(datagram.clone());
        drop(tally.parcel(datagram));
        arrives.open();
        arrives.open();
        drop(arrives);
        let one = Cargo {
            datagrams: 1,
            bytes: 7,
            packets: 2,
            ..Cargo::default()
        };
        let fate = tally.fate();
        assert_eq!((fate.arrived, fate.copies, fate.lost), (one, one, one));
        assert_eq!(fate.sent.packets, 4);
    }
}
