//! Room for the rest of the process.
//!
//! Every flow of a stack holds a descriptor, and clients and applications open as many as they like. What runs beside them
//! in the process needs a few at any time: a control socket that says why flows are refused, a socket for the next dial, a
//! file for the count of a month. So a socket of a flow is given back at once when it was opened out of the last
//! 32.
//!
//! How many are left is not counted: several stacks and the program around them share one table. A system gives the
//! lowest free number to a new descriptor (POSIX `open`, `socket` and `accept` do), so the number itself tells: all below
//! it are taken. No flow ever keeps one of the highest numbers, hence flows alone cannot use those up, whoever holds the
//! others.
//!
//! The limit is asked for each time, since it can be changed from outside (`prlimit`); that is a tenth of what the socket
//! costs.

use std::io;

#[cfg(unix)]
use nix::sys::resource::rlim_t;

/// Descriptors that no flow keeps. Sixteen conversations on a control socket, the requests to four backends, a tunnel's
/// sockets and a helper program's pipes come to fewer.
#[cfg(unix)]
const RESERVE: rlim_t = 32;

/// The socket of a flow, unless it was opened out of the reserve: 32 descriptors, or half of a limit below 64.
///
/// # Errors
/// The host is out of descriptors as far as flows are concerned (`EMFILE`); the socket is closed.
#[cfg(unix)]
pub fn spare<S: std::os::fd::AsFd>(socket: S) -> io::Result<S> {
    use std::os::fd::AsRawFd as _;

    use nix::errno::Errno;
    use nix::sys::resource::{Resource, getrlimit};

    // Who cannot be told a limit has none that we could keep.
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(rlim_t::MAX, |(soft, _)| soft);
    let number = rlim_t::try_from(socket.as_fd().as_raw_fd()).unwrap_or(0);
    if is_spare(number, limit) {
        Ok(socket)
    } else {
        Err(Errno::EMFILE.into())
    }
}

/// The socket of a flow. How descriptors run out here is not known.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn spare<S>(socket: S) -> io::Result<S> {
    Ok(socket)
}

/// Whether a flow may keep the descriptor `number` where `limit` may be open.
#[cfg(unix)]
fn is_spare(number: rlim_t, limit: rlim_t) -> bool {
    number < limit - RESERVE.min(limit / 2)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_are_for_others() {
        for (limit, spare) in [
            (1_024, 992),
            (64, 32),
            (63, 32),
            (2, 1),
            (rlim_t::MAX, rlim_t::MAX - 32),
        ] {
            assert!(is_spare(spare - 1, limit), "{limit}");
            assert!(!is_spare(spare, limit), "{limit}");
        }
        assert!(!is_spare(0, 0));
    }
}
