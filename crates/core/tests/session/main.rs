//! Both ends of a session against each other, and each alone against a liar.
//!
//! Timelines say at which moment what happens, exactly, and that nothing else does. The rest runs in the worlds of
//! `quell_sim::pair`, whose books are checked after every step.
#![allow(clippy::unwrap_used)]

mod admission;
mod budget;
mod clock;
mod common;
mod contracts;
mod contracts_grace;
mod contracts_hostile;
mod dialing;
mod drain;
mod endurance;
mod flow_close;
mod greeting;
mod hostile;
mod lanes;
mod limits;
mod liveness;
mod lossy;
mod messages;
mod outage;
mod policy;
mod queue;
mod reload;
mod resume;
mod schedule;
mod sizes;
mod swarm;
