//! The ring by itself: what leaves it when, and what ends it.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::fleet::node::{Item, Kind};
use crate::policy::{upstream_2026_05, upstream_2026_08};

const MAY: &Rules = &upstream_2026_05::RULES;
const AUGUST: &Rules = &upstream_2026_08::RULES;
const LEN: u16 = 1_200;

fn item(number: u32) -> Body {
    Body::Item(Item {
        number,
        flow: 0,
        kind: Kind::Tcp,
        len_bytes: LEN,
    })
}

struct End {
    rules: &'static Rules,
    send: SendSequence,
    writer: Writer,
    out: VecDeque<Parcel>,
    start: Instant,
    now: Instant,
}

impl End {
    fn new(rules: &'static Rules) -> Self {
        let start = Instant::now();
        let mut writer = Writer::default();
        writer.on_up();
        Self {
            rules,
            send: SendSequence::new(rules.ack_timeout, false),
            writer,
            out: VecDeque::new(),
            start,
            now: start,
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn push(&mut self, number: u32, ms: u64) -> bool {
        let now = self.at(ms);
        self.run(ms);
        let taken = self.send.push(item(number), true, now);
        self.run(ms);
        taken
    }

    /// Does what is due until `ms`, each thing at its time; numbers of packs with the times that they left at.
    fn run(&mut self, ms: u64) -> Vec<(u32, u64)> {
        let mut left = Vec::new();
        let end = self.at(ms);
        let mut now = self.now;
        loop {
            let mut outlet = Outlet {
                rules: self.rules,
                degraded: false,
                writer: &mut self.writer,
                out: &mut self.out,
            };
            self.send.end_if_due(now, |_| {});
            self.send.resend(&mut outlet, now);
            self.send.flush(&mut outlet, now);
            for parcel in self.out.drain(..) {
                let at = u64::try_from((now - self.start).as_millis()).unwrap();
                if let Unit::Pack { number, .. } = parcel.unit {
                    left.push((number, at));
                }
            }
            match self.send.poll_timeout(self.rules, &self.writer) {
                Some(at) if at <= end => now = now.max(at),
                Some(_) | None => break,
            }
        }
        self.now = end;
        left
    }
}

#[test]
fn a_full_ring_takes_nothing_new() {
    let mut end = End::new(&upstream_2026_05::RULES);
    let most = u32::try_from(QUEUE_BYTES_MAX / (u64::from(LEN) + 8)).unwrap();
    assert!((0..most).all(|number| end.push(number, 0)));
    assert!(!end.push(most, 0));
    end.send.on_ack(1, 1, end.at(1), |_| {});
    assert!(end.push(most, 1));
}

#[test]
fn a_selective_ack_parks_a_pack_for_a_minute() {
    let mut end = End::new(&upstream_2026_05::RULES);
    end.send.ack_timeout = Duration::from_secs(100);
    (0..2).for_each(|number| assert!(end.push(number, 0)));
    assert_eq!(end.send.on_selective(1, 1, end.at(50)), Some(item(1)));
    let left = end.run(60_050);
    assert_eq!(left.iter().filter(|(number, _)| *number == 0).count(), 30);
    let ours: Vec<_> = left.iter().filter(|(number, _)| *number == 1).collect();
    assert_eq!(ours, [&(1, 60_050)]);
}

#[test]
fn the_oldest_pack_ends_the_sequence_and_the_next_begins_another() {
    let mut end = End::new(&upstream_2026_08::RULES);
    end.push(0, 0);
    end.push(1, 40_000);
    assert_eq!(
        end.run(59_999)
            .iter()
            .filter(|(number, _)| *number == 1)
            .count(),
        3
    );
    assert_eq!((end.send.sequence(), end.send.packs().count()), (1, 2));
    assert!(end.run(60_000).is_empty());
    assert_eq!((end.send.packs().count(), end.send.bytes()), (0, 0));
    assert_eq!(end.send.poll_timeout(end.rules, &end.writer), None);
    end.push(2, 61_000);
    assert_eq!(end.send.sequence(), 2);
    // An ack of the earlier sequence means nothing to this one.
    end.send
        .on_ack(1, 1, end.at(61_000), |_| panic!("too late"));
    end.send
        .on_ack(2, 1, end.at(61_050), |pack| assert_eq!(pack.body, item(2)));
    assert_eq!(end.send.packs().count(), 0);
}

#[test]
fn acks_of_what_was_never_sent_are_ignored() {
    let mut end = End::new(&upstream_2026_08::RULES);
    end.writer.on_down();
    end.push(0, 0);
    end.send.on_ack(1, 1, end.at(1), |_| panic!("never sent"));
    assert_eq!(end.send.on_selective(1, 0, end.at(1)), None);
    assert_eq!(end.send.packs().count(), 1);
}

#[test]
fn a_write_that_fails_counts_in_may_and_waits_in_august() {
    for (rules, sends_when_up) in [(&upstream_2026_05::RULES, 0), (&upstream_2026_08::RULES, 1)] {
        let mut end = End::new(rules);
        end.writer.on_down();
        end.push(0, 0);
        assert!(end.run(5_000).is_empty());
        end.writer.on_up();
        assert_eq!(end.run(5_000).len(), sends_when_up, "{}", rules.name);
        // The next ones: of the flat rule at 6 s, of the doubling one 2 s after its first.
        assert_eq!(end.run(7_000).len(), 1, "{}", rules.name);
    }
}

#[test]
fn round_trips_of_resent_packs_count() {
    let mut end = End::new(&upstream_2026_08::RULES);
    end.push(0, 0);
    end.run(2_000);
    end.send.on_ack(1, 1, end.at(2_010), |_| {});
    // 10 ms after the second send, whichever of both was acked.
    let now = end.at(2_010);
    assert_eq!(end.send.rtt.mean(now), Some(Duration::from_millis(10)));
}

#[test]
fn a_long_pack_takes_two_datagrams() {
    let mut end = End::new(&upstream_2026_05::RULES);
    let now = end.start;
    end.send.push(item(0), true, now);
    let mut outlet = Outlet {
        rules: end.rules,
        degraded: false,
        writer: &mut end.writer,
        out: &mut end.out,
    };
    end.send.flush(&mut outlet, now);
    let lens: Vec<u32> = end.out.iter().map(|parcel| parcel.causes.total()).collect();
    assert_eq!(lens, [604, 604]);
    assert_eq!(end.out[0].unit, Unit::Part);
}

#[test]
fn what_waits_for_a_connection_wakes_nobody() {
    for (rules, wakes_ms) in [(MAY, 2_000), (AUGUST, 60_000)] {
        let mut end = End::new(rules);
        end.push(0, 0);
        end.writer.on_down();
        let at = end.send.poll_timeout(end.rules, &end.writer);
        assert_eq!(at, Some(end.at(wakes_ms)), "{}", rules.name);
    }
}
