//! What happened to the packets of a path, as numbers.
//!
//! The books close at every moment, in two layers. Packets: `accepted` = `sent` +
//! `laned` + drops + `in_flight`. Packs, in each lane: see
//! [`SendCounters`](crate::send::SendCounters) and
//! [`ReceiveCounters`](crate::recv::ReceiveCounters). A path's books are added to
//! its owner's when it ends ([`PathBooks`]), so that what a person or a metric
//! reads never goes back because a session was replaced, and so that what a dying
//! path dropped is seen at all.

use quell_wire::frame::Lane;

use super::Path;
use super::causes::FrameBytes;
use crate::counters::counters;
use crate::drops::Drops;
use crate::recv::ReceiveCounters;
use crate::send::SendCounters;

counters! {
    /// What happened to packets, from this end's view. All values only grow, but for
    /// `in_flight`, which is what is there at the moment.
    pub struct Counters {
        /// Packets handed in to be carried.
        pub accepted: u64,
        /// Packets handed to QUIC that nobody acknowledges.
        pub sent: u64,
        /// Bytes of them.
        pub sent_bytes: u64,
        /// Packets given to the flow lane.
        pub laned: u64,
        /// Bytes of them.
        pub laned_bytes: u64,
        /// Packets waiting that nobody will acknowledge.
        pub in_flight: u64,
        /// Packets that came out of the path.
        pub received: u64,
        /// Bytes of them.
        pub received_bytes: u64,
        /// Messages taken in.
        pub messages_sent: u64,
        /// Messages that the embedder took.
        pub messages_received: u64,
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
        /// How often the path was stalled.
        pub stalls: u64,
    }
}

counters! {
    /// The books of one acked lane, in packs.
    pub struct LaneBooks {
        /// Its sending end.
        pub send: SendCounters,
        /// Its receiving end.
        pub receive: ReceiveCounters,
        /// Packs of the peer that were dropped, by reason.
        pub receive_drops: Drops,
    }
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

counters! {
    /// The books of one path, or the sum over several.
    pub struct PathBooks {
        /// What happened to packets.
        pub counters: Counters,
        /// Packets of the local device that were not carried, by reason.
        pub drops: Drops,
        /// The embedder's messages.
        pub message: LaneBooks,
        /// TCP, and what crosses in pieces.
        pub flow: LaneBooks,
        /// Bytes that left, by cause.
        pub frame_bytes: FrameBytes,
    }
}

impl PathBooks {
    /// The books of `path` at this moment.
    pub fn of(path: &Path) -> Self {
        Self {
            counters: path.counters(),
            drops: path.drops(),
            message: LaneBooks::of(path, Lane::MESSAGE),
            flow: LaneBooks::of(path, Lane::FLOW),
            frame_bytes: path.frame_bytes(),
        }
    }

    /// How often the pack was handed over that was handed over most.
    pub fn max_sends_of_one_pack(&self) -> u64 {
        let sends = |books: &LaneBooks| books.send.max_sends_of_one_pack.get();
        sends(&self.message).max(sends(&self.flow))
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
