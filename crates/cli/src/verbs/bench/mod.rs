//! `quell bench`: what a tunnel carries here, and what it costs.
//!
//! ```text
//! bench                 both ends on this machine: over TUNs where root allows it, else over the loopback
//! bench serve ADDRESS   the far end of a measurement between two machines
//! bench to ADDRESS      the near end: whatever the route to that address leads over is what is measured
//! ```
//!
//! | file | what |
//! |---|---|
//! | `ground` | where it happens, and who is measured |
//! | `wireguard` | other tunnels, if they are installed |
//! | `rows` | how each figure is found |
//! | `processes` | what processes used |
//! | `report` | medians, ratios, the table, the object |
//!
//! Runs are interleaved: each run measures everybody once, so that a machine that is busy for a while is busy for all. A
//! bench tells how this build does on this machine beside others, and nothing of another machine.

mod ground;
mod processes;
mod report;
mod rows;
mod wireguard;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use quell_lab::gauge::{Gauge, Server};
use quell_lab::netns;

use self::ground::{Ground, Subject};
use self::processes::Processes;
use self::report::{Measured, Report};
use self::rows::Group;
use crate::signals;
use crate::{Failure, Streams};

/// Measure what a tunnel carries, and what it costs
///
/// Without a subcommand both ends are on this machine: over TUN interfaces in network namespaces of its own where this
/// process is root, else over the loopback through the client's SOCKS5 proxy, for TCP alone. Each figure is the median of all
/// runs. Other tunnels that are installed can be measured in the same runs (`--beside`). Nothing is left behind.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    between: Option<Between>,
    #[command(flatten)]
    how: How,
    /// Do without TUNs also where root would allow them
    #[arg(long)]
    loopback: bool,
    /// Other tunnels to measure in the same runs: wireguard-go, boringtun-cli or gotatun, or paths to them
    #[arg(
        long,
        value_name = "PROGRAMS",
        value_delimiter = ',',
        conflicts_with = "loopback"
    )]
    beside: Vec<String>,
}

/// How it is measured, on one machine or between two.
#[derive(Debug, Args)]
struct How {
    /// Runs; each figure is the median of all
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// How long each load lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=30))]
    seconds: u64,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["tcp", "udp", "ping"])]
    rows: Vec<Group>,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Between {
    /// Serve measurements until Ctrl-C; gives its bandwidth to whoever asks
    Serve {
        /// Where to listen, TCP and UDP: an address of this machine, such as the exit's in the tunnel
        address: SocketAddr,
    },
    /// Measure against a machine that serves, over whatever the route to it is
    To {
        /// Where it serves
        address: SocketAddr,
        /// Go through this SOCKS5 proxy; measures TCP alone
        #[arg(long, value_name = "ADDRESS")]
        socks5: Option<SocketAddr>,
        #[command(flatten)]
        how: How,
    },
}

impl Bench {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        match self.between {
            None => local(&self.how, self.loopback, &self.beside, streams),
            Some(Between::Serve { address }) => serve(address, streams),
            Some(Between::To {
                address,
                socks5,
                how,
            }) => to(address, socks5, &how, streams),
        }
    }
}

fn local(
    how: &How,
    loopback: bool,
    beside: &[String],
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    if let Some(unknown) = beside.iter().find(|name| !wireguard::is_known(name)) {
        return Err(Failure::usage(anyhow!(
            "--beside {unknown}: not one of {}",
            wireguard::known()
        )));
    }
    let folder = tempfile::Builder::new().prefix("quell-bench-").tempdir()?;
    signals::remove_and_exit(folder.path().to_owned())?;
    let unavailable = netns::unavailable().filter(|_| !loopback);
    if let (Some(why), false) = (&unavailable, beside.is_empty()) {
        let why = anyhow!("--beside needs network namespaces, and so root: {why}");
        return Err(Failure::Failed(why));
    }
    let is_tun = !loopback && unavailable.is_none();
    if let Some(why) = unavailable {
        writeln!(
            streams.err,
            "no network namespaces ({why}): over the loopback and the proxy, TCP alone"
        )?;
    }
    let ground = match is_tun {
        true => Ground::with_tun(folder.path(), beside)?,
        false => Ground::on_loopback(folder.path())?,
    };
    let subjects = &ground.subjects;
    let measured = runs(how, subjects, streams, |subject, groups, time| {
        let measure = || rows::measure(&subject.gauge, &subject.processes, groups, time);
        ground.at_client(measure)
    })?;
    tell(how, measured, streams)
}

fn to(
    address: SocketAddr,
    socks5: Option<SocketAddr>,
    how: &How,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let gauge = Gauge::new(address);
    let subject = Subject {
        name: address.to_string(),
        is_rival: false,
        gauge: socks5.map_or(gauge, |proxy| gauge.through(proxy)),
        processes: Processes::default(),
        groups: match socks5 {
            Some(_) => &[Group::Tcp],
            None => &[Group::Tcp, Group::Udp, Group::Ping],
        },
    };
    let measured = runs(how, &[subject], streams, |subject, groups, time| {
        rows::measure(&subject.gauge, &subject.processes, groups, time)
    })?;
    tell(how, measured, streams)
}

/// Measures everybody once in each run.
fn runs(
    how: &How,
    subjects: &[Subject],
    streams: &mut Streams<'_>,
    measure: impl Fn(&Subject, &[Group], Duration) -> anyhow::Result<rows::Figures>,
) -> Result<Vec<Measured>, Failure> {
    let time = Duration::from_secs(how.seconds);
    let mut measured: Vec<_> = subjects
        .iter()
        .map(|subject| Measured {
            name: subject.name.clone(),
            is_rival: subject.is_rival,
            runs: Vec::new(),
        })
        .collect();
    for run in 1..=how.runs {
        for (subject, measured) in subjects.iter().zip(&mut measured) {
            let groups = subject.groups.iter().copied();
            let groups: Vec<_> = groups.filter(|group| how.rows.contains(group)).collect();
            writeln!(streams.err, "run {run} of {}: {} …", how.runs, subject.name)?;
            let figures = measure(subject, &groups, time).map_err(|error| {
                let error = error.context(format!("measuring {}", subject.name));
                Failure::Failed(error)
            })?;
            measured.runs.push(figures);
        }
    }
    Ok(measured)
}

fn tell(how: &How, subjects: Vec<Measured>, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let report = Report {
        subjects,
        seconds: how.seconds,
    };
    match how.json {
        true => writeln!(streams.out, "{}", report.json())?,
        false => write!(streams.out, "{}", report.table())?,
    }
    Ok(())
}

fn serve(address: SocketAddr, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let server = Server::start(address)?;
    let told = signals::told()?;
    writeln!(
        streams.out,
        "serving measurements on {}; Ctrl-C ends it",
        server.address()
    )?;
    streams.out.flush()?;
    // The thread that tells lives as long as the process.
    let _ended = told.recv();
    Ok(())
}
