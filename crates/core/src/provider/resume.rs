//! Sessions whose connection is gone, and how another one takes them up.
//!
//! A suspended session has no driver of its own. It takes packets of the world as a
//! stalled path does, and its path counts the time without progress. What it puts
//! out is announced by [`Provider::poll_ready`] and drained by whoever drives the
//! provider, who also calls [`Provider::handle_suspended`] when it is due. How many
//! may wait is bounded: the one that waits longest goes first.
//!
//! RESUME is believed where key, session and epoch agree: the key was proved by the
//! handshake, the session's name was drawn at random and told to that key alone, and
//! an epoch no higher than the last is an older connection that speaks late (fencing).

use std::time::Instant;

use quell_wire::control::Resume;
use quell_wire::registry::ErrorCode;

use super::session::Session;
use super::{Provider, SessionId};
use crate::path::Violation;

impl Provider {
    /// A connection asks to go on with a session.
    pub(super) fn resume(&mut self, id: SessionId, resume: &Resume, now: Instant) {
        let Some(mut session) = self.sessions.remove(&id) else {
            return;
        };
        let named = |older: &SessionId| {
            let older = self.sessions.get(older);
            older.is_some_and(|older| older.is_named_by(resume))
        };
        match self.by_key.get(&session.key).copied().filter(named) {
            None => session.refuse_resume(now + self.config.hello_timeout),
            Some(older) => {
                if let Some(before) = self.sessions.get_mut(&older) {
                    session.take_over(before, resume, now);
                }
                self.replace(older, id, &session);
                self.resumes += 1;
            }
        }
        self.sessions.insert(id, session);
    }

    /// `id` has taken the place of `older`.
    fn replace(&mut self, older: SessionId, id: SessionId, session: &Session) {
        self.by_key.insert(session.key, id);
        for host in self.by_host.values_mut().filter(|host| **host == older) {
            *host = id;
        }
        self.move_lines(older, id);
        self.fence(older);
    }

    /// Ends a session of the same key: a newer connection holds.
    pub(super) fn fence(&mut self, older: SessionId) {
        let words = "a newer connection of the same key took over".to_owned();
        let code = ErrorCode::Fenced;
        self.end_suspended(older, Violation { code, words });
    }

    fn end_suspended(&mut self, id: SessionId, violation: Violation) {
        self.suspended.remove(&id);
        self.close(id, violation);
        self.ready.push_back(id);
    }

    /// The connection of a session is gone; whether the session waits for another.
    pub(super) fn suspend(&mut self, id: SessionId, now: Instant) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        if self.by_key.get(&session.key) != Some(&id) || !session.suspend(now) {
            return false;
        }
        self.suspended.insert(id, now);
        self.ready.push_back(id);
        // As many sessions wait as may be up; the one that waits longest goes first.
        if self.suspended.len() > self.config.sessions_max {
            let oldest = self.suspended.iter().min_by_key(|(_, since)| **since);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                let code = ErrorCode::TooManySessions;
                let words = "more sessions wait for a connection than may".to_owned();
                self.end_suspended(oldest, Violation { code, words });
            }
        }
        true
    }

    /// When to call [`Provider::handle_suspended`], and why.
    pub fn poll_suspended(&self) -> Option<(Instant, &'static str)> {
        let waiting = self.suspended.keys();
        let due = waiting.filter_map(|id| self.sessions.get(id)?.poll_timeout());
        due.min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now` for sessions without a connection.
    pub fn handle_suspended(&mut self, now: Instant) {
        let ids: Vec<SessionId> = self.suspended.keys().copied().collect();
        for id in ids {
            let Some(session) = self.sessions.get_mut(&id) else {
                self.suspended.remove(&id);
                continue;
            };
            let due = session.poll_timeout().is_some_and(|(at, _)| at <= now);
            if !due {
                continue;
            }
            session.handle_timeout(now);
            if !session.is_suspended() {
                self.suspended.remove(&id);
            }
            self.ready.push_back(id);
        }
    }

    /// Whether the session has no connection.
    pub fn is_suspended(&self, id: SessionId) -> bool {
        self.suspended.contains_key(&id)
    }
}
