//! Through the scenario's time: what breaks when, and what both ends and the wire say at its borders.
//!
//! ```text
//! t   0 ········ breaks_at ··········· healed_at ········ duration
//!     client     sample, break …       sample, heal       end of work, books
//! ```
//!
//! What is asked at a border is asked before anything is changed at it, so that what leaves in between is held against
//! the outage, and the time of a recovery counts from before the first wire is healed.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use quell_sim::scenario::{Direction, FaultKind, Scenario};
use serde_json::Value;

use super::backend::Mode;
use super::stage::{Broken, Stage};
use super::work::{Totals, Works};

/// How long what is under way may take to arrive when all work has ended.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// The causes for which a client sends UDP bytes, as its status names them.
pub(super) const CAUSES: [&str; 7] = [
    "first_send",
    "resend",
    "race",
    "ack",
    "ping",
    "dial",
    "quic",
];

/// What there was so far at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// UDP payload that the client put out, counted at its socket.
    pub(super) bytes_out: u64,
    /// By cause, in the order of [`CAUSES`]; QUIC's is what no other took, and lags behind at times.
    pub(super) by_cause: [i64; CAUSES.len()],
    /// Dials.
    pub(super) dials: u64,
    /// Questions at the backend.
    pub(super) questions: u64,
}

impl Sample {
    fn of(stage: &Stage) -> Result<Self> {
        let status = stage.client_status()?;
        let udp = &status["udp"];
        let mut by_cause = [0; CAUSES.len()];
        for (bytes, cause) in by_cause.iter_mut().zip(CAUSES) {
            *bytes = said(cause, udp["by_cause"][cause].as_i64())?;
        }
        Ok(Self {
            bytes_out: said("bytes_out", udp["bytes_out"].as_u64())?,
            by_cause,
            dials: said("dials", status["dials"].as_u64())?,
            questions: stage.questions(),
        })
    }

    /// What came to it until `later`.
    pub(super) fn until(&self, later: &Self) -> Self {
        let mut by_cause = later.by_cause;
        for (bytes, before) in by_cause.iter_mut().zip(self.by_cause) {
            *bytes = bytes.saturating_sub(before);
        }
        Self {
            bytes_out: later.bytes_out.saturating_sub(self.bytes_out),
            by_cause,
            dials: later.dials.saturating_sub(self.dials),
            questions: later.questions.saturating_sub(self.questions),
        }
    }
}

/// A figure of the client's status. One that is not there is no zero.
fn said<T>(name: &str, figure: Option<T>) -> Result<T> {
    figure.with_context(|| format!("the client does not say {name}"))
}

/// What a drill measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Course {
    /// Before anything broke.
    pub(super) before: Sample,
    /// While something was broken.
    pub(super) outage: Sample,
    /// From the heal to the end.
    pub(super) after: Sample,
    /// From the heal to the first bytes at a sink; `None`: none came.
    pub(super) recovery: Option<Duration>,
    /// What users wrote, and what arrived.
    pub(super) totals: Totals,
    /// Most sends of one pack, of either end.
    pub(super) max_sends_of_one_pack: u64,
    /// Packets and packs that an end cannot account for, all ends together.
    pub(super) unaccounted: u64,
}

/// Lives through it, and writes a line to `talk` whenever something changes.
///
/// # Errors
/// A process ends or does not answer.
pub(super) fn live(stage: &mut Stage, scenario: &Scenario, talk: &mut dyn Write) -> Result<Course> {
    let start = Instant::now();
    stage.go_to(&broken_at(scenario, Duration::ZERO))?;
    stage.start_client()?;
    let works = Works::start(&scenario.work, scenario.duration, stage.socks5(), start)?;
    let breaks_at = scenario.breaks_at().unwrap_or(scenario.duration);
    let healed_at = scenario.healed_at();
    let mut borders = [Sample::default(); 3];
    let mut t = Duration::ZERO;
    loop {
        if t == breaks_at && !t.is_zero() {
            borders[0] = Sample::of(stage)?;
        }
        if t == healed_at {
            borders[1] = Sample::of(stage)?;
            works.watch(Instant::now());
        }
        let wanted = broken_at(scenario, t);
        stage.go_to(&wanted)?;
        writeln!(talk, "{:>7.1} s  {}", t.as_secs_f64(), words(scenario, t))?;
        talk.flush()?;
        let next = scenario.next_change_after(t);
        let Some(next) = next.filter(|next| *next < scenario.duration) else {
            break;
        };
        sleep_until(start + next);
        t = next;
    }
    sleep_until(start + scenario.duration);
    borders[2] = Sample::of(stage)?;
    let recovery = works.first_after();
    let totals = works.settle(SETTLE_TIME);
    finish(stage, borders, recovery, totals)
}

fn finish(
    stage: &Stage,
    borders: [Sample; 3],
    recovery: Option<Duration>,
    totals: Totals,
) -> Result<Course> {
    let mut ends = stage.provider_statuses()?;
    ends.push(stage.client_status()?);
    let sends = |end: &Value| end["max_sends_of_one_pack"].as_u64();
    let sends: Option<Vec<_>> = ends.iter().map(sends).collect();
    let missing = |end: &Value| end["unaccounted"].as_i64().map(i64::unsigned_abs);
    let missing: Option<Vec<_>> = ends.iter().map(missing).collect();
    Ok(Course {
        before: borders[0],
        outage: borders[0].until(&borders[1]),
        after: borders[1].until(&borders[2]),
        recovery,
        totals,
        max_sends_of_one_pack: said("max_sends_of_one_pack", sends)?
            .into_iter()
            .max()
            .unwrap_or(0),
        unaccounted: said("unaccounted", missing)?.iter().sum(),
    })
}

/// What acts at `t`, in a line.
fn words(scenario: &Scenario, t: Duration) -> String {
    let acting = scenario.fault.iter().filter(|fault| fault.acts_at(t));
    let acting: Vec<_> = acting.map(|fault| fault.in_words()).collect();
    match acting.is_empty() {
        true => "all is well".to_owned(),
        false => acting.join(", "),
    }
}

fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// What is to be broken at `t`. What cannot be drilled was refused before.
fn broken_at(scenario: &Scenario, t: Duration) -> Broken {
    let well = scenario.backend.answer_time;
    let exits = usize::from(scenario.fleet.providers);
    let mut broken = Broken {
        exits: vec![(false, false, false); exits],
        backend: Mode::Answers(well),
    };
    for fault in scenario.fault.iter().filter(|fault| fault.acts_at(t)) {
        let members = fault.whom.members(fault.kind.count(&scenario.fleet));
        let befallen = |index: usize| u32::try_from(index).is_ok_and(|i| members.contains(i));
        for (_, exit) in (0..).zip(&mut broken.exits).filter(|(i, _)| befallen(*i)) {
            if let FaultKind::Blackhole { direction } = &fault.kind {
                exit.0 |= *direction != Direction::Down;
                exit.1 |= *direction != Direction::Up;
            }
            exit.2 |= fault.kind == FaultKind::ProviderDeath;
        }
        if !befallen(0) {
            continue;
        }
        if fault.kind == FaultKind::UplinkLoss {
            // What leaves this machine meets nobody, whoever it is for.
            for exit in &mut broken.exits {
                (exit.0, exit.1) = (true, true);
            }
        }
        broken.backend = backend_in(&fault.kind, well).unwrap_or(broken.backend);
    }
    broken
}

/// What the backend of a client does that such a fault befalls; `None`: what it did.
fn backend_in(kind: &FaultKind, well: Duration) -> Option<Mode> {
    match kind {
        FaultKind::BackendSilent | FaultKind::UplinkLoss => Some(Mode::Silent),
        FaultKind::BackendRefuses => Some(Mode::Refuses),
        FaultKind::BackendSlow { answer_time } => Some(Mode::Answers(*answer_time)),
        FaultKind::BackendUnavailable { retry_after } => Some(Mode::Unavailable(*retry_after)),
        FaultKind::BackendFails { part } => Some(Mode::Fails(*part, well)),
        FaultKind::Blackhole { .. }
        | FaultKind::AcksLost
        | FaultKind::DialsRefused
        | FaultKind::ProviderDeath
        | FaultKind::RollingRestart { .. }
        | FaultKind::Suspend
        | FaultKind::SharedNat
        | FaultKind::BackendFailsOne { .. }
        | FaultKind::ClockOff { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn scenario(faults: &str) -> Scenario {
        let text = format!(
            "name = \"x\"\nsummary = \"x\"\nduration = \"30s\"\n[fleet]\nclients = 1\nproviders = 3\n{faults}"
        );
        Scenario::from_toml(&text).unwrap()
    }

    fn at(faults: &str, seconds: u64) -> Broken {
        broken_at(&scenario(faults), Duration::from_secs(seconds))
    }

    const WELL: (bool, bool, bool) = (false, false, false);

    #[test]
    fn directions_and_deaths_befall_whom_they_name_for_as_long_as_they_act() {
        let faults = "[[fault]]\nkind = \"blackhole\"\ndirection = \"up\"\nat = \"5s\"\nuntil = \"10s\"\nwhom = [1]\n\
                      [[fault]]\nkind = \"blackhole\"\ndirection = \"down\"\nat = \"8s\"\nuntil = \"12s\"\nwhom = [1]\n\
                      [[fault]]\nkind = \"provider-death\"\nat = \"8s\"\nuntil = \"9s\"\nwhom = [2]\n";
        assert_eq!(at(faults, 4).exits, [WELL; 3]);
        assert_eq!(at(faults, 5).exits, [WELL, (true, false, false), WELL]);
        let both = [WELL, (true, true, false), (false, false, true)];
        assert_eq!(at(faults, 8).exits, both);
        assert_eq!(at(faults, 10).exits, [WELL, (false, true, false), WELL]);
        assert_eq!(at(faults, 12).exits, [WELL; 3]);
    }

    #[test]
    fn who_loses_the_uplink_reaches_no_backend_either() {
        let faults = "[[fault]]\nkind = \"uplink-loss\"\nat = \"5s\"\nuntil = \"10s\"\n";
        let broken = at(faults, 6);
        assert_eq!(broken.exits, [(true, true, false); 3]);
        assert_eq!(broken.backend, Mode::Silent);
    }

    #[test]
    fn a_backend_comes_and_goes_with_its_fault() {
        let faults =
            "[[fault]]\nkind = \"backend-refuses\"\nat = \"5s\"\nuntil = \"15s\"\nflap = \"10s\"\n";
        assert_eq!(at(faults, 9).backend, Mode::Refuses);
        assert_ne!(at(faults, 10).backend, Mode::Refuses);
    }

    #[test]
    fn a_difference_is_what_came_to_it() {
        let sample = |n: u64| Sample {
            bytes_out: n,
            by_cause: [n as i64; CAUSES.len()],
            dials: n,
            questions: n,
        };
        assert_eq!(sample(3).until(&sample(10)), sample(7));
    }
}
