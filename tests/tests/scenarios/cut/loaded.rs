//! A world behind a relay under three loads, and what an outage does to it.
//!
//! The loads are those of a person at work: 1 Mbit/s of datagrams that want to be in time, 1 Mbit/s in a stream that wants
//! to be whole, and ten pings a second. An [`Outage`] measures what the client sends meanwhile, and after the end of it when
//! each load moves again and how old the oldest answer is. [`Loaded::finish`] then holds the stream to be whole, the session
//! to be the same, and the books to balance.

use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::load::{Arrivals, PingLoad, TcpLoad, TcpSink, UdpLoad};
use quell_lab::probe::{self, UdpEcho};
use quell_lab::relay::Relay;
use quell_lab::topology::WORLD_V4;
use quell_sim::link::LinkConfig;
use serde_json::Value;

use super::WALL_CLOCK_SLACK;
use crate::fixture::{Outcome, World, within};
use crate::links::relayed;

/// Of each of UDP and TCP.
const LOAD_BIT_S: u64 = 1_000_000;
const DATAGRAM_BYTES: usize = 1_000;
const PING_INTERVAL: Duration = Duration::from_millis(100);

/// How long the loads run before anything happens to them.
pub(super) const WARM_UP: Duration = Duration::from_secs(2);

/// Bytes a second on the wire of all loads together, headers and seals included, rounded up.
const WIRE_BYTES_S: u64 = 300_000;

/// Most UDP bytes of the client in an outage, for round trips of up to [`RTT_FREE`].
const OUT_BYTES_MAX: u64 = 49_152;
/// Most of them after the first second, for each 30 s begun.
const OUT_LATE_BYTES_MAX: u64 = 8_192;
/// The longest wait for the first answer after an outage, for round trips of up to [`RTT_FREE`].
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(1);
/// The longest wait for the stream to move after an outage, likewise.
const STREAM_MAX: Duration = Duration::from_millis(1_200);
/// What of a round trip the two bounds contain.
const RTT_FREE: Duration = Duration::from_millis(50);
/// How long a datagram may wait in either end.
const DATAGRAM_AGE_MAX: Duration = Duration::from_millis(100);
/// Most sends of one pack: the first, and resends into silence and on evidence.
const SENDS_OF_ONE_PACK_MAX: u64 = 17;

/// After so long without a sign of life the trial gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A link with this round trip, half of it each way.
pub(super) fn link(rtt: Duration) -> LinkConfig {
    LinkConfig {
        delay: rtt / 2,
        ..LinkConfig::default()
    }
}

/// A counter of a status, whose absence means none.
pub(super) fn count(status: &Value, path: &[&str]) -> u64 {
    let found = status.pointer(&format!("/{}", path.join("/")));
    found.and_then(Value::as_u64).unwrap_or(0)
}

/// A relayed world under loads.
pub(super) struct Loaded {
    // Dropped in this order: loads before the world they are in.
    udp: UdpLoad,
    pings: PingLoad,
    tcp: TcpLoad,
    sink: TcpSink,
    _echo: UdpEcho,
    pub(super) world: World,
    pub(super) relay: Relay,
}

impl Loaded {
    /// A relayed world whose loads run.
    pub(super) fn start(link: LinkConfig) -> Result<Self, Failed> {
        let (world, relay) = relayed(link)?;
        Self::load(world, relay)
    }

    /// Starts the loads.
    pub(super) fn load(world: World, relay: Relay) -> Result<Self, Failed> {
        let any = SocketAddr::new(WORLD_V4, 0);
        let echo = world.net.world.run(|| probe::udp_echo_server(any))??;
        let sink = world.net.world.run(|| TcpSink::start(any))??;
        let client = &world.net.client;
        let (datagrams, stream) = (echo.address(), sink.address());
        Ok(Self {
            udp: client.run(|| UdpLoad::start(datagrams, DATAGRAM_BYTES, LOAD_BIT_S))??,
            pings: client.run(|| PingLoad::start(WORLD_V4, PING_INTERVAL))??,
            tcp: client.run(|| TcpLoad::start(stream, LOAD_BIT_S))??,
            sink,
            _echo: echo,
            world,
            relay,
        })
    }

    pub(super) fn stream(&self) -> Arrivals {
        self.sink.arrivals()
    }

    pub(super) fn datagrams(&self) -> Arrivals {
        self.udp.answers()
    }

    pub(super) fn datagrams_sent(&self) -> u64 {
        self.udp.sent()
    }

    pub(super) fn pings(&self) -> Arrivals {
        self.pings.answers()
    }

    /// Lets `begin` happen, and `end` after `length`, and sees what becomes of it.
    pub(super) fn outage(
        &mut self,
        rtt: Duration,
        length: Duration,
        begin: impl FnOnce(&mut Self) -> Outcome,
        end: impl FnOnce(&mut Self) -> Outcome,
    ) -> Result<Outage, Failed> {
        let out = |loaded: &Self| {
            Ok::<_, Failed>(count(&loaded.world.client.status()?, &["udp", "bytes_out"]))
        };
        begin(self)?;
        let start = Instant::now();
        let before = out(self)?;
        thread::sleep(Duration::from_secs(1));
        let second = out(self)?;
        thread::sleep(length.saturating_sub(start.elapsed()));
        let after = out(self)?;
        let ended = Instant::now();
        end(self)?;
        let first = |what: &str, arrivals: Arrivals| {
            let at = within(PATIENCE, what, || arrivals.first_after(ended))?;
            Ok::<_, Failed>(at - ended)
        };
        let mut outage = Outage {
            rtt,
            length,
            out_bytes: after - before,
            out_late_bytes: after - second,
            datagram: first("a datagram is answered", self.datagrams())?,
            ping: first("a ping is answered", self.pings())?,
            stream: first("the stream moves", self.stream())?,
            age_max: Duration::ZERO,
            sends_of_one_pack: 0,
        };
        // What was held up comes first, if it comes; a second and two round trips see it.
        thread::sleep(Duration::from_secs(1) + 2 * rtt);
        outage.age_max = self.datagrams().age_max_after(ended).unwrap_or_default();
        outage.sends_of_one_pack = count(&self.world.client.status()?, &["max_sends_of_one_pack"]);
        Ok(outage)
    }

    /// Ends the stream, which must have lost nothing, and the world, which must have had one session all along.
    pub(super) fn finish(self) -> Outcome {
        let Self {
            udp,
            pings,
            tcp,
            sink,
            _echo,
            world,
            relay,
        } = self;
        let sent = tcp.stop()?;
        within(PATIENCE, "the stream comes to its end", || {
            (sink.ended() == 1).then_some(())
        })?;
        let received = sink.arrivals().bytes();
        if received != sent {
            return Err(format!("{received} of the stream's {sent} bytes arrived").into());
        }
        drop((udp, pings));
        let status = world.client.status()?;
        let (dials, sessions) = (count(&status, &["dials"]), count(&status, &["sessions"]));
        if (dials, sessions) != (1, 1) {
            return Err(format!("{dials} dials, {sessions} sessions: {status}").into());
        }
        world.finish()?;
        drop(relay);
        Ok(())
    }

    /// Ends the world, and the stream with it: whose own timer may wait for longer than a trial.
    pub(super) fn abandon(self) -> Outcome {
        drop((self.udp, self.pings, self.tcp));
        self.world.finish()
    }
}

/// What came of an outage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    rtt: Duration,
    length: Duration,
    /// UDP bytes of the client meanwhile.
    out_bytes: u64,
    /// Of these, the ones after the first second.
    out_late_bytes: u64,
    /// From the end of it to the first answer to a datagram.
    datagram: Duration,
    /// Likewise, to a ping.
    ping: Duration,
    /// Likewise, to the first bytes of the stream.
    stream: Duration,
    /// Of the oldest answer to a datagram after it.
    pub(super) age_max: Duration,
    /// Most sends of one pack by the client.
    sends_of_one_pack: u64,
}

impl Outage {
    /// A path is hushed after two timeouts; until one round trip is over nobody can know better.
    fn out_bytes_max(&self) -> u64 {
        let milliseconds = 2 * self.beyond_free_rtt().as_millis() as u64;
        OUT_BYTES_MAX + WIRE_BYTES_S * milliseconds / 1_000
    }

    fn out_late_bytes_max(&self) -> u64 {
        OUT_LATE_BYTES_MAX * self.length.as_secs().div_ceil(30).max(1)
    }

    fn beyond_free_rtt(&self) -> Duration {
        self.rtt.saturating_sub(RTT_FREE)
    }

    /// A datagram may wait in the client, and its answer in the provider.
    fn age_max_max(&self) -> Duration {
        2 * DATAGRAM_AGE_MAX + self.rtt
    }

    /// What a wall clock found, beside its bound.
    fn clocks(&self) -> [(&'static str, Duration, Duration); 4] {
        let first = FIRST_ANSWER_MAX + self.beyond_free_rtt();
        let stream = STREAM_MAX + 2 * self.beyond_free_rtt();
        [
            ("datagram", self.datagram, first),
            ("ping", self.ping, first),
            ("stream", self.stream, stream),
            ("oldest answer", self.age_max, self.age_max_max()),
        ]
    }

    /// Bounds that it broke, in words.
    fn broken(&self) -> Vec<String> {
        let counts = [
            ("bytes out", self.out_bytes, self.out_bytes_max()),
            (
                "bytes out after the first second",
                self.out_late_bytes,
                self.out_late_bytes_max(),
            ),
            (
                "sends of one pack",
                self.sends_of_one_pack,
                SENDS_OF_ONE_PACK_MAX,
            ),
        ];
        let clocks = self
            .clocks()
            .into_iter()
            .filter(|(_, found, bound)| *found > WALL_CLOCK_SLACK * *bound)
            .map(|(name, found, bound)| format!("{name}: {found:?}, bound {bound:?}"));
        let counts = counts
            .into_iter()
            .filter(|(_, found, bound)| found > bound)
            .map(|(name, found, bound)| format!("{name}: {found}, bound {bound}"));
        clocks.chain(counts).collect()
    }

    pub(super) fn check(&self) -> Outcome {
        match self.broken() {
            broken if broken.is_empty() => Ok(()),
            broken => Err(broken.join("; ").into()),
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RTT {:>3} ms, {:>2} s: {:>6} B out, {:>5} B after the first second; \
             then datagram {:>4} ms, ping {:>4} ms, stream {:>4} ms, oldest answer {:>4} ms; {:>2} sends of one pack",
            self.rtt.as_millis(),
            self.length.as_secs(),
            self.out_bytes,
            self.out_late_bytes,
            self.datagram.as_millis(),
            self.ping.as_millis(),
            self.stream.as_millis(),
            self.age_max.as_millis(),
            self.sends_of_one_pack,
        )?;
        for (name, found, bound) in self.clocks() {
            if found > bound {
                write!(f, "; late by {} ms: {name}", (found - bound).as_millis())?;
            }
        }
        Ok(())
    }
}
