//! What a receiver hands out: packets for the application, ACKs for the peer.
//!
//! An [`AckFrame`] owns its ranges in an array of the most there may be: it borrows nothing from the lane and allocates
//! nothing, so the caller may keep it until there is a datagram to write it into. Who has one at hand asks for the ACK to be
//! written at once (`ReceiveSequence::write_ack`): the array is a kilobyte, and most ACKs have no range.

use bytes::{BufMut, Bytes};
use quell_wire::frame::{Ack, AckRange, AckRanges, Credit, Lane};
use quell_wire::registry::ACK_RANGES_MAX;

/// Room for the ranges of an ACK.
pub(super) const NO_RANGES: [AckRange; ACK_RANGES_MAX] =
    [AckRange { first: 0, last: 0 }; ACK_RANGES_MAX];

/// A whole packet or message for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The lane's number of its first pack.
    pub number: u64,
    /// The packs it came in, at least 1.
    pub packs: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// An ACK that is ready to be written.
#[derive(Debug, Clone)]
pub struct AckFrame {
    lane: Lane,
    cumulative: u64,
    ranges: [AckRange; ACK_RANGES_MAX],
    ranges_len: usize,
    largest_tx: u64,
    delay_us: u64,
    dup_tx: Option<u64>,
    credit: Credit,
}

impl AckFrame {
    /// The frame as the wire knows it.
    #[must_use]
    pub fn ack(&self) -> Ack<'_> {
        Ack {
            lane: self.lane,
            cumulative: self.cumulative,
            ranges: AckRanges::new(&self.ranges[..self.ranges_len]),
            largest_tx: self.largest_tx,
            delay_us: self.delay_us,
            dup_tx: self.dup_tx,
            credit: self.credit,
        }
    }

    /// Bytes that [`AckFrame::write`] writes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.ack().encoded_len()
    }

    /// Writes the frame.
    pub fn write(&self, buf: &mut impl BufMut) {
        self.ack().write(buf);
    }

    /// Keeps what `ack` says.
    pub(super) fn of(ack: &Ack<'_>) -> Self {
        let mut ranges = NO_RANGES;
        let mut ranges_len = 0;
        for (slot, range) in ranges.iter_mut().zip(ack.ranges) {
            *slot = range;
            ranges_len += 1;
        }
        Self {
            lane: ack.lane,
            cumulative: ack.cumulative,
            ranges,
            ranges_len,
            largest_tx: ack.largest_tx,
            delay_us: ack.delay_us,
            dup_tx: ack.dup_tx,
            credit: ack.credit,
        }
    }
}
