//! The sending end of a sequence: numbered packs, each repeated until it is acked or the sequence ends.
//!
//! ```text
//! push ─▶ [ front … acked selectively (parked 60 s) … sent … │fresh … waiting for a contract ]
//!            │                                                └─ first send: debits the contract
//!            └─ older than the ack timeout: the sequence ends, all of it is lost; the next push begins a new one
//! ```
//!
//! Invariants: the ring holds at most 2 MiB; that bounds what is new and nothing else, so a full ring is sent whole, once
//! each interval, for as long as its front lives. A pack's resends are due by [`ResendRule`](super::resend::ResendRule) from
//! its own last send; no budget, window or ratio joins them.
//!
//! A connection that does not take a pack: in the older make the pack counts as sent. What the newer one does is not
//! stated; it waits for the connection, the kinder reading, and its exponent does not grow.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::contract::Grant;
use super::rtt::RttRing;
use super::rules::{FailedWrite, Rules};
use super::unit::{Body, Parcel, Unit, causes_of_pack};
use super::write::Writer;

/// Unacknowledged bytes of one sequence.
pub(crate) const QUEUE_BYTES_MAX: u64 = 2 << 20;
/// How long a selective ack keeps a pack from being sent again.
const PARKED: Duration = Duration::from_secs(60);

/// One pack of the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pack {
    pub(crate) body: Body,
    /// The copy that an item's books are kept by: it has one such copy.
    pub(crate) is_first: bool,
    /// Sends so far. It is fresh until the first.
    sends: u32,
    queued_at: Instant,
    last_sent_at: Instant,
    due: Option<Instant>,
    is_parked: bool,
}

/// What a sequence sends by, and where to.
pub(crate) struct Outlet<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) degraded: bool,
    pub(crate) writer: &'a mut Writer,
    pub(crate) out: &'a mut VecDeque<Parcel>,
}

/// The sending end.
#[derive(Debug, Clone)]
pub(crate) struct SendSequence {
    sequence: u32,
    is_open: bool,
    ack_timeout: Duration,
    /// Whether first sends need a contract.
    needs_contract: bool,
    pub(crate) grant: Grant,
    /// The number of the ring's front.
    head: u32,
    packs: VecDeque<Pack>,
    /// The index in the ring of the first that was never sent.
    fresh: usize,
    bytes: u64,
    dues: BinaryHeap<Reverse<(Instant, u32)>>,
    rtt: RttRing,
}

impl SendSequence {
    pub(crate) fn new(ack_timeout: Duration, needs_contract: bool) -> Self {
        Self {
            sequence: 0,
            is_open: false,
            ack_timeout,
            needs_contract,
            grant: Grant::opening(),
            head: 0,
            packs: VecDeque::new(),
            fresh: 0,
            bytes: 0,
            dues: BinaryHeap::new(),
            rtt: RttRing::default(),
        }
    }

    /// The number of the sequence that is open, or was last.
    pub(crate) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Packs in the ring.
    pub(crate) fn packs(&self) -> impl Iterator<Item = &Pack> {
        self.packs.iter()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A contract came for `sequence`; whether it is the one that is open.
    pub(crate) fn on_contract(&mut self, sequence: u32) -> bool {
        let is_ours = self.is_open && sequence == self.sequence;
        if is_ours {
            self.grant.add();
        }
        is_ours
    }

    /// Queues a pack; whether there was room. It leaves with [`Self::flush`].
    pub(crate) fn push(&mut self, body: Body, is_first: bool, now: Instant) -> bool {
        let len = u64::from(body.pack_len());
        if self.bytes + len > QUEUE_BYTES_MAX {
            return false;
        }
        if !self.is_open {
            self.sequence += 1;
            self.is_open = true;
            self.head = 0;
            self.grant = Grant::opening();
        }
        self.bytes += len;
        self.packs.push_back(Pack {
            body,
            is_first,
            sends: 0,
            queued_at: now,
            last_sent_at: now,
            due: None,
            is_parked: false,
        });
        true
    }

    /// Sends what was never sent, as far as contract and connection go.
    pub(crate) fn flush(&mut self, outlet: &mut Outlet<'_>, now: Instant) {
        while let Some(pack) = self.packs.get(self.fresh) {
            let len = pack.body.pack_len();
            if Self::waits(outlet) {
                return;
            }
            if self.needs_contract && !self.grant.debit(len, now) {
                return;
            }
            self.send(self.fresh, outlet, now);
            self.fresh += 1;
        }
    }

    fn waits(outlet: &Outlet<'_>) -> bool {
        outlet.rules.failed_write == FailedWrite::Waits && !outlet.writer.has_space()
    }

    fn send(&mut self, index: usize, outlet: &mut Outlet<'_>, now: Instant) {
        let head = self.head;
        let number = head.wrapping_add(u32::try_from(index).unwrap_or(u32::MAX));
        let mean = self.rtt.mean(now);
        let Some(pack) = self.packs.get_mut(index) else {
            return;
        };
        let unit = Unit::Pack {
            sequence: self.sequence,
            number,
            head,
            body: pack.body,
        };
        let causes =
            |len_bytes| causes_of_pack(pack.body, len_bytes, pack.is_first, pack.sends > 0);
        let len = pack.body.pack_len();
        outlet
            .writer
            .write(len, outlet.out, |part, len_bytes| Parcel {
                unit: if part { Unit::Part } else { unit },
                causes: causes(len_bytes),
            });
        pack.sends = pack.sends.saturating_add(1);
        pack.last_sent_at = now;
        pack.is_parked = false;
        let wait = outlet
            .rules
            .resend
            .interval(pack.sends, mean, outlet.degraded);
        pack.due = wait.map(|wait| now + wait);
        if let Some(due) = pack.due {
            self.dues.push(Reverse((due, number)));
        }
    }

    fn index_of(&self, number: u32) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.head)?).ok()?;
        (index < self.fresh).then_some(index)
    }

    /// Takes what became void off the top of the heap, so that its top is the next resend.
    fn prune(&mut self) {
        while let Some(&Reverse((due, number))) = self.dues.peek() {
            let index = self.index_of(number);
            if index.is_some_and(|index| self.packs[index].due == Some(due)) {
                return;
            }
            self.dues.pop();
        }
    }

    /// When to come back.
    pub(crate) fn poll_timeout(&self, rules: &Rules, writer: &Writer) -> Option<Instant> {
        let blocked = rules.failed_write == FailedWrite::Waits && !writer.has_space();
        let resend = self.dues.peek().map(|Reverse((due, _))| *due);
        [self.ends_at(), resend.filter(|_| !blocked), self.ask_at()]
            .into_iter()
            .flatten()
            .min()
    }

    fn ask_at(&self) -> Option<Instant> {
        self.grant.ask_at().filter(|_| self.is_open)
    }

    fn ends_at(&self) -> Option<Instant> {
        Some(self.packs.front()?.queued_at + self.ack_timeout)
    }

    /// Ends the sequence if its oldest pack is too old: its packs are handed to `lost`, and `true` returned.
    pub(crate) fn end_if_due(&mut self, now: Instant, lost: impl FnMut(Pack)) -> bool {
        if self.ends_at().is_none_or(|at| at > now) {
            return false;
        }
        self.end(lost);
        true
    }

    /// Ends the sequence.
    pub(crate) fn end(&mut self, lost: impl FnMut(Pack)) {
        self.is_open = false;
        self.packs.drain(..).for_each(lost);
        self.packs.shrink_to(64);
        self.dues.clear();
        self.dues.shrink_to(64);
        self.fresh = 0;
        self.bytes = 0;
        self.grant = Grant::opening();
    }

    /// Sends again what is due.
    pub(crate) fn resend(&mut self, outlet: &mut Outlet<'_>, now: Instant) {
        while let Some(&Reverse((due, number))) = self.dues.peek()
            && due <= now
            && !Self::waits(outlet)
        {
            self.dues.pop();
            if let Some(index) = self.index_of(number)
                && self.packs[index].due == Some(due)
            {
                self.send(index, outlet, now);
            }
        }
        self.prune();
    }

    /// All below `next` arrived. `acked` is told of each pack that was not known to have arrived.
    pub(crate) fn on_ack(
        &mut self,
        sequence: u32,
        next: u32,
        now: Instant,
        mut acked: impl FnMut(&Pack),
    ) {
        if !self.is_open || sequence != self.sequence {
            return;
        }
        while self.head < next && self.fresh > 0 {
            let Some(pack) = self.packs.pop_front() else {
                break;
            };
            self.head += 1;
            self.fresh -= 1;
            self.bytes -= u64::from(pack.body.pack_len());
            if !pack.is_parked {
                self.rtt
                    .add(now.saturating_duration_since(pack.last_sent_at), now);
            }
            acked(&pack);
        }
        self.prune();
    }

    /// This one arrived, one before it did not. Returns what it carries.
    pub(crate) fn on_selective(
        &mut self,
        sequence: u32,
        number: u32,
        now: Instant,
    ) -> Option<Body> {
        if !self.is_open || sequence != self.sequence {
            return None;
        }
        let index = self.index_of(number)?;
        let pack = &mut self.packs[index];
        if !pack.is_parked {
            self.rtt
                .add(now.saturating_duration_since(pack.last_sent_at), now);
        }
        pack.is_parked = true;
        let due = now + PARKED;
        if pack.due.replace(due) != Some(due) {
            self.dues.push(Reverse((due, number)));
        }
        let body = pack.body;
        self.prune();
        Some(body)
    }
}

#[cfg(test)]
mod tests;
