//! The host sockets behind associations.
//!
//! UDP sockets are bound to a port that the host chooses, and asked to report the ICMP errors that their datagrams draw:
//! an unconnected socket would not be told otherwise.
//!
//! Echo sockets are the unprivileged ones (`SOCK_DGRAM` with ICMP). The host chooses the identifier on the wire and gives
//! each socket its own replies alone. Linux allows them to the groups in `net.ipv4.ping_group_range`, IPv6 included.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use quell_stack::spare;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// A UDP socket of the client's family, that speaks from `source` if there is one.
///
/// # Errors
/// The host has none to give.
pub(super) fn udp(client: IpAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let socket = new(client, Protocol::UDP)?;
    #[cfg(target_os = "linux")]
    report_errors(&socket, client)?;
    let any: IpAddr = match client {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(source.unwrap_or(any), 0).into())?;
    UdpSocket::from_std(socket.into())
}

/// An echo socket of the client's family, likewise.
///
/// # Errors
/// The host has none to give, or none to this process ([`is_forbidden`](super::super::errno::is_forbidden)).
pub(super) fn echo(client: IpAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let protocol = match client {
        IpAddr::V4(_) => Protocol::ICMPV4,
        IpAddr::V6(_) => Protocol::ICMPV6,
    };
    let socket = new(client, protocol)?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    UdpSocket::from_std(socket.into())
}

fn new(client: IpAddr, protocol: Protocol) -> io::Result<Socket> {
    let domain = match client {
        IpAddr::V4(_) => Domain::IPV4,
        IpAddr::V6(_) => Domain::IPV6,
    };
    let socket = spare(Socket::new(domain, Type::DGRAM, Some(protocol))?)?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn report_errors(socket: &Socket, client: IpAddr) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};

    match client {
        IpAddr::V4(_) => setsockopt(socket, sockopt::Ipv4RecvErr, &true)?,
        IpAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvErr, &true)?,
    }
    Ok(())
}
