//! The remotes that an association has spoken to.
//!
//! A port of a browser speaks to a handful, that of a peer-to-peer program to thousands. So the set is bounded, and who was
//! spoken to longest ago is forgotten first: its answer, if one comes, is filtered. Finding the oldest is a walk over the
//! set; it happens only when the set is full and the remote is new, beside a system call that costs as much.

use std::collections::HashMap;
use std::net::SocketAddr;

/// A bounded set of remotes, by when each was spoken to.
pub(super) struct Remotes {
    spoken_to: HashMap<SocketAddr, u64>,
    max: usize,
    clock: u64,
}

impl Remotes {
    /// A set of at most `max` remotes.
    pub(super) fn new(max: usize) -> Self {
        Self {
            spoken_to: HashMap::new(),
            max,
            clock: 0,
        }
    }

    /// Whether the remote is known; it is spoken to just now.
    pub(super) fn touch(&mut self, remote: SocketAddr) -> bool {
        self.clock += 1;
        match self.spoken_to.get_mut(&remote) {
            Some(stamp) => {
                *stamp = self.clock;
                true
            }
            None => false,
        }
    }

    /// Whether the remote was spoken to, and is remembered.
    pub(super) fn knows(&self, remote: SocketAddr) -> bool {
        self.spoken_to.contains_key(&remote)
    }

    /// Adds a remote that is spoken to just now; forgets another if need be.
    pub(super) fn insert(&mut self, remote: SocketAddr) {
        if self.spoken_to.len() >= self.max && !self.knows(remote) {
            let oldest = self.spoken_to.iter().min_by_key(|(_, stamp)| **stamp);
            if let Some(oldest) = oldest.map(|(remote, _)| *remote) {
                self.spoken_to.remove(&oldest);
            }
        }
        self.clock += 1;
        self.spoken_to.insert(remote, self.clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_spoken_to_longest_ago_is_forgotten() {
        let remote = |port| SocketAddr::from(([192, 0, 2, 1], port));
        let mut remotes = Remotes::new(2);
        remotes.insert(remote(1));
        remotes.insert(remote(2));
        assert!(remotes.knows(remote(1)) && remotes.knows(remote(2)));
        assert!(remotes.touch(remote(1)));
        assert!(!remotes.touch(remote(3)));
        remotes.insert(remote(3));
        assert!(remotes.knows(remote(1)) && remotes.knows(remote(3)));
        assert!(!remotes.knows(remote(2)));
        remotes.insert(remote(3));
        assert!(remotes.knows(remote(1)));
    }
}
