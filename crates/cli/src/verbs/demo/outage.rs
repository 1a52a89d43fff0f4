//! The outage: steady loads, a silent cut under them, and what moves when it heals.
//!
//! ```text
//! second   0 ········ 5 ················· 5 + outage ········ + 5
//! loads    ├────────────────── UDP, TCP, pings ────────────────┤
//! wire     ├── steady ─┼────── cut ───────┼────── healed ──────┤
//! asked    each second, and so right before the cut, a second into it, right before its end
//! ```
//!
//! All of it hangs on one clock of whole seconds, each a deadline of its own: a
//! slow answer of the client makes one line late and moves no other. What is asked
//! in a second is asked before the wire is changed in it. So what the client sent
//! in the moment between is held against it at the cut, and at the heal it is the
//! time since before the first way was opened that counts. Asking takes about a
//! millisecond, and changing the wire up to some 20.

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Sub;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use quell_lab::load::{Arrivals, PingLoad, TcpLoad, TcpSink, UdpLoad};
use quell_lab::probe::{self, UdpEcho};
use quell_lab::topology::Way;

use super::{EXIT, Stage, text};
use crate::Failure;

/// Of the UDP load and of the TCP stream each.
const RATE_BIT_S: u64 = 1_000_000;
/// Of each datagram of the UDP load: 125 of them a second.
const UDP_PAYLOAD_BYTES: usize = 1_000;
const PING_INTERVAL: Duration = Duration::from_millis(100);
/// How long the loads run before the cut, and again after the heal, in seconds.
pub(super) const STEADY_S: u64 = 5;
/// How long the stream's last bytes may take once it has ended.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The causes for which a client sends UDP bytes, as its status names them.
pub(super) const CAUSES: [&str; 7] = [
    "first_send",
    "resend",
    "race",
    "ack",
    "ping",
    "dial",
    "quic",
];

/// What an outage cost, and how soon it was over.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Outage {
    /// How long the wire was cut.
    pub(super) time: Duration,
    /// UDP bytes that the client sent meanwhile.
    pub(super) bytes_out: u64,
    /// Of them, those after the first second.
    pub(super) bytes_out_after_first_second: u64,
    /// All of them by cause, in the order of [`CAUSES`]. What is QUIC's is what no
    /// other cause took: it lags behind these at times, and may be negative.
    pub(super) bytes_out_by_cause: [i64; CAUSES.len()],
    /// Payload bytes that the loads offered meanwhile.
    pub(super) bytes_offered: u64,
    /// Dials of the client meanwhile.
    pub(super) dials: u64,
    /// From the heal to the first answer to a ping or a datagram; None: there was none.
    pub(super) first_packet: Option<Duration>,
    /// From the heal to the first bytes of the open stream at the sink; likewise.
    pub(super) tcp_resumed: Option<Duration>,
    /// Bytes that went into the stream.
    pub(super) tcp_bytes_sent: u64,
    /// Bytes of it that came out at the sink.
    pub(super) tcp_bytes_arrived: u64,
}

/// What the wire does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has carried everything so far.
    Steady,
    /// It carries nothing.
    Cut,
    /// It carries everything again.
    Healed,
}

/// What had been sent and had arrived at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) bytes_out: u64,
    pub(super) by_cause: [i64; CAUSES.len()],
    pub(super) dials: u64,
    pub(super) offered: u64,
    pub(super) pings: u64,
    pub(super) echoes: u64,
    pub(super) tcp_bytes: u64,
}

impl Outage {
    /// Lets the loads run, cuts the wire under them for `outage_s`, and writes a line a second to `talk`.
    pub(super) fn measure(
        stage: &mut Stage,
        outage_s: u64,
        talk: &mut dyn Write,
    ) -> Result<Self, Failure> {
        let loads = Loads::start(stage)?;
        let (cut_s, heal_s) = (STEADY_S, STEADY_S + outage_s);
        let start = Instant::now();
        let (mut cut_at, mut healed_at) = (start, start);
        let mut last = loads.sample(stage)?;
        let [mut at_cut, mut first_second, mut at_heal] = [last; 3];
        write!(talk, "{}", text::HEAD)?;
        for second in 1..=heal_s + STEADY_S {
            sleep_until(start + Duration::from_secs(second));
            let sample = loads.sample(stage)?;
            if second == cut_s {
                at_cut = sample;
                stage.net.cut(Way::Up)?;
                stage.net.cut(Way::Down)?;
                cut_at = Instant::now();
            }
            if second == cut_s + 1 {
                first_second = sample;
            }
            if second == heal_s {
                at_heal = sample;
                healed_at = Instant::now();
                stage.net.heal();
            }
            let phase = Phase::of(second, cut_s, heal_s);
            write!(talk, "{}", text::line(second, phase, sample - last))?;
            talk.flush()?;
            last = sample;
        }
        let (meanwhile, later) = (at_cut.until(at_heal), first_second.until(at_heal));
        let outage = Self {
            time: healed_at.saturating_duration_since(cut_at),
            bytes_out: meanwhile.bytes_out,
            bytes_out_after_first_second: later.bytes_out,
            bytes_out_by_cause: meanwhile.by_cause,
            bytes_offered: meanwhile.offered,
            dials: meanwhile.dials,
            ..loads.resumed(healed_at)
        };
        loads.settle(outage)
    }
}

impl Phase {
    /// That of the second which ends at `second`.
    pub(super) fn of(second: u64, cut_s: u64, heal_s: u64) -> Self {
        if second <= cut_s {
            Self::Steady
        } else if second <= heal_s {
            Self::Cut
        } else {
            Self::Healed
        }
    }
}

impl Sample {
    fn until(self, later: Self) -> Self {
        later - self
    }
}

impl Sub for Sample {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let mut by_cause = self.by_cause;
        for (now, then) in by_cause.iter_mut().zip(earlier.by_cause) {
            *now = now.wrapping_sub(then);
        }
        Self {
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
            by_cause,
            dials: self.dials.saturating_sub(earlier.dials),
            offered: self.offered.saturating_sub(earlier.offered),
            pings: self.pings.saturating_sub(earlier.pings),
            echoes: self.echoes.saturating_sub(earlier.echoes),
            tcp_bytes: self.tcp_bytes.saturating_sub(earlier.tcp_bytes),
        }
    }
}

/// The loads, running.
struct Loads {
    udp: UdpLoad,
    tcp: TcpLoad,
    ping: PingLoad,
    sink: TcpSink,
    _echo: UdpEcho,
}

impl Loads {
    fn start(stage: &Stage) -> Result<Self, Failure> {
        let (client, provider) = (&stage.net.client, &stage.net.provider);
        let any = SocketAddr::new(EXIT, 0);
        let echo = provider.run(|| probe::udp_echo_server(any))??;
        let sink = provider.run(|| TcpSink::start(any))??;
        let (to_echo, to_sink) = (echo.address(), sink.address());
        Ok(Self {
            udp: client.run(|| UdpLoad::start(to_echo, UDP_PAYLOAD_BYTES, RATE_BIT_S))??,
            tcp: client.run(|| TcpLoad::start(to_sink, RATE_BIT_S))??,
            ping: client.run(|| PingLoad::start(EXIT, PING_INTERVAL))??,
            sink,
            _echo: echo,
        })
    }

    fn sample(&self, stage: &Stage) -> Result<Sample, Failure> {
        let status = stage.client.status()?;
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
            pings: self.ping.answers().count(),
            echoes: self.udp.answers().count(),
            tcp_bytes: self.sink.arrivals().bytes(),
        })
    }

    /// How soon something moved after `healed_at`; all else is as if there had been no outage.
    fn resumed(&self, healed_at: Instant) -> Outage {
        let after = |arrivals: Arrivals| {
            let first = arrivals.first_after(healed_at)?;
            Some(first.saturating_duration_since(healed_at))
        };
        let answers = [self.ping.answers(), self.udp.answers()];
        Outage {
            first_packet: answers.into_iter().filter_map(after).min(),
            tcp_resumed: after(self.sink.arrivals()),
            ..Outage::default()
        }
    }

    /// Ends the loads and waits until the stream is whole, or for long enough.
    fn settle(self, outage: Outage) -> Result<Outage, Failure> {
        let Self {
            udp,
            tcp,
            ping,
            sink,
            _echo,
        } = self;
        drop((udp, ping));
        let sent = tcp.sent_bytes();
        // A stream that broke off is seen in what did not arrive.
        let sent = tcp.stop().unwrap_or(sent);
        let end = Instant::now() + SETTLE_TIME;
        let arrivals = sink.arrivals();
        while arrivals.bytes() < sent && Instant::now() < end {
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(Outage {
            tcp_bytes_sent: sent,
            tcp_bytes_arrived: arrivals.bytes(),
            ..outage
        })
    }
}

/// A figure of the client's status. One that is not there is no zero.
fn said<T>(name: &str, figure: Option<T>) -> Result<T, Failure> {
    figure.ok_or_else(|| Failure::Failed(anyhow!("the client does not say {name}")))
}

fn sleep_until(deadline: Instant) {
    thread::sleep(deadline.saturating_duration_since(Instant::now()));
}
