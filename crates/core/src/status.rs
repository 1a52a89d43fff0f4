//! Snapshots for people and programs: what a client or a provider is doing.
//!
//! Plain values, made on request, never consulted by a decision. Names here are
//! the names in `status --json`.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use crate::budget::{DialStatus, QuietStatus};
use crate::contract::{BooksStatus, Pause};
use crate::drops::Drops;
use crate::flap::FlapCounters;
use crate::health::dial_gate::DialGateStatus;
use crate::health::probe_latch::ProbeLatchStatus;
use crate::health::uplink_doubt::UplinkDoubtStatus;
use crate::multi::flows::FlowsStatus;
use crate::multi::{RaceCounters, WindowStatus};
use crate::path::{Counters, FrameBytes, LaneBooks, Path, PathBooks};
use crate::provider::ClosedCounters;
use crate::provider::fair::ShareStatus;
use crate::provider::limits::{ClientUse, MonthStatus, RefusalCounters};
use crate::provider::rules::EgressCounters;

/// One path.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PathStatus {
    /// Largest packet that crosses whole (or 1,280), in bytes.
    pub inner_mtu: u16,
    /// Bytes waiting in the queue.
    pub queued_bytes: usize,
    /// The last measured round trip, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// What happened to packets.
    pub counters: Counters,
    /// Packets not carried, by reason.
    pub drops: Drops,
    /// The lane of the embedder's messages, in packs.
    pub message: LaneBooks,
    /// The lane of TCP and of what crosses in pieces, in packs.
    pub flow: LaneBooks,
    /// Bytes of frames that left, by cause.
    pub frame_bytes: FrameBytes,
    /// Whether the path does not answer.
    pub stalled: bool,
    /// Accepted packets, and packs, of which nothing became that was counted: 0, or a bug.
    pub unaccounted: i64,
}

impl PathStatus {
    /// A snapshot of `path`.
    pub fn of(path: &Path) -> Self {
        let books = PathBooks::of(path);
        Self {
            inner_mtu: path.inner_mtu(),
            queued_bytes: path.queued_bytes(),
            rtt_ms: path.rtt().map(|rtt| rtt.as_secs_f64() * 1e3),
            unaccounted: books.unaccounted(),
            counters: books.counters,
            drops: books.drops,
            message: books.message,
            flow: books.flow,
            frame_bytes: books.frame_bytes,
            stalled: path.is_stalled(),
        }
    }

    /// The books in it.
    pub fn books(&self) -> PathBooks {
        PathBooks {
            counters: self.counters,
            drops: self.drops,
            message: self.message,
            flow: self.flow,
            frame_bytes: self.frame_bytes,
        }
    }
}

/// Addresses inside the tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TunnelAddresses {
    /// The client's IPv4 address and prefix length.
    pub ipv4: Option<(Ipv4Addr, u8)>,
    /// The client's IPv6 address and prefix length.
    pub ipv6: Option<(Ipv6Addr, u8)>,
    /// The provider's IPv4 address.
    pub gateway_ipv4: Option<Ipv4Addr>,
    /// The provider's IPv6 address.
    pub gateway_ipv6: Option<Ipv6Addr>,
}

/// One exit of a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ExitStatus {
    /// What people call it.
    pub name: String,
    /// `dialing`, `greeting`, `up` or `waiting`.
    pub state: &'static str,
    /// Why, in words.
    pub reason: String,
    /// Whether new flows are well there.
    pub is_usable: bool,
    /// What it is to the window, in words.
    pub window: String,
    /// Milliseconds until the next dial, while waiting.
    pub next_dial_in_ms: Option<u64>,
    /// Dials so far.
    pub dials: u64,
    /// Sessions that were established so far.
    pub sessions: u64,
    /// How often a session went on over another connection.
    pub resumes: u64,
    /// What the provider knows this client by, while there is a session.
    pub addresses: Option<TunnelAddresses>,
    /// The current path.
    pub path: Option<PathStatus>,
    /// How well it does, in (0, 1]; to be compared with the others'.
    pub score: f64,
    /// Its answers to PINGs.
    pub probe: Option<ProbeLatchStatus>,
    /// Flows that are open on it.
    pub flows: usize,
    /// Datagrams that came while there was no path to take them.
    pub early_datagrams: u64,
    /// What the paths of earlier sessions did, all together.
    pub ended: PathBooks,
    /// The gate before the provider.
    pub dial_gate: Option<DialGateStatus>,
}

/// A client.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClientStatus {
    /// `up` where any exit is; else that of the exit that is the first choice:
    /// `dialing`, `greeting` or `waiting`.
    pub state: &'static str,
    /// Why, in words.
    pub reason: String,
    /// Milliseconds until the next dial of that exit, while waiting.
    pub next_dial_in_ms: Option<u64>,
    /// Dials so far, of all exits.
    pub dials: u64,
    /// Sessions that were established so far.
    pub sessions: u64,
    /// How often a session went on over another connection.
    pub resumes: u64,
    /// Addresses inside the TUN.
    pub addresses: Option<TunnelAddresses>,
    /// Which of `exits` is the first choice.
    pub main_exit: usize,
    /// How often another exit became the first choice.
    pub exit_changes: u64,
    /// The exits, in the order of the configuration.
    pub exits: Vec<ExitStatus>,
    /// Packets of the TUN handed in since the start, carried or not.
    pub tun_packets: u64,
    /// Copies of such packets that were sent over one more exit.
    pub extra_copies: u64,
    /// Packets that never reached a path, by reason.
    pub tun_drops: Drops,
    /// Packets of providers that were not handed to the TUN, by reason.
    pub received_drops: Drops,
    /// Packets of providers handed to the TUN.
    pub delivered: u64,
    /// Packets for the TUN that this client made itself: resets of connections whose
    /// exit is gone, and refusals that were kept for a while.
    pub made: u64,
    /// Datagrams that came while there was no path to take them.
    pub early_datagrams: u64,
    /// What the paths of earlier sessions did, all together.
    pub ended: PathBooks,
    /// The ceiling over all that is sent while nothing makes progress.
    pub quiet: QuietStatus,
    /// How often dials start, whichever provider they are for.
    pub dial_budget: DialStatus,
    /// The exits that are kept.
    pub window: WindowStatus,
    /// How often exits left, or were held.
    pub flap: FlapCounters,
    /// Whether the own uplink is in doubt.
    pub uplink: Option<UplinkDoubtStatus>,
    /// The flow table.
    pub flows: FlowsStatus,
    /// What was sent over two exits.
    pub races: RaceCounters,
    /// Why the last copy that was due was not sent, in words; empty when it was.
    pub race_held: String,
    /// How often the pack was handed over that was handed over most, over all
    /// sessions since the start.
    pub max_sends_of_one_pack: u64,
    /// Over all sessions since the start: see [`PathStatus::unaccounted`].
    pub unaccounted: i64,
}

/// One client of a provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SessionStatus {
    /// The client's name in the configuration.
    pub client: String,
    /// `greeting`, `up`, `suspended` or `closing`.
    pub state: &'static str,
    /// Its addresses.
    pub addresses: Option<TunnelAddresses>,
    /// Its path.
    pub path: PathStatus,
    /// Packets of the client that were not handed on, by reason; those that waited in vain too.
    pub received_drops: Drops,
    /// Packets handed on, ICMP errors and resets of our own not counted.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Flows that it gave up.
    pub closed: ClosedCounters,
    /// What the rules of the way out came to for it.
    pub egress: EgressCounters,
    /// What it holds of what one client may take.
    pub usage: ClientUse,
    /// Its packets that wait for the egress.
    pub outward: ShareStatus,
    /// The world's packets that wait for its share.
    pub inward: ShareStatus,
    /// It is carried under contracts alone.
    pub billed: bool,
    /// Why nothing is carried for it at the moment; `None` while it is.
    pub pause: Option<PauseStatus>,
}

/// Why a session that is carried under contracts is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PauseStatus {
    /// For programs: see [`Pause::name`].
    pub name: &'static str,
    /// For people.
    pub words: &'static str,
}

impl From<Pause> for PauseStatus {
    fn from(pause: Pause) -> Self {
        Self {
            name: pause.name(),
            words: pause.words(),
        }
    }
}

/// A provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProviderStatus {
    /// Sessions at the moment.
    pub sessions: Vec<SessionStatus>,
    /// Sessions that were established so far.
    pub sessions_total: u64,
    /// How often a session went on over another connection.
    pub resumes: u64,
    /// Handshakes, by what became of them.
    pub handshakes: crate::provider::doorman::HandshakeCounters,
    /// Whether it was told to stop and carries on for a while.
    pub is_draining: bool,
    /// Connections refused, by the name of the error code.
    pub refused: std::collections::BTreeMap<&'static str, u64>,
    /// Packets from the world handed in since the start.
    pub tun_packets: u64,
    /// Packets from the world that no session carries, by reason; those that waited in vain too.
    pub tun_drops: Drops,
    /// The world's packets that wait for their clients' shares, all together.
    pub inward: ShareStatus,
    /// The month, and what was carried in it.
    pub month: Option<MonthStatus>,
    /// Its contracts and receipts; `None` where it carries listed clients alone.
    pub contracts: Option<BooksStatus>,
    /// Datagrams that came for a session that was not up.
    pub early_datagrams: u64,
    /// What the paths of sessions that are gone did, all together.
    pub ended: PathBooks,
    /// Packets of clients that sessions which are gone did not hand on, by reason.
    pub ended_received_drops: Drops,
    /// Packets that sessions which are gone handed on.
    pub ended_delivered: u64,
    /// Flows that clients of sessions which are gone gave up.
    pub ended_closed: ClosedCounters,
    /// What the rules of the way out came to, for all sessions since the start.
    pub egress: EgressCounters,
    /// What clients of sessions which are gone were told of refusals.
    pub ended_refusals: RefusalCounters,
    /// How often the pack was handed over that was handed over most, over all
    /// sessions since the start.
    pub max_sends_of_one_pack: u64,
    /// Over all sessions since the start: see [`PathStatus::unaccounted`].
    pub unaccounted: i64,
}

impl ClientStatus {
    /// What all paths since the start did.
    pub fn books(&self) -> PathBooks {
        let mut books = self.ended;
        let paths = self.exits.iter().filter_map(|exit| exit.path.as_ref());
        paths.for_each(|path| books += path.books());
        books
    }

    /// The exit that is the first choice.
    pub fn main(&self) -> Option<&ExitStatus> {
        self.exits.get(self.main_exit)
    }

    /// The path of the exit that is the first choice, while it has one.
    pub fn path(&self) -> Option<&PathStatus> {
        self.main()?.path.as_ref()
    }
}

impl ProviderStatus {
    /// What all paths since the start did.
    pub fn books(&self) -> PathBooks {
        let mut books = self.ended;
        let paths = self.sessions.iter().map(|session| session.path.books());
        paths.for_each(|path| books += path);
        books
    }
}

impl TunnelAddresses {
    /// Whether `address` is the client's.
    pub fn owns(&self, address: std::net::IpAddr) -> bool {
        match address {
            std::net::IpAddr::V4(address) => self.ipv4.is_some_and(|own| own.0 == address),
            std::net::IpAddr::V6(address) => self.ipv6.is_some_and(|own| own.0 == address),
        }
    }
}
