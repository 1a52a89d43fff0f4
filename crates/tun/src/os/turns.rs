//! Two readers of one device, and whose turn it is.
//!
//! ```text
//!              nothing for QUIET_AFTER (Quiet)
//!   thread ──────────────────────────────────────> prompt
//!     ^                                              │
//!     └──────── give_back, or it was dropped ────────┘
//! ```
//!
//! Both use the same [`Reader`], with its segments of a super-packet that is not used up, its slabs and its patience: a
//! change of turns loses nothing and changes no order. The lock on it is never contended, for who has no turn keeps away.
//!
//! While it is the prompt reader's turn, the thread waits for the turn or the stop signal, and for nothing else: two who
//! wait for the same packet would both be woken by it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;

use super::any::AnyFile;
use super::file::SharedFile;
use crate::device::{PacketIn, PromptOutcome, PromptReader};
use crate::reader::Reader;
use crate::stop::StopHandle;

/// It is the thread's turn.
const THREAD: u8 = 0;
/// It is the prompt reader's.
const PROMPT: u8 = 1;
/// There is no prompt reader: it is the thread's for good.
const ALONE: u8 = 2;

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Turns {
    turn: AtomicU8,
    /// Readable when the turn came back.
    back: EventFd,
}

impl Turns {
    /// The thread begins.
    pub(super) fn new() -> nix::Result<Self> {
        let back = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            turn: AtomicU8::new(ALONE),
            back,
        })
    }

    /// There is a prompt reader from now on; whether there was none.
    fn join(&self) -> bool {
        self.pass(ALONE, THREAD)
    }

    /// Whether the thread has nobody to take turns with.
    pub(super) fn is_alone(&self) -> bool {
        self.turn.load(Ordering::Acquire) == ALONE
    }

    /// The thread has done with its turn; whether anybody took it.
    pub(super) fn give_prompt(&self) -> bool {
        self.pass(THREAD, PROMPT)
    }

    fn is_prompts(&self) -> bool {
        self.turn.load(Ordering::Acquire) == PROMPT
    }

    fn give_thread(&self) {
        if self.pass(PROMPT, THREAD) {
            self.call_thread();
        }
    }

    fn leave(&self) {
        if self.turn.swap(ALONE, Ordering::AcqRel) == PROMPT {
            self.call_thread();
        }
    }

    fn pass(&self, from: u8, to: u8) -> bool {
        let passed = self
            .turn
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        passed.is_ok()
    }

    fn call_thread(&self) {
        // The only failure is a full counter, which is readable, too.
        let _ = self.back.write(1);
    }

    /// Waits until it is the thread's turn, or the stop signal is given.
    pub(super) fn await_thread(&self, stop: &StopHandle) -> Result<(), i32> {
        let Some(stopped) = stop.event() else {
            return Ok(());
        };
        while self.is_prompts() && !stop.is_stopped() {
            let mut files = [
                PollFd::new(stopped, PollFlags::POLLIN),
                PollFd::new(self.back.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut files, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno as i32),
            }
            // Empty it is where the signal ended the wait.
            let _ = self.back.read();
        }
        Ok(())
    }
}

/// Reads on the thread that wants the packets.
#[derive(Debug)]
pub(super) struct OsPrompt {
    reader: Arc<Mutex<Reader<AnyFile>>>,
    turns: Arc<Turns>,
    file: Arc<SharedFile>,
}

impl OsPrompt {
    /// `None`: there is one already.
    pub(super) fn join(
        reader: &Arc<Mutex<Reader<AnyFile>>>,
        turns: &Arc<Turns>,
        file: &Arc<SharedFile>,
    ) -> Option<Self> {
        turns.join().then(|| Self {
            reader: Arc::clone(reader),
            turns: Arc::clone(turns),
            file: Arc::clone(file),
        })
    }
}

impl PromptReader for OsPrompt {
    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn read_now(&mut self, batch: &mut Vec<PacketIn>) -> PromptOutcome {
        // Out of turn it would wait for the thread's lock, and with it for a packet.
        if !self.turns.is_prompts() {
            return PromptOutcome::Trouble;
        }
        self.reader.lock().read_now(batch)
    }

    fn give_back(&mut self) {
        self.turns.give_thread();
    }
}

impl Drop for OsPrompt {
    fn drop(&mut self) {
        self.turns.leave();
    }
}
