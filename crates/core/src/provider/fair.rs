//! Who is next at the egress: deficit round robin between clients (Shreedhar and Varghese, 1995), in one direction.
//!
//! ```text
//!            nothing waits, room, within the rates
//! offer() ──────────────────────────────────────────→ goes at once
//!    │
//!    └─→ its client's line ──→ active, in turns ──→ poll()      QUANTUM bytes a turn
//!               ↑                   │
//!               └──── parked ←──────┘ beyond the client's own rate
//! ```
//!
//! Whose line is served in which order decides who gets how much, and it can only decide where packets wait *here*. They
//! do where a rate is set (`egress.rate`, `limits.client_rate`), and where the device says that it has no room. Without
//! either nothing waits and a packet costs a comparison.
//!
//! **Shares.** Of two clients whose lines were never empty over any time, neither was served more than `QUANTUM` and one
//! packet more than the other. A line that empties forfeits what is left of its turn, so that nobody saves turns up. One
//! quantum is one full packet: rounds are short, and who sends little waits for one packet of each other client at most.
//!
//! **Bounds.** A line may hold as many bytes as are free of all (a *dynamic threshold*, Choudhury and Hahne, 1998): alone
//! it may fill half, beside n others that do the same a part in n + 2, and whoever comes new finds room. Who is above
//! loses the oldest of its own, which is the sooner a TCP hears of it; so it is always the longest line that pays. What
//! waited for `wait_max` is dropped too, oldest first: at any share a line is at most that long in time, but for
//! two packets.
//!
//! **Books.** Offered = gone at once + polled + dropped + waiting, for each client and for all.
//!
//! A client is named by whatever the owner names it by. No order of a hash table decides anything here.

mod line;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use bytes::Bytes;
use foldhash::fast::FixedState;
use serde::Serialize;

use self::line::{Line, OVERHEAD_BYTES};
use crate::bucket::ByteBucket;
use crate::config::{ClientLimitsConfig, ShareConfig};
use crate::drops::{DropReason, Drops};

/// Bytes that a client may send in a turn: a full packet of the world's. A larger one waits for some rounds.
const QUANTUM: usize = 1_500;
/// Turns that one packet may take to come: as many as the largest packet has quanta, and one.
const ROUNDS_MAX: usize = quell_packet::PACKET_BYTES_MAX / QUANTUM + 2;
/// Bytes that a rate's burst holds at least: ten full packets, so that a slow rate is not one of single packets.
const BURST_BYTES_MIN: u64 = 15_000;
/// And at most, whatever the rate.
const BURST_BYTES_MAX: u64 = 64 << 20;

/// What waits, and what did not get its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ShareStatus {
    /// Packets that wait.
    pub waiting_packets: usize,
    /// Their bytes, with 64 for each packet.
    pub waiting_bytes: usize,
    /// Packets that waited in vain, by reason.
    pub drops: Drops,
}

/// The lines of all clients in one direction.
#[derive(Debug)]
pub struct Fair<K> {
    waiting_bytes_max: usize,
    wait_max: Duration,
    /// The rate of all together.
    rate: Option<ByteBucket>,
    /// The full bucket of each client.
    client_rate: Option<ByteBucket>,
    /// Packets that the egress takes at the moment.
    room: usize,
    /// Never walked: turns follow `active`.
    lines: HashMap<K, Line, FixedState>,
    /// Who has a turn, the next one first.
    active: VecDeque<K>,
    /// Who waits for its own rate, and until when.
    parked: BTreeSet<(Instant, K)>,
    waiting_bytes: usize,
    waiting_packets: usize,
    /// Of all clients there were.
    drops: Drops,
    latest: Option<Instant>,
}

impl<K: Copy + Eq + Ord + Hash> Fair<K> {
    /// Empty lines. Until it is told otherwise, the egress takes any number of packets.
    pub fn new(client: &ClientLimitsConfig, share: &ShareConfig, seed: u64) -> Self {
        let bucket = |rate: u64| ByteBucket::new(rate, burst_bytes(rate, share.burst_time));
        Self {
            waiting_bytes_max: share.waiting_bytes_max,
            wait_max: share.wait_max,
            rate: share.egress_rate_bits_per_s.map(bucket),
            client_rate: client.client_rate_bits_per_s.map(bucket),
            room: usize::MAX,
            lines: HashMap::with_hasher(FixedState::with_seed(seed)),
            active: VecDeque::new(),
            parked: BTreeSet::new(),
            waiting_bytes: 0,
            waiting_packets: 0,
            drops: Drops::default(),
            latest: None,
        }
    }

    /// A fact: the egress takes `packets` more at the moment.
    pub fn on_room(&mut self, packets: usize) {
        self.room = packets;
    }

    /// A packet of `client`'s: back, if it may go at once; else it waits for [`Fair::poll`], or was dropped and counted.
    pub fn offer(&mut self, client: K, packet: Bytes, now: Instant) -> Option<Bytes> {
        let is_free = self.active.is_empty() && self.room > 0;
        if self.rate.is_none() && self.client_rate.is_none() {
            if is_free {
                self.room -= 1;
                return Some(packet);
            }
        } else if is_free && self.takes_now(client, packet.len(), now) {
            self.room -= 1;
            return Some(packet);
        }
        self.push(client, &packet, now);
        None
    }

    /// Whether both rates hold a packet of a client that has none waiting; if so it is taken from them.
    fn takes_now(&mut self, client: K, len: usize, now: Instant) -> bool {
        self.unpark(now);
        if !self.active.is_empty() {
            return false;
        }
        let full = &self.client_rate;
        let line = self
            .lines
            .entry(client)
            .or_insert_with(|| Line::new(full.clone()));
        if !line.is_empty() || line.rate.as_ref().is_some_and(|it| !it.is_ready(len, now)) {
            return false;
        }
        if self.rate.as_mut().is_some_and(|it| !it.take(len, now)) {
            return false;
        }
        if let Some(rate) = &mut line.rate {
            rate.take(len, now);
        }
        true
    }

    fn push(&mut self, client: K, packet: &[u8], now: Instant) {
        self.latest = Some(now);
        let full = &self.client_rate;
        let line = self
            .lines
            .entry(client)
            .or_insert_with(|| Line::new(full.clone()));
        let (was_empty, cost) = (line.is_empty(), packet.len() + OVERHEAD_BYTES);
        let mut fits = true;
        while fits
            && line.bytes() + cost > self.waiting_bytes_max.saturating_sub(self.waiting_bytes)
        {
            // Without an older one it is the packet itself that goes.
            match line.pop() {
                Some(oldest) => {
                    self.waiting_bytes -= oldest.len() + OVERHEAD_BYTES;
                    self.waiting_packets -= 1;
                }
                None => fits = false,
            }
            line.drops.count(DropReason::ShareFull);
            self.drops.count(DropReason::ShareFull);
        }
        if !fits {
            line.rest();
            if !was_empty {
                self.leave_turns(client);
            }
            return;
        }
        line.push(packet, now);
        self.waiting_bytes += cost;
        self.waiting_packets += 1;
        if was_empty {
            self.active.push_back(client);
        }
    }

    /// The next packet, if there is room for it and the rates hold it.
    pub fn poll(&mut self, now: Instant) -> Option<(K, Bytes)> {
        self.latest = Some(now);
        self.unpark(now);
        // Each step is a turn that ends, or a line that is parked.
        for _ in 0..self.active.len().saturating_mul(ROUNDS_MAX) {
            if self.room == 0 {
                return None;
            }
            let client = *self.active.front()?;
            match self.turn(client, now) {
                Turn::Take(packet) => return Some((client, packet)),
                Turn::Over => self.active.rotate_left(1),
                Turn::Park(until) => {
                    self.active.pop_front();
                    self.parked.insert((until, client));
                }
                Turn::Gone => {
                    self.active.pop_front();
                }
                Turn::Wait => return None,
            }
        }
        None
    }

    /// What is to be done with the line at the front.
    fn turn(&mut self, client: K, now: Instant) -> Turn {
        let Some(line) = self.lines.get_mut(&client).filter(|line| !line.is_empty()) else {
            return Turn::Gone;
        };
        while let Some(packet) = line.pop_aged(self.wait_max, now) {
            self.waiting_bytes -= packet.len() + OVERHEAD_BYTES;
            self.waiting_packets -= 1;
            line.drops.count(DropReason::ShareAged);
            self.drops.count(DropReason::ShareAged);
        }
        let len = line.head_len().unwrap_or(0);
        if !line.is_granted {
            line.deficit += QUANTUM;
            line.is_granted = true;
        }
        if line.deficit < len {
            line.is_granted = false;
            return Turn::Over;
        }
        if let Some(rate) = line.rate.as_ref().filter(|it| !it.is_ready(len, now)) {
            let until = rate.ready_at(len, now);
            line.rest();
            return Turn::Park(until.unwrap_or(now + self.wait_max));
        }
        if self.rate.as_mut().is_some_and(|it| !it.take(len, now)) {
            return Turn::Wait;
        }
        if let Some(rate) = &mut line.rate {
            rate.take(len, now);
        }
        line.deficit -= len;
        let Some(packet) = line.pop() else {
            return Turn::Wait;
        };
        self.waiting_bytes -= len + OVERHEAD_BYTES;
        self.waiting_packets -= 1;
        self.room -= 1;
        if line.is_empty() {
            line.rest();
            self.active.pop_front();
        }
        Turn::Take(packet)
    }

    /// Who waited for its own rate and need not any more takes its place behind the others.
    fn unpark(&mut self, now: Instant) {
        while let Some((until, client)) = self.parked.first().copied()
            && until <= now
        {
            self.parked.pop_first();
            self.active.push_back(client);
        }
    }

    /// When [`Fair::poll`] may have a packet that it had not; a time that has passed is one too. With no room it has none
    /// until [`Fair::on_room`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let latest = self.latest?;
        if self.room == 0 {
            return None;
        }
        let parked = self.parked.first().map(|(until, _)| *until);
        let head = self.active.front().and_then(|client| {
            let len = self.lines.get(client)?.head_len()?;
            match &self.rate {
                Some(rate) => rate.ready_at(len, latest),
                None => Some(latest),
            }
        });
        [parked, head].into_iter().flatten().min()
    }

    /// Whether packets wait for room alone.
    pub fn awaits_room(&self) -> bool {
        self.room == 0 && self.waiting_packets > 0
    }

    /// The client is gone: what waits of it is dropped with `reason`. What became of all that it offered.
    pub fn remove(&mut self, client: K, reason: DropReason) -> ShareStatus {
        let Some(mut line) = self.lines.remove(&client) else {
            return ShareStatus::default();
        };
        self.leave_turns(client);
        self.waiting_bytes -= line.bytes();
        self.waiting_packets -= line.len();
        let waiting = u64::try_from(line.len()).unwrap_or(u64::MAX);
        line.drops.add(reason, waiting);
        self.drops.add(reason, waiting);
        ShareStatus {
            drops: line.drops,
            ..ShareStatus::default()
        }
    }

    /// The client has another name: its line, and what was counted of it, goes with it. What the new name had is
    /// dropped with [`DropReason::PathClosed`].
    pub fn rename(&mut self, from: K, to: K) {
        let Some(mut line) = self.lines.remove(&from) else {
            return;
        };
        self.leave_turns(from);
        let old = self.remove(to, DropReason::PathClosed);
        line.drops += old.drops;
        line.rest();
        if !line.is_empty() {
            self.active.push_back(to);
        }
        self.lines.insert(to, line);
    }

    fn leave_turns(&mut self, client: K) {
        self.active.retain(|other| *other != client);
        self.parked.retain(|(_, other)| *other != client);
    }

    /// A client's line.
    pub fn status_of(&self, client: K) -> ShareStatus {
        self.lines
            .get(&client)
            .map_or_else(ShareStatus::default, |line| ShareStatus {
                waiting_packets: line.len(),
                waiting_bytes: line.bytes(),
                drops: line.drops,
            })
    }

    /// All lines, those of clients that are gone included.
    pub fn status(&self) -> ShareStatus {
        ShareStatus {
            waiting_packets: self.waiting_packets,
            waiting_bytes: self.waiting_bytes,
            drops: self.drops,
        }
    }
}

enum Turn {
    Take(Bytes),
    /// It has no more bytes in this round.
    Over,
    /// Its own rate holds it back.
    Park(Instant),
    /// It has nothing to send.
    Gone,
    /// The rate of all holds everybody back.
    Wait,
}

fn burst_bytes(bits_per_s: u64, time: Duration) -> u32 {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let bytes = bits_per_s.saturating_mul(micros) / 8_000_000;
    // The clamp's upper end fits.
    u32::try_from(bytes.clamp(BURST_BYTES_MIN, BURST_BYTES_MAX)).unwrap_or(u32::MAX)
}
