//! Where exits are that have no machine but this one, and the keys that their processes read.
//!
//! Demo, drill and bench play on the same ground: each exit has a network of the loopback to itself, so that who spoke is known by
//! the address, and nothing is opened beyond it.

pub(crate) mod files;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use quell_net::identity::Identity;

/// Exits have 127.86.0.0/16 and 10.86.0.0/16, and those that follow.
const FIRST_NETWORK: u8 = 86;

/// Where an exit is: it listens there, and what its clients send leaves from there.
pub(crate) fn exit_address(exit: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, network(exit), 0, 1)
}

/// Where its relay is. Not where destinations are: a client carries nothing to the address that
/// the tunnel itself goes to.
pub(crate) fn relay_address(exit: usize) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::new(127, network(exit), 0, 2), 0).into()
}

/// The second part of an exit's addresses. Three exits are all that there ever are.
pub(crate) fn network(exit: usize) -> u8 {
    FIRST_NETWORK.saturating_add(u8::try_from(exit).unwrap_or(u8::MAX))
}

/// A UDP port of `address` that was free a moment ago: the client has to be told before the
/// provider could say which one it was given.
///
/// # Errors
/// The loopback does not have that address.
pub(crate) fn free_port(address: IpAddr) -> anyhow::Result<SocketAddr> {
    let socket = UdpSocket::bind((address, 0));
    let socket =
        socket.with_context(|| format!("cannot bind {address}, which is the loopback's"))?;
    Ok(socket.local_addr()?)
}

/// Writes the secret key of `role` where its file names it, for nobody else to read.
///
/// # Errors
/// The file cannot be written, or is there.
pub(crate) fn write_key(folder: &Path, role: &str, identity: &Identity) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(format!("{role}.key")))?;
    writeln!(file, "{}", identity.secret_key().to_text())
}
