//! `quell down`: ends a client's tunnel and takes everything back.
//!
//! A running client is asked over its control socket to end; then routes, names and firewall go, also those that a killed
//! one left. It is the one way to open a host that fails closed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quell::control::{self, Command, ControlError, Request};
use quell_vpn::take_back;

use crate::{Failure, Streams, daemon, whole};

/// How long a client may take to end: a farewell of 0.3 s, its threads, and what a busy machine adds.
const END_TIME: Duration = Duration::from_secs(10);

/// End a tunnel and put the machine back to what it was
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The client's configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Down {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let file = whole::client_file(&self.file, "its process ends it, by a signal")?;
        daemon::start_log(file.log.level);
        let request = Request {
            command: Command::Stop,
        };
        let was_running =
            match control::request(&file.control_socket(), request, control::IO_TIMEOUT) {
                Ok(_) => true,
                // Who is killed leaves nobody to ask.
                Err(ControlError::NotRunning { .. }) => false,
                Err(error) => return Err(error.into()),
            };
        let had_left = match file.proxy.is_on() {
            true => false,
            false => take_back(&whole::config_of(&file), END_TIME)?,
        };
        let said = match (was_running, had_left) {
            (true, _) => "down",
            (false, true) => "was not running; put back what it had left",
            (false, false) => "was not running, and nothing was left",
        };
        writeln!(streams.out, "{}: {said}", file.tun.name)?;
        Ok(())
    }
}
