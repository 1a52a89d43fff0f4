//! The crate's one error type. Each variant says what was being done, because the caller is a script-like test or demo that
//! prints the error and stops; only `TimedOut` and `Incomplete` are worth telling apart in code.

use std::io;
use std::time::Duration;

use quell_sim::link::LinkError;

/// What went wrong in the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused a netlink request.
    #[error("{what}: {source}")]
    Netlink {
        /// What was being done.
        what: String,
        /// What the kernel said.
        source: Box<rtnetlink::Error>,
    },
    /// There is no such interface.
    #[error("no interface {name} in namespace {namespace}")]
    NoInterface {
        /// The interface's name.
        name: String,
        /// The namespace's label.
        namespace: String,
    },
    /// The thread that starts a namespace's children, or a relay's worker, has ended.
    #[error("{what}: its thread has ended")]
    ThreadGone {
        /// Whose thread.
        what: String,
    },
    /// The settings of a link make no sense.
    #[error("link settings: {0}")]
    Link(#[from] LinkError),
    /// Nothing came within the time given.
    #[error("{what}: nothing within {within:?}")]
    TimedOut {
        /// What was being waited for.
        what: String,
        /// How long.
        within: Duration,
    },
    /// A transfer ended, or its time ran out, before all had arrived.
    #[error("{what}: {received} of {wanted} bytes")]
    Incomplete {
        /// The transfer.
        what: String,
        /// Bytes that arrived.
        received: u64,
        /// Bytes that were asked for.
        wanted: u64,
    },
    /// The other end answered something that it must not answer.
    #[error("{what}: {why}")]
    Protocol {
        /// What was being done.
        what: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// An argument is out of its bounds.
    #[error("{0}")]
    Invalid(String),
    /// The process that started this one is gone already.
    #[error("the parent process is gone")]
    ParentGone,
}

/// The crate's result.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Puts words to what the system says.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| LabError::Io {
            what: what(),
            source,
        })
    }
}

impl<T> Context<T> for nix::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|errno| LabError::Io {
            what: what(),
            source: errno.into(),
        })
    }
}

impl<T> Context<T> for std::result::Result<T, rtnetlink::Error> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| LabError::Netlink {
            what: what(),
            source: Box::new(source),
        })
    }
}
