//! Which exit carries which flow.
//!
//! A flow is named by its 5-tuple as the user's packets carry it outward; who has a packet for the user reverses its
//! key first. It stays where it was put until it ends, is idle for too long, or its exit's session is gone:
//!
//! ```text
//! open, insert ──→ Tcp, Other ──FIN both ways, RST──→ Closing ──┐
//!                       │                                       ├─idle─→ forgotten
//!                       └──lose_exit──→ Lost (TCP), forgotten (all else)
//! ```
//!
//! *Lost* is a tombstone: the destination knows the user under an address that is gone, so the connection is over, and
//! whatever the user still sends is answered with a reset instead of being carried. A connection that neither end has
//! acknowledged yet has nothing to lose: it is forgotten, and the user's next SYN goes another way.
//!
//! **Bounds.** At most `flows_max` flows; one more forgets first what is due anyway, else the one that was used longest
//! ago, whatever its class. A flow takes 88 bytes in the slab and 5 in the index, whose table is at most 7/8 and at
//! least 7/16 full, so 94 to 100 bytes: 3 MiB for 32,768 flows. Memory is not given back.
//!
//! **Time.** A flow that is idle for its class's time is gone at that moment, whether or not [`FlowTable::expire`] was
//! called: a lookup that meets it forgets it. `expire` forgets [`EXPIRE_MAX`] at a time; [`FlowTable::poll_timeout`] is
//! due at once while more are due. A clock that goes backwards stands still.
//!
//! **Cost.** A lookup is one hash, mostly one probe, and a step to the end of a list: some 50 ns while what it meets is
//! in the processor's caches (10,000 flows), some 200 ns with 100,000 flows in any order, which is the memory's latency.
//! A memory of the last key would save nothing: packets of one flow in a row cost no less than that. The hash is seeded
//! and folds products, so that who chooses addresses does not choose places; no result depends on the index's order.

mod slots;
mod track;

use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use quell_packet::reset::tcp_reset;
use quell_packet::{FlowKey, TcpView, protocol};
use serde::Serialize;

use self::slots::{Class, Slots};
pub use self::track::TcpTrack;
use super::exit_id::ExitId;
use crate::config::FlowsConfig;
use crate::counters::counters;

/// Flows that one call of [`FlowTable::expire`] forgets at most: some 10 µs of work, between two packets.
pub const EXPIRE_MAX: usize = 128;

/// A flow and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// As the user's packets carry it.
    pub key: FlowKey,
    /// The exit that carries it, or did.
    pub exit: ExitId,
    /// The session of its exit is gone: the user is answered with a reset.
    pub lost: bool,
    /// What its resets have to say; empty where it is no TCP.
    pub track: TcpTrack,
    /// Nanoseconds from the table's first moment to the last packet.
    active: u64,
}

impl Flow {
    /// The reset that tells the user's TCP that this connection is over, as a packet for the TUN. It carries both
    /// numbers, so that a user who has had no answer to its SYN believes it too. `None` where it is no TCP.
    #[must_use]
    pub fn reset_for_user(&self) -> Option<Vec<u8>> {
        let (sequence, seen) = (self.track.receive_next(), self.track.send_next());
        tcp_reset(&self.key.reversed(), sequence, seen)
    }

    fn class(&self) -> Class {
        match self.key.protocol {
            _ if self.lost => Class::Lost,
            protocol::TCP if self.track.is_closing() => Class::Closing,
            protocol::TCP => Class::Tcp,
            _ => Class::Other,
        }
    }
}

counters! {
    /// What became of flows. `opened` is the sum of the others and the flows there are.
    pub struct FlowsCounters {
        /// Flows that were put into the table.
        pub opened: u64,
        /// Forgotten because the table was full.
        pub evicted: u64,
        /// Forgotten because they were idle.
        pub expired: u64,
        /// Forgotten for another reason: the exit is gone, or the user opened it anew.
        pub removed: u64,
        /// Connections of TCP that lost their exit; they are forgotten later.
        pub lost: u64,
    }
}

/// The table, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FlowsStatus {
    /// Flows there are, lost ones included.
    pub flows: usize,
    /// Those of them whose exit is gone.
    pub lost: usize,
    /// Most flows at once.
    pub flows_max: u32,
    /// What became of flows so far.
    pub counters: FlowsCounters,
}

/// All flows of a client.
#[derive(Debug)]
pub struct FlowTable {
    config: FlowsConfig,
    hash: FixedState,
    index: HashTable<u32>,
    slots: Slots,
    /// Flows on each exit, by its number; lost ones are on none.
    on_exit: Vec<usize>,
    lost: usize,
    counters: FlowsCounters,
    /// The first moment heard of, and nanoseconds from it to the latest.
    epoch: Option<Instant>,
    latest: u64,
    /// From when on the first flow is due, if it is known: nothing was done since it was looked for.
    first_due: Option<Option<u64>>,
}

impl FlowTable {
    /// A table without flows. `seed` keeps those who choose addresses from choosing their places in the table.
    pub fn new(config: FlowsConfig, seed: u64) -> Self {
        Self {
            config,
            hash: FixedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slots::new(),
            on_exit: Vec::new(),
            lost: 0,
            counters: FlowsCounters::default(),
            epoch: None,
            latest: 0,
            first_due: None,
        }
    }

    // --- packets -----------------------------------------------------------

    /// A packet of the user's: its flow, if there is one. `tcp` is its segment, where it is TCP and no later fragment.
    ///
    /// An opening SYN begins another connection than one that is closing or lost: that one is forgotten.
    pub fn touch_outward(
        &mut self,
        key: &FlowKey,
        tcp: Option<&TcpView<'_>>,
        now: Instant,
    ) -> Option<&Flow> {
        let at = self.find_live(key, now)?;
        let over = |flow: &Flow| flow.lost || flow.track.is_closing();
        if tcp.is_some_and(TcpView::is_opening) && self.slots.get(at).is_some_and(over) {
            self.forget(at);
            self.counters.removed += 1;
            return None;
        }
        let active = self.latest;
        let flow = self.slots.get_mut(at)?;
        flow.active = active;
        if let Some(tcp) = tcp {
            flow.track.on_outward(tcp);
        }
        let class = flow.class();
        self.slots.renew(at, class);
        self.first_due = None;
        self.slots.get(at)
    }

    /// A packet that `exit` brought for the user, `key` being its answer's: its flow, if there is one.
    ///
    /// A segment of another exit than the flow's changes nothing: it belongs to a connection that lost a race.
    pub fn touch_inward(
        &mut self,
        key: &FlowKey,
        exit: ExitId,
        tcp: Option<&TcpView<'_>>,
        now: Instant,
    ) -> Option<&Flow> {
        let at = self.find_live(key, now)?;
        let active = self.latest;
        let flow = self.slots.get_mut(at)?;
        if flow.lost || tcp.is_some() && flow.exit != exit {
            return self.slots.get(at);
        }
        flow.active = active;
        if let Some(tcp) = tcp {
            flow.track.on_inward(tcp);
        }
        let class = flow.class();
        self.slots.renew(at, class);
        self.first_due = None;
        self.slots.get(at)
    }

    /// A flow as it is, also one that is due and not forgotten yet.
    pub fn peek(&self, key: &FlowKey) -> Option<&Flow> {
        self.slots.get(self.find(key)?)
    }

    // --- where flows go ----------------------------------------------------

    /// A flow begins on `exit` with a packet of the user's; `tcp` as in [`FlowTable::touch_outward`]. One that is there
    /// begins anew. The flow that was forgotten to make room, if there was none.
    pub fn insert(
        &mut self,
        key: FlowKey,
        exit: ExitId,
        tcp: Option<&TcpView<'_>>,
        now: Instant,
    ) -> Option<Flow> {
        let mut track = TcpTrack::default();
        if let Some(tcp) = tcp {
            track.on_outward(tcp);
        }
        self.begin(key, exit, track, now)
    }

    /// As [`FlowTable::insert`], of a connection of whose opening SYN only the number after its own is known.
    pub fn open(
        &mut self,
        key: FlowKey,
        exit: ExitId,
        first_sequence: Option<u32>,
        now: Instant,
    ) -> Option<Flow> {
        self.begin(key, exit, TcpTrack::opened(first_sequence), now)
    }

    fn begin(&mut self, key: FlowKey, exit: ExitId, track: TcpTrack, now: Instant) -> Option<Flow> {
        if let Some(at) = self.find_live(&key, now) {
            self.forget(at);
            self.counters.removed += 1;
        }
        let evicted = self.make_room();
        let flow = Flow {
            key,
            exit,
            lost: false,
            track,
            active: self.latest,
        };
        let at = self.slots.insert(flow, flow.class());
        self.first_due = None;
        let (hash, slots) = (&self.hash, &self.slots);
        let hash_of = |at: &u32| slots.get(*at).map_or(0, |flow| hash_of(hash, &flow.key));
        self.index.insert_unique(hash_of(&at), at, hash_of);
        *self.count_of(exit) += 1;
        self.counters.opened += 1;
        evicted
    }

    /// A flow goes on over `exit`: a race was won there, or what has no state in the world moves. One that is lost, or
    /// not there, stays so.
    pub fn assign(&mut self, key: &FlowKey, exit: ExitId) {
        let Some(at) = self.find(key) else { return };
        let Some(flow) = self.slots.get_mut(at).filter(|flow| !flow.lost) else {
            return;
        };
        let before = std::mem::replace(&mut flow.exit, exit);
        *self.count_of(before) -= 1;
        *self.count_of(exit) += 1;
    }

    /// Whether one more flow displaces none.
    pub fn has_room(&self) -> bool {
        u32::try_from(self.len()).is_ok_and(|len| len < self.config.flows_max)
    }

    /// Forgets a flow.
    pub fn remove(&mut self, key: &FlowKey) -> Option<Flow> {
        let flow = self.forget(self.find(key)?);
        self.counters.removed += 1;
        flow
    }

    /// The session of `exit` is gone. Connections of TCP that were acknowledged and not reset are lost, and each is
    /// handed to `reset`, which tells the user; every other flow of that exit is forgotten, so that its next packet
    /// picks another. One pass over the table at most, in an order that only the calls so far decide.
    pub fn lose_exit(&mut self, exit: ExitId, now: Instant, mut reset: impl FnMut(&Flow)) {
        self.advance(now);
        let active = self.latest;
        for at in 0..self.slots.end() {
            if self.flows_on(exit) == 0 {
                return;
            }
            let Some(flow) = self.slots.get_mut(at) else {
                continue;
            };
            if flow.exit != exit || flow.lost {
                continue;
            }
            let is_alive = flow.track.is_established() && !flow.track.is_rst();
            if flow.key.protocol != protocol::TCP || !is_alive {
                self.forget(at);
                self.counters.removed += 1;
                continue;
            }
            flow.lost = true;
            flow.active = active;
            reset(flow);
            self.slots.renew(at, Class::Lost);
            self.first_due = None;
            *self.count_of(exit) -= 1;
            self.lost += 1;
            self.counters.lost += 1;
        }
    }

    // --- time --------------------------------------------------------------

    /// Forgets flows that are due at `now`, [`EXPIRE_MAX`] at most; how many.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.advance(now);
        let is_later = |due: Option<u64>| due.is_none_or(|at| at > self.latest);
        if self.first_due.is_some_and(is_later) {
            return 0;
        }
        let count = (0..EXPIRE_MAX).take_while(|_| self.forget_due()).count();
        self.first_due = Some(self.look_for_due());
        count
    }

    /// When to call [`FlowTable::expire`], and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        let due = self.first_due.unwrap_or_else(|| self.look_for_due())?;
        let at = self.epoch?.checked_add(Duration::from_nanos(due))?;
        Some((at, "idle flow"))
    }

    // --- for people --------------------------------------------------------

    /// Flows there are, lost ones included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Flows that `exit` carries, lost ones not included.
    pub fn flows_on(&self, exit: ExitId) -> usize {
        self.on_exit.get(exit.index()).copied().unwrap_or(0)
    }

    /// A snapshot.
    pub fn status(&self) -> FlowsStatus {
        FlowsStatus {
            flows: self.len(),
            lost: self.lost,
            flows_max: self.config.flows_max,
            counters: self.counters,
        }
    }

    // --- within ------------------------------------------------------------

    /// Takes note of the time; it never goes back.
    fn advance(&mut self, now: Instant) {
        let since = now.saturating_duration_since(*self.epoch.get_or_insert(now));
        self.latest = self.latest.max(nanos(since));
    }

    /// From when on the first flow is forgotten.
    fn look_for_due(&self) -> Option<u64> {
        let due = Class::ALL.into_iter().filter_map(|class| {
            let eldest = self.slots.get(self.slots.eldest(class)?)?;
            Some(self.due(eldest, class))
        });
        due.min()
    }

    /// From when on a flow of that class is forgotten.
    fn due(&self, flow: &Flow, class: Class) -> u64 {
        let idle = match class {
            Class::Tcp => self.config.tcp_idle,
            Class::Other => self.config.other_idle,
            Class::Closing => self.config.closing_idle,
            Class::Lost => self.config.lost_idle,
        };
        flow.active.saturating_add(nanos(idle))
    }

    fn is_due(&self, at: u32) -> bool {
        let of = self.slots.get(at).zip(self.slots.class(at));
        of.is_some_and(|(flow, class)| self.due(flow, class) <= self.latest)
    }

    fn find(&self, key: &FlowKey) -> Option<u32> {
        let is_it = |at: &u32| self.slots.get(*at).is_some_and(|flow| flow.key == *key);
        self.index.find(hash_of(&self.hash, key), is_it).copied()
    }

    /// The place of a flow that is not due; one that is is forgotten.
    fn find_live(&mut self, key: &FlowKey, now: Instant) -> Option<u32> {
        self.advance(now);
        let at = self.find(key)?;
        if self.is_due(at) {
            self.forget(at);
            self.counters.expired += 1;
            return None;
        }
        Some(at)
    }

    /// Forgets one flow that is due, if any is.
    fn forget_due(&mut self) -> bool {
        let eldest = |class| self.slots.eldest(class).filter(|at| self.is_due(*at));
        let Some(at) = Class::ALL.into_iter().find_map(eldest) else {
            return false;
        };
        self.forget(at);
        self.counters.expired += 1;
        true
    }

    /// Makes room for one flow; the one that was forgotten for that before it was due.
    fn make_room(&mut self) -> Option<Flow> {
        let flows_max = usize::try_from(self.config.flows_max).unwrap_or(usize::MAX);
        if self.len() < flows_max || self.forget_due() {
            return None;
        }
        let eldest = Class::ALL.into_iter().filter_map(|class| {
            let at = self.slots.eldest(class)?;
            Some((self.slots.get(at)?.active, at))
        });
        let (_, at) = eldest.min_by_key(|(active, _)| *active)?;
        self.counters.evicted += 1;
        self.forget(at)
    }

    fn forget(&mut self, at: u32) -> Option<Flow> {
        let flow = self.slots.remove(at)?;
        self.first_due = None;
        let hash = hash_of(&self.hash, &flow.key);
        if let Ok(entry) = self.index.find_entry(hash, |place| *place == at) {
            entry.remove();
        }
        if flow.lost {
            self.lost -= 1;
        } else {
            *self.count_of(flow.exit) -= 1;
        }
        Some(flow)
    }

    fn count_of(&mut self, exit: ExitId) -> &mut usize {
        let index = exit.index();
        if index >= self.on_exit.len() {
            self.on_exit.resize(index + 1, 0);
        }
        &mut self.on_exit[index]
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Whole words, where the derived hash would feed bytes and lengths.
fn hash_of(state: &FixedState, key: &FlowKey) -> u64 {
    let mut hasher = state.build_hasher();
    for address in [key.source, key.destination] {
        match address {
            IpAddr::V4(v4) => hasher.write_u32(v4.to_bits()),
            IpAddr::V6(v6) => hasher.write_u128(v6.to_bits()),
        }
    }
    let ports = u64::from(key.source_port) << 16 | u64::from(key.destination_port);
    hasher.write_u64(u64::from(key.protocol) << 32 | ports);
    hasher.finish()
}

#[cfg(test)]
mod tests;
