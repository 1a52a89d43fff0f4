//! Dials after failures and losses, facts that come late, and a provider that lies.

use std::time::{Duration, Instant};

use quell_core::config::{ClientConfig, DialBudgetConfig};
use quell_core::multi::{Client, Notice, Output};
use quell_core::path::Violation;
use quell_sim::pair::{End, Event, Reach, Way, World, WorldConfig, for_seeds};
use quell_wire::control::Control;
use quell_wire::registry::ErrorCode;

use crate::common::*;

/// Waits between dials that are refused at once, each without the dial itself.
fn waits(world: &mut World, count: usize) -> Vec<Duration> {
    world.run_for(600 * S);
    let dials = dials(&world.take_events());
    let rtt = 20 * MS;
    dials
        .windows(2)
        .take(count)
        .map(|pair| pair[1] - pair[0] - rtt)
        .collect()
}

#[test]
fn refused_dials_wait_five_ten_twenty_forty_sixty_with_jitter_inside_the_cap() {
    // R-17, case B17
    for_seeds(
        "session::dialing::refused_dials_wait_five_ten_twenty_forty_sixty_with_jitter_inside_the_cap",
        40,
        |seed| {
            let mut world = World::new(WorldConfig {
                seed,
                ..WorldConfig::default()
            });
            world.set_reach(Reach::Refusing);
            world.add_client(1);
            let waits = waits(&mut world, 7);
            for (wait, interval) in waits.iter().zip([5, 10, 20, 40, 60, 60, 60]) {
                let interval = interval * S;
                let (low, high) = (interval.mul_f64(0.75), interval.mul_f64(1.25).min(60 * S));
                assert!(
                    *wait >= low && *wait <= high,
                    "{wait:?} is not within {low:?} to {high:?}: {waits:?}"
                );
            }
            assert_eq!(waits.len(), 7);
        },
    );
}

#[test]
fn a_client_is_back_within_the_cap_when_the_provider_is() {
    let mut world = World::up(WorldConfig::default());
    world.set_reach(Reach::Silent);
    world.crash_provider();
    // The keepalive meets a provider that knows nothing of it: a reset, and dials that end in their timeout.
    world.run_for(300 * S);
    assert_ne!(world.client_status(0).state, "up");
    world.set_reach(Reach::Up);
    world.run_for(60 * S + 15 * S);
    assert_eq!(world.client_status(0).state, "up");
}

#[test]
fn a_minute_without_a_network_is_over_within_the_cap() {
    // case B74
    for_seeds(
        "session::dialing::a_minute_without_a_network_is_over_within_the_cap",
        20,
        |seed| {
            // The system refuses each dial at once, so the longest wait is the cap. Where dials hang
            // instead, the quiet minute is full of them: one more comes with the next, spread over 30 s.
            for (reach, wait) in [(Reach::Refusing, 60 * S), (Reach::Silent, 90 * S)] {
                let mut world = World::up(WorldConfig {
                    seed,
                    ..WorldConfig::default()
                });
                world.set_reach(reach);
                world.break_connection(0);
                world.run_for(60 * S);
                assert_ne!(world.client_status(0).state, "up");
                world.set_reach(Reach::Up);
                world.run_for(wait + S);
                let status = world.client_status(0);
                assert_eq!(status.state, "up", "{reach:?}: {}", status.reason);
            }
        },
    );
}

#[test]
fn no_dial_waits_for_the_end_of_a_dead_one() {
    // case B74: nobody ever says that the session's connection or a dial that hangs has ended.
    let mut now = Instant::now();
    let mut client = welcomed_client(welcome(), now);
    let mut dials = 1;
    for _ in 0..1_000 {
        client.on_carrier(EXIT, dials, facts(1_414), now);
        for output in client_outputs(&mut client, now) {
            if let Output::Dial { attempt, .. } = output {
                dials += 1;
                assert_eq!(attempt, dials);
            }
        }
        if dials == 10 {
            return;
        }
        let (at, _) = client.poll_timeout().unwrap();
        now = now.max(at);
        client.handle_timeout(now);
    }
    panic!("{dials} dials: {}", client.status(now).reason);
}

#[test]
fn dials_that_wait_for_the_same_room_do_not_come_together() {
    //
    let start = Instant::now();
    let next_dial = |seed| {
        let config = ClientConfig::default();
        let quiet_bytes = config.quiet.quiet_bytes;
        let mut client = Client::new(config, "test", 1_500, seed, start);
        client_outputs(&mut client, start);
        let now = start + 100 * S;
        client.on_wire(quiet_bytes, now);
        client.on_closed(EXIT, 1, "refused", now);
        client_outputs(&mut client, now);
        let (due, _) = client.poll_timeout().unwrap();
        client.handle_timeout(due);
        let said = client_outputs(&mut client, due);
        assert!(said.is_empty(), "{said:?}");
        let reason = client.status(due).reason;
        assert!(reason.contains("room under the quiet ceiling"), "{reason}");
        client.poll_timeout().unwrap().0 - start
    };
    let dials: Vec<_> = (0..40).map(next_dial).collect();
    // What left in the second 100 counts up to the second 160; then half a minute is theirs.
    let (first, last) = (dials.iter().min().unwrap(), dials.iter().max().unwrap());
    assert!(
        *first >= 160 * S && *last <= 191 * S,
        "{first:?} to {last:?}"
    );
    assert!(*last - *first > 20 * S, "a herd: {dials:?}");
}

#[test]
fn a_stable_session_resets_the_schedule_and_its_first_redial_is_spread_over_a_second() {
    // case B07
    let mut spread = Vec::new();
    for seed in 0..20 {
        let mut world = World::new(WorldConfig {
            seed,
            ..WorldConfig::default()
        });
        world.set_reach(Reach::Refusing);
        world.add_client(1);
        world.run_for(120 * S);
        world.set_reach(Reach::Up);
        world.run_for(90 * S);
        let up = world.client_status(0);
        assert_eq!((up.state, up.sessions), ("up", 1));
        assert!(up.dials >= 5, "{} dials", up.dials);
        world.take_events();

        world.set_reach(Reach::Refusing);
        let gone_at = world.elapsed();
        world.restart_provider();
        world.run_for(60 * S);
        let events = world.take_events();
        let again: Vec<_> = dials(&events)
            .into_iter()
            .map(|at| at - gone_at - 10 * MS)
            .collect();
        assert!(again[0] <= S, "{again:?}");
        let second = again[1] - again[0] - 20 * MS;
        assert!(
            second >= S * 15 / 4 && second <= S * 25 / 4,
            "the schedule went on: {second:?}"
        );
        spread.push(again[0]);
    }
    let (least, most) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
    assert!(*most - *least > S / 2, "a herd: {spread:?}");
}

#[test]
fn a_provider_that_dies_young_is_dialled_ever_more_rarely() {
    // case B06
    let mut world = World::pair(WorldConfig::default());
    let mut dials = 0;
    for _ in 0..3_600 {
        world.run_for(S);
        if world.client_status(0).state == "up" {
            world.restart_provider();
        }
        dials = world.client_status(0).dials;
    }
    assert!((60..=90).contains(&dials), "{dials} dials in an hour");
}

#[test]
fn facts_of_an_earlier_dial_change_nothing() {
    let mut world = World::up(WorldConfig::default());
    world.break_connection(0);
    world.run_for(5 * S);
    world.take_events();
    let before = world.client_status(0);
    assert_eq!((before.state, before.dials), ("up", 2));
    for attempt in [0, 1, 3, u64::MAX] {
        world.tell_stale(0, attempt, &dgram(&inwards(&world, 0, 100)));
    }
    assert_eq!(world.client_status(0), before);
    assert_eq!(world.take_events(), []);
}

#[test]
fn a_dial_that_timed_out_may_answer_late_and_nobody_cares() {
    let t0 = Instant::now();
    let mut client = lone_client(t0);
    client_outputs(&mut client, t0);
    let t1 = t0 + 15 * S;
    client.handle_timeout(t1);
    let said = client_outputs(&mut client, t1);
    let [
        Output::Close { .. },
        Output::Notice {
            notice: Notice::DialFailed { next_dial_in, .. },
            ..
        },
    ] = said.as_slice()
    else {
        panic!("{said:?}");
    };
    client.on_connected(EXIT, 1, t1);
    client.handle_control(EXIT, 1, &on_stream(&Control::Welcome(welcome())), t1);
    client.on_closed(EXIT, 1, "late", t1);
    assert_eq!(client_outputs(&mut client, t1), []);
    assert_eq!(client.poll_timeout(), Some((t1 + *next_dial_in, "dial")));
}

#[test]
fn both_ends_notice_a_silent_cut_by_the_idle_timeout_and_return_when_it_heals() {
    let mut world = World::up(WorldConfig::default());
    world.set_blackhole(Way::Both, true);
    world.run_for(76 * S);
    // The client's first question went unanswered for a minute; the provider asked nothing.
    assert_eq!(world.client_status(0).path(), None);
    assert_eq!(world.provider_status().sessions, []);
    world.set_blackhole(Way::Both, false);
    world.run_for(61 * S);
    assert_eq!(world.client_status(0).state, "up");
}

/// A client that is up hears this on its control stream; how it closes.
fn up_client_to(message: &Control) -> Vec<Output> {
    let now = Instant::now();
    let mut client = welcomed_client(welcome(), now);
    client.handle_control(EXIT, 1, &on_stream(message), now);
    client_outputs(&mut client, now)
}

#[test]
fn a_second_welcome_is_a_breach() {
    let said = up_client_to(&Control::Welcome(welcome()));
    let [
        Output::Close {
            violation: Violation { code, words },
            ..
        },
        Output::Notice {
            notice: Notice::Down { .. },
            ..
        },
    ] = said.as_slice()
    else {
        panic!("{said:?}");
    };
    assert_eq!(
        (*code, words.as_str()),
        (ErrorCode::WrongState, "WELCOME was not expected here")
    );
}

#[test]
fn a_welcome_without_an_address_is_a_breach() {
    let now = Instant::now();
    let mut client = lone_client(now);
    client.on_connected(EXIT, 1, now);
    client_outputs(&mut client, now);
    let mut answer = welcome();
    (answer.ipv4, answer.ipv6) = (None, None);
    client.handle_control(EXIT, 1, &on_stream(&Control::Welcome(answer)), now);
    let said = client_outputs(&mut client, now);
    let [
        Output::Close {
            violation: Violation { code, words },
            ..
        },
        Output::Notice { .. },
    ] = said.as_slice()
    else {
        panic!("{said:?}");
    };
    assert_eq!(
        (*code, words.as_str()),
        (ErrorCode::MalformedControl, "WELCOME gives no address")
    );
}

#[test]
fn a_welcome_with_one_family_serves_that_family() {
    // case B88
    let now = Instant::now();
    for v6 in [false, true] {
        let mut answer = welcome();
        if v6 {
            (answer.ipv4, answer.gateway_ipv4) = (None, None);
        } else {
            (answer.ipv6, answer.gateway_ipv6) = (None, None);
        }
        let mut client = welcomed_client(answer, now);
        client.handle_packet(packet(ip("10.85.0.2"), ip(WORLD_V4), 100), now);
        client.handle_packet(packet(ip("fd71:75e1::2"), ip(WORLD_V6), 200), now);
        let status = client.status(now);
        assert_eq!(
            status
                .tun_drops
                .iter()
                .map(|(reason, n)| (reason.name(), n))
                .collect::<Vec<_>>(),
            [("source_not_assigned", 1)]
        );
        let len = if v6 { 200 } else { 100 };
        let said = client_outputs(&mut client, now);
        assert!(
            matches!(said.as_slice(), [Output::Datagram { bytes: d, .. }] if d.len() >= len && d.len() < len + 4),
            "{said:?}"
        );
    }
}

#[test]
fn packets_for_others_that_a_provider_sends_are_dropped_and_counted() {
    let mut world = World::up(WorldConfig::default());
    let (v4, v6) = inner(&world, 0);
    for (source, destination) in [
        (ip(WORLD_V4), ip("10.85.200.9")),
        (ip(WORLD_V6), ip("fd71:75e1::ffff")),
        (v4, v4),
        (v6, v6),
    ] {
        world.inject_datagram(0, End::Client(0), dgram(&packet(source, destination, 100)));
    }
    world.inject_datagram(0, End::Client(0), dgram(b"\x45"));
    let drops = world.client_status(0).received_drops;
    let drops: Vec<_> = drops.iter().map(|(reason, n)| (reason.name(), n)).collect();
    assert_eq!(
        drops,
        [
            ("malformed", 1),
            ("own_address", 2),
            ("wrong_destination", 2)
        ]
    );
    assert_eq!(world.take_events(), []);
    assert_eq!(world.client_status(0).state, "up");
}

#[test]
fn datagrams_that_overtake_the_welcome_are_counted() {
    let now = Instant::now();
    let mut client = lone_client(now);
    client.on_connected(EXIT, 1, now);
    client.handle_datagram(
        EXIT,
        1,
        &dgram(&packet(ip(WORLD_V4), ip("10.85.0.2"), 100)),
        now,
    );
    assert_eq!(client.status(now).early_datagrams, 1);
    client.handle_datagram(EXIT, 9, &dgram(b""), now);
    assert_eq!(client.status(now).early_datagrams, 1, "of another dial");
}

#[test]
fn packets_without_a_session_are_taken_dropped_and_counted() {
    let mut world = World::new(WorldConfig::default());
    world.set_reach(Reach::Silent);
    world.add_client(1);
    assert!(world.wants_packets(0));
    world.inject(End::Client(0), packet(ip("10.85.0.2"), ip(WORLD_V4), 100));
    let status = world.client_status(0);
    assert_eq!((status.tun_packets, status.tun_drops.total()), (1, 1));
    assert_eq!(
        status.tun_drops.iter().next().unwrap().0.name(),
        "no_tunnel"
    );
    assert!(matches!(
        world.take_events().as_slice(),
        [(_, Event::Dial { .. })]
    ));
}

#[test]
fn a_dial_that_the_budget_denies_gives_its_room_back() {
    //
    let mut now = Instant::now();
    let config = ClientConfig {
        dials: DialBudgetConfig {
            dial_interval: Duration::from_secs(600),
            dial_burst: 1,
        },
        ..ClientConfig::default()
    };
    let mut client = Client::new(config, "test", 1_500, 7, now);
    client_outputs(&mut client, now);
    client.on_closed(EXIT, 1, "refused", now);
    now += Duration::from_secs(100);
    for _ in 0..5 {
        client.on_wake(now);
        client.handle_timeout(now);
        client_outputs(&mut client, now);
        now += Duration::from_secs(1);
    }
    let status = client.status(now);
    assert_eq!((status.dials, status.quiet.minute_bytes), (1, 0));
    assert!(
        status
            .reason
            .ends_with("; the next dial waits for the budget of dials"),
        "{}",
        status.reason
    );
}
