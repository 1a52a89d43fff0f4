//! Two locks in the run directory, both released by the kernel when their process ends, however it ends.
//!
//! - The *owner's* lock of a TUN is held as long as what it installed stands. Whether it can be taken is how a living
//!   owner is told from an unclean exit.
//! - The *directory's* lock is held while settings are changed, so that two processes do not read and write across each
//!   other. It is waited for, a bounded time: its holder may be running `nft`.
//!
//! Lock files are never removed: a lock on a file that was replaced protects nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::HostError;
use crate::name::TunName;
use crate::store::Store;

/// How long the directory's lock is waited for: longer than one run of `nft` may take.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// How often it is tried meanwhile.
const WAIT_STEP: Duration = Duration::from_millis(10);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Guard {
    file: File,
}

impl Drop for Guard {
    /// Closing alone would not do: a child that another thread is just starting
    /// shares the open file until it runs its program, and the lock with it.
    fn drop(&mut self) {
        // The kernel releases it with the process in any case.
        let _ = self.file.unlock();
    }
}

impl Guard {
    /// Takes the owner's lock of a TUN; `None` when a living process has it.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn owner(store: &Store, tun: &TunName) -> Result<Option<Self>, HostError> {
        try_lock(&store.owner_path(tun))
    }

    /// Takes the directory's lock.
    ///
    /// # Errors
    /// [`HostError::Busy`] when another holds it for 15 s; [`HostError::File`].
    pub fn directory(store: &Store) -> Result<Self, HostError> {
        Self::directory_within(store, WAIT_MAX)
    }

    fn directory_within(store: &Store, limit: Duration) -> Result<Self, HostError> {
        let path = store.lock_path();
        let deadline = Instant::now() + limit;
        loop {
            if let Some(guard) = try_lock(&path)? {
                return Ok(guard);
            }
            if Instant::now() >= deadline {
                return Err(HostError::Busy { path });
            }
            std::thread::sleep(WAIT_STEP);
        }
    }
}

fn try_lock(path: &Path) -> Result<Option<Guard>, HostError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| HostError::file("open", path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Guard { file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(HostError::file("lock", path, source)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_owner_excludes_a_second_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), "egress").unwrap();
        let quell0 = TunName::new("quell0").unwrap();
        let first = Guard::owner(&store, &quell0).unwrap().unwrap();
        assert!(Guard::owner(&store, &quell0).unwrap().is_none());
        assert!(
            Guard::owner(&store, &TunName::new("quell1").unwrap())
                .unwrap()
                .is_some()
        );
        drop(first);
        assert!(Guard::owner(&store, &quell0).unwrap().is_some());
    }

    #[test]
    fn the_directory_is_waited_for_a_bounded_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), "egress").unwrap();
        let held = Guard::directory(&store).unwrap();
        let refused = Guard::directory_within(&store, Duration::from_millis(30));
        assert!(matches!(refused, Err(HostError::Busy { .. })));
        let waiter = std::thread::spawn({
            let store = store.clone();
            move || Guard::directory(&store).map(drop)
        });
        std::thread::sleep(Duration::from_millis(30));
        drop(held);
        waiter.join().unwrap().unwrap();
    }
}
