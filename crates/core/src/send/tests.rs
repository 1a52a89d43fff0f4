//! The sender in virtual time: a lab that steps from one due moment to the next.
//!
//! Everything that leaves departs at once unless a test says otherwise. After
//! each step the books must close and no pack may have passed its cap.
#![allow(clippy::unwrap_used)]

mod golden;
mod health;
mod losses;
mod random;
mod resume;
mod rules;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use quell_wire::frame::{Ack, AckRange, AckRanges, Credit, Lane, PackFlags};

use super::*;
use crate::config::LaneConfig;
use crate::path::Violation;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const PLENTY: Credit = Credit {
    max_bytes: u64::MAX,
    max_number: u64::MAX,
};

/// A budget that a test opens, closes and reads.
#[derive(Debug, Clone)]
struct Purse {
    open: Rc<Cell<bool>>,
    reserved: Rc<Cell<i64>>,
    first_sent: Rc<Cell<u64>>,
}

impl ResendBudget for Purse {
    fn on_first_sent(&mut self, bytes: usize, _now: Instant) {
        self.first_sent.set(self.first_sent.get() + bytes as u64);
    }

    fn reserve(&mut self, bytes: usize, _now: Instant) -> Option<Reservation> {
        if !self.open.get() {
            return None;
        }
        self.reserved.set(self.reserved.get() + bytes as i64);
        Some(Reservation::of(bytes))
    }

    fn refund(&mut self, reservation: Reservation, _now: Instant) {
        let bytes = reservation.bytes() as i64;
        self.reserved.set(self.reserved.get() - bytes);
    }
}

/// The backend's signal, switched by a test.
#[derive(Debug, Clone)]
struct Switch(Rc<Cell<bool>>);

impl Degraded for Switch {
    fn is_degraded(&self, _now: Instant) -> bool {
        self.0.get()
    }
}

/// One hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Out {
    number: u64,
    tx: u64,
    kind: Kind,
}

struct Lab {
    lane: SendSequence<Purse, Switch>,
    start: Instant,
    now: Instant,
    purse: Purse,
    degraded: Rc<Cell<bool>>,
    sends: RefCell<BTreeMap<u64, u32>>,
    sends_max: u32,
}

fn config(jitter: bool) -> LaneConfig {
    let config = LaneConfig::default();
    if jitter {
        return config;
    }
    LaneConfig {
        jitter_min: 1.0,
        jitter_max: 1.0,
        ..config
    }
}

impl Lab {
    fn new(config: LaneConfig) -> Self {
        Self::with(config, Delivery::Skipping, PLENTY)
    }

    fn with(config: LaneConfig, delivery: Delivery, credit: Credit) -> Self {
        let purse = Purse {
            open: Rc::new(Cell::new(true)),
            reserved: Rc::default(),
            first_sent: Rc::default(),
        };
        let degraded = Rc::new(Cell::new(false));
        let shared = (purse.clone(), Switch(degraded.clone()));
        let sends_max = u32::from(config.max_resend_count) + 1;
        let config = config.try_new().unwrap();
        let now = Instant::now();
        Self {
            lane: SendSequence::new(Lane::FLOW, delivery, config, credit, shared, 7),
            start: now,
            now,
            purse,
            degraded,
            sends: RefCell::default(),
            sends_max,
        }
    }

    /// A lane that has measured a steady path of 50 ms: its PTO is 61 ms. The
    /// clock that tests read begins here.
    fn warm() -> Self {
        Self::warmed(config(false))
    }

    fn warmed(config: LaneConfig) -> Self {
        let mut lab = Self::new(config);
        for _ in 0..20 {
            let number = lab.accept(100).unwrap();
            let out = lab.transmit().unwrap();
            lab.now += 50 * MS;
            lab.ack(number + 1, &[], out.tx).unwrap();
        }
        assert_eq!(lab.lane.pto(), 61 * MS);
        lab.start = lab.now;
        lab
    }

    fn at(&mut self, ms: f64) {
        self.now = self.start + Duration::from_secs_f64(ms / 1e3);
        self.lane.handle_timeout(self.now);
        self.check();
    }

    fn accept(&mut self, len: usize) -> Result<u64, Backpressure> {
        let taken = self
            .lane
            .accept(PackFlags::WHOLE, 0, &vec![1; len], self.now);
        self.check();
        taken
    }

    /// Hands the next pack over, without its departure.
    fn hand_over(&mut self) -> Option<Out> {
        let transmit = self.lane.poll_transmit(usize::MAX, self.now)?;
        let out = Out {
            number: transmit.pack.number,
            tx: transmit.pack.tx,
            kind: transmit.kind,
        };
        let sends = {
            let mut all = self.sends.borrow_mut();
            let sends = all.entry(out.number).or_default();
            *sends += 1;
            *sends
        };
        //
        assert!(sends <= self.sends_max, "{out:?}: send {sends}");
        self.check();
        Some(out)
    }

    fn transmit(&mut self) -> Option<Out> {
        let out = self.hand_over()?;
        self.lane.on_departed(out.tx, self.now);
        self.check();
        Some(out)
    }

    fn drain(&mut self) -> Vec<Out> {
        std::iter::from_fn(|| self.transmit()).collect()
    }

    fn ack(&mut self, cumulative: u64, ranges: &[(u64, u64)], tx: u64) -> Result<Acked, Violation> {
        self.ack_with(cumulative, ranges, tx, None)
    }

    fn ack_with(
        &mut self,
        cumulative: u64,
        ranges: &[(u64, u64)],
        largest_tx: u64,
        dup_tx: Option<u64>,
    ) -> Result<Acked, Violation> {
        let range = |&(first, last)| AckRange { first, last };
        let ranges: Vec<_> = ranges.iter().map(range).collect();
        let ack = Ack {
            lane: Lane::FLOW,
            cumulative,
            ranges: AckRanges::new(&ranges),
            largest_tx,
            delay_us: 0,
            dup_tx,
            credit: Credit::FIRST,
        };
        let acked = self.lane.handle_ack(&ack, self.now);
        self.check();
        acked
    }

    /// Steps from one due moment to the next until `end_ms`; what left, and when.
    fn run_until(&mut self, end_ms: u64) -> Vec<(Duration, Out)> {
        let end = self.start + end_ms as u32 * MS;
        let mut left = Vec::new();
        for _ in 0..10_000 {
            for out in self.drain() {
                left.push((self.now - self.start, out));
            }
            while self.lane.poll_skip(1_200, self.now).is_some() {}
            let due = self.lane.poll_timeout().map(|(at, _)| at);
            let Some(due) = due.filter(|due| *due <= end) else {
                self.now = end;
                return left;
            };
            self.now = self.now.max(due);
            self.lane.handle_timeout(self.now);
            self.check();
        }
        panic!("a timer that never ends: {:?}", self.lane.poll_timeout());
    }

    fn check(&self) {
        let counters = self.lane.counters();
        assert_eq!(counters.unaccounted(), 0, "{counters:?}");
    }

    fn counters(&self) -> SendCounters {
        self.lane.counters()
    }
}

/// Milliseconds of the resends of `number`.
fn resends_of(number: u64, left: &[(Duration, Out)]) -> Vec<f64> {
    let resend = |(_, out): &&(Duration, Out)| out.number == number && out.kind != Kind::First;
    let ms = |(at, _): &(Duration, Out)| (at.as_secs_f64() * 1e6).round() / 1e3;
    left.iter().filter(resend).map(ms).collect()
}
