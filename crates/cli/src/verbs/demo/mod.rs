//! `quell demo`: both ends on this machine, and a download between them.
//!
//! ```text
//! namespace "client"                         namespace "provider"
//!   quell up ── TUN quell0 ═══ QUIC over a veth ═══ TUN quell-exit ── quell provide
//!   download ───────────────────────────────────────────────────────→ web server
//! ```
//!
//! Nothing of this machine is touched: the namespaces have no names and die with
//! the process, however it ends. What is left to clean up is one folder of keys
//! and configuration, removed also on Ctrl-C.

mod report;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use quell_lab::netns;
use quell_lab::topology::{self, NEAR_PROVIDER_V4, TwoHosts};
use quell_wire::registry::DEFAULT_PORT;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::stage::{End, Plan};
use crate::{Failure, Streams};
use report::Report;

/// Exit code of a program ended by Ctrl-C, as shells report it.
const EXIT_INTERRUPTED: i32 = 130;

/// MTU of the wire, in bytes.
const WIRE_MTU: u32 = 1_500;
/// Inner packets above this size cross whole once the path's MTU is found, in bytes.
const FULL_SIZE: u64 = 1_390;

/// Run both ends in two network namespaces and download a file through the tunnel
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Size of the download, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    size: u64,
}

impl Demo {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        if let Some(why) = netns::unavailable() {
            return Err(Failure::Failed(anyhow!(
                "the demo makes two network namespaces and needs root for that: {why}"
            )));
        }
        let folder = tempfile::Builder::new().prefix("quell-demo-").tempdir()?;
        remove_on_interrupt(folder.path().to_owned())?;
        writeln!(
            streams.err,
            "two namespaces, a wire between them, an exit and a client …"
        )?;
        let stage = Stage::set(folder.path())?;
        writeln!(streams.err, "the tunnel is up; downloading through it …")?;
        let report = Report::measure(&stage, self.size * 1024 * 1024)?;
        stage.clear()?;
        write!(streams.out, "{report}")?;
        match report.complaint() {
            None => Ok(()),
            Some(words) => Err(Failure::Failed(anyhow!(words))),
        }
    }
}

/// Both ends, running.
struct Stage {
    // Dropped in this order: processes before the namespaces they live in.
    client: End,
    provider: End,
    hosts: TwoHosts,
}

impl Stage {
    /// Sets everything up and waits until the tunnel carries packets of full size.
    fn set(folder: &Path) -> Result<Self, Failure> {
        let hosts = topology::two_hosts(WIRE_MTU)?;
        let address = SocketAddr::new(NEAR_PROVIDER_V4, DEFAULT_PORT);
        // The web server is on the exit itself, so nothing has to be translated.
        let plan = Plan::new(folder, address)?;
        plan.write()?;
        let mut provider = plan.provide(&hosts.provider)?;
        provider.until_ready()?;
        let mut client = plan.up(&hosts.client)?;
        client.until("up at full size", |status| {
            status["interface_ready"] == true
                && status["path"]["inner_mtu"].as_u64() > Some(FULL_SIZE)
        })?;
        Ok(Self {
            client,
            provider,
            hosts,
        })
    }

    /// Ends both processes in good order.
    fn clear(mut self) -> Result<(), Failure> {
        self.client.stop()?;
        self.provider.stop()?;
        Ok(())
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
