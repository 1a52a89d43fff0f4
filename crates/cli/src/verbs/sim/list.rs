//! `quell sim list`: what there is to run, and by which policies.

use clap::Args;
use quell_sim::policy::policies;
use quell_sim::scenario::{Scenario, library, named};

use super::plan;
use crate::{Failure, Streams};

/// Show scenarios and policies, or one scenario as TOML
#[derive(Debug, Args)]
pub(super) struct List {
    /// Print the text of this scenario, to begin one's own with
    #[arg(value_name = "SCENARIO")]
    scenario: Option<String>,
}

impl List {
    pub(super) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        if let Some(name) = self.scenario {
            let named = named(&name).ok_or_else(|| plan::no_such(&name))?;
            write!(streams.out, "{}", named.text)?;
            return Ok(());
        }
        let mut scenarios = Vec::new();
        for named in library() {
            scenarios.push((named.name, Scenario::from_toml(named.text)?.summary));
        }
        let policies = policies().map(|policy| (policy.name, policy.summary.to_owned()));
        let policies: Vec<_> = policies.collect();
        for (title, rows) in [("scenarios", scenarios), ("\npolicies", policies)] {
            writeln!(streams.out, "{title}")?;
            let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            for (name, summary) in rows {
                writeln!(streams.out, "  {name:<width$}  {summary}")?;
            }
        }
        Ok(())
    }
}
