//! What is written of a run, and whether it was a failure.

use anyhow::anyhow;
use quell_sim::outcome::Outcome;
use quell_sim::report::html::{self, Section};
use quell_sim::report::{self, Tables, Verdict};
use serde_json::{Value, json};

use super::plan::{Asked, Plan};
use crate::report_file::ReportFile;
use crate::{Failure, Streams};

/// Writes results and the page, and fails where a bound broke.
pub(super) fn show(
    asked: &Asked,
    plan: &Plan,
    outcomes: &[Outcome],
    page: Option<ReportFile>,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let verdicts: Vec<_> = outcomes
        .iter()
        .enumerate()
        .map(|(stage, outcome)| judge(plan, stage, outcome))
        .collect();
    let both = || outcomes.iter().zip(&verdicts);
    if asked.json {
        let objects = both().map(|(outcome, verdicts)| report::json(outcome, verdicts));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        writeln!(streams.out, "{}", one(objects))?;
    } else if asked.csv {
        write!(streams.out, "{}", report::csv(outcomes))?;
    } else {
        for (outcome, verdicts) in both() {
            writeln!(streams.out, "{}", Tables { outcome, verdicts })?;
        }
        writeln!(streams.out, "again: {}", plan.command)?;
    }
    if let Some(page) = page {
        let path = page.write(&page_of(plan, outcomes, &verdicts)?)?;
        writeln!(streams.err, "all of it as a page: {}", path.display())?;
    }
    let broken = both().flat_map(|(outcome, verdicts)| {
        let broken = verdicts.iter().filter(|verdict| !verdict.ok);
        broken.map(|verdict| {
            format!(
                "{} of {} in {}",
                verdict.name, verdict.policy, outcome.scenario
            )
        })
    });
    match broken.collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        broken => Err(Failure::Failed(anyhow!(
            "out of bounds: {}",
            broken.join(", ")
        ))),
    }
}

fn judge(plan: &Plan, stage: usize, outcome: &Outcome) -> Vec<Verdict> {
    let scenario = &plan.stages[stage].scenario;
    let policies = outcome.policies.iter();
    let verdicts = policies.filter_map(|policy| {
        let bounds = plan.bounds_of(scenario, &policy.policy)?;
        Some(report::verdicts(policy, &bounds))
    });
    verdicts.flatten().collect()
}

/// One object, whatever the count of scenarios.
fn one(mut objects: Vec<Value>) -> Value {
    match objects.len() {
        1 => objects.remove(0),
        _ => {
            let is_ok = objects.iter().all(|object| object["ok"] == true);
            json!({ "scenarios": objects, "ok": is_ok })
        }
    }
}

fn page_of(
    plan: &Plan,
    outcomes: &[Outcome],
    verdicts: &[Vec<Verdict>],
) -> Result<String, Failure> {
    let texts = plan.stages.iter().map(|stage| stage.scenario.to_toml());
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let sections = plan.stages.iter().zip(outcomes).zip(verdicts).zip(&texts);
    let sections: Vec<_> = sections
        .map(|(((stage, outcome), verdicts), scenario)| Section {
            outcome,
            verdicts,
            about: &stage.about,
            scenario,
        })
        .collect();
    Ok(html::page(&sections, &plan.command))
}
