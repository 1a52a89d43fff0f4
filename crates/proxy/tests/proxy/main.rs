//! The proxy as applications meet it: real sockets on both sides, and between them two TCPs in userspace, the proxy's and
//! the provider's egress, joined by their packets alone.
#![allow(clippy::unwrap_used)]

mod alone;
mod bulk;
mod endings;
mod http;
mod limits;
mod names;
mod refusals;
mod rig;
mod sessions;
mod socks;
mod udp;
mod world;
