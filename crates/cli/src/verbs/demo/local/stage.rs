//! A client, its exits, and the relays in front of them, in this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use quell::client::Client;
use quell::control::{self, Command, Request};
use quell::provider::Provider;
use quell_lab::relay::{Relay, RelayConfig};
use serde_json::Value;

use super::plan::{Plan, Wanted, exit_name};
use crate::Failure;
use crate::loopback::{exit_address, free_port, relay_address};
use crate::stage::FULL_SIZE;

/// How long the client may take until it is up with all exits.
const READY_TIME: Duration = Duration::from_secs(15);
/// How long an end may take to answer a question.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// How often a condition is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Where the world of a demo is: its web server, echo and sinks.
pub(super) const WORLD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Everything, running.
pub(super) struct Stage {
    // Dropped in this order: the client says goodbye while somebody hears it.
    _client: Client,
    client_socket: PathBuf,
    exits: Vec<Exit>,
    proxies: Proxies,
}

/// Where applications find the tunnel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proxies {
    pub(super) socks5: SocketAddr,
    pub(super) http: SocketAddr,
}

/// An exit and the wire to it. Both are gone when it was killed.
struct Exit {
    // Dropped in this order: what it still says comes to nobody.
    relay: Option<Relay>,
    provider: Option<Provider>,
    socket: PathBuf,
}

impl Stage {
    /// Sets up what is `wanted`, with files in `folder`, and waits until the client has all
    /// exits and packets of full size cross whole.
    ///
    /// # Errors
    /// Something of it is not to be had, or was not up in time.
    pub(super) fn set(folder: &Path, wanted: Wanted) -> Result<Self, Failure> {
        let plan = Plan::new(folder, wanted.exits)?;
        let exits: Vec<_> = (0..wanted.exits)
            .map(|exit| Exit::start(&plan, exit))
            .collect::<Result<_, _>>()?;
        let relays: Vec<_> = exits.iter().filter_map(Exit::relay_address).collect();
        let client = Client::start(&plan.client(&relays, wanted)?)?;
        let listening = client.proxy().map(|proxy| proxy.listening());
        let proxies = listening.and_then(|listening| {
            Some(Proxies {
                socks5: listening.socks5?,
                http: listening.http?,
            })
        });
        let stage = Self {
            _client: client,
            client_socket: plan.socket("client"),
            exits,
            proxies: proxies.context("the client does not listen for applications")?,
        };
        stage.until_up()?;
        Ok(stage)
    }

    pub(super) fn proxies(&self) -> Proxies {
        self.proxies
    }

    /// What the client says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn client_status(&self) -> Result<Value, Failure> {
        ask(&self.client_socket)
    }

    /// What the exits that live say of themselves.
    ///
    /// # Errors
    /// One does not answer.
    pub(super) fn provider_statuses(&self) -> Result<Vec<Value>, Failure> {
        let living = self.exits.iter().filter(|exit| exit.provider.is_some());
        living.map(|exit| ask(&exit.socket)).collect()
    }

    /// From now on `exit` takes what comes and says nothing.
    pub(super) fn freeze(&self, exit: usize) {
        self.relay(exit, Relay::freeze);
    }

    /// It goes on, with what has come meanwhile.
    pub(super) fn thaw(&self, exit: usize) {
        self.relay(exit, Relay::thaw);
    }

    /// From now on nothing passes to `exit`, nor back.
    pub(super) fn silence(&self, exit: usize) {
        self.relay(exit, Relay::cut);
    }

    /// Takes that back.
    pub(super) fn heal(&self, exit: usize) {
        self.relay(exit, Relay::heal);
    }

    /// Both, for all exits.
    pub(super) fn silence_all(&self) {
        (0..self.exits.len()).for_each(|exit| self.silence(exit));
    }

    pub(super) fn heal_all(&self) {
        (0..self.exits.len()).for_each(|exit| self.heal(exit));
    }

    /// Takes `exit` away without a word: its port is closed first, so that nothing of its end
    /// comes to the client.
    pub(super) fn kill(&mut self, exit: usize) {
        if let Some(exit) = self.exits.get_mut(exit) {
            exit.relay = None;
            exit.provider = None;
        }
    }

    fn relay(&self, exit: usize, act: impl FnOnce(&Relay)) {
        let relay = self.exits.get(exit).and_then(|exit| exit.relay.as_ref());
        if let Some(relay) = relay {
            act(relay);
        }
    }

    fn until_up(&self) -> Result<(), Failure> {
        let is_up = |status: &Value| {
            let exits = status["exits"].as_array().into_iter().flatten();
            let up = exits.filter(|exit| {
                exit["is_usable"] == true && exit["path"]["inner_mtu"].as_u64() > Some(FULL_SIZE)
            });
            status["interface_ready"] == true && up.count() == self.exits.len()
        };
        let start = Instant::now();
        let mut last = Value::Null;
        while start.elapsed() < READY_TIME {
            last = self.client_status()?;
            if is_up(&last) {
                return Ok(());
            }
            thread::sleep(LOOK_INTERVAL);
        }
        Err(Failure::Failed(anyhow!(
            "the client was not up with all exits after {READY_TIME:?}; last it said {last}"
        )))
    }
}

impl Exit {
    fn start(plan: &Plan, exit: usize) -> Result<Self, Failure> {
        let listen = free_port(exit_address(exit).into())?;
        let provider = Provider::start(&plan.provider(exit, listen)?)?;
        let relay = Relay::start(RelayConfig::new(relay_address(exit), listen))?;
        Ok(Self {
            relay: Some(relay),
            provider: Some(provider),
            socket: plan.socket(&exit_name(exit)),
        })
    }

    fn relay_address(&self) -> Option<SocketAddr> {
        self.relay.as_ref().map(Relay::address)
    }
}

fn ask(socket: &Path) -> Result<Value, Failure> {
    let request = Request {
        command: Command::Status,
    };
    Ok(control::request(socket, request, ANSWER_TIME)?)
}
