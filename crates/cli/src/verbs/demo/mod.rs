//! `quell demo`: real tunnels on this machine, and what becomes of them when things break.
//!
//! The first act is a download between both ends, and then an outage. The second has
//! three exits, which freeze, die and fall silent: see `exits`. The acts are written
//! once and played on either of two stages:
//!
//! ```text
//!            `demo`: one process, no privileges              `demo --tun`: root
//! client     SOCKS5 and HTTP proxy                           a TUN in a namespace
//! wire       UDP on the loopback, through relays of ours     routers in namespaces
//! exits      sockets of this process                         TUNs in namespaces
//! ```
//!
//! Between client and exits is the same QUIC, and under it the same state machines.
//!
//! | file | what it is for |
//! |---|---|
//! | `local`, `tun` | the stages |
//! | `quiet` | pings and a download while nothing else runs |
//! | `loads` | the first act's steady loads |
//! | `outage` | second by second through the cut and its end |
//! | `exits` | the second act |
//! | `books` | what both ends say became of their packets |
//! | `verdict` | the first act's bounds, and its part of the JSON object |
//! | `bounds` | whether a bound held, for people and programs |
//! | `text` | numbers and tables for a terminal of 80 columns |
//! | `report` | all of it as one page |
//!
//! Nothing of this machine is touched. What is left to clean up is one folder of
//! keys, configuration and sockets, removed also on Ctrl-C.

mod books;
mod bounds;
mod exits;
mod loads;
mod local;
mod outage;
mod quiet;
mod report;
mod text;
mod tun;
mod verdict;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::report_file::ReportFile;
use crate::signals;
use crate::{Failure, Streams};
use bounds::Bound;
use local::Serve;
use verdict::Figures;

/// The report's file unless another is named.
const REPORT: &str = "quell-demo.html";

/// What to do where the report cannot be written.
const REPORT_HINT: &str = "`--report FILE` names another place, `--no-report` does without";

/// Run real tunnels on this machine, cut the wire under load, and let exits go
///
/// Needs no privileges: all of it is in one process and on the loopback. Plays two acts
/// and prints one line a second. In the first, some 45 s long, a file is downloaded and
/// the wire is cut under load. In the second, 31 s long, a client has three exits: one
/// freezes, one is killed, and all fall silent for a while. After each it says whether
/// what quell promises held, at the end it writes a page that shows all of it. Ends with
/// 1 if a bound broke.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Play one act alone
    #[arg(long, value_enum)]
    act: Option<Act>,
    /// Size of the download, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    size: u64,
    /// How long the wire is cut; a packet that was sent is given up after 60 s
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=50))]
    outage: u64,
    /// Print the figures as one JSON object; everything else goes to standard error
    #[arg(long)]
    json: bool,
    /// Where the page goes [default: quell-demo.html; with --tun: none]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write no page
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
    /// Play it over TUNs in network namespaces; needs root
    #[arg(long)]
    tun: bool,
    /// Set everything up for you to use, and keep it until Ctrl-C
    #[arg(long, conflicts_with_all = ["act", "size", "outage", "json", "report", "no_report", "tun"])]
    serve: bool,
    #[command(flatten)]
    served: Serve,
}

/// An act of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Act {
    /// A download, and a cut under load
    Outage,
    /// Three exits that freeze, die and fall silent
    Exits,
}

impl Demo {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        if self.serve {
            return self.served.run(&own_folder()?, streams.out);
        }
        if self.tun {
            tun::check()?;
        }
        // Found out before the acts, not after them.
        let open = |path| ReportFile::open(path, REPORT_HINT);
        let report = self.report_path().map(open).transpose()?;
        let folder = own_folder()?;
        signals::remove_and_exit(folder.path().to_owned())?;
        let talk: &mut dyn Write = match self.json {
            true => &mut *streams.err,
            false => &mut *streams.out,
        };
        let acts = self.play(folder.path(), talk)?;
        if self.json {
            writeln!(streams.out, "{}", acts.json())?;
        }
        if let Some(report) = report {
            let path = report.write(&acts.page(self.tun))?;
            let talk: &mut dyn Write = match self.json {
                true => &mut *streams.err,
                false => &mut *streams.out,
            };
            writeln!(talk, "\nall of it as a page: {}", path.display())?;
        }
        match bounds::broken(&acts.bounds()).as_slice() {
            [] => Ok(()),
            broken => Err(Failure::Failed(anyhow!(
                "out of bounds: {}",
                broken.join(", ")
            ))),
        }
    }

    fn report_path(&self) -> Option<PathBuf> {
        let default = || (!self.tun && !self.no_report).then(|| REPORT.into());
        self.report.clone().or_else(default)
    }

    fn play(&self, folder: &Path, talk: &mut dyn Write) -> Result<Acts, Failure> {
        let mut acts = Acts::default();
        if self.act != Some(Act::Exits) {
            let folder = act_folder(folder, "outage")?;
            let size_bytes = self.size * 1024 * 1024;
            let figures = match self.tun {
                true => tun::measure_outage(&folder, size_bytes, self.outage, talk),
                false => local::measure_outage(&folder, size_bytes, self.outage, talk),
            }?;
            if !self.json {
                write!(talk, "\n{figures}")?;
            }
            acts.outage = Some(figures);
        }
        if self.act.is_none() {
            writeln!(talk)?;
        }
        if self.act != Some(Act::Outage) {
            let folder = act_folder(folder, "exits")?;
            let figures = match self.tun {
                true => tun::measure_exits(&folder, talk),
                false => local::measure_exits(&folder, talk),
            }?;
            if !self.json {
                write!(talk, "\n{figures}")?;
            }
            acts.exits = Some(figures);
        }
        Ok(acts)
    }
}

/// What the acts that were played measured.
#[derive(Debug, Default)]
struct Acts {
    outage: Option<Figures>,
    exits: Option<exits::Figures>,
}

/// What both ends said last.
#[derive(Debug)]
struct Ends {
    client: Value,
    provider: Value,
}

impl Acts {
    fn bounds(&self) -> Vec<Bound> {
        let outage = self.outage.iter().flat_map(Figures::bounds);
        let exits = self.exits.iter().flat_map(exits::Figures::bounds);
        outage.chain(exits).collect()
    }

    /// Everything as one object. The first act's figures are its own, the second's are
    /// those of `exits`.
    fn json(&self) -> Value {
        let mut object = self.outage.as_ref().map_or(json!({}), Figures::json);
        if let Some(exits) = &self.exits {
            object["exits"] = exits.json();
        }
        let bounds = self.bounds();
        object["bounds"] = bounds.iter().map(Bound::json).collect();
        object["ok"] = bounds::broken(&bounds).is_empty().into();
        object
    }

    /// Everything as a page.
    fn page(&self, is_tun: bool) -> String {
        let outage = self.outage.iter().map(report::outage);
        let exits = self.exits.iter().map(report::exits);
        report::page(is_tun, &outage.chain(exits).collect::<Vec<_>>())
    }
}

fn own_folder() -> Result<TempDir, Failure> {
    Ok(tempfile::Builder::new().prefix("quell-demo-").tempdir()?)
}

/// A folder of an act's own.
fn act_folder(folder: &Path, act: &str) -> Result<PathBuf, Failure> {
    let folder = folder.join(act);
    std::fs::create_dir(&folder)?;
    Ok(folder)
}
