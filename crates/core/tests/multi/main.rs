//! A client of several exits, in virtual time.
#![allow(clippy::unwrap_used)]

mod cases;
mod failover;
mod race;
mod swarm;
