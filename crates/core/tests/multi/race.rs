//! Races: over how many exits a connection is opened, who wins, and what losers hear.
//!
//! Six providers and a user's TCP with its real schedule: SYNs at 0, 1, 3, 7, 15, 31 s.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_core::config::Raced;
use quell_core::health::Signal;
use quell_core::send::Degraded;
use quell_sim::exits::{Config, Heard, Manner, Way, World};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const SITE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

/// A window of all six: races must not depend on how many there are.
fn six() -> Config {
    let mut config = Config::of(6);
    config.client.window.window_min = 6;
    config
}

fn up(config: Config, manner: Manner) -> World {
    let mut world = World::up(config);
    world.outside.set(SITE, manner);
    world
}

/// Behind which exits SYNs arrived, and when.
fn syns(world: &mut World) -> Vec<(Duration, usize)> {
    let heard = world.outside.take_heard();
    let syn = |(at, exit, heard, _)| (heard == Heard::Syn).then_some((at, exit));
    heard.into_iter().filter_map(syn).collect()
}

fn main_exit(world: &World) -> usize {
    world.status().main_exit
}

#[derive(Debug)]
struct Always;

impl Degraded for Always {
    fn is_degraded(&self, _: Instant) -> bool {
        true
    }
}

#[test]
fn a_destination_that_answers_gets_one_copy() {
    //
    let mut world = up(six(), Manner::Answers(20 * MS));
    let user = world.connect(SITE, 1_000);
    world.run_for(60 * S);
    assert_eq!(world.user(user).connected_after, Some(40 * MS));
    assert_eq!(syns(&mut world).len(), 1);
    let races = world.status().races;
    assert_eq!((races.races, races.copies, races.hedges), (1, 1, 0));
}

#[test]
fn a_far_but_healthy_destination_draws_no_second_copy() {
    //
    let mut world = up(six(), Manner::Answers(900 * MS));
    let user = world.connect(SITE, 1_000);
    world.run_for(60 * S);
    assert_eq!(world.user(user).connected_after, Some(920 * MS));
    assert_eq!(syns(&mut world).len(), 1);
    assert_eq!(world.status().extra_copies, 0);
}

#[test]
fn silence_draws_one_copy_a_syn_and_never_more_than_two_live() {
    //
    let mut world = up(six(), Manner::Silent);
    let user = world.connect(SITE, 1_000);
    let mut most = 0;
    for _ in 0..600 {
        world.run_for(100 * MS);
        most = most.max(world.live_copies(user));
    }
    let sent = syns(&mut world);
    let user_syns = usize::try_from(world.user(user).syns).unwrap();
    assert_eq!((user_syns, most), (6, 2));
    assert_eq!(sent.len(), user_syns, "{sent:?}");
    assert_eq!(world.status().races.races, 1, "silence starts no race");
    assert_ne!(sent[0].1, sent[1].1);
}

#[test]
fn while_degraded_one_copy_is_live_and_each_syn_takes_another_exit() {
    //
    let mut config = six();
    config.signal = Signal::new(Arc::new(Always));
    let mut world = up(config, Manner::Silent);
    let user = world.connect(SITE, 1_000);
    let mut most = 0;
    for _ in 0..600 {
        world.run_for(100 * MS);
        most = most.max(world.live_copies(user));
    }
    let sent = syns(&mut world);
    assert_eq!((sent.len(), most), (6, 1));
    assert!(
        sent.windows(2).all(|pair| pair[0].1 != pair[1].1),
        "{sent:?}"
    );
}

#[test]
fn an_exit_that_swallows_is_hedged_after_the_delay_and_not_before() {
    let mut world = up(six(), Manner::Answers(20 * MS));
    let first = main_exit(&world);
    world.set_way(first, Way::Silent);
    let user = world.connect(SITE, 1_000);
    world.run_for(249 * MS);
    assert_eq!(world.status().races.copies, 1);
    world.run_for(MS);
    assert_eq!(world.status().races.hedges, 1);
    world.run_for(10 * S);
    let after = world.user(user).connected_after;
    assert_eq!(after, Some(290 * MS));
    assert_eq!(syns(&mut world).len(), 1);
}

#[test]
fn while_degraded_nothing_is_hedged_and_the_users_next_syn_goes_elsewhere() {
    let mut config = six();
    config.signal = Signal::new(Arc::new(Always));
    let mut world = up(config, Manner::Answers(20 * MS));
    let first = main_exit(&world);
    world.set_way(first, Way::Silent);
    let user = world.connect(SITE, 1_000);
    world.run_for(10 * S);
    assert_eq!(world.status().races.hedges, 0);
    let after = world.user(user).connected_after.unwrap();
    assert!(after <= 1_100 * MS, "{after:?}");
}

#[test]
fn two_dead_exits_cost_no_more_copies_than_syns_and_one() {
    let mut world = up(six(), Manner::Answers(20 * MS));
    let first = main_exit(&world);
    let others = (0..6).filter(|exit| *exit != first);
    world.set_way(first, Way::Silent);
    // Whichever is next.
    for exit in others.take(4) {
        world.set_way(exit, Way::Silent);
    }
    let user = world.connect(SITE, 1_000);
    world.run_for(60 * S);
    let user = world.user(user);
    assert!(user.connected_after.is_some(), "{user:?}");
    let copies = world.status().races.copies;
    assert!(copies <= u64::from(user.syns) + 1, "{copies} of {user:?}");
}

#[test]
fn the_loser_is_told_and_its_destination_sees_a_reset() {
    let mut world = up(six(), Manner::Silent);
    let user = world.connect(SITE, 1_000);
    world.run_for(1_500 * MS);
    let sent = syns(&mut world);
    let [(_, first), (_, second)] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    // Both answer, the second one first.
    world.answer(*second, user);
    world.run_for(50 * MS);
    world.answer(*first, user);
    world.run_for(5 * S);
    let heard = world.outside.take_heard();
    let resets: Vec<_> = heard.iter().filter(|h| h.2 == Heard::Reset).collect();
    assert!(world.user(user).connected_after.is_some());
    assert_eq!(world.user(user).reset_after, None);
    assert!(
        !resets.is_empty() && resets.iter().all(|reset| reset.1 == *first),
        "{heard:?}"
    );
    assert_eq!(world.status().races.won_by_another, 1);
}

#[test]
fn answers_that_come_together_leave_one_winner() {
    let mut config = six();
    config.client.racer.hedge_delay = 50 * MS;
    let mut world = up(config, Manner::Silent);
    let user = world.connect(SITE, 1_000);
    world.run_for(1_100 * MS);
    let sent = syns(&mut world);
    for (_, exit) in &sent {
        world.answer(*exit, user);
    }
    world.run_for(5 * S);
    assert!(world.user(user).connected_after.is_some());
    assert_eq!(world.user(user).reset_after, None);
    world.speak(user);
    world.run_for(S);
    let heard = world.outside.take_heard();
    let of = |what| {
        heard
            .iter()
            .filter(|h| h.2 == what)
            .map(|h| h.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(Heard::Segment).len(), 2, "{heard:?}");
    assert!(
        of(Heard::Reset)
            .iter()
            .all(|exit| *exit != of(Heard::Segment)[0])
    );
}

#[test]
fn a_refusal_waits_for_the_other_copy_and_is_passed_on_when_it_was_the_last() {
    let mut world = up(six(), Manner::Refuses(20 * MS));
    let user = world.connect(SITE, 1_000);
    world.run_for(S / 2);
    assert_eq!(world.user(user).reset_after, Some(40 * MS), "the only copy");

    let mut world = up(six(), Manner::Silent);
    let user = world.connect(SITE, 1_000);
    world.run_for(1_500 * MS);
    let sent = syns(&mut world);
    world.refuse(sent[0].1, user);
    world.run_for(S);
    assert_eq!(
        world.user(user).reset_after,
        None,
        "the other may still answer"
    );
    world.answer(sent[1].1, user);
    world.run_for(100 * MS);
    assert!(world.user(user).connected_after.is_some());
}

#[test]
fn a_refusal_that_waits_is_passed_on_at_the_users_next_syn() {
    let mut world = up(six(), Manner::Silent);
    let user = world.connect(SITE, 1_000);
    world.run_for(1_500 * MS);
    let sent = syns(&mut world);
    world.refuse(sent[0].1, user);
    world.run_for(1_400 * MS);
    assert_eq!(world.user(user).reset_after, None);
    world.run_for(200 * MS);
    let after = world.user(user).reset_after.unwrap();
    assert_eq!(after, 3 * S);
}

#[test]
fn an_exit_that_fails_is_replaced_at_once() {
    // case B68
    let mut world = up(six(), Manner::Silent);
    let first = main_exit(&world);
    let user = world.connect(SITE, 1_000);
    world.run_for(300 * MS);
    world.outside.set(SITE, Manner::Answers(20 * MS));
    world.drop_connection(first);
    world.run_for(100 * MS);
    assert_eq!(world.status().races.after_failures, 1);
    assert!(world.user(user).connected_after.unwrap() < 400 * MS);
}

#[test]
fn an_aborted_connection_leaves_no_copy_behind() {
    // case B68
    let mut world = up(six(), Manner::Silent);
    let user = world.connect(SITE, 1_000);
    world.run_for(1_500 * MS);
    let sent = syns(&mut world);
    world.abort(user);
    world.run_for(S);
    assert_eq!(world.live_copies(user), 0);
    world.answer(sent[0].1, user);
    world.answer(sent[1].1, user);
    world.run_for(S);
    let heard = world.outside.take_heard();
    let resets: std::collections::BTreeSet<_> = heard
        .iter()
        .filter(|h| h.2 == Heard::Reset)
        .map(|h| h.1)
        .collect();
    assert_eq!(resets.len(), 2, "{heard:?}");
}

#[test]
fn races_that_are_off_send_one_copy_over_one_exit() {
    let mut config = six();
    config.client.racer.race = Raced::Off;
    let mut world = up(config, Manner::Silent);
    world.connect(SITE, 1_000);
    world.run_for(60 * S);
    let sent = syns(&mut world);
    assert!(
        sent.windows(2).all(|pair| pair[0].1 == pair[1].1),
        "{sent:?}"
    );
    assert_eq!(world.status().races.races, 0);
}

#[test]
fn extra_copies_keep_to_their_budget() {
    // every exit swallows, a hundred connections a second ask.
    let mut world = up(six(), Manner::Silent);
    for exit in 0..6 {
        world.set_way(exit, Way::Silent);
    }
    for port in 0..100 {
        world.connect(SITE, 1_000 + port);
    }
    world.run_for(900 * MS);
    let status = world.status();
    // A fifth of the hundred, and twenty.
    assert!(status.extra_copies <= 40, "{}", status.extra_copies);
    assert!(status.races.denied > 0);
}
