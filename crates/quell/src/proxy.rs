//! A client's device without a TUN: the proxy, and what tells it of the session.
//!
//! The engine publishes the addresses and the MTU that the session wants; where a TUN's interface would be changed to them
//! (`device`), the proxy is told. Only the latest state counts.

use quell_net::engine::client::{Device, DeviceState};
use quell_proxy::{Proxy, ProxyConfig, Tunnel};
use quell_tun::StopHandle;
use tokio::sync::watch;

use crate::error::Error;
use crate::packets::{Reader, Writer};

/// A proxy that listens, and its device.
pub(crate) struct Opened {
    pub(crate) device: Device,
    pub(crate) proxy: Proxy,
    pub(crate) tunnel: watch::Sender<Tunnel>,
}

/// Listens, and waits for a session.
///
/// # Errors
/// An address or a thread is not to be had.
pub(crate) fn open(config: ProxyConfig) -> Result<Opened, Error> {
    let (stop, stopped) = StopHandle::with_channel();
    let (tunnel, told) = watch::channel(Tunnel::default());
    let (proxy, sink, source) = Proxy::start(config, told, stopped)?;
    let device = Device {
        reader: Box::new(Reader(source)),
        writer: Box::new(Writer(sink)),
        stop,
    };
    Ok(Opened {
        device,
        proxy,
        tunnel,
    })
}

/// Tells the proxy of `wanted` until the engine is gone; `ready` turns true with the first session.
pub(crate) async fn follow(
    tunnel: &watch::Sender<Tunnel>,
    mut wanted: watch::Receiver<DeviceState>,
    ready: &watch::Sender<bool>,
) {
    while wanted.changed().await.is_ok() {
        let state = wanted.borrow_and_update().clone();
        let Some(addresses) = state.addresses else {
            continue;
        };
        tunnel.send_replace(Tunnel {
            ipv4: addresses.ipv4.map(|(address, _)| address),
            ipv6: addresses.ipv6.map(|(address, _)| address),
            mtu: state.mtu,
        });
        ready.send_replace(true);
    }
}
