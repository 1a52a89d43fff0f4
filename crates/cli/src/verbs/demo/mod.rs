//! `quell demo`: real tunnels on this machine, and what becomes of them when things break.
//!
//! The first act is a download between both ends, and then an outage. The second has
//! three exits, which freeze, die and fall silent: see `exits`.
//!
//! ```text
//! namespace "client"                       "router"                  namespace "provider"
//!   quell up ── TUN quell0 ═══ QUIC over UDP ═══╪═══ TUN quell-exit ── quell provide
//!   download ─────────────────────────────────────────────────────→ web server
//!   UDP and TCP of 1 Mbit/s, pings ───────── cut ─────────────────→ echo, sink
//! ```
//!
//! The first act's web server, the echo and the sink are on the exit itself, at its address
//! inside the tunnel: every packet crosses both TUNs and the wire between them,
//! and nothing has to be translated behind the exit, for which a bare machine
//! would need `nft`. The router drops what it is given, silently and both ways,
//! so that neither end is told of the cut by anything but the silence.
//!
//! | file | what it is for |
//! |---|---|
//! | `quiet` | a ping and a download while nothing else runs |
//! | `outage` | steady loads, second by second, through the cut and its end |
//! | `exits` | the second act |
//! | `books` | what both ends say became of their packets |
//! | `verdict` | the first act's bounds, and its part of the JSON object |
//! | `bounds` | whether a bound held, for people and programs |
//! | `text` | numbers and tables for a terminal of 80 columns |
//!
//! Nothing of this machine is touched: the namespaces have no names and die with
//! the process, however it ends. What is left to clean up is one folder of keys
//! and configuration, removed also on Ctrl-C.

mod books;
mod bounds;
mod exits;
mod outage;
mod quiet;
mod text;
mod verdict;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use quell_lab::netns;
use quell_lab::topology::{self, FAR_PROVIDER_V4, Routed};
use quell_wire::registry::DEFAULT_PORT;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::stage::{End, Plan};
use crate::{Failure, Streams};
use bounds::Bound;
use outage::Outage;
use quiet::Quiet;
use verdict::Figures;

/// Exit code of a program ended by Ctrl-C, as shells report it.
const EXIT_INTERRUPTED: i32 = 130;

/// MTU of the wire, in bytes.
const WIRE_MTU: u32 = 1_500;
/// Inner packets above this size cross whole once the path's MTU is found, in bytes.
const FULL_SIZE: u64 = 1_390;
/// The exit's address inside the tunnel: the first of the pool that [`Plan`] has.
const EXIT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 85, 0, 1));

/// Run tunnels in network namespaces, cut the wire under load, and let exits go
///
/// Plays two acts and prints one line a second. In the first, some 40 s long, a file
/// is downloaded and the wire is cut under load. In the second, 31 s long, a client
/// has three exits: one freezes, one is killed, and all fall silent for a while. After
/// each it says whether what quell promises held. Ends with 1 if it did not.
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
        if let Some(why) = netns::unavailable() {
            return Err(Failure::Failed(anyhow!(
                "the demo makes network namespaces and needs root for that: {why}"
            )));
        }
        let folder = tempfile::Builder::new().prefix("quell-demo-").tempdir()?;
        remove_on_interrupt(folder.path().to_owned())?;
        let figures = {
            let talk: &mut dyn Write = match self.json {
                true => &mut *streams.err,
                false => &mut *streams.out,
            };
            self.play(folder.path(), talk)?
        };
        if self.json {
            writeln!(streams.out, "{}", figures.json())?;
        }
        match bounds::broken(&figures.bounds()).as_slice() {
            [] => Ok(()),
            broken => Err(Failure::Failed(anyhow!(
                "out of bounds: {}",
                broken.join(", ")
            ))),
        }
    }

    fn play(&self, folder: &Path, talk: &mut dyn Write) -> Result<Acts, Failure> {
        let mut acts = Acts::default();
        if self.act != Some(Act::Exits) {
            let figures = self.measure(&stage_folder(folder, "outage")?, talk)?;
            if !self.json {
                write!(talk, "\n{figures}")?;
            }
            acts.outage = Some(figures);
        }
        if self.act.is_none() {
            writeln!(talk)?;
        }
        if self.act != Some(Act::Outage) {
            let figures = exits::measure(&stage_folder(folder, "exits")?, talk)?;
            if !self.json {
                write!(talk, "\n{figures}")?;
            }
            acts.exits = Some(figures);
        }
        Ok(acts)
    }

    fn measure(&self, folder: &Path, talk: &mut dyn Write) -> Result<Figures, Failure> {
        writeln!(
            talk,
            "a client, a router and an exit, each in a namespace …"
        )?;
        let mut stage = Stage::set(folder)?;
        write!(talk, "{}", text::tunnel(&stage.client.status()?))?;
        let quiet = Quiet::measure(&stage, self.size * 1024 * 1024)?;
        write!(talk, "{quiet}\n\n{}", text::announcement(self.outage))?;
        let outage = Outage::measure(&mut stage, self.outage, talk)?;
        let ends = stage.clear()?;
        Ok(Figures::of(&quiet, outage, &ends))
    }
}

/// What the acts that were played measured.
#[derive(Debug, Default)]
struct Acts {
    outage: Option<Figures>,
    exits: Option<exits::Figures>,
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
}

/// A folder of an act's own.
fn stage_folder(folder: &Path, act: &str) -> Result<PathBuf, Failure> {
    let folder = folder.join(act);
    std::fs::create_dir(&folder)?;
    Ok(folder)
}

/// What both ends said last.
#[derive(Debug)]
struct Ends {
    client: Value,
    provider: Value,
}

/// Both ends, running.
struct Stage {
    // Dropped in this order: processes before the namespaces they live in.
    client: End,
    provider: End,
    net: Routed,
}

impl Stage {
    /// Sets everything up and waits until the tunnel carries packets of full size.
    fn set(folder: &Path) -> Result<Self, Failure> {
        let net = topology::routed(WIRE_MTU)?;
        let mut plan = Plan::new(folder, SocketAddr::new(FAR_PROVIDER_V4, DEFAULT_PORT))?;
        // The servers of this act stand on the exit itself, which is denied by default.
        plan.allow = vec![EXIT.to_string()];
        plan.write()?;
        let mut provider = plan.provide(&net.provider)?;
        provider.until_ready()?;
        let mut client = plan.up(&net.client)?;
        client.until("up at full size", |status| {
            status["interface_ready"] == true
                && status["exits"][0]["path"]["inner_mtu"].as_u64() > Some(FULL_SIZE)
        })?;
        Ok(Self {
            client,
            provider,
            net,
        })
    }

    /// Ends both processes in good order, having asked them a last time.
    fn clear(mut self) -> Result<Ends, Failure> {
        let ends = Ends {
            client: self.client.status()?,
            provider: self.provider.status()?,
        };
        self.client.stop()?;
        self.provider.stop()?;
        Ok(ends)
    }
}

/// On SIGINT and SIGTERM removes the demo's folder and ends the process, with
/// which namespaces and children end too.
fn remove_on_interrupt(folder: PathBuf) -> Result<(), Failure> {
    let (ready, is_ready) = mpsc::channel();
    thread::Builder::new()
        .name("quell-demo-signals".to_owned())
        .spawn(move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                let (Ok(mut interrupt), Ok(mut terminate)) = (
                    signal(SignalKind::interrupt()),
                    signal(SignalKind::terminate()),
                ) else {
                    return;
                };
                let _ = ready.send(());
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                // Nothing is left to be done about a folder that cannot be removed.
                let _ = std::fs::remove_dir_all(&folder);
                process::exit(EXIT_INTERRUPTED);
            });
        })?;
    is_ready
        .recv_timeout(Duration::from_secs(5))
        .map_err(|_| Failure::Failed(anyhow!("cannot listen for Ctrl-C")))
}
