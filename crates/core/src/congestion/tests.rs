//! The rule alone, fed by hand: a path that is a fixed number of packets a
//! millisecond and a fixed time long.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use super::phase::PROBE_GAIN;
use super::rate::RATE_AGE_MAX;
use super::*;

const PACKET: u64 = 1_200;
const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(40);
/// 10 packets a millisecond over 40 ms.
const HELD: u64 = 10 * 40 * PACKET;
const EXTRA: u64 = EXTRA_PACKETS * PACKET;

/// Sends and acknowledges each millisecond, whatever the window.
struct Feed {
    floor: LossFloor,
    now: Instant,
    rtt: Duration,
    /// A packet in so many is lost; 0: none.
    lose_each: u64,
    filled: bool,
    sent: VecDeque<(Instant, u64)>,
    in_flight: u64,
    count: u64,
}

impl Feed {
    fn new() -> Self {
        Self {
            floor: LossFloor::new(PACKET),
            now: Instant::now(),
            rtt: RTT,
            lose_each: 0,
            filled: true,
            sent: VecDeque::new(),
            in_flight: 0,
            count: 0,
        }
    }

    fn send(&mut self, packets: u64) {
        if packets == 0 {
            return;
        }
        self.floor.window_bytes = match self.filled {
            true => self.in_flight + packets * PACKET,
            false => 10 * (self.in_flight + packets * PACKET + PACKET),
        };
        self.floor.on_sent(packets * PACKET, self.now);
        self.in_flight += packets * PACKET;
        self.sent.push_back((self.now, packets));
    }

    fn receive(&mut self) {
        let (mut acked, mut lost) = (false, 0);
        while let Some(&(sent, packets)) = self.sent.front()
            && sent + self.rtt <= self.now
        {
            self.sent.pop_front();
            for _ in 0..packets {
                self.count += 1;
                self.in_flight -= PACKET;
                if self.lose_each > 0 && self.count.is_multiple_of(self.lose_each) {
                    lost += PACKET;
                    continue;
                }
                acked = true;
                self.floor.on_acked(PACKET, sent, self.rtt, self.now);
            }
        }
        if acked {
            self.floor.on_acks_end(self.in_flight + lost, self.now);
        }
        if lost > 0 {
            self.floor.on_lost(lost);
        }
    }

    /// `packets` each millisecond for `time`.
    fn run(&mut self, packets: u64, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.send(packets);
            self.now += MS;
            self.receive();
        }
    }

    /// A path known to be full, in a cruise.
    fn cruising() -> Self {
        let mut feed = Self::new();
        feed.run(10, 10 * RTT);
        assert!(matches!(feed.floor.phase, Phase::Cruise { .. }));
        feed
    }
}

fn round(rate: u64, acked_bytes: u64, lost_bytes: u64, rtt_min: Duration) -> Round {
    Round {
        rate: Some(rate),
        acked_bytes,
        lost_bytes,
        rtt_min,
        rtt_mean: rtt_min,
        limited: false,
        marked: false,
    }
}

fn near(value: u64, expected: u64) -> bool {
    value.abs_diff(expected) <= expected / 33
}

#[test]
fn a_full_path_is_held_by_cruise_and_asked_for_more_by_a_probe() {
    let mut feed = Feed::cruising();
    assert!(near(feed.floor.floor_bytes(), HELD + EXTRA));
    feed.floor.phase = Phase::CRUISE;
    let rate = feed.floor.rates.best();
    let mut gains = Vec::new();
    for _ in 0..150 {
        gains.push(feed.floor.phase.gain());
        feed.floor.on_round(round(rate, 480_000, 0, RTT), feed.now);
    }
    let runs: Vec<_> = gains
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len()))
        .collect();
    let probe = (PROBE_GAIN, 2);
    assert_eq!(
        runs[..8],
        [
            (100, 6),
            probe,
            (100, 12),
            probe,
            (100, 24),
            probe,
            (100, 48),
            probe
        ]
    );
}

#[test]
fn random_loss_leaves_the_floor_at_what_the_path_holds() {
    for (lose_each, delivered) in [(100, 99), (20, 95)] {
        let mut feed = Feed::new();
        feed.lose_each = lose_each;
        feed.run(10, 100 * RTT);
        let floor = feed.floor.floor_bytes();
        let least = HELD * delivered / 100 * 97 / 100;
        assert!(
            (least..=HELD * 13 / 10).contains(&floor),
            "{lose_each}: {floor}"
        );
        assert!(!feed.floor.yielding);
    }
}

#[test]
fn start_up_doubles_until_three_full_rounds_bring_no_quarter_more() {
    let start = Phase::START;
    assert_eq!(start.next(125, 125, 100), Phase::Startup { stalled: 1 });
    assert_eq!(start.next(126, 126, 100), start);
    assert_eq!(Phase::Startup { stalled: 1 }.next(126, 126, 100), start);
    let stalled = Phase::Startup { stalled: 2 };
    assert_eq!(stalled.next(100, 100, 100), Phase::CRUISE);
    assert_eq!(start.gain(), 200);
}

#[test]
fn a_probe_that_finds_more_goes_on_and_a_vain_one_lengthens_the_cruise() {
    let probe = Phase::probe(160, 6);
    assert_eq!(probe.next(171, 171, 160), Phase::probe(171, 3));
    let second = Phase::Probe {
        base: 160,
        left: 1,
        rounds: 6,
    };
    assert_eq!(probe.next(170, 170, 160), second);
    assert_eq!(second.next(170, 170, 160), Phase::cruise(12));
    let longest = Phase::Probe {
        base: 160,
        left: 1,
        rounds: 48,
    };
    assert_eq!(longest.next(160, 160, 160), Phase::cruise(48));
    let found = Phase::Probe {
        base: 171,
        left: 1,
        rounds: 3,
    };
    assert_eq!(found.next(171, 171, 171), Phase::CRUISE);
}

#[test]
fn a_queue_of_a_quarter_is_none_and_a_nanosecond_more_is_one() {
    let mut feed = Feed::cruising();
    let rate = feed.floor.rates.best();
    for (over, yields) in [(Duration::ZERO, false), (Duration::from_nanos(1), true)] {
        feed.floor
            .on_round(round(rate, 1_000_000, 0, RTT + RTT / 4 + over), feed.now);
        feed.floor.refresh(feed.now);
        assert_eq!(feed.floor.yielding, yields);
    }
    assert!(near(feed.floor.floor_bytes(), HELD * 85 / 100));
}

#[test]
fn a_cruise_begins_by_emptying_and_then_holds_its_lowest_mean() {
    let mut feed = Feed::cruising();
    let rate = feed.floor.rates.best();
    feed.floor.phase = Phase::Startup { stalled: 2 };
    let with_mean = |rtt_mean| Round {
        rtt_mean,
        ..round(rate, 480_000, 0, RTT)
    };
    let mut expect = |mean, expected: u64| {
        feed.floor.on_round(with_mean(mean), feed.now);
        let floor = feed.floor.floor();
        assert!(near(floor, expected), "{mean:?}: {floor}, not {expected}");
    };
    expect(RTT * 2, HELD * 85 / 100);
    // far above the minimum: what a queue begins at is the most that is held
    expect(RTT * 2, HELD * 125 / 100 + EXTRA);
    expect(RTT * 11 / 10, HELD * 110 / 100 + EXTRA);
    expect(RTT * 6 / 5, HELD * 110 / 100 + EXTRA);
    expect(RTT, HELD + EXTRA);
}

#[test]
fn on_a_short_path_two_milliseconds_are_no_queue() {
    let mut feed = Feed::new();
    feed.rtt = MS;
    feed.run(10, 20 * MS);
    for (delay, yields) in [(3 * MS, false), (3 * MS + Duration::from_nanos(1), true)] {
        feed.floor
            .on_round(round(1_000, 1_000_000, 0, delay), feed.now);
        assert_eq!(feed.floor.yielding, yields);
    }
}

#[test]
fn a_fifth_lost_is_random_and_more_is_congestion() {
    let mut feed = Feed::cruising();
    feed.floor.before = (0, 0);
    let best = feed.floor.rates.best();
    feed.floor
        .on_round(round(1_000, 80_000, 20_000, RTT), feed.now);
    assert!(!feed.floor.yielding);
    assert_eq!(feed.floor.rates.best(), best);
    feed.floor
        .on_round(round(1_000, 80_000, 20_002, RTT), feed.now);
    assert!(feed.floor.yielding);
    assert_eq!(
        feed.floor.rates.best(),
        1_000,
        "earlier rates are forgotten"
    );
}

#[test]
fn the_loss_of_a_few_packets_says_nothing() {
    let mut feed = Feed::cruising();
    for (all, yields) in [(LOSS_BYTES_MIN - 1, false), (LOSS_BYTES_MIN, true)] {
        feed.floor.before = (0, 0);
        feed.floor
            .on_round(round(1_000, all - all / 2, all / 2, RTT), feed.now);
        assert_eq!(feed.floor.yielding, yields);
    }
}

#[test]
fn a_mark_makes_the_floor_yield_at_once_and_for_its_round() {
    let mut feed = Feed::cruising();
    feed.floor.on_marked();
    assert!(near(feed.floor.floor_bytes(), HELD * 85 / 100));
    feed.run(10, 2 * RTT);
    assert!(!feed.floor.yielding, "a round without a mark ends it");
}

#[test]
fn a_path_that_delivers_nothing_keeps_no_floor() {
    let mut feed = Feed::cruising();
    let silence = SILENCE_MIN;
    feed.send(1);
    let last = feed.now;
    feed.floor.waiting_since = Some(last);
    feed.now = last + silence;
    feed.send(1);
    assert!(feed.floor.floor_bytes() > 0);
    feed.now = last + silence + Duration::from_nanos(1);
    feed.send(1);
    assert_eq!(feed.floor.floor_bytes(), 0);
    assert_eq!(feed.floor.phase, Phase::START);
}

#[test]
fn what_comes_back_after_silence_starts_from_nothing() {
    let mut feed = Feed::cruising();
    feed.now += Duration::from_secs(2);
    feed.receive();
    assert_eq!(feed.floor.rates.best(), 0);
}

#[test]
fn persistent_congestion_ends_the_floor() {
    let mut feed = Feed::cruising();
    feed.floor.on_persistent_congestion();
    assert_eq!(feed.floor.floor_bytes(), 0);
    assert_eq!(feed.floor.window_bytes(2_400), 2_400);
    assert_eq!(feed.floor.min_rtt(), Some(RTT));
}

#[test]
fn a_quiet_while_costs_nothing_and_ten_seconds_cost_all() {
    let mut feed = Feed::cruising();
    let floor = feed.floor.floor_bytes();
    feed.run(0, 2 * RTT);
    assert_eq!(feed.in_flight, 0);
    let quiet = feed.now;
    feed.now = quiet + Duration::from_secs(5);
    feed.send(1);
    assert_eq!(feed.floor.floor_bytes(), floor, "idleness is no silence");
    feed.run(0, 2 * RTT);
    feed.now = quiet + RATE_AGE_MAX;
    feed.send(1);
    assert_eq!(feed.floor.floor_bytes(), 0);
    assert_eq!(feed.floor.phase, Phase::START);
}

#[test]
fn little_to_send_is_no_lower_rate() {
    let mut feed = Feed::cruising();
    let best = feed.floor.rates.best();
    feed.filled = false;
    feed.run(1, 50 * RTT);
    assert_eq!(feed.floor.rates.best(), best);
    feed.filled = true;
    feed.run(1, 14 * RTT);
    assert!(
        near(feed.floor.rates.best(), best / 10),
        "full rounds are believed"
    );
}

#[test]
fn a_pause_ends_no_round() {
    let mut feed = Feed::cruising();
    feed.run(0, 2 * RTT);
    feed.now += Duration::from_secs(1);
    feed.send(10);
    assert!(feed.floor.round.is_none());
}

#[test]
fn an_aged_minimum_drains_cubic_too_and_finds_the_path_again() {
    let mut feed = Feed::cruising();
    // 20 ms of queue, for longer than a minimum is believed
    feed.rtt = RTT * 3 / 2;
    feed.run(10, Duration::from_secs(9));
    assert_eq!(feed.floor.window_bytes(u64::MAX), u64::MAX);
    feed.run(10, Duration::from_millis(1_200));
    assert!(near(feed.floor.window_bytes(u64::MAX), HELD * 3 / 4));
    assert_eq!(
        feed.floor.min_rtt(),
        Some(RTT),
        "no sample of the queue is believed"
    );
    // The window is obeyed, so the queue is gone.
    feed.run(0, RTT);
    feed.rtt = RTT + 2 * MS;
    feed.run(2, 3 * RTT);
    assert_eq!(feed.floor.min_rtt(), Some(RTT + 2 * MS));
    assert_eq!(feed.floor.window_bytes(u64::MAX), u64::MAX);
}

#[test]
fn a_drain_leaves_four_packets() {
    let mut feed = Feed::cruising();
    let min_rtt = feed.floor.min_rtt.as_mut().unwrap();
    min_rtt.drain(RTT, feed.now);
    feed.floor.forget();
    assert_eq!(feed.floor.window_bytes(1_000_000), 4 * PACKET);
    assert_eq!(
        feed.floor.window_bytes(2 * PACKET),
        2 * PACKET,
        "and raises nothing"
    );
}

#[test]
fn a_sender_that_does_not_fill_its_window_believes_a_longer_path() {
    let mut feed = Feed::cruising();
    feed.filled = false;
    feed.rtt = 2 * RTT;
    feed.run(1, Duration::from_secs(11));
    assert_eq!(feed.floor.min_rtt(), Some(2 * RTT));
    assert_eq!(feed.floor.window_bytes(u64::MAX), u64::MAX);
}

#[test]
fn the_extra_is_half_of_what_a_narrow_path_holds() {
    let mut feed = Feed::new();
    feed.run(1, 10 * RTT);
    feed.floor.phase = Phase::Cruise { left: 1, rounds: 6 };
    feed.floor.jitter = Duration::ZERO;
    assert!(near(feed.floor.floor(), 40 * PACKET + EXTRA));
    feed.floor.rates.restart(40_000, feed.now);
    assert_eq!(feed.floor.floor(), 1_600 + 800);
}

#[test]
fn a_clock_that_stands_still_or_goes_back_gives_no_rate() {
    let mut floor = LossFloor::new(PACKET);
    let now = Instant::now();
    for at in [now, now, now - MS, now, now - MS, now] {
        floor.on_sent(u64::MAX, at);
        floor.on_acked(u64::MAX, now, Duration::ZERO, at);
        floor.on_acks_end(u64::MAX, at);
        floor.on_lost(u64::MAX);
    }
    assert_eq!(floor.floor_bytes(), 0);
}

#[test]
fn the_floor_has_a_ceiling() {
    let mut feed = Feed::cruising();
    feed.floor
        .on_round(round(u64::MAX, u64::MAX, 0, RTT), feed.now);
    feed.floor.refresh(feed.now);
    assert_eq!(feed.floor.floor_bytes(), FLOOR_BYTES_MAX);
    feed.floor.on_packet_bytes(u64::MAX);
    assert_eq!(feed.floor.window_bytes(0), FLOOR_BYTES_MAX);
    feed.floor.on_sent(u64::MAX, feed.now + MS);
}

#[test]
fn acknowledgements_that_waited_at_the_peer_are_no_queue() {
    let mut feed = Feed::cruising();
    feed.rtt = RTT + 25 * MS;
    for _ in 0..4 {
        let sent = feed.now;
        feed.now += feed.rtt;
        feed.floor.on_acked(PACKET, sent, RTT, feed.now);
        feed.floor.on_acks_end(PACKET, feed.now);
        assert!(!feed.floor.yielding);
    }
}

#[test]
fn what_is_lost_is_no_longer_in_flight() {
    let mut feed = Feed::cruising();
    feed.floor.on_lost(feed.in_flight);
    feed.floor.on_sent(PACKET, feed.now);
    assert!(feed.floor.round.is_none(), "nothing was in flight");
}

#[test]
fn a_mark_counts_for_the_round_that_it_came_in() {
    let mut feed = Feed::cruising();
    feed.floor.on_marked();
    feed.floor.yielding = false;
    feed.run(10, RTT + MS);
    assert!(feed.floor.yielding);
}

#[test]
fn a_drain_lowers_no_rate() {
    let mut feed = Feed::cruising();
    let best = feed.floor.rates.best();
    feed.floor.min_rtt.as_mut().unwrap().drain(RTT, feed.now);
    for _ in 0..=rate::RATE_ROUNDS {
        feed.floor.on_round(round(1, 480_000, 0, RTT), feed.now);
    }
    assert_eq!(feed.floor.rates.best(), best);
}

#[test]
fn emptying_ends_in_a_limited_round_too_and_yielding_replaces_it() {
    let mut feed = Feed::cruising();
    let rate = feed.floor.rates.best();
    feed.floor.phase = Phase::CRUISE;
    let limited = Round {
        limited: true,
        ..round(rate, 480_000, 0, RTT)
    };
    feed.floor.on_round(limited, feed.now);
    assert_eq!(feed.floor.phase, Phase::EMPTIED);
    feed.floor.on_round(limited, feed.now);
    assert_eq!(
        feed.floor.phase,
        Phase::EMPTIED,
        "the rest takes full rounds"
    );
    feed.floor
        .on_round(round(rate, 480_000, 0, 2 * RTT), feed.now);
    assert_eq!(feed.floor.phase, Phase::EMPTIED);
    assert_eq!(feed.floor.jitter, RTT / 4);
}

#[test]
fn a_fresh_start_carries_nothing_over() {
    let mut feed = Feed::cruising();
    feed.floor.yielding = true;
    feed.floor.before = (1, 1);
    feed.floor.on_persistent_congestion();
    assert!(!feed.floor.yielding && feed.floor.round.is_none());
    assert_eq!(feed.floor.before, (0, 0));
}
