//! What can go wrong, each with what to do about it.

use quell_host::HostError;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VpnError {
    /// A living process holds the TUN of that name.
    #[error("the tunnel {tun:?} is in use by another process: `quell down` ends it")]
    InUse {
        /// The TUN's name.
        tun: String,
    },
    /// Another tunnel takes the whole machine already.
    #[error(
        "the tunnel {tun:?} takes this machine's traffic already: end it with `quell down`, or route less through this one"
    )]
    Taken {
        /// The other TUN's name.
        tun: String,
    },
    /// The host has such a route through another interface.
    #[error(
        "a route to one of tun.routes exists already through another interface: choose a narrower one, or take it away"
    )]
    RouteTaken,
    /// Files, locks, programs.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The firewall is asked for, and there is no `nft`.
    #[error("vpn.fail_closed needs the program `nft`: install nftables")]
    NoFirewall,
    /// No tunnel's firewall is there that could be opened.
    #[error("no tunnel of this machine is installed: there is nothing to open")]
    NotInstalled,
}
