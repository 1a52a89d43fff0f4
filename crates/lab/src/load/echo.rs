//! What UDP and ICMP loads have in common: stamped bodies that come back.
//!
//! A body begins with a stamp: its number, and when it was sent, counted from the load's start. The answer brings the stamp
//! back, so an answer's age is known without a table of questions, also for one that a dead path held for a minute. A body
//! of the length that was sent, with a number and a time that the load has used, is an answer; anything else is a stray.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Arrivals, Pace, Worker};
use crate::content;
use crate::error::{LabError, Result};
use crate::stop::{Stop, wait_readable};

/// Number and time.
pub(super) const STAMP_BYTES: usize = 16;

/// How many are sent, and how many are received, before the other is looked after.
const BATCH: usize = 64;

/// A socket whose peer sends back what it is sent.
pub(super) trait Echo: Send + 'static {
    fn fd(&self) -> BorrowedFd<'_>;
    fn send(&mut self, number: u64, body: &[u8]) -> io::Result<()>;
    /// The next message; `None`: one that is of no concern. [`io::ErrorKind::WouldBlock`]: no more.
    fn receive(&mut self) -> io::Result<Option<&[u8]>>;
}

/// A running echo load.
#[derive(Debug)]
pub(super) struct EchoLoad {
    pub(super) counters: Arc<Counters>,
    pub(super) answers: Arrivals,
    _worker: Worker,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    sent: AtomicU64,
    errors: AtomicU64,
    strays: AtomicU64,
}

impl Counters {
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    pub(super) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }
}

impl EchoLoad {
    pub(super) fn start(
        name: &str,
        echo: impl Echo,
        body_bytes: usize,
        pace: impl FnOnce(Instant) -> Pace,
    ) -> Result<Self> {
        if body_bytes < STAMP_BYTES {
            return Err(LabError::Invalid(format!(
                "a payload of {body_bytes} bytes has no room for a stamp of {STAMP_BYTES}"
            )));
        }
        let mut body = vec![0; body_bytes];
        content::fill(0, &mut body);
        let (counters, answers) = (Arc::<Counters>::default(), Arrivals::default());
        let start = Instant::now();
        let mut run = Run {
            echo,
            body,
            start,
            pace: pace(start),
            counters: Arc::clone(&counters),
            answers: answers.clone(),
        };
        let worker = Worker::start(name, move |stop| run.until(stop))?;
        Ok(Self {
            counters,
            answers,
            _worker: worker,
        })
    }
}

struct Run<E> {
    echo: E,
    body: Vec<u8>,
    start: Instant,
    pace: Pace,
    counters: Arc<Counters>,
    answers: Arrivals,
}

impl<E: Echo> Run<E> {
    fn until(&mut self, stop: &Stop) {
        while !stop.is_asked() {
            for _ in 0..BATCH {
                let now = Instant::now();
                if !self.pace.take(now) {
                    break;
                }
                self.send(now);
            }
            let sleep = self.pace.left(Instant::now());
            if let Err(error) = wait_readable(&[self.echo.fd(), stop.fd()], Some(sleep)) {
                tracing::warn!(%error, "an echo load ends");
                return;
            }
            for _ in 0..BATCH {
                if !self.receive() {
                    break;
                }
            }
        }
    }

    fn send(&mut self, now: Instant) {
        let number = self.counters.sent.fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from((now - self.start).as_nanos()).unwrap_or(u64::MAX);
        self.body[..8].copy_from_slice(&number.to_be_bytes());
        self.body[8..STAMP_BYTES].copy_from_slice(&ns.to_be_bytes());
        if self.echo.send(number, &self.body).is_err() {
            self.counters.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether there was something.
    fn receive(&mut self) -> bool {
        let body = match self.echo.receive() {
            Ok(Some(body)) => body,
            Ok(None) => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // Such as an ICMP error about a datagram sent before.
            Err(_) => {
                self.counters.errors.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        };
        let at = Instant::now();
        match age(body, self.body.len(), self.counters.sent(), at - self.start) {
            Some(age) => self.answers.note(at, body.len(), Some(age)),
            None => {
                self.counters.strays.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    }
}

/// The age of an answer at `now`, counted from the load's start; `None` if it answers nothing that was sent.
fn age(body: &[u8], body_bytes: usize, sent: u64, now: Duration) -> Option<Duration> {
    let (number, rest) = body.split_first_chunk()?;
    let (ns, _) = rest.split_first_chunk()?;
    let is_known = body.len() == body_bytes && u64::from_be_bytes(*number) < sent;
    now.checked_sub(Duration::from_nanos(u64::from_be_bytes(*ns)))
        .filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_its_length_a_used_number_and_a_past_time() {
        let mut body = [0; 20];
        body[7] = 4;
        body[15] = 100;
        let now = Duration::from_nanos;
        assert_eq!(age(&body, 20, 5, now(130)), Some(now(30)));
        assert_eq!(age(&body, 20, 5, now(100)), Some(now(0)));
        assert_eq!(age(&body, 20, 5, now(99)), None, "from the future");
        assert_eq!(age(&body, 20, 4, now(130)), None, "not sent yet");
        assert_eq!(age(&body, 19, 5, now(130)), None, "too long");
        assert_eq!(age(&body[..19], 20, 5, now(130)), None, "too short");
        assert_eq!(age(&body[..15], 15, 5, now(130)), None, "no stamp");
    }
}
