//! The client's session across connections (DESIGN §4, RESUME).
//!
//! ```text
//! up --connection lost--> suspended --dial, RESUME--> RESUMED: the same session goes on
//!                             |                  '--> ERROR: it is gone; HELLO on the same connection
//!                             '--no progress for ack_timeout--> gone
//! ```
//!
//! A session ends where there is nothing to go on with: either end says so, a rule
//! was broken, or all that was under way has been given up. Whatever else takes the
//! connection (a transport error, a reset of a provider that may have restarted, a
//! dial that fails meanwhile) leaves the session waiting.
//!
//! The epoch counts connections of a session, whether or not they came to stand: a
//! provider that heard of the higher one ignores the lower, however late that one's
//! last bytes arrive.

use std::time::{Duration, Instant};

use quell_wire::control::{Control, ErrorMessage, Goaway, Resume, Resumed, SessionId};
use quell_wire::registry::ErrorCode;

use super::dial::State;
use super::exit::Exit;
use super::output::{Loss, Notice};
use crate::path::Violation;

/// What names a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    id: SessionId,
    epoch: u64,
}

impl Held {
    pub(super) fn new(id: SessionId) -> Self {
        Self { id, epoch: 0 }
    }
}

impl Exit {
    /// The connection is lost, or the dial failed.
    pub(super) fn lose(&mut self, loss: Loss, now: Instant) {
        if loss.code.is_some_and(ends_session) {
            self.end_path();
        }
        if let Some(path) = &mut self.path {
            path.suspend(now);
        }
        self.redial(loss.words, loss.code == Some(ErrorCode::Fenced), now);
    }

    /// Whether the connection that stands asks for the session of an earlier one.
    pub(super) fn is_resuming(&self) -> bool {
        self.path.is_some()
    }

    /// Asks the provider to go on with the session, if there is one.
    pub(super) fn ask_to_resume(&mut self, now: Instant) -> bool {
        let (Some(path), Some(held)) = (&mut self.path, &mut self.held) else {
            return false;
        };
        held.epoch = held.epoch.saturating_add(1);
        let resume = Control::Resume(Resume {
            session_id: held.id,
            epoch: held.epoch,
            lanes: path.resume_lanes(),
        });
        self.say(&resume, now);
        true
    }

    pub(super) fn resumed(&mut self, resumed: &Resumed, now: Instant) -> Result<(), Violation> {
        let facts = self.carrier();
        let (Some(path), Some(held)) = (&mut self.path, &self.held) else {
            return Ok(());
        };
        if (resumed.session_id, resumed.epoch) != (held.id, held.epoch) {
            return Err(Violation {
                code: ErrorCode::WrongState,
                words: "RESUMED names another session or epoch".to_owned(),
            });
        }
        path.resume(&resumed.lanes, facts, now)?;
        self.progress_before = path.progress();
        self.resumes += 1;
        self.notify(Notice::Resumed);
        self.on_up(now);
        Ok(())
    }

    /// The provider does not go on with the session: a new one takes its place.
    pub(super) fn not_resumed(
        &mut self,
        error: &ErrorMessage,
        now: Instant,
    ) -> Result<(), Violation> {
        if ErrorCode::from_code(error.code) != Some(ErrorCode::SessionGone) {
            return Err(Violation {
                code: ErrorCode::WrongState,
                words: format!("ERROR {} was not expected here", error.code),
            });
        }
        self.end_path();
        self.reason = "the session is gone, asking for another".to_owned();
        self.greet(now);
        Ok(())
    }

    /// The provider will stop. Until it does it carries, so nothing changes but what a
    /// person is told.
    pub(super) fn on_goaway(&mut self, goaway: &Goaway) {
        let why = ErrorCode::from_code(goaway.reason)
            .map_or("a reason of a later version", ErrorCode::words);
        let drain = Duration::from_millis(goaway.drain_ms);
        self.reason = format!("up; the provider closes within {drain:?}: {why}");
    }

    /// Nothing made progress for so long that the session is over.
    pub(super) fn on_gone(&mut self, violation: Violation, now: Instant) {
        match self.dial.state() {
            // No connection carries it: the dial goes on, for another session.
            State::Waiting { .. } | State::Dialing { .. } => self.end_path(),
            State::Greeting { .. } | State::Up { .. } => self.close(violation, now),
        }
    }
}

/// Whether a peer that closes with `code` has ended the session.
///
/// One that fails or is full may come back with it; all others know what they say. A
/// provider that stops keeps nothing for the next one.
fn ends_session(code: ErrorCode) -> bool {
    use ErrorCode::{Internal, TooManySessions};
    !matches!(code, Internal | TooManySessions)
}
