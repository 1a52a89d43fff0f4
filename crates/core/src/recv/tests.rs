//! Timelines of a lane's receiver: at t, this comes, exactly that goes out, then nothing.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_wire::frame::{Ack, Credit, Frame, Frames, LaneProbe, Pack, PackFlags, Skip};

use super::*;
use crate::config::receive::ReceiveConfig;
use crate::drops::DropReason;

mod acks;
mod breaches;
mod order;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const NS: Duration = Duration::from_nanos(1);

pub(super) const FIRST: PackFlags = PackFlags {
    first: true,
    last: false,
    unordered: false,
};
pub(super) const LAST: PackFlags = PackFlags {
    first: false,
    last: true,
    unordered: false,
};

/// A receiver with a clock; the books are checked after every step.
pub(super) struct Bench {
    pub(super) lane: ReceiveSequence,
    pub(super) t0: Instant,
    pub(super) now: Instant,
    tx: u64,
}

/// The payload of a number when the test does not care: 4 bytes.
pub(super) fn data(number: u64) -> Bytes {
    Bytes::copy_from_slice(&(number as u32).to_be_bytes())
}

impl Bench {
    pub(super) fn new(lane: Lane) -> Self {
        Self::with(lane, ReceiveConfig::default())
    }

    pub(super) fn with(lane: Lane, config: ReceiveConfig) -> Self {
        let now = Instant::now();
        Self {
            lane: ReceiveSequence::new(lane, config.try_new().unwrap(), now),
            t0: now,
            now,
            tx: 0,
        }
    }

    /// Moves the clock to `at` after the start, without a word to the receiver.
    pub(super) fn at(&mut self, at: Duration) -> &mut Self {
        self.now = self.t0 + at;
        self
    }

    pub(super) fn tick(&mut self) -> Vec<u64> {
        self.lane.handle_timeout(self.now);
        self.delivered()
    }

    pub(super) fn send(
        &mut self,
        number: u64,
        flags: PackFlags,
        dep: u64,
        bytes: &Bytes,
    ) -> Result<(), Violation> {
        self.tx += 1;
        let pack = Pack {
            lane: self.lane.lane,
            number,
            tx: self.tx,
            flags,
            dep,
            data: bytes,
        };
        let result = self.lane.handle_pack(&pack, bytes.clone(), self.now);
        self.check();
        result
    }

    /// A whole packet that waits for the one `dep` numbers before it; what comes out.
    pub(super) fn whole(&mut self, number: u64, dep: u64) -> Vec<u64> {
        self.piece(number, PackFlags::WHOLE, dep)
    }

    pub(super) fn piece(&mut self, number: u64, flags: PackFlags, dep: u64) -> Vec<u64> {
        self.send(number, flags, dep, &data(number)).unwrap();
        self.delivered()
    }

    /// A whole packet that breaks the protocol.
    pub(super) fn breach(&mut self, number: u64, bytes: &Bytes) -> ErrorCode {
        let result = self.send(number, PackFlags::WHOLE, 0, bytes);
        result.unwrap_err().code
    }

    pub(super) fn try_skip(&mut self, up_to: u64, bytes_up_to: u64) -> Result<(), ErrorCode> {
        let skip = Skip {
            lane: self.lane.lane,
            up_to,
            bytes_up_to,
        };
        let result = self.lane.handle_skip(&skip, self.now);
        self.check();
        result.map_err(|violation| violation.code)
    }

    /// A SKIP of numbers of 4 bytes each; what comes out.
    pub(super) fn skip(&mut self, up_to: u64) -> Vec<u64> {
        self.try_skip(up_to, 4 * (up_to + 1)).unwrap();
        self.delivered()
    }

    /// The numbers of the packets that came out.
    pub(super) fn delivered(&mut self) -> Vec<u64> {
        let next = || self.lane.poll_deliver();
        let numbers = std::iter::from_fn(next).map(|d| d.number).collect();
        self.check();
        numbers
    }

    pub(super) fn ack(&mut self) -> Option<AckFrame> {
        let ack = self.lane.poll_ack(1_200, self.now)?;
        assert!(
            self.lane.poll_ack(1_200, self.now).is_none(),
            "one at a time"
        );
        Some(ack)
    }

    pub(super) fn due(&self) -> Option<(Duration, &'static str)> {
        let (at, why) = self.lane.poll_timeout()?;
        Some((at.saturating_duration_since(self.t0), why))
    }

    fn check(&self) {
        let counters = self.lane.counters();
        let drops = self.lane.drops();
        assert_eq!(counters.unaccounted(&drops), 0, "{counters:?} {drops:?}");
        let config = &self.lane.config;
        assert!(counters.held_bytes <= config.window_bytes);
        assert!(counters.held <= config.window_numbers);
    }
}

/// What the peer reads of an ACK.
pub(super) fn written<T>(ack: &AckFrame, read: impl FnOnce(&Ack<'_>) -> T) -> T {
    let mut bytes = Vec::new();
    ack.write(&mut bytes);
    assert_eq!(bytes.len(), ack.encoded_len());
    match Frames::new(&bytes).next() {
        Some(Ok(Frame::Ack(ack))) => read(&ack),
        other => panic!("{other:?}"),
    }
}

pub(super) fn ranges(ack: &AckFrame) -> Vec<(u64, u64)> {
    written(ack, |ack| {
        ack.ranges.iter().map(|r| (r.first, r.last)).collect()
    })
}

pub(super) fn probe(lane: Lane, largest_number: u64, tx: u64) -> LaneProbe {
    LaneProbe {
        lane,
        largest_number,
        tx,
    }
}

pub(super) fn credit(max_bytes: u64, max_number: u64) -> Credit {
    Credit {
        max_bytes,
        max_number,
    }
}
