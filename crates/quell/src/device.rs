//! Makes a TUN look as the session wants it: addresses and MTU.
//!
//! The engine publishes the wanted state; this task follows it. Only the latest
//! state counts, so a burst of changes costs one. The first state brings the
//! interface up; a later session with other addresses moves them. Routes into it
//! are the embedder's: a library leaves the host's alone.

use std::net::IpAddr;

use quell_core::status::TunnelAddresses;
use quell_net::engine::client::DeviceState;
use quell_tun::TunError;
use quell_tun::link::Link;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::error::Error;

/// Follows `wanted` until the engine is gone; `ready` turns true once the first
/// state is in place: only then do packets find their way in.
///
/// # Errors
/// The interface does not take what the session needs.
pub(crate) async fn follow(
    name: &str,
    mut wanted: watch::Receiver<DeviceState>,
    ready: &watch::Sender<bool>,
) -> Result<(), Error> {
    let link = Link::open(name).await?;
    let mut current = DeviceState::default();
    while wanted.changed().await.is_ok() {
        let state = wanted.borrow_and_update().clone();
        if state.mtu != 0 && state.mtu != current.mtu {
            link.set_mtu(state.mtu).await?;
        }
        if let Some(addresses) = state.addresses
            && state.addresses != current.addresses
        {
            readdress(&link, current.addresses, addresses).await?;
            link.up().await?;
            ready.send_replace(true);
            info!(interface = name, ipv4 = ?addresses.ipv4, ipv6 = ?addresses.ipv6, mtu = state.mtu, "interface is ready");
        }
        current = state;
    }
    Ok(())
}

/// Watches `wanted` for a device that is somebody else's, and changes nothing: `ready` turns true with the first session.
pub(crate) async fn watch_given(
    mut wanted: watch::Receiver<DeviceState>,
    ready: &watch::Sender<bool>,
) {
    while wanted.changed().await.is_ok() {
        if wanted.borrow_and_update().addresses.is_some() {
            ready.send_replace(true);
        }
    }
}

async fn readdress(
    link: &Link,
    old: Option<TunnelAddresses>,
    new: TunnelAddresses,
) -> Result<(), Error> {
    for (address, len) in old.iter().flat_map(of) {
        if !of(&new).contains(&(address, len)) {
            link.remove_address(address, len).await?;
        }
    }
    add_addresses(link, &new).await
}

/// Adds all addresses; a host without IPv6 goes on with IPv4 (case B88).
///
/// # Errors
/// An address is refused for another reason, or none could be added.
pub(crate) async fn add_addresses(link: &Link, addresses: &TunnelAddresses) -> Result<(), Error> {
    let mut refused = None;
    let mut added = 0;
    for (address, len) in of(addresses) {
        match link.add_address(address, len).await {
            Ok(()) => added += 1,
            Err(error @ TunError::Ipv6Disabled { .. }) => {
                warn!("going on without IPv6: {error}");
                refused = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    match refused {
        Some(error) if added == 0 => Err(error.into()),
        Some(_) | None => Ok(()),
    }
}

fn of(addresses: &TunnelAddresses) -> Vec<(IpAddr, u8)> {
    let ipv4 = addresses
        .ipv4
        .map(|(address, len)| (IpAddr::from(address), len));
    let ipv6 = addresses
        .ipv6
        .map(|(address, len)| (IpAddr::from(address), len));
    [ipv4, ipv6].into_iter().flatten().collect()
}
