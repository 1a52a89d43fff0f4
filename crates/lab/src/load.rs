//! Steady loads that note when what arrived: a cut path is judged by what moves after it, and how old that is.
//!
//! | load | sends | notes |
//! |---|---|---|
//! | [`UdpLoad`] | datagrams to an echo server, at a rate | each answer, and how long ago it was asked for |
//! | [`PingLoad`] | echo requests, one each interval | likewise |
//! | [`TcpLoad`] | one stream, at a rate or as fast as it goes | bytes that the kernel took |
//! | [`HttpLoad`] | short requests, several at a time, each over a connection of its own | how each went, and by which exit |
//! | [`TcpSink`] | nothing | the bytes of all streams that come to it |
//!
//! A load is a guard with one thread, which lives in the network namespace it was started in and ends when the guard is
//! dropped, within a few milliseconds also while its path is dead: no thread ever waits in a call that it cannot be woken
//! out of. Deadlines follow from each other, not from when the last one was met, so that a rate does not drift. An echo load
//! that was late catches up; a stream that was stuck does not, since no live source produces its past.
//!
//! An error of a socket, such as a route that is gone for a while, is a figure and not the end of a load: what a load is for
//! is to be there when the path is back.

mod arrivals;
mod echo;
mod ping;
mod requests;
mod sink;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

pub use arrivals::Arrivals;
pub use ping::PingLoad;
pub use requests::{Asked, HttpLoad, HttpLoadConfig};
pub use sink::TcpSink;
pub use tcp::{TcpLoad, TcpLoadConfig};
pub use udp::UdpLoad;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Context, Result};
use crate::stop::Stop;

/// A load's thread; dropping it stops the thread and waits for it.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(name: &str, work: impl FnOnce(&Stop) + Send + 'static) -> Result<Self> {
        let stop = Arc::new(Stop::new()?);
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&stopped))
            .context(|| format!("thread {name}"))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Deadlines at equal distances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    pub(crate) fn new(start: Instant, interval: Duration) -> Self {
        Self {
            next: start,
            interval,
        }
    }

    /// Distances at which `bytes` each make `bit_s`.
    fn of_rate(start: Instant, bytes: usize, bit_s: u64) -> Self {
        let ns = (bytes as u128 * 8 * 1_000_000_000) / u128::from(bit_s.max(1));
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        Self::new(start, Duration::from_nanos(ns))
    }

    /// Whether a deadline has passed; if so, it is met.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next += self.interval;
        }
        is_due
    }

    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }
}
