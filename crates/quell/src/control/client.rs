//! Asking a running quell, for callers without a runtime.
//!
//! One deadline covers connecting, writing and reading. Even connecting can
//! wait: a stopped server's backlog fills up, and then `connect` on a Unix
//! socket blocks unless the socket's send timeout bounds it.
//!
//! An answer is believed only when it is one whole line within the bound: the
//! file may be some other program's.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{ControlError, RESPONSE_BYTES_MAX, Reply, Request};

/// Most sockets listed of one folder; more than that is no folder of ours.
const SOCKETS_MAX: usize = 256;

/// Most entries of a folder that are looked at.
const ENTRIES_MAX: usize = 4096;

/// Asks the quell behind `path` and waits for its answer, `within` at most.
///
/// # Errors
/// `NotRunning` when nobody serves the path, `TimedOut`, `BadAnswer`, `Refused`
/// with quell's own words, or the system's refusal (no permission, say).
pub fn request(path: &Path, request: Request, within: Duration) -> Result<Value, ControlError> {
    let line = converse(path, request, within).map_err(|error| failure(path, within, error))?;
    let bad = |words: String| ControlError::BadAnswer {
        path: path.to_owned(),
        words,
    };
    let Some((b'\n', line)) = line.split_last() else {
        return Err(bad(format!("{} bytes without an end of line", line.len())));
    };
    match serde_json::from_slice(line).map_err(|error| bad(error.to_string()))? {
        Reply::Ok(value) => Ok(value),
        Reply::Error(words) => Err(ControlError::Refused { words }),
    }
}

fn failure(path: &Path, within: Duration, error: io::Error) -> ControlError {
    let path = path.to_owned();
    let kind = error.kind();
    if kind == ErrorKind::NotFound || kind == ErrorKind::ConnectionRefused {
        ControlError::NotRunning { path }
    } else if kind == ErrorKind::TimedOut || kind == ErrorKind::WouldBlock {
        // A blocking socket's elapsed timeout shows as EAGAIN on Linux.
        ControlError::TimedOut {
            path,
            after: within,
        }
    } else {
        ControlError::io("ask", &path)(error)
    }
}

/// Sends the request and reads to the first newline, the end, or the bound.
fn converse(path: &Path, request: Request, within: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + within;
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(left()?)?;
    socket.connect(&SockAddr::unix(path)?)?;
    let mut stream = UnixStream::from(OwnedFd::from(socket));

    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    stream.set_write_timeout(left()?)?;
    match stream.write_all(&line) {
        // A refusal may have been sent before the request was read.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
        Ok(()) | Err(_) => {}
    }

    let mut answer = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    while answer.last() != Some(&b'\n') && answer.len() <= RESPONSE_BYTES_MAX {
        stream.set_read_timeout(left()?)?;
        match stream.read(&mut chunk)? {
            0 => break,
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
    if answer.len() > RESPONSE_BYTES_MAX {
        let words = format!("the answer is longer than {RESPONSE_BYTES_MAX} bytes");
        return Err(io::Error::new(ErrorKind::InvalidData, words));
    }
    Ok(answer)
}

/// The control sockets in `dir`: everything named `*.sock` that is a socket, in
/// order of name. A folder that does not exist has none.
///
/// # Errors
/// The system's refusal to list the folder.
pub fn sockets_in(dir: &Path) -> Result<Vec<PathBuf>, ControlError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ControlError::io("list", dir)(error)),
    };
    let mut sockets = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        let entry = entry.map_err(ControlError::io("list", dir))?;
        let path = entry.path();
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && path.extension().is_some_and(|end| end == "sock") {
            sockets.push(path);
        }
        if sockets.len() == SOCKETS_MAX {
            break;
        }
    }
    sockets.sort();
    Ok(sockets)
}
