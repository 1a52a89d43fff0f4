//! What a receiver hands out: packets for the application, ACKs for the peer.
//!
//! An [`AckFrame`] owns its ranges in an array of the most there may be: it borrows nothing from the lane and allocates
//! nothing, so the caller may keep it until there is a datagram to write it into.

use bytes::{BufMut, Bytes};
use quell_wire::frame::{Ack, AckRange, AckRanges, Credit, Lane};
use quell_wire::registry::ACK_RANGES_MAX;

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
    pub(super) lane: Lane,
    pub(super) cumulative: u64,
    pub(super) ranges: [AckRange; ACK_RANGES_MAX],
    pub(super) ranges_len: usize,
    pub(super) largest_tx: u64,
    pub(super) delay_us: u64,
    pub(super) dup_tx: Option<u64>,
    pub(super) credit: Credit,
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

    /// This frame with as many of the lowest ranges as go into `room` bytes; `None` if it does not go in with none.
    pub(super) fn fitting(mut self, room: usize) -> Option<Self> {
        self.ranges_len = self.ack().fitting(room)?.ranges.len();
        Some(self)
    }
}
