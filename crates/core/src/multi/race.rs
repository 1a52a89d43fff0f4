//! One question over two exits, so that one answers.
//!
//! Only what opens a connection is raced (a TCP's SYN; DNS if so configured): small,
//! and worth nothing twice. The user's own TCP sets the pace. It is silent for a
//! second, then for two, four …, and each of its SYNs is one packet here too:
//!
//! ```text
//! SYN 1 ──→ best exit ──┬─ its pack is acknowledged: the exit is well, the destination far. Wait
//!                       └─ not within hedge_delay ──→ a second copy over the next best exit
//! SYN n ──→ fewer copies wait than may? one more : in place of the oldest, over the next best exit
//! an exit fails and no copy is left ──→ the next best at once
//! ```
//!
//! | answer | what becomes of the race |
//! |---|---|
//! | SYN-ACK | that exit has won; the others are told to close (FLOW_CLOSE) |
//! | RST, ICMP error | that copy is out; passed on when no copy is left, at the latest at the user's next SYN |
//! | silence | nothing: it never starts a copy of its own accord after the first hedge |
//!
//! So there are never more copies in all than one for each SYN of the user's TCP, and
//! one (`Race::may_send`): exits that fail one after the other do not change that.
//!
//! What comes from an exit that is out, or was never in, is dropped and answered with
//! another FLOW_CLOSE.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_packet::FlowKey;
use rustc_hash::FxSeededState;
use serde::Serialize;

use super::exit_id::ExitId;
use crate::budget::RaceBudget;
use crate::config::RacerConfig;

/// A race whose user has not asked for so long is over: longer than the longest wait
/// between two SYNs (RFC 9293 asks for 3 minutes of attempts at least; the last wait of
/// common systems is 64 s).
const ABANDONED_AFTER: Duration = Duration::from_secs(130);

/// Entries of races that are over may lie about, up to so many for each that may be.
const AGES_A_RACE_MAX: usize = 4;

/// A copy that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copy {
    exit: ExitId,
    /// The number of its pack in the flow lane; `None`: nobody acknowledges it.
    pack: Option<u64>,
}

/// What came back over one exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The destination is there and willing.
    Yes,
    /// It, or somebody on the way, refuses.
    No,
    /// Something else.
    Other,
}

/// What to do with what came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    /// No race is about this flow.
    NoRace,
    /// To the user.
    Pass,
    /// To the user, and these exits have lost.
    Won(Vec<ExitId>),
    /// To the user: it was the last copy.
    Lost,
    /// It is kept until there is no other copy.
    Keep,
    /// From an exit that is out: dropped, and that exit told again.
    Late,
}

/// What the user's next SYN causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Again {
    /// One more copy, if there is another exit.
    Add,
    /// A copy over another exit in place of these, which are to be told, the oldest
    /// first.
    Replace(Vec<ExitId>),
    /// The refusal that was kept; the race is over.
    Refuse(Bytes),
}

/// One race.
#[derive(Debug)]
struct Race {
    /// What is asked, as the user sent it last.
    packet: Bytes,
    /// Copies that wait, the oldest first.
    live: Vec<Copy>,
    refusal: Option<Bytes>,
    asked_at: Instant,
    /// Times that the user asked.
    asked: u32,
    sent: u32,
    /// The one copy that time alone may add is still to come.
    may_hedge: bool,
}

impl Race {
    /// Whether one more copy keeps the bound.
    fn may_send(&self) -> bool {
        self.sent <= self.asked
    }
}

/// Races so far, for people and programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RaceCounters {
    /// Races that were begun.
    pub races: u64,
    /// Copies sent, first ones included.
    pub copies: u64,
    /// Second copies because the first exit did not say that it had the first.
    pub hedges: u64,
    /// Copies in place of one whose exit failed.
    pub after_failures: u64,
    /// Races won by another exit than the first.
    pub won_by_another: u64,
    /// Refusals that waited for another copy.
    pub kept_refusals: u64,
    /// Packets of exits that were out.
    pub late: u64,
    /// Copies that the budget denied.
    pub denied: u64,
    /// Connections that were not raced because too many were at the time.
    pub unraced: u64,
}

/// All races of a client.
#[derive(Debug)]
pub(super) struct Racer {
    config: RacerConfig,
    races: HashMap<FlowKey, Race, FxSeededState>,
    /// When each race's first copy has been alone for long enough, in order.
    hedges: VecDeque<(Instant, FlowKey)>,
    /// Races in the order in which they were asked about, perhaps more than once.
    ages: VecDeque<(Instant, FlowKey)>,
    budget: RaceBudget,
    counters: RaceCounters,
}

impl Racer {
    pub(super) fn new(config: RacerConfig, seed: u64) -> Self {
        let seed = usize::try_from(seed & u64::from(u32::MAX)).unwrap_or_default();
        Self {
            budget: RaceBudget::new(&config.budget),
            config,
            races: HashMap::with_hasher(FxSeededState::with_seed(seed)),
            hedges: VecDeque::new(),
            ages: VecDeque::new(),
            counters: RaceCounters::default(),
        }
    }

    pub(super) fn config(&self) -> &RacerConfig {
        &self.config
    }

    pub(super) fn counters(&self) -> RaceCounters {
        self.counters
    }

    pub(super) fn is_racing(&self, key: &FlowKey) -> bool {
        self.races.contains_key(key)
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.races.len()
    }

    // --- the user asks ---------------------------------------------------

    /// The user's first question about a flow; whether a race begins. What an earlier
    /// race about the same flow has open is to be closed before.
    pub(super) fn begin(&mut self, key: FlowKey, packet: Bytes, now: Instant) -> bool {
        self.forget_abandoned(now);
        if self.races.len() >= self.config.races_max {
            self.counters.unraced += 1;
            return false;
        }
        self.budget.on_first_sent(packet.len(), now);
        let race = Race {
            packet,
            live: Vec::with_capacity(self.config.race_client_count),
            refusal: None,
            asked_at: now,
            asked: 1,
            sent: 0,
            may_hedge: true,
        };
        self.races.insert(key, race);
        self.counters.races += 1;
        if self.ages.len() >= AGES_A_RACE_MAX * self.config.races_max {
            let races = &self.races;
            self.ages.retain(|(_, key)| races.contains_key(key));
        }
        self.ages.push_back((now, key));
        if let Some(at) = now.checked_add(self.config.hedge_delay) {
            self.hedges.push_back((at, key));
        }
        true
    }

    /// The user asks again. `width`: copies that may wait at the same time.
    pub(super) fn again(
        &mut self,
        key: &FlowKey,
        packet: Bytes,
        width: usize,
        now: Instant,
    ) -> Option<Again> {
        let race = self.races.get_mut(key)?;
        if let Some(refusal) = race.refusal.take() {
            self.races.remove(key);
            return Some(Again::Refuse(refusal));
        }
        race.packet = packet;
        race.asked_at = now;
        race.asked = race.asked.saturating_add(1);
        let too_many = (race.live.len() + 1).saturating_sub(width);
        if too_many == 0 {
            return Some(Again::Add);
        }
        let oldest = race.live.iter().take(too_many).map(|copy| copy.exit);
        Some(Again::Replace(oldest.collect()))
    }

    /// A copy was sent.
    pub(super) fn on_sent(&mut self, key: &FlowKey, exit: ExitId, pack: Option<u64>) {
        if let Some(race) = self.races.get_mut(key) {
            race.live.retain(|copy| copy.exit != exit);
            race.live.push(Copy { exit, pack });
            race.sent = race.sent.saturating_add(1);
            self.counters.copies += 1;
        }
    }

    /// A copy is given up for another.
    pub(super) fn on_replaced(&mut self, key: &FlowKey, exit: ExitId) {
        if let Some(race) = self.races.get_mut(key) {
            race.live.retain(|copy| copy.exit != exit);
        }
    }

    /// Exits whose copies wait, the oldest first.
    pub(super) fn live(&self, key: &FlowKey) -> impl Iterator<Item = ExitId> + Clone + '_ {
        let live = self.races.get(key).map(|race| race.live.as_slice());
        live.unwrap_or_default().iter().map(|copy| copy.exit)
    }

    /// What is asked.
    pub(super) fn packet(&self, key: &FlowKey) -> Option<Bytes> {
        self.races.get(key).map(|race| race.packet.clone())
    }

    /// The race is over without an answer: the user gave up. Exits with an open copy.
    pub(super) fn end(&mut self, key: &FlowKey) -> Vec<ExitId> {
        let race = self.races.remove(key);
        let live = race.map(|race| race.live).unwrap_or_default();
        live.into_iter().map(|copy| copy.exit).collect()
    }

    // --- answers ---------------------------------------------------------

    /// Something about the flow came over `exit`.
    pub(super) fn on_answer(&mut self, key: &FlowKey, exit: ExitId, answer: Answer) -> Ruling {
        let Some(race) = self.races.get_mut(key) else {
            return Ruling::NoRace;
        };
        let Some(place) = race.live.iter().position(|copy| copy.exit == exit) else {
            self.counters.late += 1;
            return Ruling::Late;
        };
        match answer {
            Answer::Other => Ruling::Pass,
            Answer::Yes => {
                self.counters.won_by_another += u64::from(race.sent > 1 && place > 0);
                let losers = self.end(key).into_iter();
                Ruling::Won(losers.filter(|other| *other != exit).collect())
            }
            Answer::No => {
                race.live.remove(place);
                if race.live.is_empty() {
                    self.races.remove(key);
                    return Ruling::Lost;
                }
                self.counters.kept_refusals += 1;
                Ruling::Keep
            }
        }
    }

    /// The refusal that is kept, as the user will get it; the last one counts.
    pub(super) fn keep(&mut self, key: &FlowKey, refusal: Bytes) {
        if let Some(race) = self.races.get_mut(key) {
            race.refusal = Some(refusal);
        }
    }

    // --- time and failures -----------------------------------------------

    /// When [`Racer::poll_hedge`] may have something.
    pub(super) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.hedges.front().map(|(at, _)| (*at, "hedge"))
    }

    /// A race whose first copy has been alone for long enough, while that copy's exit
    /// has not said that it has it. `is_acked` is asked about each such copy.
    pub(super) fn poll_hedge(
        &mut self,
        is_acked: impl Fn(ExitId, u64) -> bool,
        now: Instant,
    ) -> Option<FlowKey> {
        while let Some((_, key)) = self.hedges.pop_front_if(|(at, _)| *at <= now) {
            let Some(race) = self.races.get_mut(&key) else {
                continue;
            };
            let may_hedge = std::mem::take(&mut race.may_hedge);
            let waits = match race.live.as_slice() {
                // Nobody acknowledges it: only an answer to the question would tell.
                [copy] => copy.pack.is_none_or(|pack| !is_acked(copy.exit, pack)),
                _ => false,
            };
            if may_hedge && waits && race.asked == 1 && race.may_send() {
                return Some(key);
            }
        }
        None
    }

    /// An exit failed: it will bring no answer. Races that have no copy left and may
    /// send one.
    pub(super) fn on_exit_failed(&mut self, exit: ExitId) -> Vec<FlowKey> {
        let mut bare = Vec::new();
        for (key, race) in &mut self.races {
            let before = race.live.len();
            race.live.retain(|copy| copy.exit != exit);
            if before > 0 && race.live.is_empty() && race.may_send() {
                bare.push(*key);
            }
        }
        // Not in the order of a hash.
        bare.sort_unstable();
        bare
    }

    /// Takes a copy that the user did not ask for out of the budget.
    pub(super) fn reserve(&mut self, key: &FlowKey, now: Instant) -> bool {
        let bytes = self.races.get(key).map_or(0, |race| race.packet.len());
        // What is reserved is sent in the same breath: nothing is ever given back.
        let reserved = self.budget.reserve(bytes, now).is_some();
        self.counters.denied += u64::from(!reserved);
        reserved
    }

    pub(super) fn count_hedge(&mut self) {
        self.counters.hedges += 1;
    }

    pub(super) fn count_after_failure(&mut self) {
        self.counters.after_failures += 1;
    }

    /// Races whose user has gone. Looks at the oldest only.
    fn forget_abandoned(&mut self, now: Instant) {
        let old = |at: Instant| now.saturating_duration_since(at) >= ABANDONED_AFTER;
        while let Some((_, key)) = self.ages.pop_front_if(|(at, _)| old(*at)) {
            match self.races.get(&key).map(|race| race.asked_at) {
                Some(asked_at) if old(asked_at) => {
                    self.races.remove(&key);
                }
                // Asked about since: it has its place further back.
                Some(asked_at) => self.ages.push_back((asked_at, key)),
                None => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "race_tests.rs"]
mod tests;
