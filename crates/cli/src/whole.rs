//! A client's tunnel and its host: what `up`, `down` and `portal` share.
//!
//! The library carries packets; the routes, the resolver and the firewall are the command's, by [`quell_vpn`].

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use quell::Underlay;
use quell::client::Client;
use quell::config::{self, ClientFile, Config, Keys};
use quell_vpn::{Carried, Vpn, VpnConfig};

use crate::Failure;

/// Reads a client's file.
pub(crate) fn client_file(path: &Path, instead: &str) -> Result<Box<ClientFile>, Failure> {
    client_file_and_keys(path, instead).map(|(file, _)| file)
}

/// The same with what it says key by key, for whoever will read it again.
pub(crate) fn client_file_and_keys(
    path: &Path,
    instead: &str,
) -> Result<(Box<ClientFile>, Keys), Failure> {
    match config::load_with_keys(path).map_err(Failure::usage)? {
        (Config::Client(file), keys) => Ok((file, keys)),
        (Config::Provider(_), _) => Err(Failure::usage(anyhow!(
            "{} is a provider's: {instead}",
            path.display()
        ))),
    }
}

/// What the file's tunnel means to this host.
pub(crate) fn config_of(file: &ClientFile) -> VpnConfig {
    VpnConfig {
        tun_name: file.tun.name.clone(),
        routes: file.tun.routes.clone(),
        exclude: file.tun.exclude.clone(),
        providers: file.provider_addresses(),
        dns: file.vpn.dns.clone(),
        fail_closed: file.vpn.fail_closed,
        allow_lan: file.vpn.allow_lan,
        mark: file.vpn.mark,
        resolv_conf: file.vpn.resolv_conf.clone(),
        run_dir: file.run_dir.clone(),
        state_dir: file.state_dir.clone(),
    }
}

/// Prepares the host for the file's tunnel; `None` where there is no TUN.
pub(crate) fn install(file: &ClientFile) -> Result<Option<Vpn>, Failure> {
    match file.proxy.is_on() {
        true => Ok(None),
        false => Ok(Some(Vpn::install(&config_of(file))?)),
    }
}

/// How the tunnel's own packets stay outside of it.
pub(crate) fn underlay(vpn: Option<&Vpn>) -> Underlay {
    let marked = |vpn: &Vpn| {
        let mark = vpn.mark().and_then(NonZeroU32::new)?;
        Some(Underlay::marked(mark, Arc::new(vpn.servers())))
    };
    vpn.and_then(marked).unwrap_or_default()
}

/// Leads the host's traffic where the sessions of `client` are. Ends only by an error.
pub(crate) async fn follow(client: &Client, vpn: &mut Vpn) -> Failure {
    let mut interface = client.interface();
    loop {
        if *interface.borrow_and_update()
            && let Ok(report) = client.status().await
        {
            let inside = report.client.addresses.unwrap_or_default();
            let carried = Carried {
                ipv4: inside.ipv4.map(|(address, _)| address),
                ipv6: inside.ipv6.map(|(address, _)| address),
            };
            match vpn.follow(carried) {
                Ok(()) => client.routes_ready(),
                Err(error) => return error.into(),
            }
        }
        if interface.changed().await.is_err() {
            // The engine has ended, which is told by its own words.
            std::future::pending::<()>().await;
        }
    }
}
