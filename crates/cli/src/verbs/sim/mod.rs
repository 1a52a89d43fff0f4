//! `quell sim`: what an outage will cost, found out before it.
//!
//! ```text
//! arguments ─▶ Plan { scenarios, policies, options, bounds } ─▶ jobs on threads ─▶ outcomes ─▶ table, JSON, CSV, page
//! ```
//!
//! A job is one policy in one scenario, on one thread: its course is decided by scenario and seed alone, so that threads
//! change when a result is there and never what it is. The exit code is 1 where a bound broke: of `quell`, if it is among
//! the policies; of all of them, if it is not and a bound was asked for by hand.
//!
//! | file | what it is for |
//! |---|---|
//! | `plan` | from arguments to what is run |
//! | `jobs` | threads, and how far they are |
//! | `show` | what is written, and whether it is a failure |
//! | `swarm` | drawn scenarios, every checker on |

mod jobs;
mod list;
mod plan;
mod show;
mod swarm;

use clap::{Args, Subcommand};

use crate::report_file::ReportFile;
use crate::{Failure, Streams};
use plan::{Asked, Plan};

/// What to do where the page cannot be written.
const HTML_HINT: &str = "`--html FILE` names another place";

/// Simulate outages: what they cost, and how they end
///
/// Runs the state machines of production in virtual time, clients, providers and backends, through a scenario in which
/// something breaks and heals. Ends with 1 if a bound broke: the scenario's own hold for the policy `quell`, those of
/// `--bound` too, or for all policies where `quell` is not among them.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::List),
    Run(Run),
    Compare(Compare),
    Swarm(swarm::Swarm),
}

/// Run one scenario, by default with quell alone
#[derive(Debug, Args)]
struct Run {
    /// A name that `quell sim list` shows, or the path of a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    #[command(flatten)]
    asked: Asked,
}

/// Run scenarios with several policies, by default all, and lay them side by side
#[derive(Debug, Args)]
struct Compare {
    /// Names that `quell sim list` shows, or paths of TOML files
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<String>,
    #[command(flatten)]
    asked: Asked,
}

impl Sim {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        match self.verb {
            Verb::List(list) => list.run(streams),
            Verb::Swarm(swarm) => swarm.run(streams),
            Verb::Run(run) => {
                let command = format!("run {}", plan::quoted(&run.scenario));
                play(&run.asked, &command, &[run.scenario], "quell", streams)
            }
            Verb::Compare(compare) => {
                let names = compare.scenarios.iter().map(|name| plan::quoted(name));
                let command = format!("compare {}", names.collect::<Vec<_>>().join(" "));
                play(&compare.asked, &command, &compare.scenarios, "all", streams)
            }
        }
    }
}

fn play(
    asked: &Asked,
    command: &str,
    scenarios: &[String],
    policies: &str,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let plan = Plan::new(asked, command, scenarios, policies)?;
    // Found out before the run, not after it.
    let open = |path| ReportFile::open(path, HTML_HINT);
    let page = asked.html.clone().map(open).transpose()?;
    let outcomes = jobs::run(&plan, asked.threads, streams.err)?;
    show::show(asked, &plan, &outcomes, page, streams)
}
