//! Timelines (at t, send X, expect exactly Y), boundary pairs, tolerances of the random parts, and conservation.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn perfect() -> LinkConfig {
    LinkConfig::default()
}

/// Everything that comes out, with the time since `t0`, stepping exactly from one due time to the next.
fn drain<T>(link: &mut Link<T>, t0: Instant) -> Vec<(Duration, T)> {
    let mut out = Vec::new();
    while let Some(at) = link.poll_timeout() {
        let payload = link.poll(at).unwrap();
        out.push((at.duration_since(t0), payload));
    }
    out
}

#[test]
fn a_perfect_link_delivers_at_once_everything_once() {
    let t0 = Instant::now();
    let mut link = Link::new(perfect(), 1);
    for n in 0..1_000 {
        link.send(n, 65_535, t0);
    }
    let got = drain(&mut link, t0);
    assert_eq!(
        got,
        (0..1_000).map(|n| (Duration::ZERO, n)).collect::<Vec<_>>()
    );
    let want = LinkCounters {
        sent: 1_000,
        delivered: 1_000,
        ..LinkCounters::default()
    };
    assert_eq!(link.counters(), want);
}

#[test]
fn delay_is_exact_to_the_nanosecond() {
    let t0 = Instant::now();
    let mut link = Link::new(
        LinkConfig {
            delay: 25 * MS,
            ..perfect()
        },
        1,
    );
    link.send('x', 1, t0);
    let due = t0 + 25 * MS;
    assert_eq!(link.poll_timeout(), Some(due));
    assert_eq!(link.poll(due - Duration::from_nanos(1)), None);
    assert_eq!(link.counters().in_flight, 1);
    assert_eq!(link.poll(due), Some('x'));
    assert_eq!(link.poll(due), None);
    assert_eq!(link.poll_timeout(), None);
}

#[test]
fn the_rate_spaces_packets_and_an_idle_bottleneck_saves_nothing_up() {
    let t0 = Instant::now();
    // 1 MB/s: 1,000 B take 1 ms.
    let mut link = Link::new(
        LinkConfig {
            delay: 10 * MS,
            rate_bytes_per_s: Some(1_000_000),
            ..perfect()
        },
        1,
    );
    link.send(0, 1_000, t0);
    link.send(1, 500, t0);
    link.send(2, 1_000, t0 + 20 * MS);
    let got = drain(&mut link, t0);
    assert_eq!(
        got,
        vec![
            (11 * MS, 0),
            (Duration::from_micros(11_500), 1),
            (31 * MS, 2)
        ]
    );
}

#[test]
fn rounding_does_not_add_up_to_another_rate() {
    let t0 = Instant::now();
    // 3 B/s: 1 B takes 333,333,333.3… ns.
    let mut link = Link::new(
        LinkConfig {
            rate_bytes_per_s: Some(3),
            queue_ms_max: 60_000,
            ..perfect()
        },
        1,
    );
    for n in 0..3 {
        link.send(n, 1, t0);
    }
    let nanos: Vec<_> = drain(&mut link, t0)
        .into_iter()
        .map(|(at, _)| at.as_nanos())
        .collect();
    assert_eq!(nanos, vec![333_333_333, 666_666_666, 1_000_000_000]);
}

#[test]
fn the_queue_takes_its_bound_and_not_one_nanosecond_more() {
    let t0 = Instant::now();
    let config = LinkConfig {
        rate_bytes_per_s: Some(1_000_000),
        queue_ms_max: 5,
        ..perfect()
    };
    let mut link = Link::new(config, 1);
    // Waits 0, 1, … 5 ms: all within the bound. The seventh would wait 6 ms.
    for n in 0..7 {
        link.send(n, 1_000, t0);
    }
    assert_eq!(link.counters().lost_queue, 1);
    assert_eq!(drain(&mut link, t0).last(), Some(&(6 * MS, 5)));

    // 1 GB/s: each byte takes a nanosecond.
    let config = LinkConfig {
        rate_bytes_per_s: Some(1_000_000_000),
        ..config
    };
    for (len_bytes, lost) in [(5_000_000, 0), (5_000_001, 1)] {
        let mut link = Link::new(config, 1);
        link.send(0, len_bytes, t0);
        link.send(1, 1, t0);
        assert_eq!(link.counters().lost_queue, lost, "a wait of {len_bytes} ns");
    }
}

#[test]
fn what_is_lost_has_used_the_rate() {
    let t0 = Instant::now();
    let mut link = Link::new(
        LinkConfig {
            rate_bytes_per_s: Some(1_000_000),
            loss: 1.0,
            ..perfect()
        },
        1,
    );
    link.send(0, 1_000, t0);
    link.set_config(LinkConfig {
        loss: 0.0,
        ..*link.config()
    });
    link.send(1, 1_000, t0);
    assert_eq!(drain(&mut link, t0), vec![(2 * MS, 1)]);
}

#[test]
fn the_mtu_passes_and_one_byte_more_does_not() {
    let t0 = Instant::now();
    let mut link = Link::new(
        LinkConfig {
            mtu: Some(1_280),
            ..perfect()
        },
        1,
    );
    link.send('n', 1_280, t0);
    link.send('m', 1_281, t0);
    assert_eq!(drain(&mut link, t0), vec![(Duration::ZERO, 'n')]);
    assert_eq!(link.counters().lost_mtu, 1);
}

#[test]
fn both_bounds_of_what_is_in_flight_hold() {
    let t0 = Instant::now();
    let mut link = Link::new(
        LinkConfig {
            delay: MS,
            in_flight_max: 2,
            ..perfect()
        },
        1,
    );
    for n in 0..3 {
        link.send(n, 1, t0);
    }
    assert_eq!(
        (link.counters().in_flight, link.counters().lost_queue),
        (2, 1)
    );
    // Room comes back with a delivery.
    assert!(link.poll(t0 + MS).is_some());
    link.send(3, 1, t0 + MS);
    assert_eq!(
        (link.counters().in_flight, link.counters().lost_queue),
        (2, 1)
    );

    let mut link = Link::new(
        LinkConfig {
            delay: MS,
            in_flight_bytes_max: 100,
            ..perfect()
        },
        1,
    );
    link.send(0, 60, t0);
    link.send(1, 40, t0);
    link.send(2, 1, t0);
    assert_eq!(
        (link.counters().in_flight, link.counters().lost_queue),
        (2, 1)
    );
    assert!(link.poll(t0 + MS).is_some());
    link.send(3, 60, t0 + MS);
    assert_eq!(
        (link.counters().in_flight, link.counters().lost_queue),
        (2, 1)
    );
}

#[test]
fn a_copy_respects_the_bound_too() {
    let t0 = Instant::now();
    let mut link = Link::new(
        LinkConfig {
            delay: MS,
            duplicate: 1.0,
            in_flight_max: 3,
            ..perfect()
        },
        1,
    );
    link.send(0, 1, t0);
    link.send(1, 1, t0);
    let counters = link.counters();
    assert_eq!(
        (counters.in_flight, counters.duplicated, counters.lost_queue),
        (3, 1, 0)
    );
    assert!(counters.is_conserved());
}

#[test]
fn a_cut_loses_what_is_sent_into_it_and_what_was_in_flight() {
    let t0 = Instant::now();
    let config = LinkConfig {
        delay: 20 * MS,
        rate_bytes_per_s: Some(1_000),
        queue_ms_max: 10_000,
        ..perfect()
    };
    let mut link = Link::new(config, 1);
    link.send(0, 1_000, t0);
    link.set_blackhole(true);
    link.send(1, 1_000, t0);
    assert_eq!(link.poll_timeout(), None);
    assert_eq!(link.counters().lost_blackhole, 2);
    link.set_blackhole(false);
    // The cut emptied the bottleneck: the first packet after it does not wait for those that were lost.
    link.send(2, 1, t0 + MS);
    assert_eq!(drain(&mut link, t0), vec![(22 * MS, 2)]);
    assert!(link.counters().is_conserved());
}

#[test]
fn settings_can_cut_and_heal() {
    let t0 = Instant::now();
    let mut link = Link::new(
        LinkConfig {
            delay: MS,
            ..perfect()
        },
        1,
    );
    link.send(0, 1, t0);
    link.set_config(LinkConfig {
        blackhole: true,
        ..perfect()
    });
    assert_eq!(
        (link.counters().in_flight, link.counters().lost_blackhole),
        (0, 1)
    );
    link.set_config(perfect());
    link.send(1, 1, t0);
    assert_eq!(link.poll(t0), Some(1));
}

#[test]
fn a_shorter_delay_lets_nothing_overtake() {
    let t0 = Instant::now();
    let mut link = Link::new(
        LinkConfig {
            delay: 50 * MS,
            ..perfect()
        },
        1,
    );
    link.send(0, 1, t0);
    link.set_config(LinkConfig {
        delay: 10 * MS,
        ..perfect()
    });
    link.send(1, 1, t0);
    assert_eq!(drain(&mut link, t0), vec![(50 * MS, 0), (50 * MS, 1)]);
}

#[test]
fn jitter_keeps_to_its_bounds_and_to_the_order() {
    let t0 = Instant::now();
    let config = LinkConfig {
        delay: 50 * MS,
        jitter: 20 * MS,
        ..perfect()
    };
    let mut link = Link::new(config, 3);
    let mut delays = Vec::new();
    // Far apart, so that keeping the order does not move the mean.
    for n in 0..10_000u32 {
        let now = t0 + n * 100 * MS;
        link.send(n, 1, now);
        let due = link.poll_timeout().unwrap();
        delays.push(due.duration_since(now));
        assert_eq!(link.poll(due), Some(n));
    }
    assert!(
        delays
            .iter()
            .all(|delay| (30 * MS..=70 * MS).contains(delay))
    );
    let mean = delays.iter().sum::<Duration>() / 10_000;
    assert!((49 * MS..=51 * MS).contains(&mean), "mean {mean:?}");
    assert!(*delays.iter().min().unwrap() < 31 * MS && *delays.iter().max().unwrap() > 69 * MS);

    for n in 0..1_000 {
        link.send(n, 1, t0 + n * MS);
    }
    let order: Vec<_> = drain(&mut link, t0).into_iter().map(|(_, n)| n).collect();
    assert_eq!(order, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_held_packet_is_overtaken_and_holds_nobody() {
    let t0 = Instant::now();
    let config = LinkConfig {
        delay: 10 * MS,
        reorder: 1.0,
        reorder_hold: 7 * MS,
        ..perfect()
    };
    let mut link = Link::new(config, 1);
    link.send(0, 1, t0);
    link.set_config(LinkConfig {
        reorder: 0.0,
        ..config
    });
    link.send(1, 1, t0 + MS);
    assert_eq!(drain(&mut link, t0), vec![(11 * MS, 1), (17 * MS, 0)]);
    assert_eq!(link.counters().reordered, 1);
}

#[test]
fn rates_of_loss_duplicates_and_reordering_are_as_set() {
    let t0 = Instant::now();
    let config = LinkConfig {
        loss: 0.1,
        duplicate: 0.05,
        reorder: 0.02,
        ..perfect()
    };
    let mut link = Link::new(config, 11);
    for n in 0..100_000 {
        link.send(n, 1, t0);
        while let Some(due) = link.poll_timeout() {
            link.poll(due);
        }
    }
    let counters = link.counters();
    // Five standard deviations of each: 95, 65 and 43.
    assert!(counters.lost_random.abs_diff(10_000) < 475, "{counters:?}");
    assert!(counters.duplicated.abs_diff(4_500) < 325, "{counters:?}");
    assert!(counters.reordered.abs_diff(1_890) < 215, "{counters:?}");
    assert!(counters.is_conserved());
}

#[test]
fn bursts_have_the_length_and_the_share_of_the_chain() {
    let t0 = Instant::now();
    let burst = GilbertElliott {
        p_good_to_bad: 0.01,
        p_bad_to_good: 0.2,
        loss_in_bad: 1.0,
    };
    let mut link = Link::new(
        LinkConfig {
            burst: Some(burst),
            ..perfect()
        },
        5,
    );
    let (mut runs, mut lost, mut before) = (0u32, 0u32, false);
    for n in 0..200_000 {
        link.send(n, 1, t0);
        let gone = link.poll(t0).is_none();
        lost += u32::from(gone);
        runs += u32::from(gone && !before);
        before = gone;
    }
    let (share, run) = (
        f64::from(lost) / 200_000.0,
        f64::from(lost) / f64::from(runs),
    );
    assert!(
        (0.043..0.053).contains(&share),
        "share {share}, expected 0.0476"
    );
    assert!((4.6..5.4).contains(&run), "mean run {run}, expected 5");
    // Taking the bursts away ends one that is under way.
    link.set_config(LinkConfig {
        burst: Some(GilbertElliott {
            p_good_to_bad: 1.0,
            p_bad_to_good: 0.0,
            ..burst
        }),
        ..perfect()
    });
    link.send(0, 1, t0);
    assert_eq!(link.poll(t0), None);
    link.set_config(perfect());
    link.send(1, 1, t0);
    assert_eq!(link.poll(t0), Some(1));
    // It does not lie in wait for the next bursts either.
    let calm = GilbertElliott {
        p_good_to_bad: 0.0,
        p_bad_to_good: 0.0,
        ..burst
    };
    link.set_config(LinkConfig {
        burst: Some(calm),
        ..perfect()
    });
    link.send(2, 1, t0);
    assert_eq!(link.poll(t0), Some(2));
}

#[test]
fn a_seed_gives_one_course_and_another_seed_another() {
    let t0 = Instant::now();
    let course = |seed| {
        let config = LinkConfig {
            delay: 9 * MS,
            jitter: 5 * MS,
            loss: 0.2,
            duplicate: 0.1,
            reorder: 0.1,
            ..perfect()
        };
        let mut link = Link::new(config, seed);
        for n in 0..500 {
            link.send(n, 100, t0 + n * MS);
        }
        drain(&mut link, t0)
    };
    assert_eq!(course(42), course(42));
    assert_ne!(course(42), course(43));
}

#[test]
fn validate_takes_each_bound() {
    let certain = LinkConfig {
        loss: 1.0,
        duplicate: 1.0,
        reorder: 1.0,
        ..perfect()
    };
    let times = |delay, jitter| LinkConfig {
        delay,
        jitter,
        ..perfect()
    };
    for config in [
        perfect(),
        certain,
        times(DELAY_MAX, DELAY_MAX),
        times(MS, MS),
    ] {
        assert_eq!(config.validate(), Ok(()));
    }
}

#[test]
fn validate_refuses_what_is_no_probability() {
    let refused = |config: LinkConfig| match config.validate() {
        Err(LinkError::Probability { name, .. }) => name,
        other => panic!("{other:?}"),
    };
    for bad in [-f64::EPSILON, 1.0 + f64::EPSILON, f64::NAN, f64::INFINITY] {
        let loss = LinkConfig {
            loss: bad,
            ..perfect()
        };
        assert_eq!(refused(loss), "loss");
        let burst = GilbertElliott {
            p_good_to_bad: 0.1,
            p_bad_to_good: bad,
            loss_in_bad: 1.0,
        };
        let burst = LinkConfig {
            burst: Some(burst),
            ..perfect()
        };
        assert_eq!(refused(burst), "burst.p_bad_to_good");
    }
}

#[test]
fn validate_refuses_what_is_beyond_a_bound() {
    let refused = |config: LinkConfig| config.validate().unwrap_err();
    let long = DELAY_MAX + Duration::from_nanos(1);
    let too_long = LinkConfig {
        delay: long,
        ..perfect()
    };
    let expected = LinkError::TooLong {
        name: "delay",
        value: long,
    };
    assert_eq!(refused(too_long), expected);
    let (delay, jitter) = (MS, 2 * MS);
    let above = LinkConfig {
        delay,
        jitter,
        ..perfect()
    };
    assert_eq!(
        refused(above),
        LinkError::JitterAboveDelay { jitter, delay }
    );
    let no_size = LinkConfig {
        mtu: Some(0),
        ..perfect()
    };
    assert_eq!(refused(no_size), LinkError::Zero { name: "mtu" });
    let no_rate = LinkConfig {
        rate_bytes_per_s: Some(0),
        ..perfect()
    };
    let name = "rate_bytes_per_s";
    assert_eq!(refused(no_rate), LinkError::Zero { name });
}

/// One call on a link.
#[derive(Debug, Clone)]
enum Op {
    Send { len_bytes: usize },
    Wait { ms: u64 },
    Poll { at_most: u8 },
    Set(Box<LinkConfig>),
    Blackhole(bool),
}

/// Settings of all kinds, those that `validate` refuses included: no input may break the books.
fn any_config() -> impl Strategy<Value = LinkConfig> {
    let probability = || prop_oneof![Just(0.0), Just(1.0), Just(f64::NAN), -0.5..1.5f64];
    let time = || {
        prop_oneof![
            Just(Duration::ZERO),
            Just(Duration::MAX),
            (0..200u64).prop_map(Duration::from_millis)
        ]
    };
    let burst = proptest::option::of((probability(), probability(), probability()).prop_map(
        |(p_good_to_bad, p_bad_to_good, loss_in_bad)| GilbertElliott {
            p_good_to_bad,
            p_bad_to_good,
            loss_in_bad,
        },
    ));
    let rate = proptest::option::of(prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        1_000..10_000_000u64
    ]);
    (
        (time(), time(), time(), burst, rate),
        (probability(), probability(), probability()),
        (
            prop_oneof![Just(u64::MAX), 0..100u64],
            proptest::option::of(0..2_000usize),
            0..40usize,
            prop_oneof![Just(usize::MAX), 0..40_000usize],
        ),
    )
        .prop_map(
            |((delay, jitter, reorder_hold, burst, rate), (loss, duplicate, reorder), bounds)| {
                LinkConfig {
                    delay,
                    jitter,
                    reorder_hold,
                    burst,
                    rate_bytes_per_s: rate,
                    loss,
                    duplicate,
                    reorder,
                    queue_ms_max: bounds.0,
                    blackhole: false,
                    mtu: bounds.1,
                    in_flight_max: bounds.2,
                    in_flight_bytes_max: bounds.3,
                }
            },
        )
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => prop_oneof![0..2_000usize, Just(usize::MAX)].prop_map(|len_bytes| Op::Send { len_bytes }),
        3 => (0..100u64).prop_map(|ms| Op::Wait { ms }),
        4 => (0..8u8).prop_map(|at_most| Op::Poll { at_most }),
        1 => any_config().prop_map(|config| Op::Set(Box::new(config))),
        1 => any::<bool>().prop_map(Op::Blackhole),
    ]
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for_after_every_call(
        config in any_config(),
        ops in proptest::collection::vec(any_op(), 0..120),
        seed: u64,
    ) {
        let mut now = Instant::now();
        let mut link = Link::new(config, seed);
        let (mut sent, mut got) = (0u64, 0u64);
        for op in ops {
            match op {
                Op::Send { len_bytes } => {
                    link.send(sent, len_bytes, now);
                    sent += 1;
                }
                Op::Wait { ms } => now += Duration::from_millis(ms),
                Op::Poll { at_most } => {
                    for _ in 0..at_most {
                        let due = link.poll_timeout();
                        let payload = link.poll(now);
                        prop_assert_eq!(payload.is_some(), due.is_some_and(|at| at <= now));
                        got += u64::from(payload.is_some());
                    }
                }
                Op::Set(config) => link.set_config(*config),
                Op::Blackhole(cut) => link.set_blackhole(cut),
            }
            let counters = link.counters();
            prop_assert!(counters.is_conserved(), "{:?}", counters);
            prop_assert_eq!((counters.sent, counters.delivered), (sent, got));
        }
        // Healed and drained, nothing stays behind.
        got += drain(&mut link, now).len() as u64;
        prop_assert_eq!((link.counters().in_flight, link.counters().delivered), (0, got));
        prop_assert_eq!(link.in_flight_bytes, 0);
    }

    #[test]
    fn without_reordering_nothing_overtakes(
        delay in 0..100u64, jitter in 0..100u64, gaps in proptest::collection::vec(0..20u64, 1..80), seed: u64,
    ) {
        let config = LinkConfig {
            delay: Duration::from_millis(delay.max(jitter)),
            jitter: Duration::from_millis(jitter),
            duplicate: 0.2,
            ..perfect()
        };
        let t0 = Instant::now();
        let (mut now, mut link) = (t0, Link::new(config, seed));
        for (n, gap) in gaps.into_iter().enumerate() {
            now += Duration::from_millis(gap);
            link.send(n, 100, now);
        }
        let order: Vec<_> = drain(&mut link, t0).into_iter().map(|(_, n)| n).collect();
        prop_assert!(order.is_sorted());
    }
}
