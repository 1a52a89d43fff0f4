//! `quell status`: how a running quell is doing.
//!
//! Without `--socket` the run folder is looked through. Exactly one socket is
//! asked; with none or several the answer says so and lists them, because a
//! guess between two tunnels would be believed.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use quell::control::{self, Command, RUN_DIR, Request};

use crate::table::Table;
use crate::{Failure, Streams};

/// How long quell may take to answer; a little longer than it gives its own
/// engine ([`control::IO_TIMEOUT`]), so that a mute engine is reported in words.
const WAIT: Duration = control::IO_TIMEOUT.saturating_add(Duration::from_secs(2));

/// Show how a running quell is doing
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The control socket of the quell to ask; without it, the only one in the run folder
    #[arg(long, value_name = "PATH", env = "QUELL_CONTROL_SOCKET")]
    socket: Option<PathBuf>,
    /// The folder to look for control sockets in
    #[arg(long, value_name = "DIR", default_value = RUN_DIR)]
    run_dir: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let socket = self.socket()?;
        let request = Request {
            command: Command::Status,
        };
        let status = control::request(&socket, request, WAIT)?;
        match self.json {
            true => writeln!(streams.out, "{status}")?,
            false => write!(streams.out, "{}", Table::of(&status))?,
        }
        Ok(())
    }

    fn socket(&self) -> Result<PathBuf, Failure> {
        // An empty variable counts as unset.
        if let Some(socket) = self.socket.as_ref().filter(|s| !s.as_os_str().is_empty()) {
            return Ok(socket.clone());
        }
        let dir = self.run_dir.display();
        let sockets = control::sockets_in(&self.run_dir)?;
        match sockets.as_slice() {
            [socket] => Ok(socket.clone()),
            [] => Err(Failure::Failed(anyhow!(
                "no quell is running here: there is no control socket in {dir} (--socket names one elsewhere)"
            ))),
            several => {
                let list: Vec<_> = several.iter().map(|s| s.display().to_string()).collect();
                Err(Failure::Usage(anyhow!(
                    "several quells run here, choose one with --socket: {}",
                    list.join(", ")
                )))
            }
        }
    }
}
