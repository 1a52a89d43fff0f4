//! `quell up`: brings a client's tunnel up and keeps it.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use quell::client::Client;
use quell::config::{self, Config};

use crate::{Failure, Streams, daemon};

/// Bring a tunnel up, and keep it up until interrupted
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The client's configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Up {
    pub(crate) fn run(self, _streams: &mut Streams<'_>) -> Result<(), Failure> {
        let file = match config::load(&self.file).map_err(Failure::usage)? {
            Config::Client(file) => file,
            Config::Provider(_) => {
                return Err(Failure::usage(anyhow!(
                    "{} is a provider's: start it with `quell provide`",
                    self.file.display()
                )));
            }
        };
        daemon::start_log(file.log.level);
        let client = Client::start(&file)?;
        daemon::run_until_stopped(client.ended(), || client.stop())
    }
}
