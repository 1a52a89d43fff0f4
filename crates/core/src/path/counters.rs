//! What happened to the packets of a path, as numbers.
//!
//! The books close at every moment: `accepted` = `sent` + drops + `in_flight`,
//! `pieces_received` = `pieces_used` + drops of pieces + `pieces_in_flight`. A
//! path's books are added to its owner's when it ends ([`PathBooks`]), so that
//! what a person or a metric reads never goes back because a session was
//! replaced, and so that what a dying path dropped is seen at all.

use std::ops::AddAssign;

use serde::Serialize;

use super::Path;
use crate::drops::Drops;

/// What happened to packets, from this end's view. All values only grow, but for
/// the `in_flight` ones, which are what is there at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets handed in to be carried.
    pub accepted: u64,
    /// Packets handed to QUIC, whole or in pieces.
    pub sent: u64,
    /// Packets waiting.
    pub in_flight: u64,
    /// Bytes of the packets sent.
    pub sent_bytes: u64,
    /// Packets that came whole out of the path.
    pub received: u64,
    /// Bytes of the packets received.
    pub received_bytes: u64,
    /// Pieces sent.
    pub pieces_sent: u64,
    /// Pieces received.
    pub pieces_received: u64,
    /// Pieces that became part of a whole packet.
    pub pieces_used: u64,
    /// Pieces waiting for the others.
    pub pieces_in_flight: u64,
    /// Datagrams handed to QUIC.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// ICMP errors made here for senders of packets too large.
    pub icmp_made: u64,
    /// ICMP errors that were not made because there were too many already.
    pub icmp_limited: u64,
    /// PINGs sent.
    pub pings_sent: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.sent += other.sent;
        self.in_flight += other.in_flight;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.pieces_sent += other.pieces_sent;
        self.pieces_received += other.pieces_received;
        self.pieces_used += other.pieces_used;
        self.pieces_in_flight += other.pieces_in_flight;
        self.datagrams_sent += other.datagrams_sent;
        self.datagrams_received += other.datagrams_received;
        self.icmp_made += other.icmp_made;
        self.icmp_limited += other.icmp_limited;
        self.pings_sent += other.pings_sent;
    }
}

/// The books of one path, or the sum over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PathBooks {
    /// What happened to packets.
    pub counters: Counters,
    /// Packets of the local device that were not carried, by reason.
    pub drops: Drops,
    /// Pieces of the peer's packets that were not used, by reason.
    pub piece_drops: Drops,
}

impl PathBooks {
    /// The books of `path` at this moment.
    pub fn of(path: &Path) -> Self {
        Self {
            counters: path.counters(),
            drops: path.drops(),
            piece_drops: path.piece_drops(),
        }
    }

    /// Accepted less sent, dropped and in flight: 0 as long as nothing got lost in our books.
    pub fn unaccounted(&self) -> i64 {
        let accounted = self.counters.sent + self.drops.total() + self.counters.in_flight;
        let accepted = self.counters.accepted.cast_signed();
        accepted.wrapping_sub(accounted.cast_signed())
    }
}

impl AddAssign for PathBooks {
    fn add_assign(&mut self, other: Self) {
        self.counters += other.counters;
        self.drops += other.drops;
        self.piece_drops += other.piece_drops;
    }
}
