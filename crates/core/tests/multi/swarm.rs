//! Providers that die, fall silent, stop and come back at random, for days.
//!
//! 200 virtual hours in each run of the tests, over several seeds; more by hand:
//! `QUELL_SWARM_HOURS=1000 cargo test -p quell-core --test multi swarm`.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quell_core::config::ExitPolicy;
use quell_core::health::Signal;
use quell_core::send::Degraded;
use quell_core::status::ClientStatus;
use quell_sim::exits::{Config, Manner, Way, World};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

const S: Duration = Duration::from_secs(1);
const SITE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const EXITS: usize = 8;
const WINDOW_MIN: usize = 2;
/// Of all seeds together.
const HOURS: u64 = 200;
const SEEDS: u64 = 8;

#[derive(Debug, Default)]
struct Switch(AtomicBool);

impl Degraded for Switch {
    fn is_degraded(&self, _: Instant) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What must hold at each look, and what it takes to know.
struct Watch {
    evictions: VecDeque<(Duration, u64)>,
    last: ClientStatus,
}

impl Watch {
    fn new(status: ClientStatus) -> Self {
        Self {
            evictions: VecDeque::new(),
            last: status,
        }
    }

    fn look(&mut self, world: &World, degraded: bool) {
        let (now, status) = (world.elapsed(), world.status());
        let members = status.window.members;
        assert!(members >= WINDOW_MIN, "{members} at {now:?}");
        let evicted = status.window.evictions - self.last.window.evictions;
        let in_doubt = |status: &ClientStatus| status.uplink.as_ref().unwrap().in_doubt;
        if in_doubt(&self.last) && in_doubt(&status) {
            assert_eq!(evicted, 0, "evicted in doubt at {now:?}");
        }
        // Others may have joined within the second; the exact rule has its own tests.
        let before = self.last.window.members as u64;
        let half = (before.max(members as u64 + evicted) / 2).max(1);
        assert!(evicted <= half, "{evicted} of {members} at {now:?}");
        self.evictions.push_back((now, evicted));
        // A look is a second: what a look sees happened within the second before it.
        while self
            .evictions
            .front()
            .is_some_and(|(at, _)| *at + 29 * S < now)
        {
            self.evictions.pop_front();
        }
        let recent: u64 = self.evictions.iter().map(|(_, n)| n).sum();
        assert!(recent <= 2, "{recent} within 30 s at {now:?}");
        if degraded {
            let joined = status.window.joins - self.last.window.joins;
            let grown = status.window.members > self.last.window.members;
            assert!(
                !grown || joined == 0 || draining(world),
                "grew while degraded at {now:?}"
            );
        }
        self.last = status;
    }
}

/// Whether a provider is about to stop: it is made up for before it leaves.
fn draining(world: &World) -> bool {
    (0..EXITS).any(|exit| world.is_draining(exit))
}

fn hours() -> u64 {
    let hours = std::env::var("QUELL_SWARM_HOURS").ok();
    hours.and_then(|hours| hours.parse().ok()).unwrap_or(HOURS)
}

fn misfortune(world: &mut World, rng: &mut SmallRng) {
    let exit = rng.random_range(0..EXITS);
    match rng.random_range(0..7) {
        0 | 1 => world.kill(exit),
        2 => world.set_way(exit, Way::Silent),
        3 => world.set_way(exit, Way::Deaf),
        4 => world.set_way(exit, Way::Refusing),
        5 => world.drain_provider(exit),
        _ => world.drop_connection(exit),
    }
}

fn mend(world: &mut World, exit: usize) {
    world.set_way(exit, Way::Up);
    if !world.is_alive(exit) || world.is_draining(exit) {
        world.restart(exit);
    }
}

fn live_through(seed: u64, policy: ExitPolicy, time: Duration) {
    let switch = Arc::new(Switch::default());
    let mut config = Config::of(EXITS);
    config.seed = seed;
    config.signal = Signal::new(switch.clone());
    config.client.window.exit_policy = policy;
    config.client.window.flows_per_exit = 4;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut world = World::up(config);
    world.forget_what_happens();
    world.outside.set(SITE, Manner::Answers(20 * S / 1_000));
    let mut watch = Watch::new(world.status());
    let mut port = 1_000;
    while world.elapsed() < time {
        match rng.random_range(0..60) {
            0 => misfortune(&mut world, &mut rng),
            1..=2 => mend(&mut world, rng.random_range(0..EXITS)),
            3 => switch.0.store(rng.random(), Ordering::Relaxed),
            4 if rng.random_range(0..10) == 0 => {
                (0..EXITS).for_each(|exit| world.set_way(exit, Way::Silent));
            }
            5 if rng.random_range(0..4) == 0 => {
                (0..EXITS).for_each(|exit| mend(&mut world, exit));
            }
            6 => {
                port = 1_000 + (port + 1) % 50_000;
                world.connect(SITE, port);
            }
            _ => {}
        }
        // A quarter of the time passes second by second, so that nothing hides.
        for _ in 0..rng.random_range(1..20) {
            world.run_for(S);
            watch.look(&world, switch.0.load(Ordering::Relaxed));
        }
        world.outside.take_heard();
        world.forget_users();
    }
    let window = &watch.last.window;
    assert!(
        window.evictions > 0 && window.joins > WINDOW_MIN as u64,
        "nothing happened"
    );
    switch.0.store(false, Ordering::Relaxed);
    heal(&mut world);
}

/// All is well again: every provider is, and within its quarantine's bound none rests.
fn heal(world: &mut World) {
    (0..EXITS).for_each(|exit| mend(world, exit));
    world.run_for(120 * S);
    let status = world.status();
    let usable = status.exits.iter().filter(|exit| exit.is_usable).count();
    assert!(usable >= WINDOW_MIN, "{usable} after two minutes");
    let user = world.connect(SITE, 999);
    world.run_for(S);
    let after = world.user(user).connected_after.unwrap();
    assert!(after <= S, "{after:?}");
    world.run_for(30 * 60 * S);
    for exit in world.status().exits {
        assert!(!exit.window.contains("quarantine"), "{}", exit.window);
    }
    world.check();
}

#[test]
fn providers_that_die_at_random_never_leave_a_client_without_exits() {
    let time = Duration::from_secs(hours() * 3_600 / SEEDS);
    for seed in 0..SEEDS {
        let policy = match seed % 2 {
            0 => ExitPolicy::Sticky,
            _ => ExitPolicy::Spread,
        };
        live_through(seed, policy, time);
    }
}
