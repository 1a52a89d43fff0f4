//! Each wait at its last moment and the next.
#![allow(clippy::unwrap_used)]

use super::*;

const NS: Duration = Duration::from_nanos(1);
const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A path of this round trip, measured often enough that only the floors are left of its variance.
fn measured(role: Role, rtt: Duration, t0: Instant) -> PathHealth {
    let lane = LaneConfig {
        ack_timeout: 600 * S,
        ..LaneConfig::default()
    };
    let mut health = PathHealth::new(PathHealthConfig::default(), &lane, role, 7);
    (0..40).for_each(|_| health.on_rtt(rtt, Duration::ZERO, t0));
    health
}

/// 50 + 1 + 10 ms.
const PTO: Duration = Duration::from_millis(61);

fn well() -> (PathHealth, Instant) {
    let t0 = Instant::now();
    (measured(Role::Client, 50 * MS, t0), t0)
}

#[test]
fn two_timeouts_without_a_frame_hush_and_any_frame_ends_it() {
    let (mut health, t0) = well();
    health.on_departed(Departed::Pack, t0);
    health.on_departed(Departed::Pack, t0 + PTO);
    assert!(!health.is_hushed(t0 + 2 * PTO - NS));
    assert!(health.is_hushed(t0 + 2 * PTO));
    health.on_heard(true, t0 + 3 * PTO);
    assert!(!health.is_hushed(t0 + 3 * PTO));
    assert!(!health.is_hushed(t0 + 5 * PTO - NS));
    assert!(health.is_hushed(t0 + 5 * PTO));
}

#[test]
fn a_path_that_owes_nothing_is_well_for_ever() {
    let (mut health, t0) = well();
    health.on_departed(Departed::Pack, t0);
    health.on_progress(false, t0 + 50 * MS);
    health.on_heard(false, t0 + 50 * MS);
    assert!(!health.is_hushed(t0 + 3_600 * S));
    assert_eq!(health.poll_timeout(false), None);
}

fn feed(health: &mut PathHealth, packets: u32, now: Instant) {
    for _ in 0..packets {
        health.on_fed();
        health.on_heard(false, now);
    }
}

#[test]
fn a_client_whose_packets_stop_coming_asks_once_for_each_sixteen() {
    let (mut health, t0) = well();
    feed(&mut health, 15, t0);
    assert_eq!(health.poll_timeout(false), None);
    feed(&mut health, 1, t0 + MS);
    let at = t0 + 251 * MS;
    assert_eq!(health.poll_timeout(false), Some((at, "ask")));
    // While more come, and while packs of its own ask, there is no question.
    feed(&mut health, 1, t0 + 100 * MS);
    assert_eq!(health.poll_timeout(true), None);
    let at = t0 + 350 * MS;
    assert!(!health.handle_timeout(false, at - NS).ping);
    assert!(health.handle_timeout(false, at).ping);
    assert!(
        !health.handle_timeout(false, at + S).ping,
        "it has not left"
    );
    health.on_departed(Departed::Ping, at + MS);
    health.on_pong(false, at + 51 * MS);
    health.on_heard(false, at + 51 * MS);
    assert_eq!(health.poll_timeout(false), None);
    feed(&mut health, 15, at + S);
    assert_eq!(health.poll_timeout(false), None);
    feed(&mut health, 1, at + S);
    assert_eq!(health.poll_timeout(false), Some((at + S + 250 * MS, "ask")));
}

#[test]
fn a_provider_and_another_connection_ask_nothing_about_what_came() {
    let t0 = Instant::now();
    let mut provider = measured(Role::Provider, 50 * MS, t0);
    feed(&mut provider, 1_000, t0);
    assert_eq!(provider.poll_timeout(false), None);
    let (mut client, t0) = well();
    feed(&mut client, 1_000, t0);
    client.suspend(t0);
    client.end_suspension();
    client.on_heard(false, t0);
    assert_eq!(client.poll_timeout(false), None);
}

#[test]
fn a_stall_takes_three_timeouts_a_second_and_twice_the_largest_round_trip() {
    // A second is longest on a short path, three timeouts (of rtt + 1 + 10 ms) on a long one.
    for (rtt_ms, wait) in [(50, S), (400, 3 * 411 * MS)] {
        let t0 = Instant::now();
        let mut health = measured(Role::Client, MS * rtt_ms, t0);
        health.on_departed(Departed::Pack, t0);
        // Frames come, but nothing is acknowledged.
        health.on_heard(true, t0 + wait / 2);
        let before = health.handle_timeout(true, t0 + wait - NS);
        assert_eq!(
            (before.pause, health.is_stalled()),
            (false, false),
            "{rtt_ms}"
        );
        let at = health.handle_timeout(true, t0 + wait);
        assert_eq!((at.pause, health.is_stalled()), (true, true), "{rtt_ms}");
        assert_eq!(health.stalls(), 1);
    }
}

#[test]
fn a_large_round_trip_of_late_makes_a_stall_wait() {
    let t0 = Instant::now();
    let mut health = measured(Role::Client, 2 * S, t0);
    (0..100).for_each(|_| health.on_rtt(50 * MS, Duration::ZERO, t0));
    health.on_departed(Departed::Pack, t0);
    assert!(!health.handle_timeout(true, t0 + 4 * S - NS).pause);
    assert!(health.handle_timeout(true, t0 + 4 * S).pause);
    // Twenty seconds later it is forgotten.
    health.on_progress(false, t0 + 5 * S);
    for at in [10, 20, 21] {
        health.on_rtt(50 * MS, Duration::ZERO, t0 + at * S);
    }
    health.on_departed(Departed::Pack, t0 + 30 * S);
    assert!(health.handle_timeout(true, t0 + 31 * S).pause);
}

fn stalled(role: Role) -> (PathHealth, Instant) {
    let t0 = Instant::now();
    let mut health = measured(role, 50 * MS, t0);
    health.on_departed(Departed::Pack, t0);
    health.on_departed(Departed::Resend, t0 + S / 2);
    let change = health.handle_timeout(true, t0 + S);
    assert!(change.pause);
    assert_eq!(change.ping, role == Role::Client, "a client asks at once");
    (health, t0 + S)
}

fn pings(health: &mut PathHealth, until: Instant) -> Vec<Instant> {
    let mut pings = Vec::new();
    while let Some((at, _)) = health.poll_timeout(true).filter(|(at, _)| *at <= until) {
        if health.handle_timeout(true, at).ping {
            pings.push(at);
            health.on_departed(Departed::Ping, at);
        }
    }
    pings
}

#[test]
fn a_stalled_client_asks_every_600_to_800_ms_for_two_minutes_then_every_5_s() {
    let (mut health, t0) = stalled(Role::Client);
    let pings = pings(&mut health, t0 + 300 * S);
    let waits: Vec<_> = pings.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let eager = pings.iter().filter(|at| **at < t0 + 120 * S).count();
    assert!((150..=200).contains(&eager), "{eager}");
    let in_range = |wait: &&Duration| (600 * MS..=800 * MS).contains(*wait);
    assert!(waits[..eager - 1].iter().all(|wait| in_range(&wait)));
    assert!(waits[eager..].iter().all(|wait| *wait == 5 * S));
    let distinct: std::collections::BTreeSet<_> = waits[..eager - 1].iter().collect();
    assert!(distinct.len() > 100, "drawn, not fixed");
}

#[test]
fn a_stalled_provider_asks_ever_more_rarely_up_to_5_s() {
    let (mut health, t0) = stalled(Role::Provider);
    let pings = pings(&mut health, t0 + 60 * S);
    let waits: Vec<_> = pings.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((600 * MS..=800 * MS).contains(&(pings[0] - t0)));
    for (wait, factor) in waits.iter().zip([2, 4]) {
        assert!((600 * factor * MS..=800 * factor * MS).contains(wait));
    }
    assert!(waits[2] >= 4_800 * MS);
    assert!(waits[3..].iter().all(|wait| *wait == 5 * S));
}

#[test]
fn a_path_is_gone_when_nothing_made_progress_for_the_whole_ack_timeout() {
    for (role, patience) in [(Role::Client, 600 * S), (Role::Provider, 605 * S)] {
        let (mut health, stalled_at) = stalled(role);
        let since = stalled_at - S;
        // Frames that acknowledge nothing are no progress.
        health.on_heard(true, since + 300 * S);
        assert!(!health.is_gone(since + patience - NS));
        assert!(health.is_gone(since + patience));
        health.on_progress(true, since + patience - NS);
        assert!(
            !health.is_gone(since + patience),
            "an answer came just in time"
        );
    }
    let (mut health, t0) = well();
    assert!(!health.is_gone(t0 + 10_000 * S), "nothing was asked");
    health.on_departed(Departed::Dgram, t0);
    assert!(!health.is_gone(t0 + 10_000 * S), "nobody answers that");
}

#[test]
fn demand_and_inbound_frames_prompt_a_question_once_a_second() {
    let (mut health, t0) = stalled(Role::Client);
    assert!(health.on_demand(t0).ping);
    assert!(!health.on_demand(t0 + S - NS).ping);
    assert!(!health.on_heard(true, t0 + S - NS).ping);
    assert!(health.on_heard(true, t0 + S).ping);
    let (mut health, t0) = well();
    assert!(
        !health.on_demand(t0).ping,
        "a path that is well is not asked"
    );
}

#[test]
fn an_answer_or_progress_ends_a_stall_at_once() {
    let (mut health, t0) = stalled(Role::Client);
    health.on_departed(Departed::Ping, t0);
    assert!(health.on_pong(true, t0 + S).resume);
    assert!(!health.is_stalled() && !health.is_hushed(t0 + S));
    let (mut health, t0) = stalled(Role::Client);
    assert!(health.on_progress(true, t0 + S).resume);
    assert!(!health.is_stalled());
    assert!(!health.on_progress(true, t0 + S).resume, "once");
}

#[test]
fn a_path_without_acknowledgements_asks_after_a_quarter_of_a_second_and_ever_more_rarely() {
    let (mut health, t0) = well();
    health.on_departed(Departed::Dgram, t0);
    health.on_departed(Departed::Dgram, t0 + 100 * MS);
    let asked = t0 + 250 * MS;
    assert!(!health.handle_timeout(false, asked - NS).ping);
    assert!(health.handle_timeout(false, asked).ping);
    assert_eq!(health.asks_at(false), None, "not again before it has left");
    health.on_departed(Departed::Ping, asked);
    // k = 0 is one timeout, then doubled.
    let mut at = asked;
    for factor in [1, 2, 4, 8] {
        at += PTO * factor;
        assert!(!health.handle_timeout(false, at - NS).ping);
        assert!(health.handle_timeout(false, at).ping, "{factor}");
        health.on_departed(Departed::Ping, at);
        if factor == 2 {
            assert!(health.is_hushed(at), "nothing is sent into the silence");
        }
    }
    // The stall begins a second after the first question left.
    assert!(health.handle_timeout(false, asked + S).pause);
}

#[test]
fn a_slow_path_asks_after_its_own_timeout() {
    let t0 = Instant::now();
    let mut health = measured(Role::Client, 600 * MS, t0);
    health.on_departed(Departed::Dgram, t0);
    let pto = health.rtt.pto();
    assert!(pto > 600 * MS);
    assert!(!health.handle_timeout(false, t0 + pto - NS).ping);
    assert!(health.handle_timeout(false, t0 + pto).ping);
}

#[test]
fn packs_that_are_unacknowledged_ask_for_themselves() {
    let (mut health, t0) = well();
    health.on_departed(Departed::Dgram, t0);
    health.on_departed(Departed::Pack, t0);
    assert!(!health.handle_timeout(true, t0 + 900 * MS).ping);
}

/// A round: something is resent, and a PING is answered.
fn round(health: &mut PathHealth, at: Instant) {
    health.on_departed(Departed::Resend, at);
    health.on_departed(Departed::Ping, at);
    health.on_pong(true, at + 50 * MS);
}

#[test]
fn three_rounds_over_three_seconds_are_death_and_neither_alone() {
    let (mut health, t0) = well();
    for at in [0, 1, 2] {
        round(&mut health, t0 + at * S);
    }
    let first = t0 + 50 * MS;
    assert!(!health.is_dead(first + 3 * S - NS), "three rounds");
    assert!(health.is_dead(first + 3 * S));
    let (mut health, t0) = well();
    round(&mut health, t0);
    round(&mut health, t0 + 10 * S);
    assert!(!health.is_dead(t0 + 20 * S), "two rounds");
}

#[test]
fn progress_and_rounds_without_a_resend_are_no_death() {
    let (mut health, t0) = well();
    round(&mut health, t0);
    round(&mut health, t0 + S);
    health.on_progress(true, t0 + 2 * S);
    round(&mut health, t0 + 4 * S);
    assert!(!health.is_dead(t0 + 5 * S), "it begins anew");
    let (mut health, t0) = well();
    for at in 0..10 {
        health.on_departed(Departed::Ping, t0 + at * S);
        health.on_pong(true, t0 + at * S + 50 * MS);
    }
    assert!(!health.is_dead(t0 + 10 * S));
}
