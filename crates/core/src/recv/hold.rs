//! Packets that wait for another one: for the previous packet of their own flow, or for the one before them.
//!
//! Order matters within a flow only: a TCP that sees its segments out of order takes that for loss and slows down, while
//! the neighbour's gap means nothing to it. So a packet names the one it waits for (`dep`), and waits for that one alone:
//!
//! ```text
//! lane 1    number  5 (flow a)   6 (flow b)   7 (flow a, dep 2)   8 (flow b, dep 2)
//!           5 lost:              delivered    held for 5          delivered
//!           released when 5 is delivered, dropped or skipped, or when the hold ends: the order of the flow still holds
//!           among what is here, oldest first
//! lane 0    each number waits for the one before it, without an end: strict order is the same rule with dep = 1
//! ```
//!
//! The hold begins when the held packet is there and lasts min(200 ms, max(20 ms, 2·(1.25·srtt + ack delay))): a loss that
//! the first ACK shows is repaired one round trip, the reorder window and that ACK's delay later, and a repair that is lost
//! itself once more. Of the packets of a path that loses 1 %, one in 10,000 needs that second repair. It looks like nothing,
//! and is a loss to a TCP that is made to wait for it in disorder: with room for one repair, Cubic inside carried 39 Mbit/s
//! of 100 at 40 ms and 1 %, with room for two 73. What takes longer is better told to the user's TCP than hidden from it,
//! and 200 ms is where its own timer would run out.
//!
//! Invariants: a held packet's predecessor is *pending* (not known yet, in pieces, or held itself); predecessors have lower
//! numbers, so chains end; what is held was admitted by credit, which bounds it, and owns its bytes. All walks are by number,
//! so that the same inputs give the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::fragments::Packet;
use crate::config::receive::ReceiveConfig;

/// Repairs of one loss that a hold waits for.
const REPAIRS: u32 = 2;

/// How long a packet waits at most, with a round trip of `srtt` (none: not known yet) and ACKs `ack_delay` late.
pub(super) fn limit(
    config: &ReceiveConfig,
    srtt: Option<Duration>,
    ack_delay: Duration,
) -> Duration {
    let Some(srtt) = srtt else {
        return config.hold_max;
    };
    let repair = srtt.saturating_add(srtt / 4).saturating_add(ack_delay);
    let wanted = repair.saturating_mul(REPAIRS);
    wanted.max(config.hold_min).min(config.hold_max)
}

#[derive(Debug)]
struct Held {
    packet: Packet,
    predecessor: u64,
    until: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Holds {
    /// By the last number of each packet, which is what the next one of its flow points to.
    held: BTreeMap<u64, Held>,
    /// Predecessor and the last number of who waits for it.
    waiters: BTreeSet<(u64, u64)>,
    /// End of the hold and the last number of the packet.
    deadlines: BTreeSet<(Instant, u64)>,
    packs: u64,
}

impl Holds {
    /// Holds `packet` until `predecessor` is gone or `until` has come. Its bytes become its own.
    pub(super) fn hold(&mut self, mut packet: Packet, predecessor: u64, until: Option<Instant>) {
        if packet.packs() == 1 {
            packet.bytes = Bytes::copy_from_slice(&packet.bytes);
        }
        let last = packet.last;
        self.packs += packet.packs();
        self.waiters.insert((predecessor, last));
        if let Some(until) = until {
            self.deadlines.insert((until, last));
        }
        let held = Held {
            packet,
            predecessor,
            until,
        };
        self.held.insert(last, held);
    }

    /// Whether a held packet came in this number.
    pub(super) fn covers(&self, number: u64) -> bool {
        self.covering(number).is_some()
    }

    fn covering(&self, number: u64) -> Option<&Held> {
        let (_, held) = self.held.range(number..).next()?;
        (held.packet.first <= number).then_some(held)
    }

    /// Takes out the lowest packet that waits for one of the numbers `first..=last`, which are gone.
    pub(super) fn take_waiter(&mut self, first: u64, last: u64) -> Option<Packet> {
        let &(_, waiter) = self.waiters.range((first, 0)..=(last, u64::MAX)).next()?;
        self.take(waiter)
    }

    /// Takes out what has to be released first where a hold ended by `now`: the packet itself, or the eldest held packet
    /// that it waits for. The rest follows through [`Holds::take_waiter`].
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<Packet> {
        let &(until, last) = self.deadlines.first()?;
        if until > now {
            return None;
        }
        self.take_eldest(last)
    }

    /// The same where no hold is waited for any more. What waits without an end stays.
    pub(super) fn take_bounded(&mut self) -> Option<Packet> {
        let &(_, last) = self.deadlines.first()?;
        self.take_eldest(last)
    }

    fn take_eldest(&mut self, last: u64) -> Option<Packet> {
        let mut eldest = self.held.get(&last)?;
        while let Some(older) = self.covering(eldest.predecessor) {
            eldest = older;
        }
        let last = eldest.packet.last;
        self.take(last)
    }

    fn take(&mut self, last: u64) -> Option<Packet> {
        let held = self.held.remove(&last)?;
        self.packs -= held.packet.packs();
        self.waiters.remove(&(held.predecessor, last));
        if let Some(until) = held.until {
            self.deadlines.remove(&(until, last));
        }
        Some(held.packet)
    }

    /// When the first hold ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Packs that came and are held.
    pub(super) const fn packs(&self) -> u64 {
        self.packs
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn packet(first: u64, last: u64) -> Packet {
        Packet {
            first,
            last,
            dep: 1,
            bytes: Bytes::from_static(b"x"),
            unordered: false,
        }
    }

    #[test]
    fn the_limit_follows_the_round_trip_between_its_bounds() {
        let config = ReceiveConfig::default();
        let limit_us = |srtt_ms: u64, delay_us| {
            let srtt = Some(Duration::from_millis(srtt_ms));
            limit(&config, srtt, Duration::from_micros(delay_us)).as_micros()
        };
        assert_eq!(limit_us(0, 0), 20_000);
        assert_eq!(limit_us(4, 5_000), 20_000);
        assert_eq!(limit_us(4, 5_001), 20_002);
        assert_eq!(limit_us(40, 10_000), 120_000);
        assert_eq!(limit_us(72, 9_999), 199_998);
        assert_eq!(limit_us(72, 10_001), 200_000);
        assert_eq!(limit_us(10_000, 0), 200_000);
        assert_eq!(limit(&config, None, MS), 200 * MS);
        assert_eq!(limit(&config, Some(Duration::MAX), MS), 200 * MS);
    }

    #[test]
    fn waiters_of_one_number_come_out_by_number() {
        let mut holds = Holds::default();
        for last in [9, 7, 8] {
            holds.hold(packet(last, last), 3, None);
        }
        holds.hold(packet(5, 6), 4, None);
        assert_eq!((holds.packs(), holds.deadline()), (5, None));
        let taken: Vec<_> = std::iter::from_fn(|| holds.take_waiter(2, 3)).collect();
        assert_eq!(taken.iter().map(|p| p.last).collect::<Vec<_>>(), [7, 8, 9]);
        assert!(holds.covers(5) && holds.covers(6) && !holds.covers(4) && !holds.covers(7));
        assert_eq!(holds.take_waiter(4, 4).unwrap().first, 5);
        assert!(holds.is_empty() && holds.waiters.is_empty() && holds.packs() == 0);
    }

    #[test]
    fn when_a_hold_ends_the_eldest_held_ancestor_comes_out() {
        let t0 = Instant::now();
        let mut holds = Holds::default();
        // 6 waits for 4..=5, which waits for 2, which waits for 1, which did not come. 6 came first.
        holds.hold(packet(6, 6), 5, Some(t0 + 20 * MS));
        holds.hold(packet(2, 2), 1, Some(t0 + 25 * MS));
        holds.hold(packet(4, 5), 2, Some(t0 + 30 * MS));
        assert_eq!(holds.deadline(), Some(t0 + 20 * MS));
        let just_before = t0 + 20 * MS - Duration::from_nanos(1);
        assert_eq!(holds.take_expired(just_before), None);
        assert_eq!(holds.take_expired(t0 + 20 * MS).unwrap().last, 2);
        assert_eq!(holds.take_waiter(2, 2).unwrap().last, 5);
        assert_eq!(holds.take_waiter(4, 5).unwrap().last, 6);
        assert_eq!((holds.deadline(), holds.packs()), (None, 0));
    }

    #[test]
    fn what_is_held_does_not_keep_its_datagram() {
        let datagram = Bytes::from(vec![7; 1_200]);
        let mut holds = Holds::default();
        let bytes = datagram.slice(10..12);
        holds.hold(
            Packet {
                bytes,
                ..packet(1, 1)
            },
            0,
            None,
        );
        assert!(datagram.is_unique());
    }
}
