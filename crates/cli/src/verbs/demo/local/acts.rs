//! What the acts do on a stage of this process.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use quell_lab::http::{self, Server};
use quell_lab::load::{HttpLoad, HttpLoadConfig, TcpLoad, TcpLoadConfig, TcpSink, UdpLoad};
use quell_lab::probe;
use serde_json::Value;

use super::super::exits::{self, EXITS, Stream};
use super::super::loads::{Loads, Pings, RATE_BIT_S, UDP_PAYLOAD_BYTES};
use super::super::outage::{self, Outage};
use super::super::quiet::{DOWNLOAD_TIME, PING_BYTES, PING_TIME, PINGS, Quiet};
use super::super::{Ends, text, verdict};
use super::plan::{Wanted, exit_of};
use super::stage::{Stage, WORLD};
use crate::Failure;

/// Between two of the quiet pings.
const QUIET_INTERVAL: Duration = Duration::from_millis(100);

/// Of each stream of the second act, as on the other stage.
const STREAM_BIT_S: u64 = 500_000;

/// Plays the first act.
pub(in super::super) fn measure_outage(
    folder: &Path,
    size_bytes: u64,
    outage_s: u64,
    talk: &mut dyn Write,
) -> Result<verdict::Figures, Failure> {
    writeln!(
        talk,
        "a client, a wire and an exit, in this process and on the loopback …"
    )?;
    let mut wire = Wire(Stage::set(folder, wanted(1))?);
    write!(talk, "{}", text::tunnel(&wire.0.client_status()?))?;
    let proxies = wire.0.proxies();
    writeln!(
        talk,
        "proxies   SOCKS5 on {}, which all that follows goes through;\n\
         \x20         HTTP on {}. Pings are datagrams of {PING_BYTES} bytes",
        proxies.socks5, proxies.http
    )?;
    let quiet = wire.quiet(size_bytes)?;
    let next = text::announcement("wire", outage_s);
    write!(talk, "{quiet}\n\n{next}")?;
    let outage = Outage::measure(&mut wire, outage_s, talk)?;
    Ok(verdict::Figures::of(&quiet, outage, &wire.ends()?))
}

/// Plays the second act.
pub(in super::super) fn measure_exits(
    folder: &Path,
    talk: &mut dyn Write,
) -> Result<exits::Figures, Failure> {
    writeln!(
        talk,
        "a client and three exits, in this process and on the loopback …"
    )?;
    let mut scene = Scene {
        stage: Stage::set(folder, wanted(EXITS))?,
        server: Server::start(WORLD)?,
    };
    exits::measure(&mut scene, talk)
}

fn wanted(exits: usize) -> Wanted {
    Wanted {
        exits,
        socks5: 0,
        http: 0,
    }
}

/// The first act's stage: one exit.
struct Wire(Stage);

impl Wire {
    /// Pings an echo server, then downloads `bytes`, through the tunnel.
    fn quiet(&self, bytes: u64) -> Result<Quiet, Failure> {
        let proxy = self.0.proxies().socks5;
        let echo = probe::udp_echo_server(WORLD)?;
        let ping = probe::udp_ping(
            proxy,
            echo.address(),
            PING_BYTES,
            PINGS,
            QUIET_INTERVAL,
            PING_TIME,
        )?;
        let web = Server::start(WORLD)?;
        let download = http::download_via(proxy, web.address(), bytes, DOWNLOAD_TIME)?;
        Ok(Quiet::new(ping, download, bytes))
    }

    /// What both ends say last.
    fn ends(&self) -> Result<Ends, Failure> {
        let mut providers = self.0.provider_statuses()?.into_iter();
        Ok(Ends {
            client: self.0.client_status()?,
            provider: providers.next().context("the exit is gone")?,
        })
    }
}

impl outage::Stage for Wire {
    fn client_status(&self) -> Result<Value, Failure> {
        self.0.client_status()
    }

    fn loads(&self) -> Result<Loads, Failure> {
        let proxy = self.0.proxies().socks5;
        let (echo, sink) = (probe::udp_echo_server(WORLD)?, TcpSink::start(WORLD)?);
        Ok(Loads {
            udp: UdpLoad::via(proxy, echo.address(), UDP_PAYLOAD_BYTES, RATE_BIT_S)?,
            tcp: through(&self.0, &sink, RATE_BIT_S)?,
            pings: Pings::via(proxy, echo.address(), PING_BYTES)?,
            sink,
            _echo: echo,
        })
    }

    fn cut(&mut self) -> Result<(), Failure> {
        self.0.silence_all();
        Ok(())
    }

    fn heal(&mut self) {
        self.0.heal_all();
    }
}

/// The second act's stage.
struct Scene {
    // Dropped in this order: no connection of an exit outlives whom it is to.
    stage: Stage,
    server: Server,
}

impl exits::Stage for Scene {
    fn client_status(&self) -> Result<Value, Failure> {
        self.stage.client_status()
    }

    fn exit_of(address: IpAddr) -> Option<usize> {
        exit_of(address, EXITS)
    }

    fn crowd(&self) -> Result<HttpLoad, Failure> {
        let config = HttpLoadConfig {
            proxy: Some(self.stage.proxies().socks5),
            ..HttpLoadConfig::default()
        };
        Ok(HttpLoad::start(self.server.address(), config)?)
    }

    fn stream(&self) -> Result<Stream, Failure> {
        let sink = TcpSink::start(WORLD)?;
        let load = through(&self.stage, &sink, STREAM_BIT_S)?;
        Ok(Stream { load, sink })
    }

    fn freeze(&mut self, exit: usize) -> Result<(), Failure> {
        self.stage.freeze(exit);
        Ok(())
    }

    fn thaw(&mut self, exit: usize) -> Result<(), Failure> {
        self.stage.thaw(exit);
        Ok(())
    }

    fn kill(&mut self, exit: usize) -> Result<(), Failure> {
        self.stage.kill(exit);
        Ok(())
    }

    fn silence(&mut self) -> Result<(), Failure> {
        self.stage.silence_all();
        Ok(())
    }

    fn heal(&mut self) -> Result<(), Failure> {
        self.stage.heal_all();
        Ok(())
    }

    fn provider_statuses(&mut self) -> Result<Vec<Value>, Failure> {
        self.stage.provider_statuses()
    }
}

/// A stream of `bit_s` to `sink`, through the tunnel.
fn through(stage: &Stage, sink: &TcpSink, bit_s: u64) -> Result<TcpLoad, Failure> {
    let config = TcpLoadConfig {
        bit_s,
        proxy: Some(stage.proxies().socks5),
        ..TcpLoadConfig::default()
    };
    Ok(TcpLoad::with_config(sink.address(), config)?)
}
