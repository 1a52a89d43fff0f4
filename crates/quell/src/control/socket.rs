//! The control socket's file: put in place, guarded and taken away.
//!
//! Two questions need an answer without a race: *does a living process own this
//! path?* and *was the socket ever open to others?*
//!
//! **Ownership** is an exclusive lock on `<socket>.lock`, held while the server
//! lives. The kernel drops it with the process, however that dies, so a lock
//! that can be taken means that the socket beside it is stale. The lock file is
//! removed on the way out; because another starter may have opened it just
//! before, whoever takes the lock checks that the name still means the file it
//! locked, and else starts over. A socket that accepts a connection although
//! its lock is free belongs to some other program and is left alone too.
//!
//! **Mode.** `bind` creates the socket with the umask's mode, and a process-wide
//! umask cannot be changed for one thread. So the socket is born in a folder of
//! mode 0700, gets its 0600 there, and is then renamed to its name: nobody can
//! reach it before.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use socket2::{Domain, SockAddr, Socket, Type};

use super::ControlError;

/// `sun_path` has 108 bytes, the last one for the terminating zero (unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// How often a lock file that vanished under our hands is opened anew. Each
/// turn needs another quell to stop in that very moment.
const LOCK_TRIES_MAX: usize = 16;

/// The files of a served socket; dropping it removes them.
#[derive(Debug)]
pub(super) struct SocketFiles {
    path: PathBuf,
    /// Device and inode of our socket: what has another identity is not ours to remove.
    identity: (u64, u64),
    /// Dropped, and thereby released, after the socket is removed.
    _lock: Lock,
}

/// The lock that says who owns the socket's name.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Held for its lock alone.
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "lock file not removed");
        }
    }
}

impl SocketFiles {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "control socket not removed");
        }
    }
}

/// Binds `path` with mode 0600, replacing what a dead process left behind.
///
/// # Errors
/// `AlreadyRunning`, `NotASocket`, `PathTooLong`, or the system's refusal.
pub(super) fn bind(path: &Path) -> Result<(UnixListener, SocketFiles), ControlError> {
    let nursery = sibling(path, ".new");
    let born = nursery.join("s");
    for candidate in [path, &born] {
        let bytes = candidate.as_os_str().as_bytes().len();
        if bytes > PATH_BYTES_MAX {
            return Err(ControlError::PathTooLong {
                path: candidate.to_owned(),
                bytes,
                bytes_max: PATH_BYTES_MAX,
            });
        }
    }
    create_parent(path)?;
    let lock = take_lock(path)?;
    refuse_living(path)?;

    clear_nursery(&nursery, &born)?;
    DirBuilder::new()
        .mode(0o700)
        .create(&nursery)
        .map_err(ControlError::io("create", &nursery))?;
    let placed = place(path, &born);
    let cleared = clear_nursery(&nursery, &born);
    let (listener, identity) = placed?;
    let files = SocketFiles {
        path: path.to_owned(),
        identity,
        _lock: lock,
    };
    cleared?;
    Ok((listener, files))
}

fn place(path: &Path, born: &Path) -> Result<(UnixListener, (u64, u64)), ControlError> {
    let listener = UnixListener::bind(born).map_err(ControlError::io("bind", path))?;
    fs::set_permissions(born, Permissions::from_mode(0o600))
        .map_err(ControlError::io("set the mode of", path))?;
    let found = fs::symlink_metadata(born).map_err(ControlError::io("examine", path))?;
    fs::rename(born, path).map_err(ControlError::io("put in place", path))?;
    Ok((listener, (found.dev(), found.ino())))
}

/// Removes the nursery and the socket that may lie in it. Only ever called under the lock.
fn clear_nursery(nursery: &Path, born: &Path) -> Result<(), ControlError> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    // Through a symbolic link the first removal would reach into a folder of somebody else.
    if fs::symlink_metadata(nursery).is_ok_and(|found| found.is_dir()) {
        gone(fs::remove_file(born)).map_err(ControlError::io("remove", born))?;
    }
    gone(fs::remove_dir(nursery)).map_err(ControlError::io("remove", nursery))
}

/// `path` with `suffix` appended to its last part, hidden from a `*.sock` listing.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Creates the folder with 0755: others may see that a socket is there, while
/// the socket's own mode keeps them from asking it.
fn create_parent(path: &Path) -> Result<(), ControlError> {
    let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(parent)
        .map_err(ControlError::io("create the folder", parent))
}

fn take_lock(path: &Path) -> Result<Lock, ControlError> {
    take_lock_while(path, || {})
}

/// `opened` runs between the opening and the locking of a file: where another
/// process may remove it, and a test does.
pub(super) fn take_lock_while(path: &Path, mut opened: impl FnMut()) -> Result<Lock, ControlError> {
    let lock_path = sibling(path, ".lock");
    let lock_path = lock_path.as_path();
    for _ in 0..LOCK_TRIES_MAX {
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(lock_path)
            .map_err(ControlError::io("open", lock_path))?;
        opened();
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ControlError::AlreadyRunning {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => {
                return Err(ControlError::io("lock", lock_path)(error));
            }
        }
        let held = lock
            .metadata()
            .map_err(ControlError::io("examine", lock_path))?;
        let named = fs::symlink_metadata(lock_path);
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok(Lock {
                path: lock_path.to_owned(),
                _file: lock,
            });
        }
    }
    Err(ControlError::AlreadyRunning {
        path: path.to_owned(),
    })
}

/// Refuses a path that has a living socket, or something that is no socket.
fn refuse_living(path: &Path) -> Result<(), ControlError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ControlError::io("examine", path)(error)),
    };
    if !found.file_type().is_socket() {
        return Err(ControlError::NotASocket {
            path: path.to_owned(),
        });
    }
    match knock(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        // A full backlog (EAGAIN) is a sign of life as well.
        Err(error) if error.kind() != ErrorKind::WouldBlock => {
            Err(ControlError::io("examine", path)(error))
        }
        Ok(()) | Err(_) => Err(ControlError::AlreadyRunning {
            path: path.to_owned(),
        }),
    }
}

/// Connects without waiting: a living server may have a full backlog.
fn knock(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}
