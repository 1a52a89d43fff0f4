//! The seam between the loops and a system's device: one read, one write, one wait.
//!
//! `reader` and `writer` hold all that is to be got right about errors, batches and counting; below them a device is
//! three system calls. So the loops are tested against devices that fail in every way (case B81), and the device with
//! offloads (virtio-net headers, GSO) takes the place of the plain one.
//!
//! Errors are bare errnos, because [`classify`](crate::classify()) wants exactly that; [`END_OF_FILE`](crate::END_OF_FILE)
//! stands for a call that moved nothing.

use std::io::IoSlice;
use std::time::Duration;

use bytes::BytesMut;

/// What a wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// A packet to read.
    Readable,
    /// Room to write.
    Writable,
    /// Nothing but time and the stop signal: a pause.
    Pause,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// The device may be ready, or has an error that the next call will tell.
    Ready,
    /// The stop signal was given.
    Stopped,
    /// The time is over.
    TimedOut,
}

/// A device, one call at a time. No call blocks, except `wait`.
pub(crate) trait RawDevice: Send {
    /// Reads one packet and appends it to `buffer`, which has room for the longest. Returns its length; 0 for one that was
    /// taken from the kernel, dropped and counted.
    fn read(&mut self, buffer: &mut BytesMut) -> Result<usize, i32>;

    /// Writes one packet, whole or not at all.
    fn write(&mut self, packet: &[u8]) -> Result<(), i32>;

    /// Writes several packets merged into one: virtio header and headers first, then the payloads. Called only where the
    /// device said that it merges ([`Offload`](crate::Offload)).
    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> Result<(), i32>;

    /// Blocks until the interest is met, the stop signal is given, or the time is over (`None`: never).
    fn wait(&mut self, interest: Interest, limit: Option<Duration>) -> Result<Wakeup, i32>;
}

/// The error that ends a device.
pub(crate) fn fatal(errno: i32, words: &'static str) -> crate::TunError {
    let source = if errno == crate::END_OF_FILE {
        std::io::Error::from(std::io::ErrorKind::UnexpectedEof)
    } else {
        std::io::Error::from_raw_os_error(errno)
    };
    crate::TunError::Fatal { source, words }
}
