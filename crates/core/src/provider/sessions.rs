//! The sessions of a provider by their number.
//!
//! *Intuition.* Each datagram begins with a look for its session, and thousands of sessions lie far apart in memory: a tree
//! is walked through five nodes that nothing else has touched, a hashed place is met at once. Whoever needs all of them gets
//! them by number, for what follows of it must not depend on where a hash put them; that is rare, and may cost a sort.
//!
//! Numbers are the provider's own and no peer chooses them, so the hash needs no secret.
//!
//! Invariants: a number is in here once; a walk goes by number.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::SessionId;
use super::session::Session;

/// Sessions, each boxed: a map moves what is in it, and sessions are large.
#[derive(Debug, Default)]
pub(super) struct Sessions(HashMap<SessionId, Box<Session>, FixedState>);

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<&Session> {
        self.0.get(id).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, id: &SessionId) -> Option<&mut Session> {
        self.0.get_mut(id).map(Box::as_mut)
    }

    pub(super) fn insert(&mut self, id: SessionId, session: Box<Session>) {
        self.0.insert(id, session);
    }

    pub(super) fn remove(&mut self, id: &SessionId) -> Option<Box<Session>> {
        self.0.remove(id)
    }

    /// All there are, by number.
    pub(super) fn ids(&self) -> Vec<SessionId> {
        let mut ids: Vec<_> = self.0.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// All of them in no order: for sums.
    pub(super) fn values(&self) -> impl Iterator<Item = &Session> {
        self.0.values().map(Box::as_ref)
    }

    /// All of them in no order: for what is done to each alike, and to it alone.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.0.values_mut().map(Box::as_mut)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        let of = |id| Some((id, self.get(&id)?));
        self.ids().into_iter().filter_map(of)
    }
}
