//! What an errno of a TUN device means: the one place that decides it (case B81).
//!
//! The kernel's TUN driver (`drivers/net/tun.c`) gives few errors. `EBADFD` says that the file is attached to no device
//! any more (somebody deleted the link), `EIO` that the interface is down, `EAGAIN` that a queue is empty or full,
//! `EINVAL` that a packet is neither IPv4 nor IPv6. Other systems add `ENXIO`, `ENODEV`, and an end of file.
//!
//! | class | reading | writing |
//! |---|---|---|
//! | `Retry` | at once, up to a rate | at once, a few times |
//! | `Transient` | wait or back off | wait, then drop and count |
//! | `Fatal` | end | end |
//!
//! What is not in the table is `Transient(Unknown)`: a new kernel's new errno must not end a tunnel at once, nor spin for
//! ever, so a bounded number in a row makes it fatal (see `patience`).

/// The "errno" of a read or write that moved no byte: the end of the file. No real errno is 0.
pub const END_OF_FILE: i32 = 0;

/// Which way the failed call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nothing happened: call again.
    Retry,
    /// This call failed, a later one may not.
    Transient(Trouble),
    /// No call will succeed any more.
    Fatal(&'static str),
}

/// What is in the way for the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing to read.
    NotReady,
    /// No room in the queue, or no memory.
    QueueFull,
    /// The packet is not one that the device takes.
    Invalid,
    /// The interface is down.
    Down,
    /// Something this table does not know.
    Unknown,
}

/// Classifies the errno of a read from, or a write to, a TUN device.
#[must_use]
pub fn classify(errno: i32, direction: Direction) -> Class {
    use errno_table as e;

    match (errno, direction) {
        (e::EINTR, _) => Class::Retry,
        (e::EAGAIN, Direction::Read) => Class::Transient(Trouble::NotReady),
        (e::EAGAIN, Direction::Write) | (e::ENOBUFS | e::ENOMEM, _) => {
            Class::Transient(Trouble::QueueFull)
        }
        (e::EINVAL | e::EMSGSIZE, Direction::Write) => Class::Transient(Trouble::Invalid),
        (e::EIO, _) => Class::Transient(Trouble::Down),
        (END_OF_FILE, _) => Class::Fatal("end of file"),
        (e::EBADFD, _) => Class::Fatal("the interface was deleted"),
        (e::ENODEV | e::ENXIO, _) => Class::Fatal("the device does not exist any more"),
        (e::EBADF, _) => Class::Fatal("the file is closed"),
        (_, _) => Class::Transient(Trouble::Unknown),
    }
}

#[cfg(target_os = "linux")]
pub(crate) mod errno_table {
    pub(crate) use nix::libc::{
        EAGAIN, EBADF, EBADFD, EINTR, EINVAL, EIO, EMSGSIZE, ENOBUFS, ENODEV, ENOMEM, ENXIO,
    };
}

/// The channel device gives no errno; the table of Linux serves wherever there is no OS device yet.
#[cfg(not(target_os = "linux"))]
pub(crate) mod errno_table {
    pub(crate) const EINTR: i32 = 4;
    pub(crate) const EIO: i32 = 5;
    pub(crate) const ENXIO: i32 = 6;
    pub(crate) const EBADF: i32 = 9;
    pub(crate) const EAGAIN: i32 = 11;
    pub(crate) const ENOMEM: i32 = 12;
    pub(crate) const ENODEV: i32 = 19;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const EBADFD: i32 = 77;
    pub(crate) const EMSGSIZE: i32 = 90;
    pub(crate) const ENOBUFS: i32 = 105;
}

#[cfg(test)]
mod tests {
    use super::errno_table::*;
    use super::*;

    // case B81
    #[test]
    fn each_errno_has_one_class_in_each_direction() {
        let both = |errno| {
            (
                classify(errno, Direction::Read),
                classify(errno, Direction::Write),
            )
        };
        let same = |class| (class, class);

        assert_eq!(both(EINTR), same(Class::Retry));
        assert_eq!(both(EIO), same(Class::Transient(Trouble::Down)));
        for errno in [ENOBUFS, ENOMEM] {
            assert_eq!(both(errno), same(Class::Transient(Trouble::QueueFull)));
        }
        assert_eq!(
            both(EAGAIN),
            (
                Class::Transient(Trouble::NotReady),
                Class::Transient(Trouble::QueueFull)
            )
        );
        for errno in [EINVAL, EMSGSIZE] {
            assert_eq!(
                both(errno),
                (
                    Class::Transient(Trouble::Unknown),
                    Class::Transient(Trouble::Invalid)
                )
            );
        }
        for errno in [END_OF_FILE, EBADFD, EBADF, ENODEV, ENXIO] {
            let (read, write) = both(errno);
            assert!(matches!(read, Class::Fatal(_)), "{errno}");
            assert_eq!(read, write);
        }
    }

    // case B81: no errno beyond the table ends a tunnel at once.
    #[test]
    fn an_unknown_errno_is_transient() {
        let known = [
            EINTR, EIO, ENXIO, EBADF, EAGAIN, ENOMEM, ENODEV, EINVAL, EBADFD, EMSGSIZE, ENOBUFS,
        ];
        for errno in (1..=200).chain([i32::MIN, -1, i32::MAX]) {
            if known.contains(&errno) {
                continue;
            }
            for direction in [Direction::Read, Direction::Write] {
                assert_eq!(
                    classify(errno, direction),
                    Class::Transient(Trouble::Unknown),
                    "{errno}"
                );
            }
        }
    }
}
