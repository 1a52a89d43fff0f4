//! What happened to the packs of a lane's receiver, as numbers.
//!
//! The books close at every moment: `received` = `delivered` + `duplicates` + drops + `held`, counted in packs. A duplicate
//! is one that the network made or the peer sent for want of our ACK; which of the two only the sender can tell (case B60).

use crate::counters::counters;
use crate::drops::Drops;

counters! {
    /// What happened to packs, from the receiver's view. All values only grow, but for the `held` ones.
    pub struct ReceiveCounters {
        /// Packs that came and broke no rule, duplicates included.
        pub received: u64,
        /// Payload bytes of the packs that came for the first time.
        pub received_bytes: u64,
        /// Packs whose packet or message the application took.
        pub delivered: u64,
        /// Payload bytes the application took.
        pub delivered_bytes: u64,
        /// Packets or messages the application took.
        pub deliveries: u64,
        /// Packs that had come before.
        pub duplicates: u64,
        /// Packs with us: in pieces, held for another, or not taken yet.
        pub held: u64,
        /// Payload bytes with us.
        pub held_bytes: u64,
        /// Numbers that the peer gave up before they came.
        pub skipped: u64,
        /// Packets that waited for another one.
        pub holds: u64,
        /// Packets released because their hold, or that of one behind them, ended.
        pub holds_expired: u64,
        /// ACKs handed out.
        pub acks: u64,
    }
}

impl ReceiveCounters {
    /// Received less delivered, duplicate, dropped and held: 0 as long as nothing got lost in our books.
    #[must_use]
    pub fn unaccounted(&self, drops: &Drops) -> i64 {
        let accounted = self.delivered + self.duplicates + drops.total() + self.held;
        let received = self.received.cast_signed();
        received.wrapping_sub(accounted.cast_signed())
    }
}
