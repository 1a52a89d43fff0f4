//! Interfaces of a namespace: made, addressed, changed and counted by netlink.
//!
//! Both ends of a veth pair are made by one request, the far end directly in its own namespace. So no name has to be free in
//! between, and a failure leaves no half of a pair.
//!
//! IPv6 addresses are added without duplicate address detection: it would leave each of them unusable for a second, and
//! nobody else can hold them here.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use futures_util::TryStreamExt;
use nix::errno::Errno;
use rtnetlink::packet_route::address::AddressHeaderFlags;
use rtnetlink::packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkMessage};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth};

use super::{Entry, Namespace};
use crate::error::{LabError, Result};

/// What an interface has carried, as the kernel counts: whole frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IfaceCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames dropped on receipt.
    pub rx_dropped: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames dropped when sending.
    pub tx_dropped: u64,
}

/// An interface in a namespace. It is a name for it and no guard: dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Iface {
    entry: Arc<Entry>,
    name: String,
    index: u32,
}

impl Iface {
    pub(super) fn find(entry: &Arc<Entry>, name: &str) -> Result<Self> {
        let index = find(entry, name)?.header.index;
        Ok(Self {
            entry: Arc::clone(entry),
            name: name.into(),
            index,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in its namespace.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Sets it up. After a [`Iface::down`] the kernel may take a second to notice the carrier.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn up(&self) -> Result<()> {
        self.change("up", LinkMessageBuilder::up)
    }

    /// Sets it down. The other end of a veth pair sees its carrier go: this cut is not a silent one.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn down(&self) -> Result<()> {
        self.change("down", LinkMessageBuilder::down)
    }

    /// Sets the MTU in bytes. A veth end also drops, silently, arriving frames whose packet exceeds it by more than 4 bytes.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        self.change("mtu", |link| link.mtu(mtu))
    }

    /// Bounds how many packets a segmentation-offloaded one may stand for; 1: each packet crosses by itself. Offloaded ones
    /// evade a receiver's MTU.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_gso_segments_max(&self, segments: u32) -> Result<()> {
        self.change("gso_max_segs", |link| {
            link.append_extra_attribute(LinkAttribute::GsoMaxSegs(segments))
        })
    }

    /// Adds an address with its on-link prefix.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn add_address(&self, address: IpAddr, prefix_len: u8) -> Result<()> {
        let index = self.index;
        self.entry.netlink(
            || format!("{address}/{prefix_len} on {}", self.name),
            |handle| async move {
                let mut request = handle.address().add(index, address, prefix_len);
                if address.is_ipv6() {
                    request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
                }
                request.execute().await
            },
        )
    }

    /// Deletes it; of a veth pair both ends go.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn delete(self) -> Result<()> {
        let index = self.index;
        self.entry.netlink(
            || format!("delete {}", self.name),
            |handle| async move { handle.link().del(index).execute().await },
        )
    }

    /// What it has carried so far.
    ///
    /// # Errors
    /// [`LabError::NoInterface`] if it is gone.
    pub fn counters(&self) -> Result<IfaceCounters> {
        let link = find(&self.entry, &self.name)?;
        let stats = link.attributes.iter().find_map(|attribute| {
            if let LinkAttribute::Stats64(stats) = attribute {
                Some(stats)
            } else {
                None
            }
        });
        let stats = stats.ok_or_else(|| LabError::Protocol {
            what: format!("counters of {}", self.name),
            why: "the kernel sent none".into(),
        })?;
        Ok(IfaceCounters {
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_dropped: stats.rx_dropped,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_dropped: stats.tx_dropped,
        })
    }

    fn change(
        &self,
        what: &str,
        set: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<()> {
        let message = set(LinkUnspec::new_with_index(self.index)).build();
        self.entry.netlink(
            || format!("{what} of {}", self.name),
            |handle| async move { handle.link().set(message).execute().await },
        )
    }
}

/// Joins two namespaces by a veth pair, both ends up, named as given (at most 15 bytes each).
///
/// # Errors
/// A name is taken or too long, or the kernel refused.
pub fn veth(a: &Namespace, name_a: &str, b: &Namespace, name_b: &str) -> Result<(Iface, Iface)> {
    let peer = LinkMessageBuilder::<LinkUnspec>::default()
        .name(name_b)
        .setns_by_fd(b.entry.fd.as_raw_fd())
        .build();
    let pair = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
        .name(name_a)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
        .build();
    a.entry.netlink(
        || format!("veth {name_a} to {name_b} in {}", b.label()),
        |handle| async move { handle.link().add(pair).execute().await },
    )?;
    let ends = (a.iface(name_a)?, b.iface(name_b)?);
    ends.0.up()?;
    ends.1.up()?;
    Ok(ends)
}

fn find(entry: &Arc<Entry>, name: &str) -> Result<LinkMessage> {
    let lookup = |handle: Handle| async move {
        let mut links = handle.link().get().match_name(name).execute();
        match links.try_next().await {
            Err(rtnetlink::Error::NetlinkError(error))
                if error.raw_code() == -(Errno::ENODEV as i32) =>
            {
                Ok(None)
            }
            answer => answer,
        }
    };
    entry
        .netlink(|| format!("looking for {name}"), lookup)?
        .ok_or_else(|| LabError::NoInterface {
            name: name.into(),
            namespace: entry.label.clone(),
        })
}
