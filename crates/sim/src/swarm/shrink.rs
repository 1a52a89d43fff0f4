//! From a scenario that fails to a small one that fails too.
//!
//! ```text
//! pass: for each way of making it smaller ── still fails? ── yes: take it, try the same way again
//!                                                        └── no: leave it
//! until a pass changes nothing, or the runs are spent
//! ```
//!
//! What goes first goes furthest: a fault, a work, half of the clients. Numbers are rounded at the very end, when each run
//! is cheap. Every candidate is a scenario that [`Scenario::check`] takes, so what is printed can be run again; and each that
//! is taken has fallen in `weight`, so a pass cannot go round in circles.
//!
//! Which complaint is meant is the predicate's business. One that asks for the same checker keeps a shrinking from sliding
//! from a rare fault into a common one.

use std::time::Duration;

use crate::scenario::{Fault, FaultKind, Scenario, Whom, Work};

/// Most runs of one shrinking: a few minutes of a world that takes a second.
pub const RUNS_MAX: usize = 300;

const SECOND: Duration = Duration::from_secs(1);

/// What became of a scenario that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrunk {
    /// It fails still.
    pub scenario: Scenario,
    /// Candidates that were run.
    pub runs: usize,
}

/// Makes a scenario that fails smaller, as long as `fails` says that it fails still; at most `runs_max` questions.
pub fn shrink(
    scenario: &Scenario,
    runs_max: usize,
    fails: &mut dyn FnMut(&Scenario) -> bool,
) -> Shrunk {
    let mut best = scenario.clone();
    let mut runs = 0;
    loop {
        let before = weight(&best);
        for step in STEPS {
            take(&mut best, step, (&mut runs, runs_max), fails);
        }
        if runs >= runs_max || weight(&best) >= before {
            break;
        }
    }
    Shrunk {
        scenario: best,
        runs,
    }
}

/// Tries all candidates of one way, and begins anew with each that fails.
fn take(
    best: &mut Scenario,
    step: &Step,
    (runs, runs_max): (&mut usize, usize),
    fails: &mut dyn FnMut(&Scenario) -> bool,
) {
    let mut from = 0;
    while *runs < runs_max {
        let candidates = step(best);
        let Some(candidate) = candidates.into_iter().nth(from) else {
            return;
        };
        let candidate = whole(candidate);
        if candidate.check().is_err() || weight(&candidate) >= weight(best) {
            from += 1;
            continue;
        }
        *runs += 1;
        if fails(&candidate) {
            *best = candidate;
        } else {
            from += 1;
        }
    }
}

/// A way of making a scenario smaller: each candidate, the boldest first.
type Step = fn(&Scenario) -> Vec<Scenario>;

const STEPS: &[Step] = &[
    without_a_fault,
    without_a_work,
    fewer_clients,
    fewer_providers,
    without_flaps,
    simpler_path,
    fewer_packets,
    shorter_faults,
    earlier,
    fewer_befallen,
    all_at_once,
    shorter_run,
    rounded,
];

/// How large a scenario is: what a person has to read, then what a run costs.
fn weight(scenario: &Scenario) -> u128 {
    let ms = |time: Duration| time.as_millis();
    let fleet = &scenario.fleet;
    let faults = scenario.fault.iter().map(|fault| {
        let odd = u128::from(is_odd(fault.at)) + u128::from(is_odd(fault.until));
        let flap = fault.flap.map_or(0, |_| 2_000_000);
        ms(fault.until) + ms(fault.at) / 2 + odd * 500 + flap + befallen(fault, scenario) * 1_000
    });
    let works = scenario.work.iter().map(|work| match work {
        Work::Messages { answer_bytes, .. } => u128::from(*answer_bytes),
        Work::Burst { at, packets, .. } => ms(*at) / 2 + u128::from(*packets) * 1_000,
        Work::Stream { at, until, .. } => ms(*at) / 2 + ms(*until) * 2,
    });
    let path = &scenario.path;
    let loss = u128::from(path.loss > 0.0);
    let rate = u128::from(path.rate_bits_per_s.is_some());
    let jitter = u128::from(!path.jitter.is_zero());
    let start = u128::from(!fleet.start_over.is_zero());
    let count = scenario.fault.len() * 4 + scenario.work.len() * 3;
    count as u128 * 1_000_000_000
        + u128::from(fleet.clients) * 100_000_000
        + u128::from(fleet.providers) * 100_000_000
        + u128::from(fleet.backends) * 10_000_000
        + (loss + rate + jitter + start) * 5_000_000
        + u128::from(is_odd(path.rtt)) * 500
        + ms(scenario.duration)
        + faults.sum::<u128>()
        + works.sum::<u128>()
}

fn befallen(fault: &Fault, scenario: &Scenario) -> u128 {
    let of = fault.kind.count(&scenario.fleet);
    match &fault.whom {
        Whom::Part(_) => 1,
        Whom::These(_) => 1 + fault.whom.members(of).iter().count() as u128,
    }
}

fn is_odd(time: Duration) -> bool {
    !time.as_millis().is_multiple_of(1_000)
}

/// A client or a provider that is gone cannot be befallen, and a time after the end is none.
fn whole(mut scenario: Scenario) -> Scenario {
    let fleet = scenario.fleet.clone();
    for fault in &mut scenario.fault {
        let of = fault.kind.count(&fleet);
        if let Whom::These(numbers) = &mut fault.whom {
            numbers.retain(|number| *number < of);
        }
    }
    scenario.fault.retain(|fault| {
        let nobody = matches!(&fault.whom, Whom::These(numbers) if numbers.is_empty());
        !nobody && fault.kind.count(&fleet) > 0
    });
    scenario
}

fn with(scenario: &Scenario, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut changed = scenario.clone();
    change(&mut changed);
    changed
}

fn without_a_fault(scenario: &Scenario) -> Vec<Scenario> {
    let places = 0..scenario.fault.len();
    places
        .map(|place| {
            with(scenario, |s| {
                s.fault.remove(place);
            })
        })
        .collect()
}

fn without_a_work(scenario: &Scenario) -> Vec<Scenario> {
    let places = 0..scenario.work.len();
    places
        .map(|place| {
            with(scenario, |s| {
                s.work.remove(place);
            })
        })
        .collect()
}

fn fewer_clients(scenario: &Scenario) -> Vec<Scenario> {
    let clients = scenario.fleet.clients;
    let fewer = [1, clients / 2, clients.saturating_sub(1)];
    let fewer = fewer.into_iter().filter(|count| *count >= 1);
    fewer
        .map(|count| with(scenario, |s| s.fleet.clients = count))
        .collect()
}

fn fewer_providers(scenario: &Scenario) -> Vec<Scenario> {
    let providers = scenario.fleet.providers;
    let fewer = [1, providers / 2, providers.saturating_sub(1)];
    let fewer = fewer.into_iter().filter(|count| *count >= 1);
    let mut candidates: Vec<_> = fewer
        .map(|count| with(scenario, |s| s.fleet.providers = count))
        .collect();
    candidates.extend([0, 1].map(|count| with(scenario, |s| s.fleet.backends = count)));
    candidates
}

fn without_flaps(scenario: &Scenario) -> Vec<Scenario> {
    each_fault(scenario, |fault| fault.flap = None)
}

fn simpler_path(scenario: &Scenario) -> Vec<Scenario> {
    vec![
        with(scenario, |s| s.path.loss = 0.0),
        with(scenario, |s| s.path.jitter = Duration::ZERO),
        with(scenario, |s| s.path.rate_bits_per_s = None),
        with(scenario, |s| s.fleet.start_over = Duration::ZERO),
    ]
}

fn fewer_packets(scenario: &Scenario) -> Vec<Scenario> {
    let mut candidates = Vec::new();
    for place in 0..scenario.work.len() {
        for part in [8, 2] {
            candidates.push(with(scenario, |s| match &mut s.work[place] {
                Work::Messages { answer_bytes, .. } => *answer_bytes = 0,
                Work::Burst { packets, .. } => *packets = (*packets / part).max(1),
                Work::Stream { at, until, .. } => {
                    *until = *at + rounded_time((*until - *at) / part);
                }
            }));
        }
    }
    candidates
}

fn shorter_faults(scenario: &Scenario) -> Vec<Scenario> {
    let mut candidates = Vec::new();
    for part in [2, 4] {
        candidates.extend(each_fault(scenario, |fault| {
            let last = fault.until.saturating_sub(fault.at);
            let less = rounded_time(last - last / part);
            fault.until = fault.at + less;
            fault.flap = fault.flap.map(|flap| flap.min(less));
        }));
    }
    candidates
}

/// Everything that has a time, so much sooner.
fn earlier(scenario: &Scenario) -> Vec<Scenario> {
    let faults = scenario.fault.iter().map(|fault| fault.at);
    let Some(first) = faults.min() else {
        return Vec::new();
    };
    let mut candidates: Vec<_> = [first / 2, first / 4]
        .into_iter()
        .map(|by| sooner(scenario, rounded_time(by)))
        .collect();
    candidates.extend(each_fault(scenario, |fault| {
        let by = fault.at.saturating_sub(first) / 2;
        (fault.at, fault.until) = (fault.at - by, fault.until - by);
    }));
    candidates
}

fn sooner(scenario: &Scenario, by: Duration) -> Scenario {
    with(scenario, |s| {
        for fault in &mut s.fault {
            (fault.at, fault.until) = (fault.at.saturating_sub(by), fault.until.saturating_sub(by));
        }
        for work in &mut s.work {
            match work {
                Work::Messages { .. } => {}
                Work::Burst { at, .. } => *at = at.saturating_sub(by),
                Work::Stream { at, until, .. } => {
                    (*at, *until) = (at.saturating_sub(by), until.saturating_sub(by));
                }
            }
        }
        s.duration = s.duration.saturating_sub(by).max(SECOND);
    })
}

fn fewer_befallen(scenario: &Scenario) -> Vec<Scenario> {
    let mut candidates = each_fault(scenario, |fault| fault.whom = Whom::default());
    for (place, fault) in scenario.fault.iter().enumerate() {
        let Whom::These(numbers) = &fault.whom else {
            continue;
        };
        candidates.extend((0..numbers.len()).map(|one| {
            with(scenario, |s| {
                if let Whom::These(numbers) = &mut s.fault[place].whom {
                    numbers.remove(one);
                }
            })
        }));
    }
    candidates
}

fn all_at_once(scenario: &Scenario) -> Vec<Scenario> {
    each_fault(scenario, |fault| {
        if let FaultKind::RollingRestart { away } = &mut fault.kind {
            *away = rounded_time(*away / 2).max(Duration::from_millis(100));
        }
    })
}

fn shorter_run(scenario: &Scenario) -> Vec<Scenario> {
    let healed = scenario.fault.iter().map(Fault::healed_at).max();
    let healed = healed.unwrap_or_default();
    let tail = scenario.duration.saturating_sub(healed);
    let tails = [tail / 4, tail / 2, tail - tail / 4];
    tails
        .into_iter()
        .map(|tail| with(scenario, |s| s.duration = healed + rounded_time(tail)))
        .collect()
}

fn rounded(scenario: &Scenario) -> Vec<Scenario> {
    let mut candidates = each_fault(scenario, |fault| fault.at = rounded_time(fault.at));
    candidates.extend(each_fault(scenario, |fault| {
        fault.until = rounded_time(fault.until);
    }));
    candidates.push(with(scenario, |s| s.path.rtt = Duration::from_millis(50)));
    candidates
}

/// To whole seconds, where there are some.
fn rounded_time(time: Duration) -> Duration {
    if time < SECOND {
        return Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(0));
    }
    Duration::from_secs(time.as_secs())
}

fn each_fault(scenario: &Scenario, change: impl Fn(&mut Fault)) -> Vec<Scenario> {
    let places = 0..scenario.fault.len();
    places
        .map(|place| with(scenario, |s| change(&mut s.fault[place])))
        .collect()
}

#[cfg(test)]
mod tests;
