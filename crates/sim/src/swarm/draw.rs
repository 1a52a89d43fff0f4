//! A scenario drawn from a number.
//!
//! ```text
//! 0 ── all start ── calm ── one to four faults, some at once ── heal ────────── tail ────────── end
//! ```
//!
//! Faults come first, then all is well: what has not come back within [`converge::bound`] of the heal never will, and is a
//! fault of ours. The tail is that bound and a round of the slowest work, so that "it came back" can be seen.
//!
//! Fleets are small on purpose. What eight clients and eight providers cannot show, a thousand show only as a herd, and for
//! herds there are scenarios of their own; a small world lives through its minutes in a fraction of a second, and ten
//! thousand different ones find more than one that is large.
//!
//! All times are whole milliseconds, so that what is printed as TOML is what was run.

use std::time::Duration;

use quell_core::config::ClientConfig;
use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::check::converge;
use crate::fleet::node::{mixed, rng_of};
use crate::scenario::{
    BackendModel, Bounds, Direction, Fault, FaultKind, Fleet, PathModel, Scenario, Whom, Work,
};

const CLIENTS_MAX: u32 = 8;
/// The longest packet that a path carries before it has found out that its datagrams may be longer.
const LEN_MAX: u16 = 1_280;
const PROVIDERS_MAX: u16 = 8;
const FAULTS_MAX: usize = 4;
/// Everybody has started and found its providers, with time for some packets.
const CALM_MS: std::ops::Range<u64> = 8_000..25_000;
/// From a blip that nobody notices to one and a half lives of a pack.
const FAULT_MS: std::ops::Range<u64> = 200..90_000;
/// Between the beginnings of two faults: most lie over each other.
const NEXT_FAULT_MS: std::ops::Range<u64> = 0..40_000;
const WORDS: &[&str] = &["auth", "catalog", "contract"];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Draws the scenario of a seed. Always the same one, and one that [`Scenario::check`] takes.
#[must_use]
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = rng_of(mixed(seed), 0x0073_7761_726d);
    let fleet = fleet(&mut rng);
    let path = path(&mut rng);
    let calm_ms = rng.random_range(CALM_MS);
    let fault = faults(&mut rng, &fleet, calm_ms);
    let healed = fault.iter().map(Fault::healed_at).max().unwrap_or_default();
    let work = works(&mut rng, healed);
    let mut scenario = Scenario {
        name: format!("swarm-{seed}"),
        summary: format!("drawn by the swarm from seed {seed}"),
        duration: healed,
        fleet,
        path,
        backend: BackendModel {
            answer_time: ms(rng.random_range(5..400)),
            requests_per_s_max: None,
            demand_interval: ms(rng.random_range(10_000..60_000)),
        },
        work,
        fault,
        bounds: Bounds::default(),
        bars: Default::default(),
    };
    let tail = converge::bound(&ClientConfig::default(), &scenario) + slowest(&scenario.work);
    scenario.duration = ms(millis(healed + tail) + 5_000);
    scenario
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The longest time between two packets of what goes on to the end.
fn slowest(works: &[Work]) -> Duration {
    let periods = works.iter().map(|work| match work {
        Work::Messages { every, .. } => *every,
        Work::Burst { .. } | Work::Stream { .. } => Duration::ZERO,
    });
    periods.max().unwrap_or_default()
}

fn fleet(rng: &mut SmallRng) -> Fleet {
    Fleet {
        clients: rng.random_range(1..=CLIENTS_MAX),
        providers: rng.random_range(1..=PROVIDERS_MAX),
        catalog: rng.random_range(1..=6),
        // One backend for most: with several, one that is well hides the others.
        backends: if rng.random_bool(0.8) { 1 } else { 2 },
        start_over: ms(rng.random_range(0..3_000)),
        ..Fleet::default()
    }
}

fn path(rng: &mut SmallRng) -> PathModel {
    let rtt_ms = match rng.random_range(0..10) {
        0..=1 => rng.random_range(1..10),
        2..=7 => rng.random_range(10..120),
        _ => rng.random_range(120..700),
    };
    let jitter_ms = if rng.random_bool(0.5) {
        rng.random_range(0..=rtt_ms / 4)
    } else {
        0
    };
    let loss = if rng.random_bool(0.3) {
        f64::from(rng.random_range(1..=30_u32)) / 1_000.0
    } else {
        0.0
    };
    let rate = rng
        .random_bool(0.3)
        .then(|| rng.random_range(2..=100) * 1_000_000);
    PathModel {
        rtt: ms(rtt_ms),
        jitter: ms(jitter_ms),
        loss,
        rate_bits_per_s: rate,
        queue: ms(rng.random_range(20..200)),
    }
}

/// The first goes on to the end, so that whoever recovers has something to show; the others are for the outage.
fn works(rng: &mut SmallRng, healed: Duration) -> Vec<Work> {
    let mut works = vec![Work::Messages {
        every: ms(rng.random_range(500..8_000)),
        len_bytes: rng.random_range(60..=LEN_MAX),
        answer_bytes: if rng.random_bool(0.5) {
            rng.random_range(60..=LEN_MAX)
        } else {
            0
        },
    }];
    let healed_ms = millis(healed);
    if rng.random_bool(0.5) {
        works.push(Work::Burst {
            at: ms(rng.random_range(3_000..healed_ms)),
            packets: rng.random_range(1..=120),
            len_bytes: rng.random_range(60..=LEN_MAX),
        });
    }
    if rng.random_bool(0.3) {
        let at_ms = rng.random_range(3_000..healed_ms);
        works.push(Work::Stream {
            at: ms(at_ms),
            until: ms(at_ms + rng.random_range(1_000..15_000)),
            bits_per_s: rng.random_range(20_000..400_000),
            len_bytes: rng.random_range(200..=LEN_MAX),
        });
    }
    works
}

fn faults(rng: &mut SmallRng, fleet: &Fleet, calm_ms: u64) -> Vec<Fault> {
    let count = rng.random_range(1..=FAULTS_MAX);
    let mut at_ms = calm_ms;
    let mut faults = Vec::with_capacity(count);
    for _ in 0..count {
        faults.push(fault(rng, fleet, at_ms));
        at_ms += rng.random_range(NEXT_FAULT_MS);
    }
    faults
}

fn fault(rng: &mut SmallRng, fleet: &Fleet, at_ms: u64) -> Fault {
    let kind = kind(rng);
    // Short ones as often as long ones: what is short is told from what is long by other code.
    let span = FAULT_MS.end / FAULT_MS.start;
    let doublings = rng.random_range(0..=span.ilog2());
    let last_ms = (FAULT_MS.start << doublings) + rng.random_range(0..FAULT_MS.start << doublings);
    let last_ms = last_ms.min(FAULT_MS.end);
    let is_rolling = matches!(kind, FaultKind::RollingRestart { .. });
    let flaps = !is_rolling && last_ms >= 1_000 && rng.random_bool(0.2);
    let flap = flaps.then(|| ms(rng.random_range(200..=last_ms.min(20_000))));
    Fault {
        whom: whom(rng, kind.count(fleet)),
        kind,
        at: ms(at_ms),
        until: ms(at_ms + last_ms),
        flap,
    }
}

fn whom(rng: &mut SmallRng, of: u32) -> Whom {
    match rng.random_range(0..4) {
        0..=1 => Whom::default(),
        2 => Whom::Part("50%".to_owned()),
        _ => {
            let some = (0..of).filter(|_| rng.random_bool(0.4)).collect::<Vec<_>>();
            if some.is_empty() {
                return Whom::These(vec![rng.random_range(0..of.max(1))]);
            }
            Whom::These(some)
        }
    }
}

fn kind(rng: &mut SmallRng) -> FaultKind {
    match rng.random_range(0..17) {
        0..=1 => FaultKind::Blackhole {
            direction: Direction::Both,
        },
        2 => FaultKind::Blackhole {
            direction: Direction::Up,
        },
        3 => FaultKind::Blackhole {
            direction: Direction::Down,
        },
        4 => FaultKind::AcksLost,
        5 => FaultKind::DialsRefused,
        6 => FaultKind::ProviderDeath,
        7 => FaultKind::RollingRestart {
            away: ms(rng.random_range(100..20_000)),
        },
        8 => FaultKind::UplinkLoss,
        9 => FaultKind::Suspend,
        10 => FaultKind::SharedNat,
        11 => FaultKind::BackendRefuses,
        12 => FaultKind::BackendSilent,
        13 => FaultKind::BackendSlow {
            answer_time: ms(rng.random_range(1_000..20_000)),
        },
        14 => FaultKind::BackendUnavailable {
            retry_after: rng
                .random_bool(0.5)
                .then(|| ms(rng.random_range(0..60) * 1_000)),
        },
        15 => match rng.random_bool(0.5) {
            true => FaultKind::BackendFails {
                part: f64::from(rng.random_range(1..=10_u32)) / 10.0,
            },
            false => FaultKind::BackendFailsOne {
                work: WORDS[rng.random_range(0..WORDS.len())].to_owned(),
            },
        },
        _ => FaultKind::ClockOff {
            seconds: rng.random_range(-3_600..=3_600),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_draw_is_a_scenario_that_reads_back_as_itself() {
        for seed in 0..500 {
            let drawn = scenario(seed);
            drawn.check().unwrap();
            let text = drawn.to_toml().unwrap();
            assert_eq!(Scenario::from_toml(&text).unwrap(), drawn, "seed {seed}");
            assert_eq!(scenario(seed), drawn, "seed {seed} draws twice the same");
        }
    }

    #[test]
    fn faults_come_first_and_the_tail_holds_the_bound() {
        for seed in 0..500 {
            let drawn = scenario(seed);
            let healed = drawn.fault.iter().map(Fault::healed_at).max().unwrap();
            let bound = converge::bound(&ClientConfig::default(), &drawn);
            assert!(healed + bound <= drawn.duration, "seed {seed}");
            assert!((1..=FAULTS_MAX).contains(&drawn.fault.len()));
            assert!((1..=CLIENTS_MAX).contains(&drawn.fleet.clients));
        }
    }

    #[test]
    fn every_kind_of_fault_is_drawn_and_no_two_seeds_are_alike() {
        let draws: Vec<_> = (0..500).map(scenario).collect();
        let faults = draws.iter().flat_map(|drawn| &drawn.fault);
        let kinds: BTreeSet<_> = faults.map(|fault| fault.kind.name()).collect();
        assert_eq!(kinds.len(), 15, "{kinds:?}");
        let bare = |drawn: &Scenario| format!("{:?}", (&drawn.fleet, &drawn.fault));
        let different: BTreeSet<_> = draws.iter().map(bare).collect();
        assert_eq!(different.len(), draws.len());
    }
}
