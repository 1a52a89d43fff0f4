//! Drill and simulation side by side, and how far apart they may be.
//!
//! | figure | may differ by | why |
//! |---|---|---|
//! | bytes out in the outage | a third of the larger, and 2 KiB | real QUIC's own packets, a user's TCP that stops |
//! | dials in the outage | 2 | one at each border |
//! | requests at the backend in the outage | fewer by two thirds, more by a third, and 2 | a client without contracts asks one kind of question, a simulated one three |
//! | recovery | a third of the larger, and 2.5 s | chance in the PINGs' and dials' times; a user who gave a connection up tries another each 2.5 s |
//!
//! What the checkers hold is no matter of tolerance: the cap, books that close, streams that arrive whole.

use std::time::Duration;

use quell_sim::outcome::PolicyOutcome;
use quell_sim::report::grouped;
use quell_sim::scenario::Scenario;
use serde_json::{Value, json};

use super::course::{CAUSES, Course};

/// One figure of both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    name: &'static str,
    drill: Option<u64>,
    sim: Option<u64>,
    /// From and to: what the drill may show beside this simulation.
    allowed: (u64, u64),
}

impl Row {
    fn holds(&self) -> bool {
        match (self.drill, self.sim) {
            (Some(drill), Some(_)) => (self.allowed.0..=self.allowed.1).contains(&drill),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// A third of the larger of the two, and `more`.
fn within_a_third(sim: u64, more: u64) -> (u64, u64) {
    let low = sim - sim.div_ceil(3);
    // The larger one is the drill's: a third of it is half of the other.
    (low.saturating_sub(more), sim + sim / 2 + more)
}

/// Both sides.
#[derive(Debug)]
pub(super) struct Sides {
    scenario: String,
    course: Course,
    rows: Vec<Row>,
    complaints: Vec<String>,
}

/// Milliseconds of an outcome's series that lie in the outage.
fn in_outage(scenario: &Scenario, outcome: &PolicyOutcome, series: &[u64]) -> u64 {
    let step = outcome.series.step_ms.max(1);
    let from = scenario.breaks_at().unwrap_or_default();
    let span = from.as_millis()..scenario.healed_at().as_millis();
    let steps = (0_u128..).map(|index| index * u128::from(step));
    let counted = steps.zip(series).filter(|(at, _)| span.contains(at));
    counted.map(|(_, count)| count).sum()
}

impl Sides {
    pub(super) fn new(
        scenario: &Scenario,
        resends_max: u8,
        course: Course,
        outcome: &PolicyOutcome,
    ) -> Self {
        let complaints = complaints(scenario, resends_max, &course, outcome);
        let bytes = outcome.outage_bytes_out.total;
        let dials = in_outage(scenario, outcome, &outcome.series.dials);
        let requests = in_outage(scenario, outcome, &outcome.series.backend_requests);
        let recovered = outcome.recovery_ms.count > 0;
        let recovery = outcome.recovery_ms.max;
        let rows = vec![
            Row {
                name: "UDP bytes out in the outage",
                drill: Some(course.outage.bytes_out),
                sim: Some(bytes),
                allowed: within_a_third(bytes, 2 * 1024),
            },
            Row {
                name: "dials in the outage",
                drill: Some(course.outage.dials),
                sim: Some(dials),
                allowed: (dials.saturating_sub(2), dials + 2),
            },
            Row {
                name: "backend requests in the outage",
                drill: Some(course.outage.questions),
                sim: Some(requests),
                allowed: (
                    (requests / 3).saturating_sub(2),
                    within_a_third(requests, 2).1,
                ),
            },
            Row {
                name: "ms from the heal to first bytes",
                drill: course.recovery.map(ms),
                sim: recovered.then_some(recovery),
                allowed: within_a_third(recovery, 2_500),
            },
        ];
        Self {
            scenario: scenario.name.clone(),
            course,
            rows,
            complaints,
        }
    }

    /// What is wrong, in words; none: they agree and no checker complains.
    pub(super) fn wrong(&self) -> Vec<String> {
        let apart = self.rows.iter().filter(|row| !row.holds());
        apart
            .map(|row| format!("drill and sim disagree on {}", row.name))
            .chain(self.complaints.iter().cloned())
            .collect()
    }

    pub(super) fn json(&self) -> Value {
        let course = &self.course;
        let rows = self.rows.iter().map(|row| {
            json!({
                "figure": row.name, "drill": row.drill, "sim": row.sim,
                "allowed": [row.allowed.0, row.allowed.1], "ok": row.holds(),
            })
        });
        let sample = |sample: &super::course::Sample| {
            let causes = CAUSES.into_iter().zip(sample.by_cause);
            let causes: serde_json::Map<_, _> = causes
                .map(|(cause, bytes)| (cause.to_owned(), bytes.into()))
                .collect();
            json!({
                "bytes_out": sample.bytes_out, "by_cause": causes,
                "dials": sample.dials, "backend_requests": sample.questions,
            })
        };
        let totals = &course.totals;
        json!({
            "scenario": self.scenario,
            "ok": self.wrong().is_empty(),
            "rows": rows.collect::<Vec<_>>(),
            "drill": {
                "before": sample(&course.before),
                "outage": sample(&course.outage),
                "after": sample(&course.after),
                "recovery_ms": course.recovery.map(ms),
                "max_sends_of_one_pack": course.max_sends_of_one_pack,
                "unaccounted": course.unaccounted,
                "connections": totals.connections,
                "connections_broken": totals.broken,
                "stream_bytes_sent": totals.sent_bytes,
                "stream_bytes_arrived": totals.arrived_bytes,
                "stream_bytes_misplaced": totals.misplaced_bytes,
            },
            "complaints": self.complaints,
        })
    }

    /// The table for people.
    pub(super) fn table(&self) -> String {
        let figure = |figure: Option<u64>| figure.map_or("none".to_owned(), grouped);
        let mut text = format!(
            "\n{:<34}{:>10}{:>10}  {:<20}\n",
            "", "drill", "sim", "allowed beside it"
        );
        for row in &self.rows {
            let (low, high) = (grouped(row.allowed.0), grouped(row.allowed.1));
            let verdict = if row.holds() { "ok" } else { "APART" };
            text += &format!(
                "{:<34}{:>10}{:>10}  {:<20} {verdict}\n",
                row.name,
                figure(row.drill),
                figure(row.sim),
                format!("{low} to {high}"),
            );
        }
        let causes = CAUSES.into_iter().zip(self.course.outage.by_cause);
        let causes: Vec<_> = causes
            .filter(|(_, bytes)| *bytes != 0)
            .map(|(cause, bytes)| {
                let sign = if bytes < 0 { "-" } else { "" };
                format!("{cause} {sign}{}", grouped(bytes.unsigned_abs()))
            })
            .collect();
        let (course, totals) = (&self.course, &self.course.totals);
        text += &format!(
            "\nof the drill's bytes: {}\nbytes before {}, after {}; {} sends of one pack at most, {} unaccounted for\n\
             {} connections, {} broken; of the others {} bytes sent, {} arrived, {} misplaced\n",
            causes.join(", "),
            grouped(course.before.bytes_out),
            grouped(course.after.bytes_out),
            course.max_sends_of_one_pack,
            course.unaccounted,
            totals.connections,
            totals.broken,
            grouped(totals.sent_bytes),
            grouped(totals.arrived_bytes),
            grouped(totals.misplaced_bytes),
        );
        for complaint in &self.complaints {
            text += &format!("complaint: {complaint}\n");
        }
        text
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What no tolerance excuses.
fn complaints(
    scenario: &Scenario,
    resends_max: u8,
    course: &Course,
    outcome: &PolicyOutcome,
) -> Vec<String> {
    let (totals, bounds) = (&course.totals, &scenario.bounds);
    let cap = u64::from(resends_max) + 1;
    let cap = bounds
        .max_sends_of_one_pack
        .map_or(cap, |max| cap.min(max.into()));
    let broken = |is: bool, words: String| is.then_some(words);
    let recovery = course.recovery.map(ms);
    let own = [
        broken(
            course.max_sends_of_one_pack > cap,
            format!(
                "a pack was sent {} times, {cap} are allowed",
                course.max_sends_of_one_pack
            ),
        ),
        broken(
            course.unaccounted != 0,
            format!(
                "{} packets or packs are unaccounted for",
                course.unaccounted
            ),
        ),
        broken(
            totals.arrived_bytes != totals.sent_bytes,
            format!(
                "of {} bytes in connections that did not break {} arrived",
                totals.sent_bytes, totals.arrived_bytes
            ),
        ),
        broken(
            totals.misplaced_bytes != 0,
            format!(
                "{} bytes arrived out of their place",
                totals.misplaced_bytes
            ),
        ),
        bounds.outage_bytes_max.and_then(|max| {
            broken(
                course.outage.bytes_out > max,
                format!(
                    "{} bytes in the outage, {max} are allowed",
                    course.outage.bytes_out
                ),
            )
        }),
        bounds.recovery_max_ms.and_then(|max| {
            broken(
                recovery.is_none_or(|ms| ms > max),
                format!("recovered after {recovery:?} ms, {max} are allowed"),
            )
        }),
    ];
    let of_sim = outcome.complaints.iter();
    let of_sim = of_sim.map(|complaint| format!("of the simulation: {complaint}"));
    own.into_iter().flatten().chain(of_sim).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::work::Totals;
    use super::*;

    fn scenario() -> Scenario {
        let text = "name = \"x\"\nsummary = \"x\"\nduration = \"30s\"\n\
                    [[fault]]\nkind = \"blackhole\"\nat = \"1s\"\nuntil = \"2s\"\n";
        Scenario::from_toml(text).unwrap()
    }

    fn outcome() -> PolicyOutcome {
        let mut outcome = PolicyOutcome::default();
        outcome.outage_bytes_out.total = 30_000;
        outcome.recovery_ms.count = 1;
        outcome.recovery_ms.max = 600;
        outcome.series.step_ms = 500;
        outcome.series.dials = vec![9, 9, 1, 2, 9];
        outcome.series.backend_requests = vec![9, 9, 3, 6, 9];
        outcome
    }

    fn course() -> Course {
        let mut course = Course {
            recovery: Some(Duration::from_millis(600)),
            ..Course::default()
        };
        course.outage.bytes_out = 30_000;
        course.outage.dials = 3;
        course.outage.questions = 9;
        course
    }

    fn wrong(change: impl FnOnce(&mut Course)) -> Vec<String> {
        let mut course = course();
        change(&mut course);
        Sides::new(&scenario(), 16, course, &outcome()).wrong()
    }

    #[test]
    fn a_third_and_a_margin_are_agreement_and_one_more_is_not() {
        assert_eq!(wrong(|_| ()), Vec::<String>::new());
        for (bytes, agrees) in [
            (17_951, false),
            (17_952, true),
            (47_048, true),
            (47_049, false),
        ] {
            assert_eq!(
                wrong(|c| c.outage.bytes_out = bytes).is_empty(),
                agrees,
                "{bytes}"
            );
        }
        for (dials, agrees) in [(0, false), (1, true), (5, true), (6, false)] {
            assert_eq!(
                wrong(|c| c.outage.dials = dials).is_empty(),
                agrees,
                "{dials}"
            );
        }
        for (asked, agrees) in [(0, false), (1, true), (15, true), (16, false)] {
            assert_eq!(
                wrong(|c| c.outage.questions = asked).is_empty(),
                agrees,
                "{asked}"
            );
        }
        for (took, agrees) in [(3_400, true), (3_401, false)] {
            let took = Duration::from_millis(took);
            assert_eq!(
                wrong(|c| c.recovery = Some(took)).is_empty(),
                agrees,
                "{took:?}"
            );
        }
        assert_eq!(wrong(|c| c.recovery = None).len(), 1);
    }

    #[test]
    fn no_tolerance_excuses_a_checkers_complaint() {
        assert!(wrong(|c| c.max_sends_of_one_pack = 17).is_empty());
        assert_eq!(wrong(|c| c.max_sends_of_one_pack = 18).len(), 1);
        assert_eq!(wrong(|c| c.unaccounted = 1).len(), 1);
        let totals = |sent, arrived, misplaced| Totals {
            sent_bytes: sent,
            arrived_bytes: arrived,
            misplaced_bytes: misplaced,
            ..Totals::default()
        };
        assert!(wrong(|c| c.totals = totals(7, 7, 0)).is_empty());
        assert_eq!(wrong(|c| c.totals = totals(7, 6, 0)).len(), 1);
        assert_eq!(wrong(|c| c.totals = totals(7, 8, 0)).len(), 1);
        assert_eq!(wrong(|c| c.totals = totals(7, 7, 1)).len(), 1);
    }
}
