//! One connection's way out: what is refused waits, is cut apart, or is lost.
//!
//! quinn asks a connection's poller whether the socket is writable, then hands the
//! socket a batch, and keeps the batch while the answer is "would block". So a
//! refusal that may pass looks to quinn like a full socket: the batch stays with
//! quinn, and the poller wakes it when [`Refusals`] says so. Neither a frame nor a
//! byte counts as gone meanwhile.
//!
//! An engine's connection has an [`Outgoing`] of its own, in its way out. quinn's socket is
//! shared by all connections of an endpoint and is not told whose batch it gets. The
//! poller, asked just before on the same thread, leaves its [`Outgoing`] there. What comes without one (a stateless reset, a Retry) belongs
//! to no connection and has one try.

use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use quell_core::health::refusal::{Refusal, Refusals, Verdict};
use quinn::udp::Transmit;

use super::books::SocketWatch;

/// What a connection is sending.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    refusals: Refusals,
    /// Bytes of the current batch that are sent, or lost.
    done: usize,
    /// The current batch goes datagram by datagram.
    split: bool,
    /// How long to wait before the next try.
    wait: Option<Duration>,
}

impl Outgoing {
    /// How long the next try has to wait; says so once.
    pub(super) fn take_wait(&mut self) -> Option<Duration> {
        self.wait.take()
    }

    /// Whether a wait was asked for and nobody has taken it.
    pub(super) fn waits(&self) -> bool {
        self.wait.is_some()
    }

    /// Sends `batch` by `system`, on from where the last try ended.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] alone: the same batch is to be tried again.
    pub(super) fn send(
        &mut self,
        batch: &Transmit<'_>,
        now: Instant,
        watch: &SocketWatch,
        mut system: impl FnMut(&Transmit<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        // Each turn ends the call, finishes a part, or splits the batch, once.
        while let Some(part) = self.next_part(batch) {
            let Err(error) = system(&part) else {
                watch.count_sent(&part);
                self.refusals.on_sent();
                self.done += part.contents.len();
                continue;
            };
            if error.kind() == io::ErrorKind::WouldBlock {
                return Err(error);
            }
            let why = refusal(&error, &part);
            watch.count_refused(why);
            match self.refusals.on_refused(why, now) {
                Verdict::Split => self.split = true,
                Verdict::Lose => {
                    watch.count_lost(&part);
                    self.done += part.contents.len();
                }
                Verdict::Wait(time) => {
                    self.wait = Some(time);
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
        }
        (self.done, self.split) = (0, false);
        Ok(())
    }

    fn next_part<'a>(&self, batch: &Transmit<'a>) -> Option<Transmit<'a>> {
        let rest = batch.contents.get(self.done..)?;
        if rest.is_empty() {
            return None;
        }
        let len = match batch.segment_size {
            Some(segment) if self.split => segment.min(rest.len()),
            Some(_) | None => rest.len(),
        };
        Some(Transmit {
            destination: batch.destination,
            ecn: batch.ecn,
            contents: &rest[..len],
            segment_size: batch.segment_size.filter(|segment| *segment < len),
            src_ip: batch.src_ip,
        })
    }
}

/// The system's answer to a send, sorted by what it means.
fn refusal(error: &io::Error, part: &Transmit<'_>) -> Refusal {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOBUFS | Errno::ENOMEM) => Refusal::Full,
        Some(Errno::EMSGSIZE) => Refusal::TooLarge,
        Some(Errno::EIO | Errno::EINVAL) if part.segment_size.is_some() => Refusal::Offload,
        Some(Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENETDOWN | Errno::EADDRNOTAVAIL) => {
            Refusal::Unreachable
        }
        Some(_) | None => Refusal::Other,
    }
}
