//! Keeps the month's count where a restart finds it.
//!
//! Writing to a disk may take as long as the disk likes, so a thread does it: the engine hands it the latest count each
//! [`KEEP_INTERVAL`], and the last one at its end, for which it waits. A count that cannot be written is not lost as long as
//! the process lives: it is in the core, a warning says so once a minute, and the next attempt writes it.
//!
//! What a crash loses is what was carried since the last count that was kept.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded};
use quell_core::provider::limits::MonthUse;
use quell_tun::LogGate;
use serde::Serialize;
use tracing::warn;

use crate::error::NetError;

/// How often the count is kept: at full speed on a line of 1 Gbit/s some 2 GB.
pub(super) const KEEP_INTERVAL: Duration = Duration::from_secs(15);
/// How long the end waits for a disk that is busy with the count before.
const LAST_TIME: Duration = Duration::from_secs(10);

/// Where the month's count survives a restart.
pub trait MonthStore: fmt::Debug + Send {
    /// Writes `used` so that a restart finds it or what was written before, whatever happens.
    ///
    /// # Errors
    /// What the system said; what was written before is still there.
    fn store(&mut self, used: MonthUse) -> io::Result<()>;
}

/// How the count is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MonthKept {
    /// Bytes of the month that a restart would find.
    pub kept_bytes: u64,
    /// Attempts to write them that failed.
    pub failures: u64,
}

#[derive(Debug, Default)]
struct Books {
    kept_bytes: AtomicU64,
    failures: AtomicU64,
}

/// The thread that writes, and what it is handed.
#[derive(Debug)]
pub(super) struct Keeper {
    counts: Sender<MonthUse>,
    thread: JoinHandle<Option<(MonthUse, io::Error)>>,
    told: MonthUse,
    books: Arc<Books>,
}

impl Keeper {
    /// Starts the thread; `used` is what is kept already.
    pub(super) fn start(store: Box<dyn MonthStore>, used: MonthUse) -> Result<Self, NetError> {
        const NAME: &str = "quell-month";
        let (counts, receiver) = bounded(1);
        let books = Arc::new(Books::default());
        books.kept_bytes.store(used.bytes, Ordering::Relaxed);
        let theirs = Arc::clone(&books);
        let thread = thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || keep_all(store, &receiver, &theirs))
            .map_err(|source| NetError::Thread { name: NAME, source })?;
        Ok(Self {
            counts,
            thread,
            told: used,
            books,
        })
    }

    /// Has `used` written, unless it is written or the disk is busy.
    pub(super) fn note(&mut self, used: MonthUse) {
        if used != self.told && self.counts.try_send(used).is_ok() {
            self.told = used;
        }
        if self.books.failures.load(Ordering::Relaxed) > 0 && self.is_behind() {
            // The same count again, should nothing be carried meanwhile.
            let _ = self.counts.try_send(used);
        }
    }

    fn is_behind(&self) -> bool {
        self.books.kept_bytes.load(Ordering::Relaxed) != self.told.bytes
    }

    pub(super) fn report(&self) -> MonthKept {
        MonthKept {
            kept_bytes: self.books.kept_bytes.load(Ordering::Relaxed),
            failures: self.books.failures.load(Ordering::Relaxed),
        }
    }

    /// Has the last count written, and waits for that.
    ///
    /// # Errors
    /// It could not be written.
    pub(super) fn finish(self, used: MonthUse) -> Result<(), NetError> {
        let late = |source| NetError::MonthNotKept {
            month: used.month.to_string(),
            bytes: used.bytes,
            source,
        };
        if self.counts.send_timeout(used, LAST_TIME).is_err() {
            return Err(late(io::ErrorKind::TimedOut.into()));
        }
        drop(self.counts);
        match self.thread.join() {
            Ok(None) => Ok(()),
            Ok(Some((_, source))) => Err(late(source)),
            Err(_) => Err(late(io::ErrorKind::Other.into())),
        }
    }
}

/// Writes counts until nobody sends any more; the last one, and why, if it was not written.
fn keep_all(
    mut store: Box<dyn MonthStore>,
    counts: &Receiver<MonthUse>,
    books: &Books,
) -> Option<(MonthUse, io::Error)> {
    let (mut failed, mut gate) = (None, LogGate::default());
    while let Ok(used) = counts.recv() {
        failed = match store.store(used) {
            Ok(()) => {
                books.kept_bytes.store(used.bytes, Ordering::Relaxed);
                None
            }
            Err(error) => {
                books.failures.fetch_add(1, Ordering::Relaxed);
                if let Some(attempts) = gate.admit(Instant::now()) {
                    let MonthUse { month, bytes } = used;
                    warn!(
                        attempts,
                        "the count of {bytes} bytes in {month} is not kept for a restart: {error}"
                    );
                }
                Some((used, error))
            }
        };
    }
    failed
}

/// Seconds since 1970, as far as the host knows; 0 before.
pub(super) fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
