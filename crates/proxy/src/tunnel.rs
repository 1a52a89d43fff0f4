//! The near end of the tunnel: the addresses and the MTU that the session gives.
//!
//! Before the first session there are none, and requests wait for them. A later session may bring others: flows and
//! associations that speak from an address that is no longer ours would talk to nobody, so they end at once, and their
//! applications see a reset and try again. A session that is merely interrupted keeps its addresses, and everything waits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use crate::books::Refusal;
use crate::common::Common;

/// What a client has inside the tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tunnel {
    /// Its IPv4 address, if the session gave one.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address, if the session gave one.
    pub ipv6: Option<Ipv6Addr>,
    /// The longest packet that the tunnel takes, in bytes; 0 is taken for 1,280, which every tunnel carries.
    pub mtu: u16,
}

/// The least MTU of a tunnel, in bytes (RFC 8200 §5, DESIGN §4).
const MTU_MIN: u16 = 1_280;
/// The largest, in bytes; a slab of the outbox holds dozens of packets.
const MTU_MAX: u16 = 9_000;

impl Tunnel {
    /// Our address of a family.
    pub(crate) fn own(&self, remote: IpAddr) -> Result<IpAddr, Refusal> {
        let own = match remote {
            IpAddr::V4(_) => self.ipv4.map(IpAddr::from),
            IpAddr::V6(_) => self.ipv6.map(IpAddr::from),
        };
        own.ok_or(if self.is_up() {
            Refusal::NoRoute
        } else {
            Refusal::NoSession
        })
    }

    /// Whether an address is ours.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.ipv4 == Some(v4),
            IpAddr::V6(v6) => self.ipv6 == Some(v6),
        }
    }

    /// The longest packet, in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu.clamp(MTU_MIN, MTU_MAX)
    }

    const fn is_up(&self) -> bool {
        self.ipv4.is_some() || self.ipv6.is_some()
    }
}

impl Common {
    /// The tunnel, as soon as it has a session.
    ///
    /// # Errors
    /// [`Refusal::NoSession`] after `session_wait`.
    pub(crate) async fn session(&self) -> Result<Tunnel, Refusal> {
        let mut tunnel = self.tunnel.clone();
        let up = tunnel.wait_for(Tunnel::is_up);
        match tokio::time::timeout(self.limits.session_wait, up).await {
            Ok(Ok(tunnel)) => Ok(*tunnel),
            Ok(Err(_)) | Err(_) => Err(Refusal::NoSession),
        }
    }
}

/// Ends what a change makes useless, for as long as there may be one.
pub(crate) async fn follow(common: Rc<Common>) {
    let mut changes = common.tunnel.clone();
    while changes.changed().await.is_ok() {
        let tunnel = *changes.borrow_and_update();
        common.flows.adapt(&tunnel);
        common.ports.adapt(&tunnel);
    }
}
