//! `quell up`: brings a client's tunnel up and keeps it.
//!
//! The host comes first and goes last: where nothing may leave in the clear, it is closed before the first dial, and after
//! the end it stays closed, because a stop is not a wish to be seen. `quell down` is.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use quell::Listening;
use quell::client::Client;
use quell::reload::Role;
use quell_core::provider::Reloaded;
use quell_vpn::Vpn;

use crate::rereading::Current;
use crate::{Failure, Streams, daemon, notify, whole};

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
        let (mut file, keys) =
            whole::client_file_and_keys(&self.file, "start it with `quell provide`")?;
        if self.socks5.is_some() || self.http.is_some() {
            file.proxy.socks5 = self.socks5.or(file.proxy.socks5);
            file.proxy.http = self.http.or(file.proxy.http);
            *file = file.try_new().map_err(Failure::usage)?;
        }
        daemon::start_log(file.log.level);
        daemon::raise_file_limit();
        let vpn = whole::install(&file)?;
        let client = match Client::start_over(&file, whole::underlay(vpn.as_ref())) {
            Ok(client) => client,
            Err(error) => {
                vpn.map_or(Ok(()), Vpn::abandon)?;
                return Err(error.into());
            }
        };
        if let Some(proxy) = client.proxy() {
            say_where(streams, proxy.listening())?;
        }
        notify::ready();
        let current = Current::new(self.file, keys, Role::Client);
        run(&client, vpn, current)
    }
}

/// Until it is told to stop or ends by itself; then the host is what it is to be.
fn run(client: &Client, mut vpn: Option<Vpn>, current: Current) -> Result<(), Failure> {
    let mut failure = None;
    let led = async {
        match &mut vpn {
            Some(vpn) => failure = Some(whole::follow(client, vpn).await),
            None => {
                client.routes_ready();
                std::future::pending().await
            }
        }
    };
    let lives = notify::watchdog(|| async { client.status().await.is_ok() });
    let ended = async {
        tokio::select! {
            () = client.ended() => {}
            () = led => {}
            () = lives => {}
        }
    };
    // The log's level is all that a client takes on.
    let reloads = current.follow(client.orders(), |_| async { Ok(Reloaded::default()) });
    let done = daemon::run_until_stopped(ended, || client.stop(), reloads);
    let left = vpn.map_or(Ok(()), Vpn::end);
    match failure {
        Some(failure) => Err(failure),
        None => done.and(left.map_err(Failure::from)),
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
