//! What can go wrong with files, locks and programs. The crates above say what to do about it in their own words.

use std::io;
use std::path::{Path, PathBuf};

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// An interface name that cannot stand in a rule or a file's name.
    #[error("{name:?} is no name for a TUN: 1 to 15 of the characters A-Z a-z 0-9 . _ -")]
    InvalidName {
        /// The name that was asked for.
        name: String,
    },
    /// Another process has been changing the host for too long.
    #[error("another process is changing the host and does not finish (it holds {path})")]
    Busy {
        /// The lock it holds.
        path: PathBuf,
    },
    /// A file, its directory or a lock could not be read or written.
    #[error("cannot {operation} {path}: {source}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A state file says nothing that this version can read.
    #[error("{path} is damaged ({reason}): put back by hand what it was about, then delete it")]
    StateCorrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such program.
    #[error("there is no program `{program}`: install it")]
    ProgramMissing {
        /// Its name.
        program: &'static str,
    },
    /// A program refused, or did not finish.
    #[error("`{program}` refused: {words}")]
    ProgramRefused {
        /// Its name.
        program: &'static str,
        /// What it said, shortened.
        words: String,
    },
}

impl HostError {
    /// An operation on a file that the system refused.
    #[must_use]
    pub fn file(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File {
            operation,
            path: path.to_owned(),
            source,
        }
    }
}
