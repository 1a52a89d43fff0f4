//! A client of several exits, in virtual time.
#![allow(clippy::unwrap_used)]

mod cases;
mod catalog;
mod failover;
mod race;
mod steer;
mod swarm;
