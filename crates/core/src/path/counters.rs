//! What happened to the packets of a path, as numbers.
//!
//! The books close at every moment, in two layers. Packets: `accepted` = `sent` +
//! `laned` + drops + `in_flight`. Packs, in each lane: see
//! [`SendCounters`](crate::send::SendCounters) and
//! [`ReceiveCounters`](crate::recv::ReceiveCounters). A path's books are added to
//! its owner's when it ends ([`PathBooks`]), so that what a person or a metric
//! reads never goes back because a session was replaced, and so that what a dying
//! path dropped is seen at all.

use std::ops::AddAssign;

use quell_wire::frame::Lane;
use serde::Serialize;

use super::Path;
use crate::drops::Drops;
use crate::recv::ReceiveCounters;
use crate::send::SendCounters;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident,)+) => {
        /// What happened to packets, from this end's view. All values only grow, but for
        /// `in_flight`, which is what is there at the moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

counters! {
    /// Packets handed in to be carried.
    accepted,
    /// Packets handed to QUIC that nobody acknowledges.
    sent,
    /// Bytes of them.
    sent_bytes,
    /// Packets given to the flow lane.
    laned,
    /// Bytes of them.
    laned_bytes,
    /// Packets waiting that nobody will acknowledge.
    in_flight,
    /// Packets that came out of the path.
    received,
    /// Bytes of them.
    received_bytes,
    /// Messages taken in.
    messages_sent,
    /// Messages that the embedder took.
    messages_received,
    /// Datagrams handed to QUIC.
    datagrams_sent,
    /// Datagrams received.
    datagrams_received,
    /// ICMP errors made here for senders of packets too large.
    icmp_made,
    /// ICMP errors that were not made because there were too many already.
    icmp_limited,
    /// PINGs sent.
    pings_sent,
    /// How often the path was stalled.
    stalls,
}

/// The books of one acked lane, in packs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LaneBooks {
    /// Its sending end.
    pub send: SendCounters,
    /// Its receiving end.
    pub receive: ReceiveCounters,
    /// Packs of the peer that were dropped, by reason.
    pub receive_drops: Drops,
}

impl LaneBooks {
    fn of(path: &Path, lane: Lane) -> Self {
        let receive = &path.lanes.receive[lane.index()];
        Self {
            send: path.lanes.send[lane.index()].counters(),
            receive: receive.counters(),
            receive_drops: receive.drops(),
        }
    }

    /// Packs that are nowhere, at either end: 0, or a bug.
    pub fn unaccounted(&self) -> i64 {
        let sent = self.send.unaccounted();
        sent.wrapping_add(self.receive.unaccounted(&self.receive_drops))
    }
}

impl AddAssign for LaneBooks {
    fn add_assign(&mut self, other: Self) {
        self.send += other.send;
        self.receive += other.receive;
        self.receive_drops += other.receive_drops;
    }
}

/// The books of one path, or the sum over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PathBooks {
    /// What happened to packets.
    pub counters: Counters,
    /// Packets of the local device that were not carried, by reason.
    pub drops: Drops,
    /// The embedder's messages.
    pub message: LaneBooks,
    /// TCP, and what crosses in pieces.
    pub flow: LaneBooks,
}

impl PathBooks {
    /// The books of `path` at this moment.
    pub fn of(path: &Path) -> Self {
        Self {
            counters: path.counters(),
            drops: path.drops(),
            message: LaneBooks::of(path, Lane::MESSAGE),
            flow: LaneBooks::of(path, Lane::FLOW),
        }
    }

    /// Accepted less everything that became of it: 0 as long as nothing got lost in our books.
    pub fn unaccounted(&self) -> i64 {
        let c = &self.counters;
        let accounted = c.sent + c.laned + self.drops.total() + c.in_flight;
        let packets = c
            .accepted
            .cast_signed()
            .wrapping_sub(accounted.cast_signed());
        packets
            .wrapping_add(self.message.unaccounted())
            .wrapping_add(self.flow.unaccounted())
    }
}

impl AddAssign for PathBooks {
    fn add_assign(&mut self, other: Self) {
        self.counters += other.counters;
        self.drops += other.drops;
        self.message += other.message;
        self.flow += other.flow;
    }
}
