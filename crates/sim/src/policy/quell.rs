//! quell itself: the core as clients and providers of a fleet.
//!
//! Nothing of quell's is rebuilt here. [`quell_core::multi::Client`] and [`quell_core::provider::Provider`] decide, as in
//! production; this drives them as the engine of the `net` crate does, with a user's TCP in front, destinations behind, and
//! questions to the backend beside, which go through [`quell_core::health::BackendHealth`].
//!
//! An [`Ablation`] is quell less one mechanism. It is a change of the configuration, or of what a node is told; where the
//! core has a floor below which no setting goes, the ablation goes to the floor, and says so.

mod asking;
mod client;
mod frames;
mod server;
mod user;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::budget::ProcessBudget;
use quell_core::config::{ClientConfig, ProviderConfig, SilenceConfig};
use quell_core::multi::{Client, ExitSettings};
use quell_core::provider::{AddressPool, Provider, Roster};
use quell_wire::key::PublicKey;

use crate::fleet::Options;
use crate::fleet::node::{ClientId, FleetSize, Policy, ServerId, mixed};
use crate::scenario::Scenario;

pub use client::QuellClient;
pub use server::QuellServer;

/// The destination of all users: a public address, and a port that no rule forbids.
const DESTINATION: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(93, 184, 216, 34)), 443);
/// Largest packet of both devices.
const MTU: u16 = 1_500;

/// Which mechanism is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ablation {
    /// None.
    None,
    /// The cap on resends: 254 of them.
    Cap,
    /// The budget of resends into silence: so large that it never binds.
    Budget,
    /// The signal: nobody who paces himself by the backend is told of it.
    Widening,
    /// Hush and stall: so many probe timeouts that a path is never taken for silent.
    Stall,
    /// The racer's restraint: the widest race, the shortest delay, a budget that never binds.
    RaceAll,
    /// Waits between dials, of the gate, of a row of failures, and of all dials together.
    Backoff,
    /// The ceiling over a quiet time.
    Quiet,
    /// The gate before the backend.
    ProbeGate,
    /// The window is filled up to `window_max` at any time, from whatever is left: no gate is asked before it grows.
    Window,
    /// All that holds dials and bytes back together: [`Self::Backoff`], [`Self::Budget`], [`Self::Quiet`],
    /// [`Self::Window`].
    Gates,
    /// [`Self::Stall`] and [`Self::Budget`]: a path that is taken for silent asks for too few resends to meet the budget,
    /// so that what the budget is worth shows only beside [`Self::Stall`].
    StallAndBudget,
}

impl Ablation {
    /// Whether it leaves this one mechanism out.
    fn leaves_out(self, one: Self) -> bool {
        match self {
            Self::Gates => [Self::Backoff, Self::Budget, Self::Quiet, Self::Window].contains(&one),
            Self::StallAndBudget => [Self::Stall, Self::Budget].contains(&one),
            Self::None
            | Self::Cap
            | Self::Budget
            | Self::Widening
            | Self::Stall
            | Self::RaceAll
            | Self::Backoff
            | Self::Quiet
            | Self::ProbeGate
            | Self::Window => self == one,
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct Quell {
    client: ClientConfig,
    provider: ProviderConfig,
    roster: Roster,
    asking: asking::Terms,
    ablation: Ablation,
}

/// What a client's key is. Keys of a fleet are spread as real ones are, for addresses follow from them.
fn key_of(client: ClientId) -> PublicKey {
    let mut bytes = [0; 32];
    for (part, index) in bytes.chunks_exact_mut(8).zip(0..) {
        part.copy_from_slice(&mixed(u64::from(client) << 8 | index).to_be_bytes());
    }
    PublicKey(bytes)
}

/// The budget of one process: that of the product, or one that never binds.
fn budget_of(ablation: Ablation) -> ProcessBudget {
    if !ablation.leaves_out(Ablation::Budget) {
        return ProcessBudget::default();
    }
    ProcessBudget::new(SilenceConfig {
        path_share_percent: 100_000,
        path_packs_per_s: 1_000_000,
        process_share_percent: 100_000,
        process_packs_per_s: 1_000_000,
    })
}

impl Quell {
    /// quell as it is configured, less what the ablation leaves out.
    pub fn new(scenario: &Scenario, options: &Options, ablation: Ablation) -> Self {
        let (mut client, mut provider) = options.quell.clone().unwrap_or_default();
        ablate(&mut client, &mut provider, ablation);
        let clients = 0..scenario.fleet.clients;
        // Names and keys are distinct: nothing can be refused.
        let roster = Roster::try_new(clients.map(|id| (format!("client-{id}"), key_of(id))));
        Self {
            client,
            provider,
            roster: roster.unwrap_or_default(),
            asking: asking::Terms::of(scenario, ablation),
            ablation,
        }
    }
}

fn ablate(client: &mut ClientConfig, provider: &mut ProviderConfig, ablation: Ablation) {
    for path in [&mut client.path, &mut provider.path] {
        if ablation.leaves_out(Ablation::Cap) {
            path.lanes.send.max_resend_count = 254;
        }
        if ablation.leaves_out(Ablation::Stall) {
            path.health.hush_ptos = 1_000_000;
            path.health.stall_ptos = 1_000_000;
            path.health.stall_time_min = Duration::from_secs(86_400);
            path.health.data_dead_rounds = u32::MAX;
        }
    }
    if ablation.leaves_out(Ablation::RaceAll) {
        client.racer.race_client_count = 3;
        client.racer.hedge_delay = Duration::from_nanos(1);
        client.racer.budget.race_share_percent = 100_000;
        client.racer.budget.race_copies_per_s = 1_000_000;
    }
    if ablation.leaves_out(Ablation::Backoff) {
        without_backoff(client);
    }
    if ablation.leaves_out(Ablation::Window) {
        client.window.window_min = client.window.window_max;
    }
    if ablation.leaves_out(Ablation::Quiet) {
        client.quiet.quiet_bytes = u64::MAX / 4;
    }
}

fn without_backoff(client: &mut ClientConfig) {
    let soon = Duration::from_millis(1);
    client.reconnect_base = soon;
    client.reconnect_max = soon;
    client.dial_gate.failure_threshold = 0;
    client.dial_gate.base_backoff = soon;
    client.dial_gate.max_backoff = soon;
    client.dial_gate.redial_spread = Duration::ZERO;
    client.dials.dial_interval = soon;
    client.dials.dial_burst = 1_000;
}

impl Policy for Quell {
    type Unit = Bytes;
    type Client = QuellClient;
    type Server = QuellServer;

    fn client(&self, id: ClientId, fleet: &FleetSize, seed: u64, now: Instant) -> QuellClient {
        let seed = mixed(seed ^ u64::from(id) << 24);
        let asking = asking::Asking::new(&self.asking, id, fleet.backends, seed, now);
        let catalog = fleet.catalog_of(id);
        let exits = catalog.iter().map(|_| ExitSettings::named("")).collect();
        let mut core = Client::with_exits(self.client.clone(), exits, "sim", MTU, seed, now)
            .with_budget(budget_of(self.ablation));
        if let Some(asking) = asking
            .as_ref()
            .filter(|_| self.ablation != Ablation::Widening)
        {
            core = core.with_signal(asking.signal());
        }
        QuellClient::new(core, catalog, asking)
    }

    fn server(&self, id: ServerId, incarnation: u32, _fleet: &FleetSize, seed: u64) -> QuellServer {
        // A pool of its own each: addresses differ from exit to exit.
        let pool = format!("10.{}.0.0/16", 64 + id % 128);
        let pool = AddressPool::try_new(pool.parse().ok(), None);
        let seed = mixed(seed ^ u64::from(id) << 32 ^ u64::from(incarnation) << 48 ^ 1);
        let provider = pool.ok().map(|pool| {
            let (config, roster) = (self.provider.clone(), self.roster.clone());
            Provider::new(config, roster, pool, MTU, seed)
        });
        QuellServer::new(provider)
    }

    fn without_acks(&self, unit: &Bytes) -> Option<Bytes> {
        frames::without_acks(unit)
    }

    fn packs(&self, unit: &Bytes, packs: &mut Vec<(u64, u32)>) {
        frames::packs(unit, packs);
    }
}
