//! An interface's addresses, and the host's.
//!
//! The kernel's answer to an address that is there already is `EEXIST`, also when only its prefix length differs (IPv6)
//! or when the entry is under way out. So `EEXIST` is success only after a look: the same address with the same length.
//!
//! The kernel answers "added" for an IPv6 address before its local route is in: a work queue does that some milliseconds
//! later, and for an interface that is down only after it was set up. Until then a packet to the own address follows
//! whatever route there is, and with a default route into the TUN it loops (case B38). So adding an address, and setting
//! the interface up, both wait until the kernel's route lookup says "local", [`SETTLE_MAX`] at most.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use nix::libc::{EADDRNOTAVAIL, EEXIST};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};

use rtnetlink::packet_route::link::LinkFlags;
use rtnetlink::packet_route::route::RouteType;

use super::{Link, Netlink, errno, into_io};
use crate::error::TunError;

/// How long an IPv6 address may take to become local. It takes milliseconds, and up to a second was seen on a machine
/// that is busy with interfaces.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// The pause between two looks.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);

/// One address of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostAddress {
    /// The interface that has it.
    pub interface_index: u32,
    /// The address.
    pub address: IpAddr,
    /// The length of the prefix that the kernel takes as on-link.
    pub prefix_length: u8,
}

/// All addresses of the host, of all interfaces, loopback included, in the calling thread's network namespace. The guard
/// against loops and the denial of on-link destinations are built from them (DESIGN §6, §8).
///
/// # Errors
///
/// [`TunError::Link`] when netlink fails.
pub async fn host_addresses() -> Result<Vec<HostAddress>, TunError> {
    let failed = |source| TunError::Link {
        operation: "read the addresses",
        name: "all interfaces".to_owned(),
        source,
    };
    let netlink = Netlink::open().map_err(failed)?;
    read(&netlink, None)
        .await
        .map_err(|error| failed(into_io(error)))
}

impl Link {
    /// Adds an address. An IPv6 address can be used at once, and is local at once when the interface is up.
    ///
    /// # Errors
    ///
    /// [`TunError::InvalidPrefix`], [`TunError::Ipv6Disabled`], [`TunError::NotPermitted`],
    /// [`TunError::NoSuchInterface`], else [`TunError::Link`], also when the address is there with another prefix length.
    pub async fn add_address(&self, address: IpAddr, prefix_length: u8) -> Result<(), TunError> {
        const OPERATION: &str = "add an address";
        check_prefix(address, prefix_length)?;
        let mut request = self
            .netlink
            .handle
            .address()
            .add(self.index, address, prefix_length);
        let header = &mut request.message_mut().header;
        if address.is_ipv6() {
            header.flags |= AddressHeaderFlags::Nodad;
        }
        if address.is_loopback() {
            header.scope = AddressScope::Host;
        }
        match request.execute().await {
            Ok(()) => {}
            Err(error) if errno(&error) == Some(EEXIST) => {
                let wanted = HostAddress {
                    interface_index: self.index,
                    address,
                    prefix_length,
                };
                if !self.addresses().await?.contains(&wanted) {
                    return Err(self.explain(OPERATION, error));
                }
            }
            Err(error) if address.is_ipv6() => return Err(self.explain_ipv6(OPERATION, error)),
            Err(error) => return Err(self.explain(OPERATION, error)),
        }
        if address.is_ipv6() {
            self.settle().await
        } else {
            Ok(())
        }
    }

    /// Removes an address. One that is not there is fine.
    ///
    /// # Errors
    ///
    /// [`TunError::InvalidPrefix`], [`TunError::NotPermitted`], else [`TunError::Link`].
    pub async fn remove_address(&self, address: IpAddr, prefix_length: u8) -> Result<(), TunError> {
        check_prefix(address, prefix_length)?;
        let wanted = HostAddress {
            interface_index: self.index,
            address,
            prefix_length,
        };
        self.remove_addresses(|address| *address == wanted).await
    }

    /// Removes all addresses, which an adopted device may have from its last user.
    ///
    /// # Errors
    ///
    /// [`TunError::NotPermitted`], else [`TunError::Link`].
    pub async fn flush_addresses(&self) -> Result<(), TunError> {
        self.remove_addresses(|_| true).await
    }

    /// The interface's addresses.
    ///
    /// # Errors
    ///
    /// [`TunError::Link`] when netlink fails.
    pub async fn addresses(&self) -> Result<Vec<HostAddress>, TunError> {
        read(&self.netlink, Some(self.index))
            .await
            .map_err(|error| self.explain("read the addresses", error))
    }

    /// Waits until packets to this interface's IPv6 addresses are delivered locally. Those that the kernel probes for
    /// duplicates are not ours and are not waited for; an interface that is down settles when it is set up.
    pub(super) async fn settle(&self) -> Result<(), TunError> {
        const OPERATION: &str = "wait for the IPv6 address to become local";
        if !self
            .read(OPERATION)
            .await?
            .header
            .flags
            .contains(LinkFlags::Up)
        {
            return Ok(());
        }
        let failed = |error| self.explain(OPERATION, error);
        let messages = read_messages(&self.netlink, Some(self.index))
            .await
            .map_err(failed)?;
        let deadline = Instant::now() + SETTLE_MAX;
        for message in messages {
            let probed = !message.header.flags.contains(AddressHeaderFlags::Nodad);
            let Some(HostAddress {
                address: IpAddr::V6(address),
                ..
            }) = parse(&message)
            else {
                continue;
            };
            while !probed && !self.is_local(address).await {
                if Instant::now() >= deadline {
                    return Err(self.error(OPERATION, io::Error::from(io::ErrorKind::TimedOut)));
                }
                tokio::time::sleep(SETTLE_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Whether the kernel's route lookup delivers locally. "Unreachable" is an answer too: not yet.
    async fn is_local(&self, address: Ipv6Addr) -> bool {
        let query = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, 128)
            .build();
        let mut answers = std::pin::pin!(self.netlink.handle.route().get(query).execute());
        match answers.try_next().await {
            Ok(Some(route)) => route.header.kind == RouteType::Local,
            Ok(None) | Err(_) => false,
        }
    }

    async fn remove_addresses(
        &self,
        unwanted: impl Fn(&HostAddress) -> bool,
    ) -> Result<(), TunError> {
        let failed = |error| self.explain("remove an address", error);
        let messages = read_messages(&self.netlink, Some(self.index))
            .await
            .map_err(failed)?;
        for message in messages {
            if !parse(&message).is_some_and(|address| unwanted(&address)) {
                continue;
            }
            match self.netlink.handle.address().del(message).execute().await {
                // With a primary IPv4 address its secondaries go too.
                Err(error) if errno(&error) == Some(EADDRNOTAVAIL) => {}
                result => result.map_err(failed)?,
            }
        }
        Ok(())
    }
}

/// Whether the length is one that the address's family has.
pub(super) fn check_prefix(address: IpAddr, prefix_length: u8) -> Result<(), TunError> {
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if prefix_length > longest {
        return Err(TunError::InvalidPrefix {
            address,
            prefix_length,
        });
    }
    Ok(())
}

async fn read(netlink: &Netlink, index: Option<u32>) -> Result<Vec<HostAddress>, rtnetlink::Error> {
    Ok(read_messages(netlink, index)
        .await?
        .iter()
        .filter_map(parse)
        .collect())
}

async fn read_messages(
    netlink: &Netlink,
    index: Option<u32>,
) -> Result<Vec<AddressMessage>, rtnetlink::Error> {
    let mut request = netlink.handle.address().get();
    if let Some(index) = index {
        request = request.set_link_index_filter(index);
    }
    request.execute().try_collect().await
}

/// On a point-to-point interface IFA_ADDRESS is the peer's address, so IFA_LOCAL goes first; IPv6 has often only the former.
fn parse(message: &AddressMessage) -> Option<HostAddress> {
    let mut local = None;
    let mut address = None;
    for attribute in &message.attributes {
        if let AddressAttribute::Local(ip) = attribute {
            local = Some(*ip);
        } else if let AddressAttribute::Address(ip) = attribute {
            address = Some(*ip);
        }
    }
    Some(HostAddress {
        interface_index: message.header.index,
        address: local.or(address)?,
        prefix_length: message.header.prefix_len,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_prefix_length_ends_where_its_family_does() {
        let v4: IpAddr = "10.0.0.1".parse().unwrap();
        let v6: IpAddr = "fd00::1".parse().unwrap();
        assert!(check_prefix(v4, 32).is_ok());
        assert!(matches!(
            check_prefix(v4, 33),
            Err(TunError::InvalidPrefix { .. })
        ));
        assert!(check_prefix(v6, 128).is_ok());
        assert!(matches!(
            check_prefix(v6, 129),
            Err(TunError::InvalidPrefix { .. })
        ));
    }

    #[test]
    fn the_local_address_goes_before_the_peers() {
        let mut message = AddressMessage::default();
        message.header.index = 7;
        message.header.prefix_len = 24;
        assert_eq!(parse(&message), None, "no address at all");
        let peer: IpAddr = "10.0.0.2".parse().unwrap();
        let own: IpAddr = "10.0.0.1".parse().unwrap();
        message.attributes.push(AddressAttribute::Address(peer));
        assert_eq!(parse(&message).map(|a| a.address), Some(peer));
        message.attributes.push(AddressAttribute::Local(own));
        message.attributes.push(AddressAttribute::Address(peer));
        let expected = HostAddress {
            interface_index: 7,
            address: own,
            prefix_length: 24,
        };
        assert_eq!(parse(&message), Some(expected));
    }
}
