//! The first act's loads, running: 1 Mbit/s of UDP, 1 Mbit/s in one TCP stream, 10 pings a second.
//!
//! They are the same over a TUN and through a proxy, but for two things. Through a proxy a ping is a small datagram, since
//! SOCKS5 carries no ICMP. And the kernel's buffers between the application and the proxy take some megabytes of the stream
//! while the wire is cut, where a TUN's TCP stops much sooner: what was taken has to arrive in either case.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use quell_lab::load::{Arrivals, PingLoad, TcpLoad, TcpSink, UdpLoad};
use quell_lab::probe::UdpEcho;
use serde_json::Value;

use super::outage::{CAUSES, Outage, Sample};
use crate::Failure;

/// Of the UDP load and of the TCP stream each.
pub(super) const RATE_BIT_S: u64 = 1_000_000;
/// Of each datagram of the UDP load: 125 of them a second.
pub(super) const UDP_PAYLOAD_BYTES: usize = 1_000;
/// Between two pings.
pub(super) const PING_INTERVAL: Duration = Duration::from_millis(100);
/// How long the stream's last bytes may take once it has ended.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The loads, and where they go.
pub(super) struct Loads {
    pub(super) udp: UdpLoad,
    pub(super) tcp: TcpLoad,
    pub(super) pings: Pings,
    pub(super) sink: TcpSink,
    pub(super) _echo: UdpEcho,
}

/// Ten small questions a second.
pub(super) enum Pings {
    /// Echo requests.
    Icmp(PingLoad),
    /// Datagrams.
    Udp(UdpLoad),
}

impl Pings {
    /// Datagrams of `bytes` through the proxy at `proxy`, one each [`PING_INTERVAL`].
    ///
    /// # Errors
    /// As [`UdpLoad::via`].
    pub(super) fn via(
        proxy: SocketAddr,
        echo: SocketAddr,
        bytes: usize,
    ) -> quell_lab::Result<Self> {
        let bit_s = bytes as u64 * 8 * 1_000 / PING_INTERVAL.as_millis() as u64;
        UdpLoad::via(proxy, echo, bytes, bit_s).map(Self::Udp)
    }

    fn answers(&self) -> Arrivals {
        match self {
            Self::Icmp(load) => load.answers(),
            Self::Udp(load) => load.answers(),
        }
    }
}

impl Loads {
    /// What has been sent and has arrived so far, and what the client's `status` says of the wire.
    pub(super) fn sample(&self, status: &Value) -> Result<Sample, Failure> {
        let udp = &status["udp"];
        let mut by_cause = [0; CAUSES.len()];
        for (bytes, cause) in by_cause.iter_mut().zip(CAUSES) {
            *bytes = said(cause, udp["by_cause"][cause].as_i64())?;
        }
        Ok(Sample {
            bytes_out: said("bytes_out", udp["bytes_out"].as_u64())?,
            by_cause,
            dials: said("dials", status["dials"].as_u64())?,
            offered: self.udp.sent() * UDP_PAYLOAD_BYTES as u64 + self.tcp.sent_bytes(),
            pings: self.pings.answers().count(),
            echoes: self.udp.answers().count(),
            tcp_bytes: self.sink.arrivals().bytes(),
        })
    }

    /// How soon something moved after `healed_at`; all else is as if there had been no outage.
    pub(super) fn resumed(&self, healed_at: Instant) -> Outage {
        let after = |arrivals: Arrivals| {
            let first = arrivals.first_after(healed_at)?;
            Some(first.saturating_duration_since(healed_at))
        };
        let answers = [self.pings.answers(), self.udp.answers()];
        Outage {
            first_packet: answers.into_iter().filter_map(after).min(),
            tcp_resumed: after(self.sink.arrivals()),
            ..Outage::default()
        }
    }

    /// Ends the loads and waits until the stream is whole, or for long enough.
    pub(super) fn settle(self, outage: Outage) -> Outage {
        let Self {
            udp,
            tcp,
            pings,
            sink,
            _echo,
        } = self;
        drop((udp, pings));
        let (sent, arrived) = settle(tcp, &sink);
        Outage {
            tcp_bytes_sent: sent,
            tcp_bytes_arrived: arrived,
            ..outage
        }
    }
}

/// Ends a stream and waits until it is whole, or for long enough: bytes sent, and arrived.
pub(super) fn settle(stream: TcpLoad, sink: &TcpSink) -> (u64, u64) {
    let sent = stream.sent_bytes();
    // A stream that broke off is seen in what did not arrive.
    let sent = stream.stop().unwrap_or(sent);
    let end = Instant::now() + SETTLE_TIME;
    let arrivals = sink.arrivals();
    while arrivals.bytes() < sent && Instant::now() < end {
        thread::sleep(LOOK_INTERVAL);
    }
    (sent, arrivals.bytes())
}

/// A figure of the client's status. One that is not there is no zero.
pub(super) fn said<T>(name: &str, figure: Option<T>) -> Result<T, Failure> {
    figure.ok_or_else(|| Failure::Failed(anyhow!("the client does not say {name}")))
}
