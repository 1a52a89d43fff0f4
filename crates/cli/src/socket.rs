//! Which running quell is asked, by the verbs that ask one.
//!
//! Without `--socket` the run folder is looked through. A verb that can do with any of
//! several gets all; where one is meant, exactly one has to be there, because a guess
//! between two tunnels would be believed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use quell::control::{self, Command, Question, Request};
use serde_json::Value;

use crate::Failure;

/// How long quell may take to answer; a little longer than it gives its own
/// engine ([`control::IO_TIMEOUT`]), so that a mute engine is reported in words.
const WAIT: Duration = control::IO_TIMEOUT.saturating_add(Duration::from_secs(2));

/// The arguments that name a running quell.
#[derive(Debug, Args)]
pub(crate) struct Sockets {
    /// The control socket of the quell to ask; without it, the run folder is looked through
    #[arg(long, value_name = "PATH", env = "QUELL_CONTROL_SOCKET")]
    socket: Option<PathBuf>,
    /// The folder to look for control sockets in
    #[arg(long, value_name = "DIR", default_value_os_t = control::run_dir())]
    run_dir: PathBuf,
}

impl Sockets {
    /// All that can be meant; one at least.
    pub(crate) fn all(&self) -> Result<Vec<PathBuf>, Failure> {
        // An empty variable counts as unset.
        if let Some(socket) = self.socket.as_ref().filter(|s| !s.as_os_str().is_empty()) {
            return Ok(vec![socket.clone()]);
        }
        let sockets = control::sockets_in(&self.run_dir)?;
        if sockets.is_empty() {
            return Err(Failure::Failed(anyhow!(
                "no quell is running here: there is no control socket in {} (--socket names one elsewhere)",
                self.run_dir.display()
            )));
        }
        Ok(sockets)
    }

    /// The only one.
    pub(crate) fn one(&self) -> Result<PathBuf, Failure> {
        let mut sockets = self.all()?;
        match (sockets.pop(), sockets.as_slice()) {
            (Some(socket), []) => Ok(socket),
            (last, others) => {
                let all = others.iter().chain(&last);
                let list: Vec<_> = all.map(|s| s.display().to_string()).collect();
                Err(Failure::Usage(anyhow!(
                    "several quells run here, choose one with --socket: {}",
                    list.join(", ")
                )))
            }
        }
    }
}

/// The status of the quell behind `socket`.
pub(crate) fn status(socket: &Path) -> Result<Value, control::ControlError> {
    ask(socket, Command::Status)
}

/// Whether the clients of the provider behind `socket` may speak to the destination.
pub(crate) fn judge(socket: &Path, question: Question) -> Result<Value, control::ControlError> {
    ask(socket, Command::Judge(question))
}

/// Has the quell behind `socket` read its file again.
pub(crate) fn reload(socket: &Path) -> Result<Value, control::ControlError> {
    ask(socket, Command::Reload)
}

/// Has the provider behind `socket` drain and end.
pub(crate) fn drain(socket: &Path) -> Result<Value, control::ControlError> {
    ask(socket, Command::Drain)
}

fn ask(socket: &Path, command: Command) -> Result<Value, control::ControlError> {
    control::request(socket, Request { command }, WAIT)
}
