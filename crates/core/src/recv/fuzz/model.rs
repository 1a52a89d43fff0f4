//! The receiver said plainly: a map of all that came, asked by looking through it.
//!
//! Nothing here is clever, shared with the receiver, or bounded: that is what makes it a witness. A number is *skipped* or it
//! *came*, with its contents and moment; a packet is a row of numbers that came, from a `first` to a `last` with no mark in
//! between; a piece is *orphaned* when the row around it runs into something known that does not go on.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_wire::frame::{Ack, Credit, Lane, Pack, PackFlags};
use quell_wire::registry::{ACK_RANGES_MAX, BITMAP_NUMBERS, ErrorCode};

use crate::config::receive::ReceiveConfig;
use crate::drops::{DropReason, Drops};
use crate::recv::{Delivery, ReceiveCounters};

/// What an honest peer has to send: packets of one to four packs, in three flows.
pub(super) struct Plan {
    packs: Vec<(PackFlags, u64, Bytes)>,
    last_of_flow: [Option<u64>; 3],
    random: u64,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            packs: Vec::new(),
            last_of_flow: [None; 3],
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    pub(super) fn pack(&mut self, number: u64) -> (PackFlags, u64, Bytes) {
        while self.packs.len() as u64 <= number {
            self.packet();
        }
        self.packs[number as usize].clone()
    }

    fn packet(&mut self) {
        let flow = self.draw(3) as usize;
        let count = [1, 1, 1, 2, 3, 4][self.draw(6) as usize];
        let unordered = self.draw(8) == 0;
        let first = self.packs.len() as u64;
        let dep = self.last_of_flow[flow].map_or(0, |last| first - last);
        for piece in 0..count {
            let flags = PackFlags {
                first: piece == 0,
                last: piece + 1 == count,
                unordered,
            };
            let len = self.draw(1_200) as usize;
            let byte = self.packs.len() as u8;
            let dep = if piece == 0 && dep < BITMAP_NUMBERS {
                dep
            } else {
                0
            };
            self.packs.push((flags, dep, Bytes::from(vec![byte; len])));
        }
        self.last_of_flow[flow] = Some(first + count - 1);
    }

    pub(super) fn len(&mut self, number: u64) -> u64 {
        self.pack(number).2.len() as u64
    }

    pub(super) fn bytes_up_to(&mut self, up_to: u64) -> u64 {
        (0..=up_to).map(|number| self.len(number)).sum()
    }
}

struct Came {
    flags: PackFlags,
    dep: u64,
    data: Bytes,
    at: Instant,
    /// How many had come before.
    order: usize,
    /// The hold limit at that moment.
    limit: Duration,
    delivered: bool,
}

pub(super) struct Model {
    strict: bool,
    config: ReceiveConfig,
    came: BTreeMap<u64, Came>,
    /// Never came, with the payload that the peer says they had.
    skipped: BTreeMap<u64, u64>,
    base: u64,
    announced: Credit,
    srtt: Option<Duration>,
    /// A hold ended at this moment, so a packet may be out before its predecessor.
    timeout: Option<Instant>,
    next_message: u64,
    exact: bool,
}

impl Model {
    pub(super) fn new(lane: Lane, config: ReceiveConfig) -> Self {
        Self {
            strict: lane == Lane::MESSAGE,
            announced: config.first_credit(),
            config,
            came: BTreeMap::new(),
            skipped: BTreeMap::new(),
            base: 0,
            srtt: None,
            timeout: None,
            next_message: 0,
            exact: true,
        }
    }

    /// The lowest number that is not known.
    pub(super) const fn base(&self) -> u64 {
        self.base
    }

    /// Whether contents are still known: no lie was believed.
    pub(super) const fn exact(&self) -> bool {
        self.exact
    }

    /// What comes is a lie whose outcome is not foretold.
    pub(super) fn lied(&mut self) {
        self.exact = false;
    }

    pub(super) fn on_rtt(&mut self, srtt: Duration) {
        self.srtt = Some(srtt);
    }

    fn limit(&self) -> Duration {
        let Some(srtt) = self.srtt else {
            return self.config.hold_max;
        };
        let delay = (srtt / 4).min(self.config.ack_delay_max);
        let limit = 2 * (srtt.mul_f64(1.25) + delay);
        limit.clamp(self.config.hold_min, self.config.hold_max)
    }

    fn is_known(&self, number: u64) -> bool {
        self.came.contains_key(&number) || self.skipped.contains_key(&number)
    }

    fn seen_bytes(&self) -> u64 {
        let came = self.came.values().map(|came| came.data.len() as u64);
        came.sum::<u64>() + self.skipped.values().sum::<u64>()
    }

    /// What handling this pack must come to.
    pub(super) fn pack(&mut self, pack: &Pack<'_>, now: Instant) -> Option<Result<(), ErrorCode>> {
        if !self.exact {
            return None;
        }
        let number = pack.number;
        if let Some(came) = self.came.get(&number) {
            let same = (came.flags, came.dep, &came.data[..]) == (pack.flags, pack.dep, pack.data);
            let forgotten = self.is_known(number + BITMAP_NUMBERS);
            let fine = same || forgotten;
            return Some(fine.then_some(()).ok_or(ErrorCode::NumberChanged));
        }
        if self.skipped.contains_key(&number) {
            return Some(Ok(()));
        }
        if number >= self.base + BITMAP_NUMBERS {
            return Some(Err(ErrorCode::NumberOutOfWindow));
        }
        let bytes = self.seen_bytes() + pack.data.len() as u64;
        if number >= self.announced.max_number || bytes > self.announced.max_bytes {
            return Some(Err(ErrorCode::CreditExceeded));
        }
        let came = Came {
            flags: pack.flags,
            dep: pack.dep,
            data: Bytes::copy_from_slice(pack.data),
            at: now,
            order: self.came.len(),
            limit: self.limit(),
            delivered: false,
        };
        self.came.insert(number, came);
        self.advance();
        Some(self.marks())
    }

    /// On the message lane marks that make no message are a breach.
    fn marks(&self) -> Result<(), ErrorCode> {
        if self.strict && self.orphans() > 0 {
            return Err(ErrorCode::WrongState);
        }
        Ok(())
    }

    fn advance(&mut self) {
        while self.is_known(self.base) {
            self.base += 1;
        }
    }

    /// What a SKIP must come to that says of each number what `len` says.
    pub(super) fn skip(
        &mut self,
        up_to: u64,
        mut len: impl FnMut(u64) -> u64,
    ) -> Option<Result<(), ErrorCode>> {
        // A lie may have come under a number of the plan: then the sums differ, and the plan's SKIP is one more lie.
        if (0..=up_to).any(|n| {
            self.came
                .get(&n)
                .is_some_and(|came| came.data.len() as u64 != len(n))
        }) {
            self.exact = false;
            return None;
        }
        if up_to >= self.base + BITMAP_NUMBERS {
            return Some(Err(ErrorCode::NumberOutOfWindow));
        }
        if up_to >= self.base && up_to >= self.announced.max_number {
            return Some(Err(ErrorCode::CreditExceeded));
        }
        let missing: Vec<_> = (self.base..=up_to).filter(|n| !self.is_known(*n)).collect();
        if self.strict && !missing.is_empty() {
            return Some(Err(ErrorCode::WrongState));
        }
        let bytes: u64 = missing.iter().map(|number| len(*number)).sum();
        if self.seen_bytes() + bytes > self.announced.max_bytes {
            return Some(Err(ErrorCode::CreditExceeded));
        }
        for number in missing {
            self.skipped.insert(number, len(number));
        }
        self.advance();
        Some(Ok(()))
    }

    pub(super) fn ping(&self, largest_number: u64) -> Option<Result<(), ErrorCode>> {
        let granted = largest_number < self.announced.max_number;
        self.exact
            .then_some(granted.then_some(()).ok_or(ErrorCode::CreditExceeded))
    }

    pub(super) fn timeout(&mut self, now: Instant) {
        self.timeout = Some(now);
    }

    /// The packet around a number that came, or whether its piece is orphaned, or neither.
    fn row(&self, number: u64) -> Row {
        let (mut first, mut last) = (number, number);
        let flags = |n: u64| self.came.get(&n).map(|came| came.flags);
        let (mut open, mut orphaned) = (false, false);
        while !flags(first).is_some_and(|flags| flags.first) {
            match first.checked_sub(1).map(|before| (before, flags(before))) {
                Some((before, Some(flags))) if !flags.last => first = before,
                Some((before, None)) if !self.is_known(before) => {
                    open = true;
                    break;
                }
                _ => {
                    orphaned = true;
                    break;
                }
            }
        }
        while !flags(last).is_some_and(|flags| flags.last) {
            match flags(last + 1) {
                Some(flags) if !flags.first => last += 1,
                None if !self.is_known(last + 1) => {
                    open = true;
                    break;
                }
                _ => {
                    orphaned = true;
                    break;
                }
            }
        }
        match (orphaned, open) {
            (true, _) => Row::Orphaned,
            (false, true) => Row::Open,
            (false, false) => Row::Whole(first..=last),
        }
    }

    fn orphans(&self) -> usize {
        let is_orphan = |number: &&u64| self.row(**number) == Row::Orphaned;
        self.came.keys().filter(is_orphan).count()
    }

    /// Packs that came and are neither delivered nor orphaned.
    fn waiting(&self) -> impl Iterator<Item = (u64, &Came)> + '_ {
        let waiting = self.came.iter().filter(|(_, came)| !came.delivered);
        waiting
            .map(|(number, came)| (*number, came))
            .filter(|(number, _)| self.row(*number) != Row::Orphaned)
    }

    fn predecessor(&self, first: u64) -> Option<u64> {
        let came = self.came.get(&first)?;
        if self.strict {
            return first.checked_sub(1);
        }
        let waits = came.dep > 0 && !came.flags.unordered;
        waits.then(|| first - came.dep)
    }

    pub(super) fn delivered(&mut self, delivery: &Delivery, eager: bool, now: Instant) {
        if !self.exact {
            return;
        }
        let first = delivery.number;
        let row = self.row(first);
        let numbers = first..=first + delivery.packs - 1;
        assert_eq!(row, Row::Whole(numbers.clone()), "not a packet");
        if self.strict {
            assert_eq!(first, self.next_message, "not the next message");
            self.next_message = first + delivery.packs;
        } else if let Some(before) = self.predecessor(first) {
            let row = self
                .came
                .get(&before)
                .map(|came| (came.delivered, self.row(before)));
            if let Some((delivered, Row::Whole(_))) = row {
                // A late taker may find it behind a packet that a hold let out before it came.
                assert!(
                    delivered || !eager,
                    "{first} before {before}, which is here"
                );
            }
            let early = !self.is_known(before) || matches!(row, Some((_, Row::Open)));
            let allowed = self.timeout == Some(now);
            assert!(!eager || !early || allowed, "{first} before {before}");
        }
        let mut bytes = Vec::new();
        for number in numbers {
            if let Some(came) = self.came.get_mut(&number) {
                assert!(!came.delivered, "{number} twice");
                came.delivered = true;
                bytes.extend_from_slice(&came.data);
            }
        }
        assert_eq!(delivery.bytes, bytes, "other bytes than came");
    }

    /// Nothing more is to be had at this moment: what waits, waits for a reason.
    pub(super) fn drained(&mut self, eager: bool, now: Instant) {
        let timeout = self.timeout.take();
        if !self.exact {
            return;
        }
        let waiting: Vec<_> = self.waiting().map(|(number, _)| number).collect();
        for number in waiting {
            let Row::Whole(row) = self.row(number) else {
                continue;
            };
            let Some(before) = self.predecessor(*row.start()) else {
                panic!("{row:?} waits for nothing");
            };
            let pending = match self.came.get(&before) {
                Some(came) => !came.delivered && self.row(before) != Row::Orphaned,
                None => !self.skipped.contains_key(&before),
            };
            assert!(pending, "{row:?} waits for {before}, which is gone");
            if eager && !self.strict && timeout == Some(now) {
                let last_came = row
                    .clone()
                    .filter_map(|n| self.came.get(&n))
                    .max_by_key(|came| came.order);
                let held = last_came.is_some_and(|came| now < came.at + came.limit);
                assert!(held, "{row:?} is held beyond its limit");
            }
        }
    }

    pub(super) fn acked(&mut self, ack: &Ack<'_>, tx: u64, roomy: bool) {
        assert!(
            ack.credit.max_bytes >= self.announced.max_bytes,
            "taken back"
        );
        assert!(
            ack.credit.max_number >= self.announced.max_number,
            "taken back"
        );
        self.announced = ack.credit;
        assert!(ack.largest_tx <= tx);
        if !self.exact {
            return;
        }
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for &number in self.came.range(self.base..).map(|(number, _)| number) {
            match ranges.last_mut() {
                Some(range) if range.end() + 1 == number => *range = *range.start()..=number,
                _ => ranges.push(number..=number),
            }
        }
        let said: Vec<_> = ack.ranges.iter().map(|r| r.first..=r.last).collect();
        let all = ranges.len().min(ACK_RANGES_MAX);
        assert_eq!(ack.cumulative, self.base);
        assert_eq!(said, ranges[..said.len()], "not the lowest ranges");
        assert!(!roomy || said.len() == all, "ranges left out");
        let waiting_bytes: u64 = self.waiting().map(|(_, came)| came.data.len() as u64).sum();
        let released = self.seen_bytes() - waiting_bytes;
        assert_eq!(ack.credit.max_bytes, released + self.config.window_bytes);
        let numbers = (self.came.len() + self.skipped.len() - self.waiting().count()) as u64;
        let numbers = numbers + self.config.window_numbers;
        assert_eq!(
            ack.credit.max_number,
            numbers.min(self.base + BITMAP_NUMBERS)
        );
    }

    pub(super) fn check(&self, counters: &ReceiveCounters, drops: &Drops) {
        assert!(counters.held <= self.config.window_numbers, "{counters:?}");
        assert!(
            counters.held_bytes <= self.config.window_bytes,
            "{counters:?}"
        );
        if !self.exact {
            return;
        }
        assert_eq!(drops[DropReason::FragmentOrphaned], self.orphans() as u64);
        assert_eq!(counters.held, self.waiting().count() as u64);
        assert_eq!(counters.skipped, self.skipped.len() as u64);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Row {
    Whole(RangeInclusive<u64>),
    /// Something is missing that may still come.
    Open,
    Orphaned,
}
