//! A client of several exits, in virtual time.
#![allow(clippy::unwrap_used)]

mod failover;
mod race;
mod swarm;
