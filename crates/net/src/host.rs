//! The addresses of this host: what its interfaces have, and a word when that changes.
//!
//! A provider denies its clients the host itself and the links it is on; the core is told both and asks nobody. They are
//! read with getifaddrs(3), which takes no privileges. The kernel says over a netlink socket *that* something changed; what
//! it says is not looked at, because all addresses are read anew then, so a notice that is lost among others is no loss.
//! Where there is no such socket the addresses are read every 5 s.
//!
//! ```text
//! a notice ──→ read at once ──→ rest for SETTLE_TIME, in which notices gather ──→ wait
//! ```
//!
//! All is of the network namespace of the thread that calls.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, socket,
};
use quell_core::provider::rules::HostAddresses;
use quell_packet::Prefix;
use tokio::io::unix::AsyncFd;

use crate::readable;

/// How often the addresses are read where the kernel says nothing. 5 s: nobody who adds an address has clients reach it
/// sooner than they would look for it.
const REREAD_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after a change. Containers that start and stop bring notices by the dozen; reading takes some 0.1 ms.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Changes of links, IPv4 and IPv6 addresses (RTMGRP_* in rtnetlink(7)).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// A notice is a few hundred bytes; what is cut off is not looked at.
const NOTICE_BYTES: usize = 1024;
/// Notices taken at a time. More are a reason to read all the same.
const NOTICES_MAX: usize = 256;

/// All addresses of this host. `tun` is the interface that is the provider's own, whose link is the clients'.
///
/// # Errors
/// The system does not say.
pub fn addresses(tun: Option<&str>) -> io::Result<HostAddresses> {
    let mut host = HostAddresses::default();
    for interface in getifaddrs()? {
        let Some(address) = interface.address.as_ref().and_then(ip) else {
            continue;
        };
        host.own.push(address);
        let is_loopback = interface.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        if !is_loopback && Some(interface.interface_name.as_str()) != tun {
            host.on_link.extend(link(&interface, address));
        }
    }
    // The order is the kernel's and says nothing: the same addresses are to compare equal.
    host.own.sort_unstable();
    host.own.dedup();
    host.on_link.sort_unstable();
    host.on_link.dedup();
    Ok(host)
}

/// The prefix that is on the interface's link: of the other end's address, where there is one other end.
fn link(interface: &InterfaceAddress, address: IpAddr) -> Option<Prefix> {
    let base = interface.destination.as_ref().and_then(ip);
    let ones = match interface.netmask.as_ref().and_then(ip)? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    Prefix::new(base.unwrap_or(address), u8::try_from(ones).ok()?).ok()
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let ipv4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    ipv4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}

/// Waits for changes of the host's addresses. Within a runtime.
#[derive(Debug)]
pub(crate) struct HostWatch {
    /// `None`: the kernel does not tell.
    notices: Option<AsyncFd<OwnedFd>>,
}

impl HostWatch {
    /// Changes from now on are told: what is read after this call and before [`HostWatch::changed`] misses none.
    pub(crate) fn new() -> Self {
        let notices = subscribe().and_then(readable::watch);
        if let Err(error) = &notices {
            tracing::info!("the host's addresses are read every {REREAD_INTERVAL:?}: {error}");
        }
        Self {
            notices: notices.ok(),
        }
    }

    /// Resolves when the addresses may have changed.
    pub(crate) async fn changed(&mut self) {
        let Some(notices) = &self.notices else {
            return tokio::time::sleep(REREAD_INTERVAL).await;
        };
        match readable::news(notices).await {
            Ok(mut ready) => {
                let mut bytes = [0; NOTICE_BYTES];
                for _ in 0..NOTICES_MAX {
                    let read = ready.try_io(|fd| Ok(nix::unistd::read(fd.get_ref(), &mut bytes)?));
                    match read {
                        // Too many for the socket's buffer: that is news as well.
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) if is_overrun(&error) => {}
                        Ok(Err(_)) => return self.without_notices().await,
                        Err(_) => return,
                    }
                }
            }
            Err(_) => self.without_notices().await,
        }
    }

    async fn without_notices(&mut self) {
        self.notices = None;
        tokio::time::sleep(REREAD_INTERVAL).await;
    }

    /// The pause after a change.
    pub(crate) async fn settle(&self) {
        if self.notices.is_some() {
            tokio::time::sleep(SETTLE_TIME).await;
        }
    }
}

fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENOBUFS as i32)
}

fn subscribe() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let protocol = SockProtocol::NetlinkRoute;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    bind(
        std::os::fd::AsRawFd::as_raw_fd(&fd),
        &NetlinkAddr::new(0, GROUPS),
    )?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_host_has_its_loopback_address_and_no_link_for_it() {
        let host = addresses(None).unwrap();
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        assert!(host.own.contains(&loopback), "{host:?}");
        assert!(!host.on_link.iter().any(|prefix| prefix.contains(loopback)));
        assert_eq!(host, addresses(None).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn without_notices_the_addresses_are_read_in_an_interval() {
        let mut watch = HostWatch { notices: None };
        let start = tokio::time::Instant::now();
        watch.changed().await;
        watch.settle().await;
        assert_eq!(start.elapsed(), REREAD_INTERVAL);
    }
}
