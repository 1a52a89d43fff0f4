//! Interfaces of a namespace: made, addressed, changed and counted by netlink.
//!
//! Both ends of a veth pair are made by one request, the far end directly in its own namespace. So no name has to be free in
//! between, and a failure leaves no half of a pair.
//!
//! IPv6 addresses are added without duplicate address detection: it would leave each of them unusable for a second, and
//! nobody else can hold them here.
//!
//! Two things the kernel does later, on a work queue, and both lose a packet that comes too early, which costs a second until
//! it is asked for again: it notices the carrier of a fresh pair, and it joins the solicited-node group of a fresh IPv6
//! address (RFC 4861), without which no neighbour finds it. So [`veth`] waits for the one and [`Iface::add_address`] for the
//! other.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use nix::errno::Errno;
use rtnetlink::packet_route::address::AddressHeaderFlags;
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkMessage, State,
};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth};

use super::{Entry, Namespace};
use crate::error::{Context, LabError, Result};

/// Bound of what the kernel does on a work queue; a second at most on an idle machine.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(10);
const KERNEL_STEP: Duration = Duration::from_millis(1);

/// The multicast groups of the namespace of the thread that reads it; `/proc/net` is that of the process's first thread.
const GROUPS: &str = "/proc/thread-self/net/igmp6";

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
    pub(super) entry: Arc<Entry>,
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

    /// Sets it up. The kernel may take a second to see the carrier and drops what is sent before that: see
    /// [`Iface::wait_for_carrier`].
    ///
    /// # Errors
    /// The kernel refused.
    pub fn up(&self) -> Result<()> {
        self.change("up", LinkMessageBuilder::up)
    }

    /// Waits until the kernel has seen the carrier, that is until packets pass. Both ends of a veth pair must be up for it.
    ///
    /// # Errors
    /// [`LabError::TimedOut`] after `timeout`.
    pub fn wait_for_carrier(&self, timeout: Duration) -> Result<()> {
        wait_until(
            || format!("carrier of {}", self.name),
            timeout,
            || {
                let link = find(&self.entry, &self.name)?;
                Ok(link
                    .attributes
                    .contains(&LinkAttribute::OperState(State::Up)))
            },
        )
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

    /// Adds an address with its on-link prefix, and waits until neighbours can find it if the interface is up.
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
        )?;
        let IpAddr::V6(address) = address else {
            return Ok(());
        };
        let flags = find(&self.entry, &self.name)?.header.flags;
        let asks_neighbours = !flags.intersects(LinkFlags::Loopback | LinkFlags::Noarp);
        if flags.contains(LinkFlags::Up) && asks_neighbours {
            self.wait_for_group(address)?;
        }
        Ok(())
    }

    fn wait_for_group(&self, address: Ipv6Addr) -> Result<()> {
        let group = solicited_node_group(address);
        let has_joined = || {
            let groups = self
                .entry
                .run(|| fs::read_to_string(GROUPS))?
                .context(|| GROUPS.into())?;
            let mut lines = groups
                .lines()
                .map(|line| line.split_ascii_whitespace().skip(1));
            Ok(lines
                .any(|mut words| words.next() == Some(&self.name) && words.next() == Some(&group)))
        };
        wait_until(
            || format!("{address} on {}", self.name),
            KERNEL_TIMEOUT,
            has_joined,
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

/// Joins two namespaces by a veth pair, both ends up and with carrier, named as given (at most 15 bytes each).
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
    ends.0.wait_for_carrier(KERNEL_TIMEOUT)?;
    ends.1.wait_for_carrier(KERNEL_TIMEOUT)?;
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

fn wait_until(
    what: impl Fn() -> String,
    timeout: Duration,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let began = Instant::now();
    while !done()? {
        if began.elapsed() >= timeout {
            return Err(LabError::TimedOut {
                what: what(),
                within: timeout,
            });
        }
        thread::sleep(KERNEL_STEP);
    }
    Ok(())
}

/// ff02::1:ff00:0/104 and the address's last 24 bits (RFC 4291 §2.7.1), as the kernel prints it: hex without colons.
fn solicited_node_group(address: Ipv6Addr) -> String {
    let [.., a, b, c] = address.octets();
    format!("ff0200000000000000000001ff{a:02x}{b:02x}{c:02x}")
}
