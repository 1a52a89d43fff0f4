//! How a provider stops: it tells, carries on for a while, closes.
//!
//! ```text
//! serving --drain()--> draining: no new connection; GOAWAY to each session that is up
//!                         |
//!                         '--drain time over, or nobody left--> close_all(ShuttingDown)
//! ```
//!
//! A session that only greets has nothing to lose and is closed at once. One that
//! waits for another connection cannot be resumed here; it is not waited for.

use std::time::Instant;

use quell_wire::registry::ErrorCode;

use super::Provider;
use crate::path::Violation;

impl Provider {
    /// Begins to stop: accepts nobody, says GOAWAY, carries on for `drain`. Sessions
    /// that have something to say are announced by [`Provider::poll_ready`]. A second
    /// call changes nothing.
    pub fn drain(&mut self, now: Instant) {
        if self.is_draining() {
            return;
        }
        self.doorman.stop();
        let code = ErrorCode::ShuttingDown;
        let drain = self.config.drain;
        // A clock at its end gives no time at all.
        self.drains_until = Some(now.checked_add(drain).unwrap_or(now));
        self.send_away(code);
    }

    /// Tells everybody who is carried to go, which takes the drain time.
    pub(super) fn send_away(&mut self, code: ErrorCode) {
        let drain = self.config.drain;
        if drain.is_zero() {
            return;
        }
        for id in self.sessions.ids() {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            if session.is_up() {
                session.go_away(code, drain);
            } else if !session.is_suspended() {
                session.close(said(code));
            }
            self.ready.push_back(id);
        }
    }

    /// Whether the provider was told to stop.
    pub fn is_draining(&self) -> bool {
        self.drains_until.is_some()
    }

    /// When the provider stops carrying, and why; `None` while it was not told to.
    pub fn poll_drain(&self) -> Option<(Instant, &'static str)> {
        Some((self.drains_until?, "drain"))
    }

    /// Whether it is time for [`Provider::close_all`]: the drain time is over, or
    /// no session with a connection is left.
    pub fn is_drained(&self, now: Instant) -> bool {
        let is_over = |until: Instant| now >= until || self.suspended.len() == self.sessions.len();
        self.drains_until.is_some_and(is_over)
    }

    /// Ends every session with `code`: the provider stops.
    pub fn close_all(&mut self, code: ErrorCode) {
        for id in self.sessions.ids() {
            self.close(id, said(code));
            self.ready.push_back(id);
        }
    }
}

fn said(code: ErrorCode) -> Violation {
    Violation {
        code,
        words: code.words().to_owned(),
    }
}
