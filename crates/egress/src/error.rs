//! What can go wrong, each with what to do about it. An error of [`install`](crate::KernelEgress::install) leaves nothing
//! half-installed.

use std::io;
use std::path::PathBuf;

use quell_host::HostError;
use quell_packet::Prefix;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// An interface name that cannot stand in a rule or a file's name.
    #[error(
        "{name:?} is no name for a provider's TUN: 1 to 15 of the characters A-Z a-z 0-9 . _ -"
    )]
    InvalidName {
        /// The name that was asked for.
        name: String,
    },
    /// No address pool was given.
    #[error(
        "a kernel egress needs an address pool: set egress.ipv4_pool, egress.ipv6_pool, or both"
    )]
    NoPool,
    /// The only pool is IPv6, and this host has none.
    #[error(
        "the only pool is IPv6, which is switched off on this host: switch it on, or set egress.ipv4_pool"
    )]
    Ipv6Unavailable,
    /// A pool of the other family, or so large that it holds the host's own addresses.
    #[error("{pool} is no {family} pool: it must be an {family} prefix of length 8 or more")]
    InvalidPool {
        /// The pool that was given.
        pool: Prefix,
        /// The family it was given for.
        family: &'static str,
    },
    /// A living process holds the egress of this TUN.
    #[error(
        "the egress of {tun:?} is in use by another process: stop it, or choose another TUN name"
    )]
    InUse {
        /// The TUN's name.
        tun: String,
    },
    /// Another process has been installing or removing an egress for too long.
    #[error("another process is changing an egress and does not finish (it holds {path})")]
    Busy {
        /// The lock it holds.
        path: PathBuf,
    },
    /// A kernel setting could not be read or changed.
    #[error("cannot {operation} {sysctl}: {source}; run as root, or set it on the host beforehand")]
    Sysctl {
        /// "read", or "set".
        operation: &'static str,
        /// The setting, and the value when it was to be set, in the form of sysctl(8).
        sysctl: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// More interfaces than a state file is made for.
    #[error(
        "this host has more than {max} interfaces: switch forwarding on beforehand (net.ipv4.ip_forward, net.ipv6.conf.all.forwarding)"
    )]
    TooManyInterfaces {
        /// The most that are handled.
        max: usize,
    },
    /// The state file, its directory or a lock could not be read or written.
    #[error("cannot {operation} {path}: {source}")]
    State {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The state file says nothing that this version can read.
    #[error(
        "{path} is damaged ({reason}): put back net.ipv4.ip_forward and net.ipv6.conf.all.forwarding by hand if need be, then delete the file"
    )]
    StateCorrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no program `nft`.
    #[error(
        "there is no program `nft`: install nftables, or set egress.masquerade = false and translate addresses elsewhere"
    )]
    NftMissing,
    /// `nft` refused the rules, or did not finish.
    #[error(
        "nftables refused: {words}; install nftables with inet and nat support, or set egress.masquerade = false"
    )]
    Nft {
        /// What `nft` said, shortened.
        words: String,
    },
    /// A setting of the userspace egress is outside its range.
    #[error("egress.{key} = {value}: allowed is {allowed}")]
    InvalidSetting {
        /// The setting.
        key: &'static str,
        /// What was given.
        value: String,
        /// The range, in words.
        allowed: String,
    },
    /// The host gave no thread, or no runtime to run on it.
    #[error(
        "cannot start the userspace egress: {source}; the process may be out of threads or file descriptors"
    )]
    Thread {
        /// What the kernel said.
        source: io::Error,
    },
}

/// What the files, locks and programs of the host say, in this crate's words.
impl From<HostError> for EgressError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::InvalidName { name } => Self::InvalidName { name },
            HostError::Busy { path } => Self::Busy { path },
            HostError::File {
                operation,
                path,
                source,
            } => Self::State {
                operation,
                path,
                source,
            },
            HostError::StateCorrupt { path, reason } => Self::StateCorrupt { path, reason },
            HostError::ProgramMissing { .. } => Self::NftMissing,
            HostError::ProgramRefused { words, .. } => Self::Nft { words },
            other => Self::Nft {
                words: other.to_string(),
            },
        }
    }
}
