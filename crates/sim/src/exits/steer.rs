//! What person and system say to the client of a [`World`], and what it tells them.

use std::time::Instant;

use quell_core::multi::{Client, Told};

use super::World;

impl World {
    /// Says something to the client, at this moment.
    pub fn steer(&mut self, say: impl FnOnce(&mut Client, Instant)) {
        say(&mut self.client, self.now);
        self.settle();
    }

    /// What the client has to tell and was not asked for yet.
    pub fn take_told(&mut self) -> Vec<Told> {
        let now = self.now;
        std::iter::from_fn(|| self.client.poll_told(now)).collect()
    }
}
