//! What the world saw: bytes, deliveries, dials, requests, recoveries.
//!
//! The books take no policy's word. An item is known by its client and number; one bit each says whether it was offered and
//! whether it came out. Sends of a pack are counted where it leaves, by the path and the number that it has there, as long
//! as it was sent lately: within [`PACK_MEMORY_NS`] a pack that lives is sent again.
//!
//! Bytes: what a UDP datagram carries of a unit is booked by the unit's causes as it leaves, the rest of its length is
//! QUIC's, and all of a handshake's is the dial's. So the causes of each step sum to its total.

use std::collections::BTreeMap;

use super::node::{Causes, ClientId, ServerId};
use crate::outcome::{ByCause, PolicyOutcome, Quantiles, Rate, Series};

const SECOND_NS: u64 = 1_000_000_000;
/// How long a pack's sends are remembered after the last one: longer than the longest life of one in any policy.
const PACK_MEMORY_NS: u64 = 130 * SECOND_NS;
/// Complaints of one run that are kept.
const COMPLAINTS_MAX: usize = 20;
/// What was offered so short before the end of a run may be under way then. Longer than any path's round trip and less than
/// the time in which a policy that waits for its first resend would look well.
const UNDER_WAY_NS: u64 = 2 * SECOND_NS;
/// A user's item that is none: what a policy sends of its own.
pub(crate) const NO_ITEM: u32 = u32::MAX;

/// Which part of a run a moment lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    /// Of what is before the first fault, the part that counts as steady.
    Steady,
    Broken,
    Between,
    Healed,
}

/// Events in a second, by phase.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    total: u64,
    steady: u64,
    second: u64,
    in_second: u64,
    outage_peak: u64,
    heal_peak: u64,
}

impl Tally {
    fn count(&mut self, phase: Phase, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        if self.second != second {
            (self.second, self.in_second) = (second, 0);
        }
        self.in_second += 1;
        self.total += 1;
        match phase {
            Phase::Steady => self.steady += 1,
            Phase::Broken => self.outage_peak = self.outage_peak.max(self.in_second),
            Phase::Healed => self.heal_peak = self.heal_peak.max(self.in_second),
            Phase::Before | Phase::Between => {}
        }
    }

    fn rate(&self, steady_ns: u64) -> Rate {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let per_s = if steady_ns == 0 {
            0.0
        } else {
            self.steady as f64 * 1e9 / steady_ns as f64
        };
        Rate {
            total: self.total,
            steady_per_s: per_s,
            outage_peak_per_s: self.outage_peak,
            heal_peak_per_s: self.heal_peak,
        }
    }
}

/// A pack on one path.
#[derive(Debug, Clone, Copy)]
struct Sends {
    count: u32,
    last_ns: u64,
}

/// One client's items.
#[derive(Debug, Default)]
struct Items {
    offered: u32,
    offered_at_heal: u32,
    /// Those offered early enough that they ought to have come by the end.
    ripe: u32,
    /// Bit n: item n came out.
    came: Vec<u64>,
    came_count: u32,
    came_at_heal: u32,
    copies: Vec<u16>,
    packs: BTreeMap<(ServerId, u64, u32), Sends>,
    /// When the first item came out after the heal; 0: none.
    recovered_ns: u64,
    /// When the last came out, after the heal, of those that were offered before it; 0: none.
    caught_up_ns: u64,
    /// When the first came out of those that were offered after the heal; 0: none.
    fresh_ns: u64,
}

impl Items {
    /// How many of the first `until` came.
    fn came_of(&self, until: u32) -> u32 {
        let (words, bits) = ((until / 64) as usize, until % 64);
        let whole = self.came.iter().take(words).map(|word| word.count_ones());
        let rest = self
            .came
            .get(words)
            .map_or(0, |word| word & ((1 << bits) - 1));
        whole.sum::<u32>() + rest.count_ones()
    }

    fn mark(&mut self, number: u32) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.came.len() <= word {
            self.came.resize(word + 1, 0);
        }
        let is_new = self.came[word] & bit == 0;
        self.came[word] |= bit;
        self.came_count += u32::from(is_new);
        is_new
    }
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Books {
    outcome: PolicyOutcome,
    broken: Vec<(u64, u64)>,
    phase: Phase,
    /// Until when the phase holds.
    phase_until_ns: u64,
    clients: Vec<Items>,
    dials: Tally,
    server_dials: Vec<Tally>,
    requests: Tally,
    hand_overs: u64,
    /// From when on what is offered may be under way at the end.
    ripe_until_ns: u64,
    now_ns: u64,
    /// What was complained of: one kind each, the first in words, and how often.
    complaints: BTreeMap<&'static str, (String, u64)>,
    /// What weighs more.
    first_complaints: Vec<String>,
}

impl Books {
    pub(crate) fn new(
        policy: &str,
        (clients, servers): (u32, u16),
        broken: Vec<(u64, u64)>,
        step_ms: u64,
        duration_ns: u64,
    ) -> Self {
        let steps = duration_ns.div_ceil(step_ms.max(1) * 1_000_000).max(1);
        let steps = usize::try_from(steps).unwrap_or(1);
        let series = Series {
            step_ms: step_ms.max(1),
            bytes_out: vec![ByCause::default(); steps],
            delivered: vec![0; steps],
            dials: vec![0; steps],
            backend_requests: vec![0; steps],
        };
        Self {
            outcome: PolicyOutcome {
                policy: policy.to_owned(),
                series,
                ..PolicyOutcome::default()
            },
            broken,
            phase: Phase::Before,
            phase_until_ns: 0,
            clients: (0..clients).map(|_| Items::default()).collect(),
            dials: Tally::default(),
            server_dials: vec![Tally::default(); usize::from(servers)],
            requests: Tally::default(),
            hand_overs: 0,
            ripe_until_ns: duration_ns.saturating_sub(UNDER_WAY_NS),
            now_ns: 0,
            complaints: BTreeMap::new(),
            first_complaints: Vec::new(),
        }
    }

    /// When all is well again for good; `None`: nothing breaks.
    fn heal_ns(&self) -> Option<u64> {
        self.broken.last().map(|(_, until)| *until)
    }

    /// To be told of each moment at which something happens.
    pub(crate) fn on_time(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if now_ns < self.phase_until_ns {
            return;
        }
        let was_healed = self.phase == Phase::Healed;
        (self.phase, self.phase_until_ns) = self.phase_at(now_ns);
        if self.phase == Phase::Healed && !was_healed {
            for items in &mut self.clients {
                items.offered_at_heal = items.offered;
                items.came_at_heal = items.came_count;
            }
        }
    }

    fn phase_at(&self, now_ns: u64) -> (Phase, u64) {
        let Some((first, _)) = self.broken.first() else {
            return (Phase::Steady, u64::MAX);
        };
        if now_ns < first / 2 {
            return (Phase::Before, first / 2);
        }
        if now_ns < *first {
            return (Phase::Steady, *first);
        }
        for (from, until) in &self.broken {
            if now_ns < *from {
                return (Phase::Between, *from);
            }
            if now_ns < *until {
                return (Phase::Broken, *until);
            }
        }
        (Phase::Healed, u64::MAX)
    }

    fn step(&self, now_ns: u64) -> usize {
        let step = now_ns / (self.outcome.series.step_ms * 1_000_000);
        let last = self.outcome.series.delivered.len() - 1;
        usize::try_from(step).unwrap_or(last).min(last)
    }

    // --- items ----------------------------------------------------------------

    /// A user offers its next item; its number.
    pub(crate) fn offer(&mut self, client: ClientId) -> u32 {
        let items = &mut self.clients[client as usize];
        items.offered += 1;
        items.ripe += u32::from(self.now_ns < self.ripe_until_ns);
        self.outcome.offered_items += 1;
        items.offered - 1
    }

    /// An item came out at the far end.
    pub(crate) fn deliver(&mut self, client: ClientId, number: u32, len_bytes: u16, now_ns: u64) {
        let step = self.step(now_ns);
        let items = &mut self.clients[client as usize];
        if number >= items.offered {
            return self.complain("came out and was never offered", || {
                format!("item {number} of client {client}")
            });
        }
        if !items.mark(number) {
            self.outcome.doubled_items += 1;
            return self.complain("came out twice", || {
                format!("item {number} of client {client}")
            });
        }
        if self.phase == Phase::Healed {
            if items.recovered_ns == 0 {
                items.recovered_ns = now_ns;
            }
            if number < items.offered_at_heal {
                items.caught_up_ns = now_ns;
            } else if items.fresh_ns == 0 {
                items.fresh_ns = now_ns;
            }
        }
        self.outcome.delivered_items += 1;
        self.outcome.goodput_bytes += u64::from(len_bytes);
        self.outcome.series.delivered[step] += 1;
    }

    /// A client hands a pack over.
    pub(crate) fn pack(
        &mut self,
        client: ClientId,
        server: ServerId,
        (number, item): (u64, u32),
        now_ns: u64,
    ) {
        self.hand_overs += 1;
        let items = &mut self.clients[client as usize];
        if items.packs.len() >= 32 && items.packs.len().is_power_of_two() {
            items
                .packs
                .retain(|_, sends| sends.last_ns + PACK_MEMORY_NS > now_ns);
        }
        let mut is_first_copy = true;
        if item != NO_ITEM {
            let place = item as usize;
            if items.copies.len() <= place && item < items.offered {
                items.copies.resize(place + 1, 0);
            }
            if let Some(copies) = items.copies.get_mut(place) {
                is_first_copy = *copies == 0;
                *copies = copies.saturating_add(1);
                let most = &mut self.outcome.max_copies_of_one_item;
                *most = (*most).max(u32::from(*copies));
            }
        }
        let sends = items.packs.entry((server, number, item)).or_insert(Sends {
            count: 0,
            last_ns: now_ns,
        });
        sends.count += 1;
        sends.last_ns = now_ns;
        let most = &mut self.outcome.max_sends_of_one_pack;
        *most = (*most).max(sends.count);
        self.outcome.first_sends += u64::from(sends.count == 1 && is_first_copy);
    }

    // --- bytes ------------------------------------------------------------------

    /// A UDP datagram of `len_bytes` leaves a client; of these, `causes` are of units.
    pub(crate) fn leaves_client(
        &mut self,
        len_bytes: u32,
        is_dial: bool,
        of: &Causes,
        now_ns: u64,
    ) {
        let by = by_cause(len_bytes, is_dial, of);
        let step = self.step(now_ns);
        add(&mut self.outcome.udp_bytes_out, &by);
        add(&mut self.outcome.series.bytes_out[step], &by);
        if self.phase == Phase::Broken {
            add(&mut self.outcome.outage_bytes_out, &by);
        }
    }

    /// The same of a provider.
    pub(crate) fn leaves_server(&mut self, len_bytes: u32, is_dial: bool, of: &Causes) {
        add(
            &mut self.outcome.udp_bytes_back,
            &by_cause(len_bytes, is_dial, of),
        );
    }

    // --- events -------------------------------------------------------------------

    pub(crate) fn dial(&mut self, server: ServerId, now_ns: u64) {
        let step = self.step(now_ns);
        self.dials.count(self.phase, now_ns);
        if let Some(tally) = self.server_dials.get_mut(usize::from(server)) {
            tally.count(self.phase, now_ns);
        }
        self.outcome.series.dials[step] += 1;
    }

    pub(crate) fn request(&mut self, now_ns: u64) {
        let step = self.step(now_ns);
        self.requests.count(self.phase, now_ns);
        self.outcome.series.backend_requests[step] += 1;
    }

    pub(crate) fn sent_again(&mut self, items: u64) {
        self.outcome.sent_again_items += items;
    }

    pub(crate) fn session_lost(&mut self) {
        self.outcome.sessions_lost += 1;
    }

    pub(crate) fn provider_fell(&mut self) {
        self.outcome.providers_fallen += 1;
    }

    /// Something of this kind is wrong; of the first of a kind the words are kept.
    pub(crate) fn complain(&mut self, kind: &'static str, words: impl FnOnce() -> String) {
        let of_kind = self.complaints.entry(kind);
        of_kind.or_insert_with(|| (words(), 0)).1 += 1;
    }

    /// What weighs more than what was said so far.
    pub(crate) fn complain_first(&mut self, words: Vec<String>) {
        self.first_complaints = words;
    }

    /// What weighs most, then a line a kind.
    fn complaints(&mut self) -> Vec<String> {
        let kinds = std::mem::take(&mut self.complaints).into_iter();
        let kinds = kinds.map(|(kind, (words, count))| match count {
            1 => format!("{kind}: {words}"),
            _ => format!("{kind}: {count} times, first {words}"),
        });
        let first = std::mem::take(&mut self.first_complaints);
        first
            .into_iter()
            .chain(kinds)
            .take(COMPLAINTS_MAX)
            .collect()
    }

    // --- the end --------------------------------------------------------------------

    pub(crate) fn finish(mut self) -> PolicyOutcome {
        self.outcome.complaints = self.complaints();
        let steady_ns = self
            .broken
            .first()
            .map_or(0, |(first, _)| first - first / 2);
        let (mut recoveries, mut caught_up, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
        let heal_ns = self.heal_ns();
        for items in &self.clients {
            if let Some(heal_ns) = heal_ns {
                let after = |at_ns: u64| (at_ns > 0).then(|| (at_ns - heal_ns) / 1_000_000);
                caught_up.extend(after(items.caught_up_ns));
                fresh.extend(after(items.fresh_ns));
            }
            let waited = items.offered > items.came_at_heal.min(items.offered);
            match heal_ns {
                Some(heal_ns) if items.recovered_ns > 0 => {
                    recoveries.push((items.recovered_ns - heal_ns) / 1_000_000);
                }
                Some(_) if waited && self.phase == Phase::Healed => {
                    self.outcome.never_recovered += 1;
                }
                Some(_) | None => {}
            }
        }
        let outcome = &mut self.outcome;
        outcome.recovery_ms = quantiles(recoveries);
        outcome.caught_up_ms = quantiles(caught_up);
        outcome.fresh_ms = quantiles(fresh);
        let lost = |items: &Items| u64::from(items.ripe - items.came_of(items.ripe));
        outcome.lost_items = self.clients.iter().map(lost).sum();
        outcome.under_way_items =
            outcome.offered_items - outcome.delivered_items - outcome.lost_items;
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        if outcome.first_sends > 0 {
            outcome.copies_per_pack = self.hand_overs as f64 / outcome.first_sends as f64;
        }
        outcome.dials = self.dials.rate(steady_ns);
        outcome.backend_requests = self.requests.rate(steady_ns);
        let peak = |tally: &&Tally| tally.outage_peak.max(tally.heal_peak);
        // Of equals the first: the order of an iterator that is turned round.
        let most = self.server_dials.iter().rev().max_by_key(peak);
        outcome.provider_dials = most.map(|tally| tally.rate(steady_ns)).unwrap_or_default();
        self.outcome
    }
}

fn by_cause(len_bytes: u32, is_dial: bool, of: &Causes) -> ByCause {
    let total = u64::from(len_bytes);
    let mut by = ByCause {
        first_send: of.first_send.into(),
        resend: of.resend.into(),
        race: of.race.into(),
        ack: of.ack.into(),
        ping: of.ping.into(),
        control: of.control.into(),
        total,
        ..ByCause::default()
    };
    let rest = total.saturating_sub(of.total().into());
    if is_dial {
        by.dial = rest;
    } else {
        by.quic = rest;
    }
    by
}

fn add(sum: &mut ByCause, by: &ByCause) {
    sum.first_send += by.first_send;
    sum.resend += by.resend;
    sum.race += by.race;
    sum.ack += by.ack;
    sum.ping += by.ping;
    sum.control += by.control;
    sum.dial += by.dial;
    sum.quic += by.quic;
    sum.total += by.total;
}

fn quantiles(mut times: Vec<u64>) -> Quantiles {
    times.sort_unstable();
    let Some(max) = times.last().copied() else {
        return Quantiles::default();
    };
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100).saturating_sub(1)];
    Quantiles {
        count: times.len() as u64,
        p50: at(50),
        p99: at(99),
        max,
    }
}
