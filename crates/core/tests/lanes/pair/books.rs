//! What must hold after every step, and the memory it takes to know.
//!
//! The books hear of each acceptance, hand-over, arrival and delivery, and of nothing that either end *says* it did. What they
//! demand of a delivery:
//!
//! - the packet was accepted, was not delivered before, and has the bytes it was accepted with;
//! - lane 0: it is the next one;
//! - lane 1: its predecessor does not lie whole at the receiver (what is two gaps away the receiver cannot know to be of the
//!   same flow); and when its predecessor may still come, its own hold or that of one behind it has ended;
//! - it was not held beyond its limit, as the path was when it arrived.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use quell_core::recv::Delivery;
use quell_wire::frame::{Credit, Lane};

use super::traffic::{self, Offer, UNORDERED};

/// min(200 ms, max(20 ms, 2·(1.25·srtt + ack delay))), the ack delay being min(10 ms, srtt/4).
fn hold_limit(srtt: Option<Duration>) -> Duration {
    let (least, most) = (Duration::from_millis(20), Duration::from_millis(200));
    let wanted = srtt.map(|srtt| 2 * (srtt + srtt / 4 + (srtt / 4).min(Duration::from_millis(10))));
    wanted.unwrap_or(most).clamp(least, most)
}

#[derive(Debug, Clone)]
struct Packet {
    flow: u16,
    len: usize,
    /// Numbers of its first and last pack.
    first: u64,
    last: u64,
    /// The previous packet of its flow.
    predecessor: Option<u64>,
    parts_missing: u64,
    delivered: bool,
}

/// A packet that came out of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) at: Duration,
    pub(crate) id: u64,
    pub(crate) flow: u16,
}

#[derive(Debug)]
pub(crate) struct Books {
    lane: Lane,
    sends_max: u8,
    packets: Vec<Packet>,
    /// Packet of each number.
    owner: Vec<u64>,
    sends: Vec<u8>,
    arrived: Vec<Option<Instant>>,
    /// Payload of all numbers up to and with each.
    bytes_to: Vec<u64>,
    /// The latest packet of each flow.
    latest: HashMap<u16, u64>,
    /// Whole and not delivered: by flow and packet, the end of its hold.
    waiting: BTreeMap<(u16, u64), Instant>,
    deadlines: BTreeSet<(Instant, u64)>,
    credit: Credit,
    next_message: u64,
    pub(crate) hand_overs: u64,
    pub(crate) delivered: Vec<Out>,
}

impl Books {
    pub(crate) fn new(lane: Lane, sends_max: u8, credit: Credit) -> Self {
        Self {
            lane,
            sends_max,
            packets: Vec::new(),
            owner: Vec::new(),
            sends: Vec::new(),
            arrived: Vec::new(),
            bytes_to: Vec::new(),
            latest: HashMap::new(),
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            credit,
            next_message: 0,
            hand_overs: 0,
            delivered: Vec::new(),
        }
    }

    /// The identity of the next packet.
    pub(crate) fn next_id(&self) -> u64 {
        self.packets.len() as u64
    }

    /// The distance that the next packet of `flow` names, if its first number is `number`.
    pub(crate) fn dep(&self, flow: u16, number: u64) -> u16 {
        let latest = self.latest.get(&flow).filter(|_| self.lane == Lane::FLOW);
        let last = latest.map(|id| self.packets[*id as usize].last);
        let distance = last.map_or(0, |last| number - last);
        u16::try_from(distance)
            .ok()
            .filter(|d| u64::from(*d) <= quell_wire::registry::DEP_MAX)
            .unwrap_or(0)
    }

    /// A packet was taken in with the numbers from `first` on.
    pub(crate) fn accepted(&mut self, offer: &Offer, first: u64, dep: u16) -> Result<(), String> {
        let id = self.next_id();
        for _ in 0..offer.parts {
            let before = self.bytes_to.last().copied().unwrap_or(0);
            self.bytes_to.push(before + offer.len as u64);
            self.owner.push(id);
            self.sends.push(0);
            self.arrived.push(None);
        }
        let predecessor = self.latest.get(&offer.flow).copied();
        self.packets.push(Packet {
            flow: offer.flow,
            len: offer.len,
            first,
            last: first + offer.parts - 1,
            predecessor: predecessor.filter(|_| dep > 0),
            parts_missing: offer.parts,
            delivered: false,
        });
        if offer.flow != UNORDERED {
            self.latest.insert(offer.flow, id);
        }
        let (end, bytes) = (self.owner.len() as u64, self.bytes_to.last().copied());
        if end > self.credit.max_number || bytes > Some(self.credit.max_bytes) {
            return Err(format!("number {} passes {:?}", end - 1, self.credit));
        }
        Ok(())
    }

    /// The sender heard of this credit.
    pub(crate) fn granted(&mut self, credit: Credit) {
        self.credit.max_bytes = self.credit.max_bytes.max(credit.max_bytes);
        self.credit.max_number = self.credit.max_number.max(credit.max_number);
    }

    /// A number was handed over.
    pub(crate) fn sent(&mut self, number: u64) -> Result<(), String> {
        let sends = &mut self.sends[number as usize];
        *sends += 1;
        self.hand_overs += 1;
        //
        if *sends > self.sends_max {
            return Err(format!("number {number} was handed over {sends} times"));
        }
        Ok(())
    }

    /// The carrier refused it at once.
    pub(crate) fn refused(&mut self, number: u64) {
        self.sends[number as usize] -= 1;
        self.hand_overs -= 1;
    }

    /// How often a number was handed over.
    pub(crate) fn sends_of(&self, number: u64) -> u8 {
        self.sends[number as usize]
    }

    /// When a number arrived first, if it ever did.
    pub(crate) fn arrived_at(&self, number: u64) -> Option<Instant> {
        self.arrived[number as usize]
    }

    /// The numbers of a packet.
    pub(crate) fn numbers_of(&self, id: u64) -> RangeInclusive<u64> {
        let packet = &self.packets[id as usize];
        packet.first..=packet.last
    }

    /// Numbers accepted so far.
    pub(crate) fn numbers(&self) -> u64 {
        self.owner.len() as u64
    }

    /// A number is about to be taken in by the receiver, which expects `cumulative` next.
    pub(crate) fn arrives(
        &mut self,
        number: u64,
        cumulative: u64,
        srtt: Option<Duration>,
        now: Instant,
    ) {
        let arrived = &mut self.arrived[number as usize];
        // What was skipped before it came is dropped.
        if arrived.replace(arrived.unwrap_or(now)).is_some() || number < cumulative {
            return;
        }
        let id = self.owner[number as usize];
        let packet = &mut self.packets[id as usize];
        packet.parts_missing -= 1;
        if packet.parts_missing > 0 {
            return;
        }
        self.waiting
            .insert((packet.flow, id), now + hold_limit(srtt));
        if self.lane == Lane::FLOW {
            self.deadlines.insert((now + hold_limit(srtt), id));
        }
    }

    /// A packet came out of the receiver, which expects `cumulative` next; it was released at `seen`, if that was seen.
    pub(crate) fn delivery(
        &mut self,
        delivery: &Delivery,
        cumulative: u64,
        seen: Option<Instant>,
        at: Duration,
    ) -> Result<(), String> {
        let owner = self.owner.get(delivery.number as usize);
        let id = *owner.ok_or_else(|| format!("{delivery:?} was never accepted"))?;
        let packet = &self.packets[id as usize];
        let flow = packet.flow;
        if packet.delivered {
            return Err(format!("packet {id} was delivered twice"));
        }
        self.check_content(id, delivery)?;
        let deadline = self
            .waiting
            .get(&(flow, id))
            .copied()
            .ok_or_else(|| format!("packet {id} is not there"))?;
        if self.lane == Lane::MESSAGE {
            if id != self.next_message {
                return Err(format!("message {id}, expected {}", self.next_message));
            }
            self.next_message += 1;
        } else if let Some(now) = seen.filter(|_| flow != UNORDERED) {
            self.check_order(id, cumulative, now)?;
        }
        self.packets[id as usize].delivered = true;
        self.waiting.remove(&(flow, id));
        self.deadlines.remove(&(deadline, id));
        self.delivered.push(Out { at, id, flow });
        Ok(())
    }

    fn check_content(&self, id: u64, delivery: &Delivery) -> Result<(), String> {
        let packet = &self.packets[id as usize];
        let parts = packet.last - packet.first + 1;
        let bytes: Vec<u8> = (0..parts)
            .flat_map(|part| traffic::content(id, packet.flow, part, packet.len))
            .collect();
        let whole = delivery.number == packet.first && delivery.packs == parts;
        if whole && delivery.bytes == bytes {
            return Ok(());
        }
        Err(format!("packet {id} came out changed: {delivery:?}"))
    }

    fn check_order(&self, id: u64, cumulative: u64, now: Instant) -> Result<(), String> {
        let packet = &self.packets[id as usize];
        let flow = packet.flow;
        let here = |id: &u64| self.waiting.contains_key(&(flow, *id));
        if let Some(earlier) = packet.predecessor.filter(here) {
            return Err(format!("packet {id} before {earlier}, which is here"));
        }
        let pending = |id: &u64| {
            let packet = &self.packets[*id as usize];
            !packet.delivered && packet.last >= cumulative
        };
        let Some(missing) = packet.predecessor.filter(pending) else {
            return Ok(());
        };
        let mut behind = self.waiting.range((flow, id)..=(flow, u64::MAX));
        if behind.any(|(_, deadline)| *deadline <= now) {
            return Ok(());
        }
        Err(format!("packet {id} did not wait for {missing}"))
    }

    /// Whether something is held beyond its limit.
    pub(crate) fn check_holds(&self, now: Instant) -> Result<(), String> {
        match self.deadlines.first() {
            Some((deadline, id)) if *deadline <= now => {
                let late = now.duration_since(*deadline);
                Err(format!("packet {id} is held {late:?} beyond its limit"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Packets accepted and not delivered.
    pub(crate) fn undelivered(&self) -> impl Iterator<Item = u64> + '_ {
        let missing = |(_, packet): &(u64, &Packet)| !packet.delivered;
        (0..).zip(&self.packets).filter(missing).map(|(id, _)| id)
    }
}
