//! Files that the engine's poll tells of.
//!
//! A device that was deleted is in error and nothing else: not readable, nor closed. So errors are asked about, too.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// Something to read, or an error that the next read tells.
const NEWS: Interest = Interest::READABLE.add(Interest::ERROR);

/// Has the runtime's poll tell when `file` can be read. Within a runtime.
///
/// # Errors
/// The system's poll does not take it.
#[allow(unsafe_code)]
pub(crate) fn watch(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is one open descriptor, and the same one, until it is dropped; the `AsyncFd` owns it, lends it
    // by shared reference alone, and drops it.
    Ok(unsafe { AsyncFd::register_with_interest(file, NEWS) }?)
}

/// Waits until there is something to read, or an error that the next read tells.
///
/// # Errors
/// The runtime ends.
pub(crate) async fn news(file: &AsyncFd<OwnedFd>) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
    file.ready(NEWS).await
}
