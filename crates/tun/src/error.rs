//! What can go wrong with a device, an interface or a route, each with what to do about it.
//!
//! Creation and configuration fail once and are read by a person, so their texts name the remedy. [`TunError::Fatal`] is
//! read by a driver: it ends the TUN thread. Transient troubles never leave the crate as errors; they are waited out,
//! backed off from, or counted as drops (see `classify`).
//!
//! Errors hold `std::io::Error`, not the types of the libraries beneath, so that those can be exchanged.

use std::io;
use std::net::IpAddr;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The device can carry no more packets.
    #[error("the TUN device is gone: {words}: {source}")]
    Fatal {
        /// What the kernel said.
        source: io::Error,
        /// What that means, in words.
        words: &'static str,
    },
    /// An interface name that the kernel would refuse, or would read as a pattern.
    #[error("{name:?} is no interface name: {reason}")]
    InvalidName {
        /// The name that was asked for.
        name: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// An MTU outside of what an IP tunnel can use.
    #[error(
        "MTU {mtu} is out of range: an IP tunnel needs at least {} bytes",
        crate::MTU_MIN
    )]
    InvalidMtu {
        /// The MTU that was asked for, in bytes.
        mtu: u16,
    },
    /// A prefix length beyond what the address family has.
    #[error("{address}/{prefix_length} is no prefix")]
    InvalidPrefix {
        /// The address.
        address: IpAddr,
        /// The length that was asked for.
        prefix_length: u8,
    },
    /// The name belongs to a device in use, or to an interface of another kind.
    #[error(
        "interface name {name:?} is in use ({holder}): choose another name, or stop what holds it"
    )]
    NameInUse {
        /// The name that was asked for.
        name: String,
        /// What holds it.
        holder: &'static str,
    },
    /// The process may not create TUN devices or change interfaces.
    #[error("not permitted to {operation}: this needs root or the capability CAP_NET_ADMIN")]
    NotPermitted {
        /// What was tried.
        operation: &'static str,
    },
    /// The system has no TUN driver, or hides it.
    #[error(
        "no TUN driver: load the kernel module `tun`, and give a container the device /dev/net/tun: {source}"
    )]
    NoDriver {
        /// What the kernel said.
        source: io::Error,
    },
    /// Creating or preparing the device failed for another reason.
    #[error("cannot create TUN device: {operation}: {source}")]
    Create {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no interface of that name in this network namespace.
    #[error("no interface {name:?} in this network namespace")]
    NoSuchInterface {
        /// The name that was asked for.
        name: String,
    },
    /// IPv6 is switched off here: go on with IPv4 alone (case B88).
    #[error(
        "IPv6 is switched off on {name:?} or on this host (net.ipv6.conf.*.disable_ipv6, or ipv6.disable=1)"
    )]
    Ipv6Disabled {
        /// The interface.
        name: String,
    },
    /// The host has a route to the same destination with the same metric through another interface.
    #[error(
        "a route to {destination}/{prefix_length} with the same metric exists already: choose another metric, or two routes of half the size"
    )]
    RouteTaken {
        /// The destination's address.
        destination: IpAddr,
        /// Its prefix length.
        prefix_length: u8,
    },
    /// A netlink request failed.
    #[error("{operation} on {name:?}: {source}")]
    Link {
        /// What was tried.
        operation: &'static str,
        /// The interface.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
}
