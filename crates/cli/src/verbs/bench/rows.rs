//! What a bench measures, one row each.
//!
//! | row | how |
//! |---|---|
//! | streams | as fast as they go; bytes count where they arrive |
//! | CPU | processor time of a tunnel's processes while one stream runs, by the bytes of that stream |
//! | paced datagrams | the highest rate at which less than 0.5 % is lost: doubled until it fails, then narrowed down |
//! | flooded datagrams | sent as fast as the system takes them; what arrives counts |
//! | pings | a datagram and its echo, a hundred a second; beside a stream fifty |
//! | memory | the peak of all processes of a tunnel together, once its streams have run |
//!
//! A row that a subject does not have (no process of its own, no datagrams through a proxy) is left out, never zero.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use quell_lab::gauge::{Datagrams, Gauge};

use super::processes::Processes;

/// Payload of a datagram that fills a packet, and of a small one, in bytes.
const LARGE_BYTES: usize = 1_200;
const SMALL_BYTES: usize = 64;
/// Loss from which on a rate is too high.
const LOSS_MAX: f64 = 0.005;
/// What the ladder begins with, datagrams a second.
const RATE_FIRST: u64 = 4_000;
/// Doublings, and halvings of what remains: 4,000 to a million a second, to an eighth of the last step.
const DOUBLINGS_MAX: u32 = 8;
const NARROWINGS: u32 = 3;
/// A sender that reaches less of a rate than this is what is measured.
const SENDER_SHARE_MIN: f64 = 0.9;
/// How long a stream runs before pings beside it count.
const FILL_TIME: Duration = Duration::from_millis(500);
/// Pings of the row without a load.
const IDLE_PINGS: u32 = 200;
const IDLE_INTERVAL: Duration = Duration::from_millis(10);
const LOADED_INTERVAL: Duration = Duration::from_millis(20);

/// What may be asked for by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Group {
    /// Streams of TCP, processor time, memory
    Tcp,
    /// Datagrams, paced and flooded
    Udp,
    /// Round trips, idle and beside a stream
    Ping,
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    TcpOne,
    TcpFour,
    TcpBack,
    Cpu,
    LargePaced,
    SmallPaced,
    LargeFlooded,
    SmallFlooded,
    PingIdle,
    PingIdleTail,
    PingLoaded,
    PingLoadedTail,
    Memory,
}

impl Row {
    pub(super) const ALL: [Self; 13] = [
        Self::TcpOne,
        Self::TcpFour,
        Self::TcpBack,
        Self::Cpu,
        Self::LargePaced,
        Self::SmallPaced,
        Self::LargeFlooded,
        Self::SmallFlooded,
        Self::PingIdle,
        Self::PingIdleTail,
        Self::PingLoaded,
        Self::PingLoadedTail,
        Self::Memory,
    ];

    /// What people read.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::TcpOne => "TCP, one stream, Mbit/s",
            Self::TcpFour => "TCP, four streams, Mbit/s",
            Self::TcpBack => "TCP, the other way, Mbit/s",
            Self::Cpu => "CPU, one stream, s/GB",
            Self::LargePaced => "UDP 1,200, paced, Mbit/s",
            Self::SmallPaced => "UDP 64, paced, packets/s",
            Self::LargeFlooded => "UDP 1,200, flooded, Mbit/s",
            Self::SmallFlooded => "UDP 64, flooded, packets/s",
            Self::PingIdle => "ping, idle, mean, ms",
            Self::PingIdleTail => "ping, idle, p99, ms",
            Self::PingLoaded => "ping beside TCP, mean, ms",
            Self::PingLoadedTail => "ping beside TCP, p99, ms",
            Self::Memory => "peak memory, both ends, MB",
        }
    }

    /// What programs read.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::TcpOne => "tcp_one_mbit_s",
            Self::TcpFour => "tcp_four_mbit_s",
            Self::TcpBack => "tcp_back_mbit_s",
            Self::Cpu => "cpu_s_per_gb",
            Self::LargePaced => "udp_1200_paced_mbit_s",
            Self::SmallPaced => "udp_64_paced_packets_s",
            Self::LargeFlooded => "udp_1200_flooded_mbit_s",
            Self::SmallFlooded => "udp_64_flooded_packets_s",
            Self::PingIdle => "ping_idle_mean_ms",
            Self::PingIdleTail => "ping_idle_p99_ms",
            Self::PingLoaded => "ping_tcp_mean_ms",
            Self::PingLoadedTail => "ping_tcp_p99_ms",
            Self::Memory => "memory_peak_mb",
        }
    }

    /// Whether more is better.
    pub(super) fn is_rate(self) -> bool {
        match self {
            Self::TcpOne
            | Self::TcpFour
            | Self::TcpBack
            | Self::LargePaced
            | Self::SmallPaced
            | Self::LargeFlooded
            | Self::SmallFlooded => true,
            Self::Cpu
            | Self::PingIdle
            | Self::PingIdleTail
            | Self::PingLoaded
            | Self::PingLoadedTail
            | Self::Memory => false,
        }
    }
}

/// The figures of one run.
pub(super) type Figures = BTreeMap<Row, f64>;

/// Measures `groups`, each load for `time`, in the calling thread's network namespace.
///
/// # Errors
/// The path carries nothing, or breaks.
pub(super) fn measure(
    gauge: &Gauge,
    processes: &Processes,
    groups: &[Group],
    time: Duration,
) -> Result<Figures> {
    let mut figures = Figures::new();
    for group in groups {
        match group {
            Group::Tcp => streams(gauge, processes, time, &mut figures)?,
            Group::Udp => datagrams(gauge, time, &mut figures)?,
            Group::Ping => pings(gauge, time, &mut figures)?,
        }
    }
    Ok(figures)
}

fn streams(gauge: &Gauge, of: &Processes, time: Duration, figures: &mut Figures) -> Result<()> {
    let before = of.cpu();
    let one = gauge.send(1, time)?;
    if let (Some(before), Some(after)) = (before, of.cpu()) {
        let used = after.saturating_sub(before).as_secs_f64();
        figures.insert(Row::Cpu, used / (one.bytes.max(1) as f64 / 1e9));
    }
    figures.insert(Row::TcpOne, one.mbit_s());
    figures.insert(Row::TcpFour, gauge.send(4, time)?.mbit_s());
    figures.insert(Row::TcpBack, gauge.receive(1, time)?.mbit_s());
    if let Some(bytes) = of.memory_peak_bytes() {
        figures.insert(Row::Memory, bytes as f64 / 1e6);
    }
    Ok(())
}

fn datagrams(gauge: &Gauge, time: Duration, figures: &mut Figures) -> Result<()> {
    let step = (time / 4).max(Duration::from_millis(250));
    let load = |bytes| move |rate| Ok(gauge.datagrams(bytes, Some(rate), step)?);
    let paced = highest(load(LARGE_BYTES), step)?;
    figures.insert(Row::LargePaced, paced * LARGE_BYTES as f64 * 8.0 / 1e6);
    figures.insert(Row::SmallPaced, highest(load(SMALL_BYTES), step)?);
    let large = gauge.datagrams(LARGE_BYTES, None, time)?;
    figures.insert(Row::LargeFlooded, large.mbit_s());
    let small = gauge.datagrams(SMALL_BYTES, None, time)?;
    figures.insert(Row::SmallFlooded, small.received_s());
    Ok(())
}

/// The highest rate that arrives, datagrams a second; 0: not even the lowest did.
fn highest(load: impl Fn(u64) -> Result<Datagrams>, step: Duration) -> Result<f64> {
    let passes = |rate: u64| -> Result<(bool, f64, bool)> {
        let seen = load(rate)?;
        let asked = rate as f64 * step.as_secs_f64();
        let is_sent = seen.sent as f64 >= SENDER_SHARE_MIN * asked;
        Ok((seen.loss() < LOSS_MAX, seen.received_s(), is_sent))
    };
    let (mut good, mut rate) = (0_u64, RATE_FIRST);
    let mut best = 0.0_f64;
    for _ in 0..=DOUBLINGS_MAX {
        let (holds, seen, is_sent) = passes(rate)?;
        if !holds {
            break;
        }
        (good, best) = (rate, best.max(seen));
        if !is_sent {
            return Ok(best);
        }
        rate = rate.saturating_mul(2);
    }
    let mut bad = rate;
    for _ in 0..NARROWINGS {
        let middle = good.midpoint(bad);
        let (holds, seen, _) = passes(middle)?;
        if holds {
            (good, best) = (middle, best.max(seen));
        } else {
            bad = middle;
        }
    }
    Ok(best)
}

fn pings(gauge: &Gauge, time: Duration, figures: &mut Figures) -> Result<()> {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let mut note = |row, figure: Option<f64>| figure.map(|figure| figures.insert(row, figure));
    let idle = gauge.round_trips(SMALL_BYTES, IDLE_PINGS, IDLE_INTERVAL)?;
    note(Row::PingIdle, ms(idle.mean()));
    note(Row::PingIdleTail, ms(idle.quantile(0.99)));
    let count = u32::try_from(time.as_millis() / LOADED_INTERVAL.as_millis()).unwrap_or(u32::MAX);
    let loaded = thread::scope(|scope| {
        let stream = scope.spawn(|| gauge.send(1, time + FILL_TIME * 2));
        thread::sleep(FILL_TIME);
        let trips = gauge.round_trips(SMALL_BYTES, count.max(1), LOADED_INTERVAL);
        // A load that broke made the pings easy.
        let load = stream.join();
        load.map_err(|_| anyhow::anyhow!("the load's thread has ended"))??;
        Ok::<_, anyhow::Error>(trips?)
    })?;
    note(Row::PingLoaded, ms(loaded.mean()));
    note(Row::PingLoadedTail, ms(loaded.quantile(0.99)));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::RefCell;

    use super::*;

    const STEP: Duration = Duration::from_secs(1);

    /// A path that carries `limit_s` datagrams a second, and a sender that makes up to `sender_s`.
    fn path(limit_s: u64, sender_s: u64) -> impl Fn(u64) -> Result<Datagrams> {
        move |rate| {
            let sent = rate.min(sender_s);
            let received = sent.min(limit_s);
            Ok(Datagrams {
                sent,
                received,
                received_bytes: received * 64,
                took: STEP,
            })
        }
    }

    #[test]
    fn the_ladder_finds_the_limit_to_an_eighth_of_the_last_step() {
        for limit in [4_000, 100_000, 150_000, 700_000] {
            let found = highest(path(limit, u64::MAX), STEP).unwrap();
            let limit = limit as f64;
            assert!(found <= limit * 1.005 && found >= limit * 0.87, "{found}");
        }
    }

    #[test]
    fn a_path_below_the_lowest_step_carries_what_a_narrowing_finds_or_nothing() {
        assert_eq!(highest(path(0, u64::MAX), STEP).unwrap(), 0.0);
        let found = highest(path(1_100, u64::MAX), STEP).unwrap();
        assert!((900.0..=1_105.0).contains(&found), "{found}");
    }

    #[test]
    fn a_sender_at_its_end_ends_the_ladder() {
        let rates = RefCell::new(Vec::new());
        let path = path(u64::MAX, 20_000);
        let load = |rate| {
            rates.borrow_mut().push(rate);
            path(rate)
        };
        assert_eq!(highest(load, STEP).unwrap(), 20_000.0);
        assert_eq!(rates.into_inner(), [4_000, 8_000, 16_000, 32_000]);
    }

    #[test]
    fn each_row_has_a_name_of_its_own() {
        for names in [Row::words, Row::key] {
            let mut all: Vec<_> = Row::ALL.into_iter().map(names).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), Row::ALL.len());
        }
    }
}
