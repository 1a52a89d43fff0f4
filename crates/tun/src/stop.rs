//! The signal that ends a blocked read.
//!
//! The signal is a level, not a pulse: once given it stays given, so a reader that was busy when it came sees it at its
//! next call, and a second `stop` changes nothing. A flag says it to a reader that is running; a wake-up (an eventfd for
//! the OS device, a disconnected channel for the channel device) says it to one that is blocked. The flag is set before
//! the wake-up is sent, so a reader that wakes finds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the reads of one device, from any thread, any number of times.
#[derive(Debug, Clone)]
pub struct StopHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stopped: AtomicBool,
    wake: Wake,
}

/// What a blocked reader waits on.
#[derive(Debug)]
enum Wake {
    #[cfg(target_os = "linux")]
    Event(nix::sys::eventfd::EventFd),
    Channel(crossbeam_channel::Sender<()>),
}

impl StopHandle {
    /// A handle whose reader polls an eventfd.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_event() -> nix::Result<Self> {
        use nix::sys::eventfd::{EfdFlags, EventFd};

        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self::new(Wake::Event(event)))
    }

    /// A handle whose reader selects on a channel: for devices that are made elsewhere. The receiver gets a message when
    /// the signal is given, and is closed when the last handle is gone.
    #[must_use]
    pub fn with_channel() -> (Self, crossbeam_channel::Receiver<()>) {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        (Self::new(Wake::Channel(sender)), receiver)
    }

    fn new(wake: Wake) -> Self {
        Self {
            shared: Arc::new(Shared {
                stopped: AtomicBool::new(false),
                wake,
            }),
        }
    }

    /// Gives the signal. A blocked read comes back with [`Stopped`](crate::ReadOutcome::Stopped), as does each later one.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        match &self.shared.wake {
            // The only failure is a full counter, which is readable too.
            #[cfg(target_os = "linux")]
            Wake::Event(event) => drop(event.write(1)),
            // Full means that a wake-up is waiting, disconnected that no reader is left.
            Wake::Channel(sender) => drop(sender.try_send(())),
        }
    }

    /// Whether the signal was given.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// The file that becomes readable, for good, when the signal is given.
    #[cfg(target_os = "linux")]
    pub(crate) fn event(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;

        match &self.shared.wake {
            Wake::Event(event) => Some(event.as_fd()),
            Wake::Channel(_) => None,
        }
    }
}
