//! What a lane's sender takes in, and the words for a refusal.
//!
//! A full lane refuses; it never grows and never evicts. The caller keeps the
//! packet, waits or drops it with a reason of its own, and asks again when an ACK
//! has made room. Numbers are checked first, then bytes, then the peer's credit,
//! so that a reason names the bound nearest to us.

use crate::config::LaneConfig;
use crate::counters::counters;

/// Longest payload of a pack in bytes: the longest IP packet (RFC 791).
pub const PACK_BYTES_MAX: usize = 65_535;

/// Why a pack was not accepted. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Backpressure {
    /// `window_numbers` packs wait already.
    #[error("the lane holds as many packs as it may")]
    Count,
    /// It would take more than `window_bytes`.
    #[error("the lane holds as many bytes as it may")]
    Bytes,
    /// The peer's credit does not cover it.
    #[error("the peer grants no more credit")]
    Credit,
    /// The lane is over: closed, or a pack of an ordered lane was given up.
    #[error("the lane has ended")]
    Ended,
    /// No pack may be that long ([`PACK_BYTES_MAX`]): waiting will not help.
    #[error("longer than a pack may be")]
    TooLong,
}

counters! {
    /// How often each reason was given.
    pub struct Refusals {
        /// [`Backpressure::Count`].
        pub count: u64,
        /// [`Backpressure::Bytes`].
        pub bytes: u64,
        /// [`Backpressure::Credit`].
        pub credit: u64,
        /// [`Backpressure::Ended`].
        pub ended: u64,
        /// [`Backpressure::TooLong`].
        pub too_long: u64,
    }
}

impl Refusals {
    pub(crate) fn count(&mut self, reason: Backpressure) {
        let slot = match reason {
            Backpressure::Count => &mut self.count,
            Backpressure::Bytes => &mut self.bytes,
            Backpressure::Credit => &mut self.credit,
            Backpressure::Ended => &mut self.ended,
            Backpressure::TooLong => &mut self.too_long,
        };
        *slot += 1;
    }
}

/// The bounds of our own end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    numbers_max: usize,
    bytes_max: usize,
}

impl Limits {
    pub(crate) fn new(config: &LaneConfig) -> Self {
        Self {
            numbers_max: config.window_numbers,
            bytes_max: config.window_bytes,
        }
    }

    /// Whether `packs` more of `bytes` bytes together fit beside what stands there.
    pub(crate) fn admit(
        &self,
        (held_packs, held_bytes): (usize, usize),
        packs: usize,
        bytes: usize,
    ) -> Result<(), Backpressure> {
        if held_packs.saturating_add(packs) > self.numbers_max {
            return Err(Backpressure::Count);
        }
        if held_bytes.saturating_add(bytes) > self.bytes_max {
            return Err(Backpressure::Bytes);
        }
        Ok(())
    }
}
