//! Where a bench happens on one machine, and what is measured there.
//!
//! ```text
//! with root     namespace "client" ═══ veth ═══ namespace "provider"
//!               gauge ──────── no tunnel ──────────────> server
//!               gauge ── TUN ── quell up ══ QUIC ══ quell provide ── TUN ──> server
//!               gauge ── TUN ── a rival ═══ UDP ═══ the rival ────── TUN ──> server
//!
//! without       gauge ── SOCKS5 ── quell up ══ QUIC ══ quell provide ── sockets ──> server, all on the loopback
//! ```
//!
//! All tunnels stand at the same time, and are loaded one after the other: one that nobody uses costs nothing, and what the
//! machine does to one in a minute it does to the others in the next.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use anyhow::{Context as _, Result};
use quell_lab::gauge::{Gauge, Server};
use quell_lab::netns::Namespace;
use quell_lab::topology::{self, NEAR_PROVIDER_V4, TwoHosts};
use quell_wire::registry::DEFAULT_PORT;

use super::processes::Processes;
use super::rows::Group;
use super::wireguard::{self, Tunnel};
use crate::loopback::files::{CLIENT, ClientSays, Files, role};
use crate::loopback::{exit_address, free_port};
use crate::stage::{EXIT_V4, End, Plan, Program};

/// MTU of the wire, in bytes.
const WIRE_MTU: u32 = 1_500;
/// The server's port: one that nothing of a fresh namespace has.
const PORT: u16 = 6_640;

/// One of those that are measured.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) is_rival: bool,
    pub(super) gauge: Gauge,
    pub(super) processes: Processes,
    /// What it can carry.
    pub(super) groups: &'static [Group],
}

/// What carries everything.
const ALL: &[Group] = &[Group::Tcp, Group::Udp, Group::Ping];

/// Everything, running. Dropping it takes it away.
pub(super) struct Ground {
    pub(super) subjects: Vec<Subject>,
    // Dropped in this order: processes before the namespaces they live in.
    _ends: Vec<End>,
    _rivals: Vec<Tunnel>,
    _server: Server,
    net: Option<TwoHosts>,
}

impl Ground {
    /// Two namespaces, with the programs of `rivals` beside quell.
    ///
    /// # Errors
    /// This process may not make namespaces, a program is not there, or a tunnel does not stand in time.
    pub(super) fn with_tun(folder: &Path, rivals: &[String]) -> Result<Self> {
        let net = topology::two_hosts(WIRE_MTU)?;
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        let server = net.provider.run(|| Server::start(any))??;
        let bare = Subject {
            name: "no tunnel".to_owned(),
            is_rival: false,
            gauge: gauge_at(NEAR_PROVIDER_V4),
            processes: Processes::default(),
            groups: ALL,
        };
        let mut subjects = vec![bare];
        let mut tunnels = Vec::new();
        for (index, program) in (0..).zip(rivals) {
            let tunnel = wireguard::stand(&net, folder, program, index)?;
            subjects.push(Subject {
                name: wireguard::name(program),
                is_rival: true,
                gauge: gauge_at(tunnel.far_end()),
                processes: Processes(tunnel.processes()),
                groups: ALL,
            });
            tunnels.push(tunnel);
        }
        let mut plan = Plan::new(folder, SocketAddr::new(NEAR_PROVIDER_V4, DEFAULT_PORT))?;
        plan.program = plan.program.by_its_files_alone();
        // The server stands on the exit itself, which is denied by default.
        plan.allow = vec![EXIT_V4.to_string()];
        plan.write()?;
        let mut provider = plan.provide(&net.provider)?;
        provider.until_ready()?;
        let mut client = plan.up(&net.client)?;
        client.until_full_size()?;
        subjects.push(quell(
            gauge_at(EXIT_V4),
            &mut [&mut client, &mut provider],
            ALL,
        ));
        Ok(Self {
            subjects,
            _ends: vec![client, provider],
            _rivals: tunnels,
            _server: server,
            net: Some(net),
        })
    }

    /// The loopback, where applications reach the tunnel through its proxy.
    ///
    /// # Errors
    /// A port is not to be had, or an end does not stand in time.
    pub(super) fn on_loopback(folder: &Path) -> Result<Self> {
        let server = Server::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let program = Program::own()?.by_its_files_alone();
        let files = Files::new(folder, 1)?;
        let listen = free_port(exit_address(0).into())?;
        files.provider(0, listen)?;
        let mut provider = End::start_here(&program, "provide", &role(0), folder)?;
        provider.until_ready()?;
        let socks5 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        files.client(&ClientSays {
            relays: &[listen],
            socks5,
            backend: None,
        })?;
        let mut client = End::start_here(&program, "up", CLIENT, folder)?;
        client.until_full_size()?;
        let bare = Subject {
            name: "no tunnel".to_owned(),
            is_rival: false,
            gauge: Gauge::new(server.address()),
            processes: Processes::default(),
            groups: &[Group::Tcp],
        };
        let through = Gauge::new(server.address()).through(socks5);
        let quell = quell(through, &mut [&mut client, &mut provider], &[Group::Tcp]);
        Ok(Self {
            subjects: vec![bare, quell],
            _ends: vec![client, provider],
            _rivals: Vec::new(),
            _server: server,
            net: None,
        })
    }

    /// Runs `work` where the client is.
    ///
    /// # Errors
    /// Those of `work`; the namespace's thread is gone.
    pub(super) fn at_client<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        match self.net.as_ref().map(|net| &net.client) {
            Some(client) => run_in(client, work),
            None => work(),
        }
    }
}

fn run_in<T: Send>(client: &Namespace, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    client.run(work).context("the client's namespace")?
}

fn gauge_at(address: IpAddr) -> Gauge {
    Gauge::new(SocketAddr::new(address, PORT))
}

fn quell(gauge: Gauge, ends: &mut [&mut End], groups: &'static [Group]) -> Subject {
    let processes = ends.iter_mut().map(|end| end.child().id());
    Subject {
        name: "quell".to_owned(),
        is_rival: false,
        gauge,
        processes: Processes(processes.collect()),
        groups,
    }
}
