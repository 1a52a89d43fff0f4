//! `quell drill`: a scenario of the simulator against real processes on this machine, and both side by side.
//!
//! The client and its exits are `quell up` and `quell provide`, started from this very program; the wires between them
//! are relays of ours, and the work is real TCP. Bytes are counted at the client's socket, requests where the backend
//! takes them. Then the simulator lives through the same scenario with the same settings, and a table lays both next to
//! each other: who trusts the simulator's figures for a fleet can see what they are worth for one.
//!
//! | file | what it is for |
//! |---|---|
//! | `able` | what cannot be drilled, by its name |
//! | `files` | keys and configuration |
//! | `stage` | the processes and the wires |
//! | `backend` | the control plane |
//! | `work` | what the user does |
//! | `course` | what breaks when, and what is measured |
//! | `side` | both sides, and how far apart they may be |

mod able;
mod backend;
mod course;
mod side;
mod stage;
mod work;

use std::io::Write;

use anyhow::{Context as _, anyhow};
use clap::Args;
use quell_sim::fleet::{self, Options};
use quell_sim::scenario::{Scenario, named};

use crate::signals;
use crate::stage::Program;
use crate::{Failure, Streams};

/// The policy that runs in production.
const POLICY: &str = "quell";
/// One step of the simulation's series: what is counted in the outage is counted to this.
const STEP_MS: u64 = 100;

/// Live through a scenario with real processes on this machine, and compare with the simulator
///
/// Needs no privileges: a client, one to three exits and a backend speak over the loopback. Takes as long as the
/// scenario says. Ends with 1 if drill and simulation disagree by more than the table allows, or a checker complains.
#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// A scenario's name (`quell sim list`), or a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    /// Feeds the simulation's draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print both sides as one JSON object; everything else goes to standard error
    #[arg(long)]
    json: bool,
}

impl Drill {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let scenario = self.read()?;
        refuse(&scenario)?;
        let talk: &mut dyn Write = match self.json {
            true => &mut *streams.err,
            false => &mut *streams.out,
        };
        writeln!(
            talk,
            "{}: {}\n{} s with real processes on the loopback …\n",
            scenario.name,
            scenario.summary,
            scenario.duration.as_secs()
        )?;
        let folder = tempfile::Builder::new().prefix("quell-drill-").tempdir()?;
        signals::remove_and_exit(folder.path().to_owned())?;
        let mut stage = stage::Stage::set(folder.path(), Program::own()?, &scenario)?;
        let (client, provider) = stage.configs();
        let (client, provider) = (client.core(), provider.core());
        let resends_max = client.path.lanes.send.max_resend_count;
        let course = course::live(&mut stage, &scenario, talk).with_context(|| {
            format!("the client said last:\n{}", last_lines(&stage.client_log()))
        })?;
        drop(stage);
        let options = Options {
            seed: self.seed,
            quell: Some((client, provider)),
            step_ms: Some(STEP_MS),
        };
        let outcome = fleet::run(&scenario, POLICY, &options, &mut |_| ())?;
        let sides = side::Sides::new(&scenario, resends_max, course, &outcome);
        match self.json {
            true => writeln!(streams.out, "{}", sides.json())?,
            false => write!(streams.out, "{}", sides.table())?,
        }
        match sides.wrong().as_slice() {
            [] => Ok(()),
            wrong => Err(Failure::Failed(anyhow!("{}", wrong.join("; ")))),
        }
    }

    fn read(&self) -> Result<Scenario, Failure> {
        let text = match named(&self.scenario) {
            Some(named) => named.text.to_owned(),
            None => std::fs::read_to_string(&self.scenario)
                .with_context(|| format!("{} is no scenario's name, nor a file", self.scenario))
                .map_err(Failure::usage)?,
        };
        Scenario::from_toml(&text).map_err(Failure::usage)
    }
}

fn refuse(scenario: &Scenario) -> Result<(), Failure> {
    if scenario.breaks_at().is_none() {
        return Err(Failure::usage(anyhow!(
            "{}: nothing breaks in it, so there is nothing to drill",
            scenario.name
        )));
    }
    match able::refusals(scenario).as_slice() {
        [] => Ok(()),
        reasons => Err(Failure::usage(anyhow!(
            "{} cannot be drilled: {}",
            scenario.name,
            reasons.join("; ")
        ))),
    }
}

/// The end of a log.
fn last_lines(log: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
