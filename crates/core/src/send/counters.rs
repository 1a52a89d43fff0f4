//! What happened to a lane's packs, as numbers.
//!
//! The books close at every moment: accepted = acked + given up + dropped +
//! in flight ([`SendCounters::unaccounted`]). A hand-over that was refused is
//! taken back out of the sends, as it never happened.

use serde::Serialize;

use super::limits::Refusals;
use crate::counters::{Peak, counters};
use crate::drops::Drops;

/// Why a pack was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GiveUp {
    /// No acknowledgement came within `ack_timeout` of its first departure, or it
    /// could not leave for that long.
    Expired,
    /// It no longer fits into a datagram of the path.
    TooLargeForPath,
    /// Another fragment of its packet or message was given up.
    WithMessage,
    /// It no longer fitted, and its packet was cut into other packs.
    CutAnew,
}

counters! {
    /// What happened so far. All values only grow, but for `in_flight`.
    pub struct SendCounters {
        /// Packs taken in.
        pub accepted: u64,
        /// Packs that the peer acknowledged.
        pub acked: u64,
        /// Packs given up: [`GiveUp::Expired`].
        pub expired: u64,
        /// Packs given up: [`GiveUp::TooLargeForPath`].
        pub too_large: u64,
        /// Packs given up: [`GiveUp::WithMessage`].
        pub with_message: u64,
        /// Packs given up: [`GiveUp::CutAnew`].
        pub cut_anew: u64,
        /// Packs dropped because the lane ended, by reason.
        pub dropped: Drops,
        /// Packs waiting or unacknowledged at the moment.
        pub in_flight: u64,
        /// Packs not taken in, by reason.
        pub refusals: Refusals,
        /// First hand-overs.
        pub first_sends: u64,
        /// Payload bytes of first hand-overs.
        pub first_bytes: u64,
        /// Resends handed over on evidence of loss.
        pub evidence_resends: u64,
        /// Resends handed over into a silence.
        pub silence_resends: u64,
        /// Payload bytes of all resends.
        pub resent_bytes: u64,
        /// Resends that were acknowledged while they waited in our own queue.
        pub cancelled: u64,
        /// Hand-overs that the carrier refused at once.
        pub refused: u64,
        /// Silences in which the budget allowed no resend.
        pub denied: u64,
        /// Packs that came twice because we sent them twice.
        pub needless_resends: u64,
        /// Packs that came twice because the network doubled them (case B60).
        pub network_duplicates: u64,
        /// SKIPs sent.
        pub skips: u64,
        /// PINGs that named this lane.
        pub probes: u64,
        /// How often the pack was handed over that was handed over most.
        pub max_sends_of_one_pack: Peak,
    }
}

impl SendCounters {
    /// Packs given up, for whatever reason.
    pub fn given_up(&self) -> u64 {
        self.expired + self.too_large + self.with_message + self.cut_anew
    }

    /// Accepted less acked, given up, dropped and in flight: 0, or a bug.
    pub fn unaccounted(&self) -> i64 {
        let accounted = self.acked + self.given_up() + self.dropped.total() + self.in_flight;
        let accepted = self.accepted.cast_signed();
        accepted.wrapping_sub(accounted.cast_signed())
    }

    pub(crate) fn gave_up(&mut self, cause: GiveUp) {
        match cause {
            GiveUp::Expired => self.expired += 1,
            GiveUp::TooLargeForPath => self.too_large += 1,
            GiveUp::WithMessage => self.with_message += 1,
            GiveUp::CutAnew => self.cut_anew += 1,
        }
    }
}
