//! The userspace egress as an engine drives it: a client's TCP speaks packets, real servers answer on loopback.
#![allow(clippy::unwrap_used)]

mod alone;
mod client;
mod datagram;
mod echo;
mod endings;
mod fragments;
mod liars;
mod limits;
mod namespace;
mod pressure;
mod segments;
mod server;
mod source;
mod tcp;
