//! `quell up`: brings a client's tunnel up and keeps it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use quell::Listening;
use quell::client::Client;
use quell::config::{self, Config};
use quell::reload::Role;
use quell_core::provider::Reloaded;

use crate::rereading::Current;
use crate::{Failure, Streams, daemon};

/// Bring a tunnel up, and keep it up until interrupted
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The client's configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Make no interface: let applications speak SOCKS5 to this address, such as 127.0.0.1:1080
    #[arg(long, value_name = "ADDR")]
    socks5: Option<SocketAddr>,
    /// Make no interface: let applications use this address as their HTTP proxy, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
}

impl Up {
    /// Of this file, as it is.
    pub(super) fn of(file: PathBuf) -> Self {
        Self {
            file,
            socks5: None,
            http: None,
        }
    }

    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let (config, keys) = config::load_with_keys(&self.file).map_err(Failure::usage)?;
        let mut file = match config {
            Config::Client(file) => file,
            Config::Provider(_) => {
                return Err(Failure::usage(anyhow!(
                    "{} is a provider's: start it with `quell provide`",
                    self.file.display()
                )));
            }
        };
        if self.socks5.is_some() || self.http.is_some() {
            file.proxy.socks5 = self.socks5.or(file.proxy.socks5);
            file.proxy.http = self.http.or(file.proxy.http);
            *file = file.try_new().map_err(Failure::usage)?;
        }
        daemon::start_log(file.log.level);
        daemon::raise_file_limit();
        let client = Client::start(&file)?;
        if let Some(proxy) = client.proxy() {
            say_where(streams, proxy.listening())?;
        }
        let current = Current::new(self.file, keys, Role::Client);
        // The log's level is all that a client takes on.
        let reloads = current.follow(client.orders(), |_| async { Ok(Reloaded::default()) });
        daemon::run_until_stopped(client.ended(), || client.stop(), reloads)
    }
}

/// Says where applications find the tunnel; whoever chose port 0 learns it here.
fn say_where(streams: &mut Streams<'_>, listening: Listening) -> Result<(), Failure> {
    if let Some(address) = listening.socks5 {
        writeln!(streams.out, "SOCKS5 proxy: {address}")?;
    }
    if let Some(address) = listening.http {
        writeln!(streams.out, "HTTP proxy: http://{address}")?;
    }
    streams.out.flush()?;
    Ok(())
}
