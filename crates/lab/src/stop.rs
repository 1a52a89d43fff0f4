//! How the lab's threads are told to stop, and how long they sleep until then.
//!
//! A thread that serves sockets waits in `ppoll` for them and for an eventfd. [`Stop::ask`] makes the eventfd readable for
//! good, so a stop is seen at once, whatever the thread waits for, and no thread ever polls in a loop. `ppoll` rather than
//! `poll`: its timeout counts nanoseconds, which the relay needs.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

use crate::error::{Context, Result};

/// Wakes a thread out of [`wait_readable`], and tells it whether to stop.
#[derive(Debug)]
pub(crate) struct Stop {
    event: EventFd,
    asked: AtomicBool,
}

impl Stop {
    pub(crate) fn new() -> Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_flags(flags).context(|| "eventfd".into())?;
        Ok(Self {
            event,
            asked: AtomicBool::new(false),
        })
    }

    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Makes the thread look around. A full eventfd counter refuses the write, and is readable: that is enough.
    pub(crate) fn wake(&self) {
        let _full = self.event.write(1);
    }

    /// Takes back what [`Stop::wake`] did, except after [`Stop::ask`].
    pub(crate) fn clear(&self) {
        if !self.is_asked() {
            let _empty = self.event.read();
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Waits until one of `fds` is readable or has an error, for at most `timeout`. Returns which are; none after a timeout or a
/// signal.
pub(crate) fn wait_readable(
    fds: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> Result<Vec<usize>> {
    let polled = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
    wait(polled.collect(), timeout)
}

/// Waits until `fd` can be written to or has an error, or a stop is asked for, for at most `timeout`.
pub(crate) fn wait_writable(
    fd: BorrowedFd<'_>,
    stop: &Stop,
    timeout: Option<Duration>,
) -> Result<()> {
    let polled = vec![
        PollFd::new(fd, PollFlags::POLLOUT),
        PollFd::new(stop.fd(), PollFlags::POLLIN),
    ];
    wait(polled, timeout).map(|_| ())
}

fn wait(mut polled: Vec<PollFd<'_>>, timeout: Option<Duration>) -> Result<Vec<usize>> {
    match ppoll(&mut polled, timeout.map(TimeSpec::from_duration), None) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(Vec::new()),
        Err(errno) => return Err(errno).context(|| "ppoll".into()),
    }
    let is_ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
    Ok(polled
        .iter()
        .enumerate()
        .filter(|(_, fd)| is_ready(fd))
        .map(|(index, _)| index)
        .collect())
}
