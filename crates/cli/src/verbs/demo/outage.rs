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
use std::ops::Sub;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::loads::Loads;
use super::text;
use crate::Failure;

/// How long the loads run before the cut, and again after the heal, in seconds.
pub(super) const STEADY_S: u64 = 5;

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

/// What the act is played on.
pub(super) trait Stage {
    /// What the client says of itself.
    fn client_status(&self) -> Result<Value, Failure>;

    /// Starts the loads.
    fn loads(&self) -> Result<Loads, Failure>;

    /// From when this returns on the wire drops everything, silently and both ways.
    fn cut(&mut self) -> Result<(), Failure>;

    /// Lets the wire carry everything again.
    fn heal(&mut self);
}

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
    /// All of it, second by second.
    pub(super) seconds: Vec<Second>,
}

/// What was sent and arrived within one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Second {
    /// What the wire did.
    pub(super) phase: Phase,
    /// What moved.
    pub(super) moved: Sample,
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
        stage: &mut impl Stage,
        outage_s: u64,
        talk: &mut dyn Write,
    ) -> Result<Self, Failure> {
        let loads = stage.loads()?;
        let (cut_s, heal_s) = (STEADY_S, STEADY_S + outage_s);
        let start = Instant::now();
        let (mut cut_at, mut healed_at) = (start, start);
        let mut last = loads.sample(&stage.client_status()?)?;
        let [mut at_cut, mut first_second, mut at_heal] = [last; 3];
        let mut seconds = Vec::new();
        write!(talk, "{}", text::HEAD)?;
        for second in 1..=heal_s + STEADY_S {
            sleep_until(start + Duration::from_secs(second));
            let sample = loads.sample(&stage.client_status()?)?;
            if second == cut_s {
                at_cut = sample;
                stage.cut()?;
                cut_at = Instant::now();
            }
            if second == cut_s + 1 {
                first_second = sample;
            }
            if second == heal_s {
                at_heal = sample;
                healed_at = Instant::now();
                stage.heal();
            }
            let (phase, moved) = (Phase::of(second, cut_s, heal_s), sample - last);
            write!(talk, "{}", text::line(second, phase, moved))?;
            talk.flush()?;
            seconds.push(Second { phase, moved });
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
            seconds,
            ..loads.resumed(healed_at)
        };
        Ok(loads.settle(outage))
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

fn sleep_until(deadline: Instant) {
    thread::sleep(deadline.saturating_duration_since(Instant::now()));
}
