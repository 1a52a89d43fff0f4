//! Files that the engine's poll tells of.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the runtime's poll tell when `file` can be read. Within a runtime.
///
/// # Errors
/// The system's poll does not take it.
#[allow(unsafe_code)]
pub(crate) fn watch(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is one open descriptor, and the same one, until it is dropped; the `AsyncFd` owns it, lends it
    // by shared reference alone, and drops it.
    Ok(unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) }?)
}
