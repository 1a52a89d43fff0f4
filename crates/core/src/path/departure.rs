//! When did what was handed over leave?
//!
//! Time runs for a pack from when it left the carrier's queue, not from when it
//! was put there: waiting for the congestion window is not silence. The carrier
//! says how many bytes stand in its queue, and it is first in, first out; so what
//! was handed over in all, less that backlog, has left.
//!
//! ```text
//!   handed over   ├──────────────── left ────────────────┼── backlog ──┤
//! ```

use std::collections::VecDeque;

use quell_wire::frame::Lane;

use super::causes::{Cause, FrameBytes};
use crate::health::path::Departed;

/// Part of a datagram that somebody waits to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    /// A transmission of a lane: a pack, sent as this, or its part of a PING.
    Tx(Lane, u64, Departed),
    /// The PING itself.
    Ping,
    /// Packets without acknowledgement: how many, and their bytes.
    Dgrams(u32, u32),
}

#[derive(Debug, Clone, Copy)]
struct Datagram {
    /// Bytes handed over up to and with it.
    end: u64,
    len: u64,
    parts: usize,
    /// What its bytes are for, all of them.
    frames: FrameBytes,
}

/// Datagrams in the carrier's queue and what is in them.
#[derive(Debug, Default)]
pub(super) struct Departures {
    total: u64,
    datagrams: VecDeque<Datagram>,
    parts: VecDeque<Handed>,
    /// Parts of the datagram that is being written.
    open: usize,
    /// Its frames.
    open_frames: FrameBytes,
    /// Frames of what has left.
    left: FrameBytes,
}

impl Departures {
    /// Notes a part of the datagram that is being written.
    pub(super) fn note(&mut self, part: Handed) {
        self.parts.push_back(part);
        self.open += 1;
    }

    /// The datagram that is being written has grown to `len` bytes, because of `cause`.
    pub(super) fn charge(&mut self, cause: Cause, len: usize) {
        let before = self.open_frames.total();
        self.open_frames
            .add(cause, (len as u64).saturating_sub(before));
    }

    /// The datagram that is being written, of `len` bytes, is handed over.
    pub(super) fn seal(&mut self, len: usize) {
        let frames = std::mem::take(&mut self.open_frames);
        debug_assert_eq!(frames.total(), len as u64, "bytes without a cause");
        self.total += len as u64;
        self.datagrams.push_back(Datagram {
            end: self.total,
            len: len as u64,
            parts: std::mem::take(&mut self.open),
            frames,
        });
    }

    /// Bytes of what has left, by cause.
    pub(super) fn left(&self) -> FrameBytes {
        self.left
    }

    /// Whether something stands in the carrier's queue.
    pub(super) fn is_waiting(&self) -> bool {
        !self.datagrams.is_empty()
    }

    /// The next part that has left while `backlog_bytes` stand in the queue.
    pub(super) fn poll(&mut self, backlog_bytes: usize) -> Option<Handed> {
        let left = self.total.saturating_sub(backlog_bytes as u64);
        while let Some(datagram) = self.datagrams.front_mut() {
            if datagram.end > left {
                return None;
            }
            if datagram.parts > 0 {
                datagram.parts -= 1;
                return self.parts.pop_front();
            }
            self.left += datagram.frames;
            self.datagrams.pop_front();
        }
        None
    }

    /// Takes a part of the datagram back that was handed over last, in reverse
    /// order; `None` after its last part.
    pub(super) fn take_back(&mut self) -> Option<Handed> {
        let datagram = self.datagrams.back_mut()?;
        if datagram.parts > 0 {
            datagram.parts -= 1;
            return self.parts.pop_back();
        }
        self.total -= datagram.len;
        self.datagrams.pop_back();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(tx: u64) -> Handed {
        Handed::Tx(Lane::FLOW, tx, Departed::Pack)
    }

    fn drain(departures: &mut Departures, backlog: usize) -> Vec<Handed> {
        std::iter::from_fn(|| departures.poll(backlog)).collect()
    }

    fn three() -> Departures {
        let mut departures = Departures::default();
        departures.note(tx(1));
        departures.note(tx(2));
        departures.charge(Cause::FirstSend, 60);
        departures.charge(Cause::Resend, 100);
        departures.seal(100);
        departures.charge(Cause::Ack, 50);
        departures.seal(50);
        departures.note(Handed::Ping);
        departures.charge(Cause::Ping, 30);
        departures.seal(30);
        departures
    }

    #[test]
    fn a_datagram_has_left_when_its_last_byte_has() {
        let mut departures = three();
        assert_eq!(drain(&mut departures, 81), []);
        assert_eq!(drain(&mut departures, 80), [tx(1), tx(2)]);
        assert_eq!(drain(&mut departures, 1), []);
        assert!(departures.is_waiting());
        assert_eq!(drain(&mut departures, 0), [Handed::Ping]);
        assert!(!departures.is_waiting());
    }

    #[test]
    fn bytes_count_for_their_cause_when_they_have_left() {
        let mut departures = three();
        drain(&mut departures, 81);
        assert_eq!(departures.left(), FrameBytes::default());
        drain(&mut departures, 30);
        let left = departures.left();
        assert_eq!(
            (left.first_send, left.resend, left.ack, left.ping),
            (60, 40, 50, 0)
        );
        while departures.take_back().is_some() {}
        drain(&mut departures, 0);
        assert_eq!(departures.left(), left, "what was refused never left");
    }

    #[test]
    fn what_is_refused_is_taken_back_as_though_it_had_not_been() {
        let mut departures = three();
        let back: Vec<_> = std::iter::from_fn(|| departures.take_back()).collect();
        assert_eq!(back, [Handed::Ping]);
        assert_eq!(drain(&mut departures, 50), [tx(1), tx(2)]);
        assert_eq!(drain(&mut departures, 0), []);
        assert!(!departures.is_waiting());
    }
}
