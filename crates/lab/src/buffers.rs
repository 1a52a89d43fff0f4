//! Room in the kernel for what arrives while a thread sleeps.
//!
//! A burst is to be dropped by the rules of the link that is being modelled, and counted there, not by the default bound of a
//! socket (some 200 KB, three of the longest datagrams). Root may pass the system's bound; others get what it allows.

use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt};

const BUFFER_BYTES: usize = 4 << 20;

/// Enlarges both buffers of a socket as far as the system lets it. That it does not is no error: everything works, with less
/// room.
pub(crate) fn enlarge(socket: &impl AsFd) {
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
        let _capped = setsockopt(socket, sockopt::RcvBuf, &BUFFER_BYTES);
    }
    if setsockopt(socket, sockopt::SndBufForce, &BUFFER_BYTES).is_err() {
        let _capped = setsockopt(socket, sockopt::SndBuf, &BUFFER_BYTES);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use nix::sys::socket::getsockopt;
    use std::net::UdpSocket;

    #[test]
    fn buffers_grow() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sizes = || {
            let receive = getsockopt(&socket, sockopt::RcvBuf).unwrap();
            (receive, getsockopt(&socket, sockopt::SndBuf).unwrap())
        };
        let before = sizes();
        enlarge(&socket);
        let after = sizes();
        assert!(
            after.0 >= before.0 && after.1 >= before.1,
            "{before:?} to {after:?}"
        );
        if nix::unistd::geteuid().is_root() {
            // The kernel counts its own overhead: twice what was asked for.
            assert_eq!(after, (2 * BUFFER_BYTES, 2 * BUFFER_BYTES));
        }
    }
}
