//! A tunnel for the whole machine: routes, names' servers and firewall on the client's host, and the way back.
//!
//! ```text
//! packet ─> rule 6608: to an excluded prefix ──────────> main table ─> the network
//!           rule 6609: main, but not its default ──────> links of the host, its own narrower routes
//!           rule 6610: without the mark ───────────────> own table ──> TUN
//!           else (the tunnel's own packets) ───────────> main table ─> the network
//! ```
//!
//! As `wg-quick` does it: a mark tells the tunnel's own packets from the user's, so no address of a provider has to be
//! known or excepted. Where a route takes a whole family, the other family is taken too: what the session does not carry is
//! unreachable and does not leak around it.
//!
//! The firewall is one table of nftables. Without `fail_closed` it holds what the mark needs to pass a strict reverse-path
//! filter, and drops what comes from outside for the tunnel's address. With `fail_closed` nothing leaves but through the
//! TUN and with the mark, and it stays when the process ends, however it ends: [`take_back`] alone opens it.
//!
//! | module | its part |
//! |---|---|
//! | `plan` | which rules, routes and firewall text, as text: no I/O |
//! | `names` | the host's resolver: set, put back, and whom the tunnel itself asks |
//! | `state` | what is remembered of it on disk |
//! | `whole` | installs, follows the session, ends, mends |
//!
//! The calls block for milliseconds: a few files and child processes (`ip`, `nft`, `resolvectl`). They act on the calling
//! thread's network namespace.

#![warn(missing_docs)]

mod error;
mod host;
mod names;
mod plan;
mod state;
mod whole;

pub use error::VpnError;
pub use plan::Carried;
pub use whole::{Vpn, VpnConfig, open_portal, take_back};
