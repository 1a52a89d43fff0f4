//! `quell provide`: runs an exit.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use quell::config::{self, Config};
use quell::provider::Provider;
use quell::reload::Role;
use quell_core::provider::Reloaded;

use crate::rereading::Current;
use crate::{Failure, Streams, daemon, notify};

/// Run an exit for the clients that the file lists, until interrupted
#[derive(Debug, Args)]
pub(crate) struct Provide {
    /// The provider's configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Provide {
    /// Of this file, as it is.
    pub(super) fn of(file: PathBuf) -> Self {
        Self { file }
    }

    pub(crate) fn run(self, _streams: &mut Streams<'_>) -> Result<(), Failure> {
        let (config, keys) = config::load_with_keys(&self.file).map_err(Failure::usage)?;
        let file = match config {
            Config::Provider(file) => file,
            Config::Client(_) => {
                return Err(Failure::usage(anyhow!(
                    "{} is a client's: start it with `quell up`",
                    self.file.display()
                )));
            }
        };
        daemon::start_log(file.log.level);
        daemon::raise_file_limit();
        let provider = Provider::start(&file)?;
        notify::ready();
        let current = Current::new(self.file, keys, Role::Provider);
        let provider = &provider;
        let reloads = current.follow(provider.orders(), |config| async move {
            match config {
                Config::Provider(file) => provider.reload(&file).await,
                Config::Client(_) => Ok(Reloaded::default()),
            }
        });
        let ended = async {
            tokio::select! {
                () = provider.ended() => {}
                () = notify::watchdog(|| async { provider.status().await.is_ok() }) => {}
            }
        };
        daemon::run_until_stopped(ended, || provider.stop(), reloads)
    }
}
