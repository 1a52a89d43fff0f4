//! `quell drain`: a provider takes nobody new, tells its clients to go, and ends.

use std::path::Path;
use std::thread;
use std::time::Duration;

use clap::Args;
use quell::control::ControlError;
use serde_json::Value;

use crate::socket::{self, Sockets};
use crate::{Failure, Streams, counted};

/// How often it is asked who is left.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Have a provider take nobody new, tell its clients to go, and end
#[derive(Debug, Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    sockets: Sockets,
    /// Wait until it has ended, and say who is left
    #[arg(long)]
    wait: bool,
}

impl Drain {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let socket = self.sockets.one()?;
        let answer = socket::drain(&socket)?;
        let sessions = answer.get("sessions").and_then(Value::as_u64).unwrap_or(0);
        let how = match answer.get("was_draining").and_then(Value::as_bool) {
            Some(true) => "it drains already",
            Some(false) | None => "it drains",
        };
        writeln!(
            streams.out,
            "{how}: {} told to go",
            counted(sessions as usize, "session")
        )?;
        streams.out.flush()?;
        if self.wait {
            wait(&socket, sessions, streams)?;
        }
        Ok(())
    }
}

fn wait(socket: &Path, mut told: u64, streams: &mut Streams<'_>) -> Result<(), Failure> {
    loop {
        let left = match socket::status(socket) {
            Ok(status) => status
                .get("sessions")
                .and_then(Value::as_array)
                .map(Vec::len),
            Err(ControlError::NotRunning { .. }) => break,
            // It may be at its very end: asked again, it is gone or answers.
            Err(_) => None,
        };
        if let Some(left) = left.map(|left| left as u64).filter(|left| *left != told) {
            writeln!(streams.out, "{} left", counted(left as usize, "session"))?;
            streams.out.flush()?;
            told = left;
        }
        thread::sleep(LOOK_INTERVAL);
    }
    writeln!(streams.out, "it has ended")?;
    Ok(())
}
