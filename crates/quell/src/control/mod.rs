//! The local control socket: how the `quell` command asks a running quell something.
//!
//! One request a connection, one JSON line each way:
//!
//! ```text
//! → {"command":"status"}   or   {"command":{"judge":"10.1.2.3 tcp/443"}}
//! ← {"ok":{…}}   or   {"error":"words for a person"}
//! ```
//!
//! **Who may ask.** The socket has mode 0600 before its name appears, so only
//! the user quell runs as, and root, can connect. Nothing else authenticates.
//!
//! **It answers when the engine is busy** (case B65: a daemon that was mute for
//! five days yet "active"). The server runs on a thread and a runtime of its
//! own; the engine owes it nothing but an answer to the handler, and when that
//! does not come within [`IO_TIMEOUT`] the asker is told just that. A mute
//! engine is thereby seen at once instead of hanging the question too.
//!
//! **Bounds.** [`CONNECTIONS_MAX`] conversations at once (the next is told
//! "busy"), [`REQUEST_BYTES_MAX`] a request, [`IO_TIMEOUT`] for each of reading,
//! answering and writing, [`RESPONSE_BYTES_MAX`] for what a client will read.
//! Whatever bytes arrive, the answer is an error in words, never a panic.
//!
//! The parts: `socket` puts the file in place and takes it away, `server`
//! answers, `client` asks, `run_dir` says where both look, `judge` is what only a
//! provider is asked.

mod client;
mod judge;
mod run_dir;
mod server;
mod socket;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use client::{request, sockets_in};
pub use judge::{Question, QuestionError, judging};
pub use quell_core::provider::rules::Explanation;
pub use run_dir::{RUN_DIR, run_dir};
pub use server::{Answer, AnswerFuture, Handler, Server, serve};

/// Most conversations at once: far above what people and a metrics collector
/// need, far below what would cost memory.
pub const CONNECTIONS_MAX: usize = 16;

/// Most bytes of one request, its newline included.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// Most bytes of one response that [`request`] reads.
///
/// 16 MiB: 4,096 sessions (the default `limits.sessions_max`) at 4 KiB each.
pub const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest time for each step of a conversation: reading the request, finding
/// the answer, writing it.
///
/// 5 s: a person waits no longer, and nothing on this machine takes it.
pub const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The question.
    pub command: Command,
}

/// The questions a running quell answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// How is it going: state, numbers and reasons, as one JSON object.
    Status,
    /// Read the configuration file again, and take on what changed.
    Reload,
    /// Of a provider: take nobody new, tell the clients to go, end.
    Drain,
    /// Of a provider: may its clients speak to this?
    Judge(Question),
    /// Of a client: end, in good order.
    Stop,
}

/// One response line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Ok(Value),
    Error(String),
}

/// Why the control socket could not be served or asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A living process serves this very path.
    #[error("already running: a living process serves {}", path.display())]
    AlreadyRunning {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket has the name. It is left alone.
    #[error("{} exists and is not a socket: remove it, or choose another control.socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The name does not fit into a socket address (unix(7)).
    #[error("the socket path {} has {bytes} bytes: allowed are at most {bytes_max}", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// What fits.
        bytes_max: usize,
    },
    /// The system refused a step.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Nobody serves this path.
    #[error("nothing answers on {}: is quell running?", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// Somebody holds the socket but gave no answer in time.
    #[error("no answer on {} within {after:?}", path.display())]
    TimedOut {
        /// The socket.
        path: PathBuf,
        /// How long it was given.
        after: Duration,
    },
    /// What came back is not a response line.
    #[error("{} gave no valid answer: {words}", path.display())]
    BadAnswer {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        words: String,
    },
    /// quell answered that it cannot say.
    #[error("quell answered: {words}")]
    Refused {
        /// Its words.
        words: String,
    },
}

impl ControlError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
