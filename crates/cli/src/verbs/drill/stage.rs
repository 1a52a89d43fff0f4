//! The processes of a drill and the wires between them.
//!
//! ```text
//! user ── SOCKS5 ──> quell up ══ QUIC over UDP ══> relay ══> quell provide ── sockets ──> sinks
//! 127.0.0.1:any      a process                    127.86.0.2  127.86.0.1, a process       127.0.0.1
//!                        └── HTTP ──> backend, 127.0.0.1
//! ```
//!
//! What is to be broken is said as a whole, [`Broken`], and the stage goes from what is to what should be. A provider
//! that dies is killed (SIGKILL) and its relay stays: to the client it is silent, and no closed port tells of it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use anyhow::{Context as _, Result};
use quell::config::{ClientFile, ProviderFile};
use quell_lab::relay::{Relay, RelayConfig};
use quell_sim::link::LinkConfig;
use quell_sim::scenario::{PathModel, Scenario};
use serde_json::Value;

use super::backend::{Backend, Mode};
use crate::loopback::files::{CLIENT, ClientSays, Files, role};
use crate::loopback::{exit_address, free_port, relay_address};
use crate::stage::{End, Program};

/// What is broken at a moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Broken {
    /// Of each exit: the way to it is cut, the way back is cut, it is dead.
    pub(super) exits: Vec<(bool, bool, bool)>,
    /// What the backend does.
    pub(super) backend: Mode,
}

/// Everything, running. Dropping it kills it.
pub(super) struct Stage {
    // The client goes first, while somebody hears its goodbye.
    client: Option<End>,
    exits: Vec<Exit>,
    backend: Option<Backend>,
    files: Files,
    program: Program,
    socks5: SocketAddr,
    client_file: ClientFile,
    provider_file: ProviderFile,
    now: Broken,
}

struct Exit {
    process: Option<End>,
    relay: Relay,
}

impl Stage {
    /// Providers, relays and backend, all well; the client is not started.
    ///
    /// # Errors
    /// Something of it is not to be had.
    pub(super) fn set(folder: &Path, program: Program, scenario: &Scenario) -> Result<Self> {
        let program = program.by_its_files_alone();
        let count = usize::from(scenario.fleet.providers);
        let files = Files::new(folder, count)?;
        let (mut exits, mut provider_file) = (Vec::new(), None);
        for exit in 0..count {
            let listen = free_port(exit_address(exit).into())?;
            let file = files.provider(exit, listen)?;
            provider_file.get_or_insert(file);
            let config = relay_config(&scenario.path, exit, listen);
            let mut process = End::start_here(&program, "provide", &role(exit), folder)?;
            process.until_ready()?;
            exits.push(Exit {
                process: Some(process),
                relay: Relay::start(config)?,
            });
        }
        let well = Mode::Answers(scenario.backend.answer_time);
        let backend = match scenario.fleet.backends {
            0 => None,
            _ => Some(Backend::start(well)?),
        };
        let relays: Vec<_> = exits.iter().map(|exit| exit.relay.address()).collect();
        // A port that was free a moment ago: the users have to know it before the client says so.
        let socks5 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let says = ClientSays {
            relays: &relays,
            socks5,
            backend: backend
                .as_ref()
                .map(|backend| (backend.address(), scenario.backend.demand_interval)),
        };
        Ok(Self {
            client: None,
            client_file: files.client(&says)?,
            provider_file: provider_file.context("no provider")?,
            now: Broken {
                exits: vec![(false, false, false); count],
                backend: well,
            },
            exits,
            backend,
            files,
            program,
            socks5,
        })
    }

    /// Starts the client, whose proxy listens from the beginning on.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start_client(&mut self) -> Result<()> {
        let folder = self.files.folder();
        let mut client = End::start_here(&self.program, "up", CLIENT, folder)?;
        client.until_ready()?;
        self.client = Some(client);
        Ok(())
    }

    pub(super) fn socks5(&self) -> SocketAddr {
        self.socks5
    }

    /// The files that the client and a provider run with.
    pub(super) fn configs(&self) -> (&ClientFile, &ProviderFile) {
        (&self.client_file, &self.provider_file)
    }

    /// What the client says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn client_status(&self) -> Result<Value> {
        self.client
            .as_ref()
            .context("the client was not started")?
            .status()
    }

    /// What the providers that live say of themselves.
    ///
    /// # Errors
    /// One does not answer.
    pub(super) fn provider_statuses(&self) -> Result<Vec<Value>> {
        let living = self.exits.iter().filter_map(|exit| exit.process.as_ref());
        living.map(End::status).collect()
    }

    /// Questions that reached the backend so far.
    pub(super) fn questions(&self) -> u64 {
        self.backend.as_ref().map_or(0, Backend::questions)
    }

    /// Breaks and heals, so that it is as `wanted`.
    ///
    /// # Errors
    /// A provider cannot be killed, or does not come back.
    pub(super) fn go_to(&mut self, wanted: &Broken) -> Result<()> {
        let states = self.now.exits.iter().zip(&wanted.exits);
        for (index, (exit, (was, is))) in self.exits.iter_mut().zip(states).enumerate() {
            exit.relay.set_up_blackhole(is.0);
            exit.relay.set_down_blackhole(is.1);
            match (was.2, is.2) {
                (false, true) => {
                    if let Some(mut process) = exit.process.take() {
                        process.kill()?;
                    }
                }
                (true, false) => {
                    let role = role(index);
                    let folder = self.files.folder();
                    let process = End::start_here(&self.program, "provide", &role, folder)?;
                    exit.process = Some(process);
                }
                (false, false) | (true, true) => {}
            }
        }
        if let Some(backend) = &self.backend {
            backend.set(wanted.backend);
        }
        self.now = wanted.clone();
        Ok(())
    }

    /// Logs of all, for who has to find out what went wrong.
    pub(super) fn client_log(&self) -> String {
        self.client.as_ref().map(End::log).unwrap_or_default()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(mut client) = self.client.take() {
            // One that does not stop in time is killed with its guard.
            let _ = client.stop();
        }
    }
}

fn relay_config(path: &PathModel, exit: usize, listen: SocketAddr) -> RelayConfig {
    let delay = path.rtt / 2;
    let link = LinkConfig {
        delay,
        jitter: path.jitter.min(delay),
        loss: path.loss,
        rate_bytes_per_s: path.rate_bits_per_s.map(|bits| (bits / 8).max(1)),
        queue_ms_max: u64::try_from(path.queue.as_millis()).unwrap_or(u64::MAX),
        ..LinkConfig::default()
    };
    RelayConfig {
        up: link,
        down: link,
        seed: exit as u64 + 1,
        ..RelayConfig::new(relay_address(exit), listen)
    }
}
