//! Every decision of quell, without I/O.
//!
//! A driver hands in what happened and when; this crate says what to do. It
//! opens no socket, starts no task, reads no clock and draws no random number
//! that it was not handed, so the same code runs in the product, in the outage
//! simulator and in tests that live through a day in a second.
//!
//! # The contract (DESIGN §2)
//! - Inputs are `handle_*(…, now)`, facts about the world `on_*`, outputs
//!   `poll_output(now)`, time `poll_timeout()` and `handle_timeout(now)`. `now`
//!   is the last argument and never goes backwards.
//! - After each input the driver drains `poll_output` until it yields `None`.
//!   While output is queued `poll_timeout` is due at once.
//! - A late or spurious `handle_timeout` changes nothing that is not due.
//! - Every packet handed in is, at every moment, sent, in a queue, or dropped
//!   with a [`drops::DropReason`].
//!
//! # Rooms
//! | module | question |
//! |---|---|
//! | [`path`] | how do packets cross one session: queue, datagrams, fragments, PINGs |
//! | [`multi`] | the client: which provider, when to dial, what may leave the TUN |
//! | [`provider`] | the exit: who may connect, which addresses, whose packet is this |
//! | [`recv`] | the receiving end of a lane: each pack once, order, acknowledgements, credit |
//! | [`send`] | the sending end of a lane: what is resent, when, and how often at most |
//! | [`health`] | is a path well, is the control plane, how fast may what failed be tried again |
//! | [`budget`] | how much may be spent on guesses: resends, race copies, dials, an outage's minute |
//! | [`flap`] | how often may a host, and the whole catalog, go down in the eyes of others |
//! | [`exposition`] | how are metrics written for a collector, bounded whatever the names are |
//! | [`congestion`] | what random loss may not take from the congestion window |
//! | [`config`] | every constant, once |
//! | [`arithmetic`] | what a configuration costs in an outage, and what in it does not fit together |
#![warn(missing_docs)]

pub mod arithmetic;
mod bits;
pub mod bucket;
pub mod budget;
pub mod config;
pub mod congestion;
pub mod contract;
mod counters;
pub use counters::Peak;
pub mod drops;
pub mod exposition;
pub mod flap;
mod greeting;
pub mod health;
pub mod multi;
pub mod path;
pub mod provider;
pub mod recv;
pub mod send;
pub mod status;
