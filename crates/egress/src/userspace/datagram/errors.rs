//! ICMP errors about datagrams that were sent, back to the client that sent them.
//!
//! Linux keeps them in a queue of the socket: whom the datagram was for, what was reported, and the datagram's bytes. The
//! client gets an error about the datagram as it sent it, in the destination's name: it is rebuilt from the association
//! and those bytes, for the packet on the wire had other addresses. Other systems tell an unconnected socket nothing.

use std::io;
use std::net::SocketAddr;

use quell_packet::build;
use quell_packet::icmp::{self, Unreachable};
use tokio::io::Interest;

use super::super::books::Event;
use super::super::router::Common;
use super::Association;

/// Errors that are passed on in one turn.
const TURN_ERRORS: usize = 16;

/// Whether a failed call speaks about a datagram sent earlier, and not about this one.
pub(super) fn is_about_another(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
        || error.kind() == io::ErrorKind::HostUnreachable
        || error.kind() == io::ErrorKind::NetworkUnreachable
        || error.kind() == io::ErrorKind::PermissionDenied
}

impl Association {
    /// Passes on the errors that wait.
    pub(super) fn pass_errors_on(&self, common: &Common, scratch: &mut [u8]) {
        for _ in 0..TURN_ERRORS {
            let next = self
                .socket
                .try_io(Interest::ERROR, || take(&self.socket, scratch));
            match next {
                Ok(Some((remote, why, len))) => {
                    let remote = SocketAddr::new(remote.ip(), remote.port());
                    self.pass_error(common, remote, why, scratch.get(..len).unwrap_or_default());
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    fn pass_error(&self, common: &Common, remote: SocketAddr, why: Unreachable, sent: &[u8]) {
        let client = SocketAddr::new(self.key.client, self.key.port);
        let datagram = build::udp(client, remote, sent);
        let Some(error) = icmp::unreachable(&datagram, why, remote.ip()) else {
            return;
        };
        common.books.note(if common.outbox.push(&error) {
            Event::ErrorPassedOn
        } else {
            Event::AnswerDropped
        });
    }
}

/// The next error: about a datagram to whom, saying what, and how many bytes of it were put into the buffer. `None` is
/// one that a client is not told.
#[cfg(target_os = "linux")]
fn take(
    socket: &impl std::os::fd::AsRawFd,
    buffer: &mut [u8],
) -> io::Result<Option<(SocketAddr, Unreachable, usize)>> {
    use nix::libc;
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

    let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let remote = message.address.as_ref().and_then(|address| {
        let v4 = address
            .as_sockaddr_in()
            .map(|v4| SocketAddr::V4((*v4).into()));
        v4.or_else(|| {
            address
                .as_sockaddr_in6()
                .map(|v6| SocketAddr::V6((*v6).into()))
        })
    });
    let mut why = None;
    for control in message.cmsgs()? {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the library knows dozens of control messages, this queue two"
        )]
        match control {
            ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                why = meaning(error.ee_origin, error.ee_type, error.ee_code);
            }
            _ => {}
        }
    }
    let len = message.bytes;
    Ok(remote.zip(why).map(|(remote, why)| (remote, why, len)))
}

#[cfg(not(target_os = "linux"))]
fn take<S>(_: &S, _: &mut [u8]) -> io::Result<Option<(SocketAddr, Unreachable, usize)>> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// What an ICMP error is to a client: the three it can act on. `None` for all but "unreachable".
#[cfg(target_os = "linux")]
const fn meaning(origin: u8, kind: u8, code: u8) -> Option<Unreachable> {
    /// SO_EE_ORIGIN_ICMP and SO_EE_ORIGIN_ICMP6 of Linux.
    const FROM_V4: u8 = 2;
    const FROM_V6: u8 = 3;
    match (origin, kind, code) {
        // The kernel has lowered the path's MTU for the next datagram.
        (FROM_V4, icmp::V4_UNREACHABLE, icmp::V4_FRAGMENTATION_NEEDED) => None,
        (FROM_V4, icmp::V4_UNREACHABLE, 3) | (FROM_V6, icmp::V6_UNREACHABLE, 4) => {
            Some(Unreachable::Port)
        }
        (FROM_V4, icmp::V4_UNREACHABLE, 9 | 10 | 13)
        | (FROM_V6, icmp::V6_UNREACHABLE, 1 | 5 | 6) => Some(Unreachable::AdminProhibited),
        (FROM_V4, icmp::V4_UNREACHABLE, _) | (FROM_V6, icmp::V6_UNREACHABLE, _) => {
            Some(Unreachable::Host)
        }
        _ => None,
    }
}
