//! What the host's errors mean to a client's packet.
//!
//! Three kinds matter. What the host is short of passes by itself, and is back-pressure: the packet's flow is refused, and
//! the next one is tried again. What the host has no way for is told to the client as such; a host without IPv6 belongs
//! here (case B88). What the host forbids to this process is a state of the egress, and is shown as one.

use std::io;

use super::books::DropReason;

/// Linux's numbers of errors that have no name of their own in the library.
const EMSGSIZE: i32 = 90;
const EPROTONOSUPPORT: i32 = 93;
const EAFNOSUPPORT: i32 = 97;

/// Why there is no socket for a destination.
pub(super) fn why_no_socket(error: &io::Error) -> DropReason {
    if error.raw_os_error() == Some(EAFNOSUPPORT) {
        return DropReason::Unreachable;
    }
    DropReason::SocketsExhausted
}

/// Whether an echo socket was refused for who we are, and not for want of something.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied || error.raw_os_error() == Some(EPROTONOSUPPORT)
}

/// Why a datagram was not sent.
pub(super) fn why_not_sent(error: &io::Error) -> DropReason {
    if error.raw_os_error() == Some(EMSGSIZE) {
        return DropReason::TooLarge;
    }
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library's enum is open, and the last arm counts what has no name here"
    )]
    match error.kind() {
        io::ErrorKind::WouldBlock => DropReason::SocketFull,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown => DropReason::Unreachable,
        _ => DropReason::SendFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_told_from_what_does_not() {
        let socket = |number| why_no_socket(&io::Error::from_raw_os_error(number));
        // EMFILE, ENFILE, ENOBUFS, ENOMEM.
        for number in [24, 23, 105, 12] {
            assert_eq!(socket(number), DropReason::SocketsExhausted);
            assert!(!is_forbidden(&io::Error::from_raw_os_error(number)));
        }
        assert_eq!(socket(EAFNOSUPPORT), DropReason::Unreachable);
        // EPERM, EACCES.
        for number in [1, 13, EPROTONOSUPPORT] {
            assert!(is_forbidden(&io::Error::from_raw_os_error(number)));
        }
    }

    #[test]
    fn each_reason_not_to_send_has_its_name() {
        let sent = |number| why_not_sent(&io::Error::from_raw_os_error(number));
        assert_eq!(sent(EMSGSIZE), DropReason::TooLarge);
        // EAGAIN, ENETUNREACH, EHOSTUNREACH, EINVAL.
        let reasons = [11, 101, 113, 22].map(sent);
        let expected = [
            DropReason::SocketFull,
            DropReason::Unreachable,
            DropReason::Unreachable,
            DropReason::SendFailed,
        ];
        assert_eq!(reasons, expected);
    }
}
