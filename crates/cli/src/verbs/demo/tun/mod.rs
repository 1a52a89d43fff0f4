//! The acts over TUNs, in network namespaces: what a host with a real interface has. Needs root.
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
//! Nothing of this machine is touched: the namespaces have no names and die with
//! the process, however it ends. The second act's stage is in `exits`.

mod exits;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use quell_lab::http::{self, Server};
use quell_lab::load::{PingLoad, TcpLoad, TcpSink, UdpLoad};
use quell_lab::netns;
use quell_lab::probe;
use quell_lab::topology::{self, FAR_PROVIDER_V4, Routed, Way};
use quell_wire::registry::DEFAULT_PORT;
use serde_json::Value;

use super::loads::{Loads, PING_INTERVAL, Pings, RATE_BIT_S, UDP_PAYLOAD_BYTES};
use super::outage::{self, Outage};
use super::quiet::{DOWNLOAD_TIME, PING_BYTES, PING_TIME, PINGS, Quiet};
use super::verdict::Figures;
use super::{Ends, text};
use crate::Failure;
use crate::stage::{EXIT_V4 as EXIT, End, Plan};

pub(super) use exits::measure as measure_exits;

/// MTU of the wire, in bytes.
const WIRE_MTU: u32 = 1_500;
const WEB_PORT: u16 = 80;
/// Between two of the quiet pings.
const QUIET_INTERVAL: Duration = Duration::from_millis(20);

/// # Errors
/// This process may not make namespaces.
pub(super) fn check() -> Result<(), Failure> {
    match netns::unavailable() {
        None => Ok(()),
        Some(why) => Err(Failure::Failed(anyhow!(
            "`demo --tun` makes network namespaces and needs root for that: {why}; `demo` alone does without"
        ))),
    }
}

/// Plays the first act.
pub(super) fn measure_outage(
    folder: &Path,
    size_bytes: u64,
    outage_s: u64,
    talk: &mut dyn Write,
) -> Result<Figures, Failure> {
    writeln!(
        talk,
        "a client, a router and an exit, each in a namespace …"
    )?;
    let mut stage = Stage::set(folder)?;
    write!(talk, "{}", text::tunnel(&stage.client.status()?))?;
    let quiet = stage.quiet(size_bytes)?;
    let next = text::announcement("router", outage_s);
    write!(talk, "{quiet}\n\n{next}")?;
    let outage = Outage::measure(&mut stage, outage_s, talk)?;
    let ends = stage.clear()?;
    Ok(Figures::of(&quiet, outage, &ends))
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
        client.until_full_size()?;
        Ok(Self {
            client,
            provider,
            net,
        })
    }

    /// Pings the exit, then downloads `bytes` from it, through the tunnel.
    fn quiet(&self, bytes: u64) -> Result<Quiet, Failure> {
        let server = SocketAddr::new(EXIT, WEB_PORT);
        let _web = self.net.provider.run(|| Server::start(server))??;
        let ping = || probe::ping(EXIT, PING_BYTES, PINGS, QUIET_INTERVAL, PING_TIME);
        let ping = self.net.client.run(ping)??;
        let download = || http::download(server, bytes, DOWNLOAD_TIME);
        let download = self.net.client.run(download)??;
        Ok(Quiet::new(ping, download, bytes))
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

impl outage::Stage for Stage {
    fn client_status(&self) -> Result<Value, Failure> {
        Ok(self.client.status()?)
    }

    fn loads(&self) -> Result<Loads, Failure> {
        let (client, provider) = (&self.net.client, &self.net.provider);
        let any = SocketAddr::new(EXIT, 0);
        let echo = provider.run(|| probe::udp_echo_server(any))??;
        let sink = provider.run(|| TcpSink::start(any))??;
        let (to_echo, to_sink) = (echo.address(), sink.address());
        let pings = client.run(|| PingLoad::start(EXIT, PING_INTERVAL))??;
        Ok(Loads {
            udp: client.run(|| UdpLoad::start(to_echo, UDP_PAYLOAD_BYTES, RATE_BIT_S))??,
            tcp: client.run(|| TcpLoad::start(to_sink, RATE_BIT_S))??,
            pings: Pings::Icmp(pings),
            sink,
            _echo: echo,
        })
    }

    fn cut(&mut self) -> Result<(), Failure> {
        self.net.cut(Way::Up)?;
        self.net.cut(Way::Down)?;
        Ok(())
    }

    fn heal(&mut self) {
        self.net.heal();
    }
}
