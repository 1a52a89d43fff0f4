//! An interface's MTU, state, addresses and routes, over rtnetlink (Linux).
//!
//! Everything here is idempotent: asking for what is there already succeeds, and so does removing what is not there. So a
//! client that reconnects, or that adopts a persistent device, sends the same requests again without looking first.
//!
//! # Each family on its own (case B88)
//!
//! A host may have IPv6 switched off, by a kernel parameter or a sysctl; containers often do. Requests about IPv6 then
//! fail with [`TunError::Ipv6Disabled`], a type of its own, so that the caller goes on with IPv4 alone. IPv6 addresses are
//! added without duplicate address detection: a TUN has no neighbours, and an address under detection cannot be used for
//! a second.
//!
//! # The host's own routes
//!
//! [`Link::replace_route`] replaces what this interface has, never a route of another one: it fails with
//! [`TunError::RouteTaken`] instead, and the host keeps its way out. To take all traffic, use a metric below the
//! host's, or the two halves `0.0.0.0/1` and `128.0.0.0/1`, which win by their length.
//!
//! # Own addresses never loop (case B38)
//!
//! The kernel delivers packets to an interface's own address locally, so they never reach the TUN's file; for IPv6 only
//! after a while, which [`Link::add_address`] and [`Link::up`] wait for. Packets to
//! *other* addresses of its prefix do; the core's loop guard knows both from [`host_addresses`].
//!
//! A netlink socket belongs to the network namespace of the thread that opens it: [`Link::open`] and [`host_addresses`]
//! act in the namespace of the thread that first polls them.

mod address;
mod route;

use std::io;

use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec};

use crate::device::MTU_MIN;
use crate::error::TunError;

pub use self::address::{HostAddress, host_addresses};

/// An open way to change one interface.
#[derive(Debug)]
pub struct Link {
    netlink: Netlink,
    name: String,
    index: u32,
}

impl Link {
    /// Finds the interface by name. Needs a tokio runtime with its I/O driver, on which a task answers the kernel until
    /// the link is dropped.
    ///
    /// # Errors
    ///
    /// [`TunError::NoSuchInterface`], or [`TunError::Link`] when there is no netlink.
    pub async fn open(name: &str) -> Result<Self, TunError> {
        let netlink = Netlink::open().map_err(|source| TunError::Link {
            operation: "open netlink",
            name: name.to_owned(),
            source,
        })?;
        // Resolved by the C library's call: netlink refuses a name over its length with an error of its own.
        let index = nix::net::if_::if_nametoindex(name).map_err(|_| TunError::NoSuchInterface {
            name: name.to_owned(),
        })?;
        let link = Self {
            netlink,
            name: name.to_owned(),
            index,
        };
        link.read("open").await?;
        Ok(link)
    }

    /// The interface's name when it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Sets the MTU, in bytes.
    ///
    /// # Errors
    ///
    /// [`TunError::InvalidMtu`] below [`MTU_MIN`], else as [`up`](Self::up).
    pub async fn set_mtu(&self, mtu: u16) -> Result<(), TunError> {
        if mtu < MTU_MIN {
            return Err(TunError::InvalidMtu { mtu });
        }
        self.change("set the MTU", self.builder().mtu(mtu.into()))
            .await
    }

    /// The MTU, in bytes.
    ///
    /// # Errors
    ///
    /// [`TunError::NoSuchInterface`] when it is gone, else [`TunError::Link`].
    pub async fn mtu(&self) -> Result<u32, TunError> {
        use rtnetlink::packet_route::link::LinkAttribute;

        let message = self.read("read the MTU").await?;
        let mtu = message.attributes.iter().find_map(|attribute| {
            if let LinkAttribute::Mtu(mtu) = attribute {
                Some(*mtu)
            } else {
                None
            }
        });
        mtu.ok_or_else(|| self.error("read the MTU", io::Error::from(io::ErrorKind::InvalidData)))
    }

    /// Sets the interface up, and waits until packets to its IPv6 addresses are delivered locally.
    ///
    /// # Errors
    ///
    /// [`TunError::NotPermitted`], [`TunError::NoSuchInterface`] when it is gone, else [`TunError::Link`].
    pub async fn up(&self) -> Result<(), TunError> {
        self.change("set up", self.builder().up()).await?;
        self.settle().await
    }

    /// Sets the interface down. The kernel removes its routes.
    ///
    /// # Errors
    ///
    /// As [`up`](Self::up).
    pub async fn down(&self) -> Result<(), TunError> {
        self.change("set down", self.builder().down()).await
    }

    /// Deletes the interface. One that is gone already is fine.
    ///
    /// # Errors
    ///
    /// [`TunError::NotPermitted`], else [`TunError::Link`].
    pub async fn delete(&self) -> Result<(), TunError> {
        match self.netlink.handle.link().del(self.index).execute().await {
            Err(error) if errno(&error) == Some(nix::libc::ENODEV) => Ok(()),
            result => result.map_err(|error| self.explain("delete", error)),
        }
    }

    fn builder(&self) -> LinkMessageBuilder<LinkUnspec> {
        LinkUnspec::new_with_index(self.index)
    }

    async fn change(
        &self,
        operation: &'static str,
        builder: LinkMessageBuilder<LinkUnspec>,
    ) -> Result<(), TunError> {
        let request = self.netlink.handle.link().change(builder.build());
        request
            .execute()
            .await
            .map_err(|error| self.explain(operation, error))
    }

    async fn read(&self, operation: &'static str) -> Result<LinkMessage, TunError> {
        let mut links = self
            .netlink
            .handle
            .link()
            .get()
            .match_index(self.index)
            .execute();
        links
            .try_next()
            .await
            .map_err(|error| self.explain(operation, error))?
            .ok_or_else(|| TunError::NoSuchInterface {
                name: self.name.clone(),
            })
    }

    fn error(&self, operation: &'static str, source: io::Error) -> TunError {
        TunError::Link {
            operation,
            name: self.name.clone(),
            source,
        }
    }

    fn explain(&self, operation: &'static str, error: rtnetlink::Error) -> TunError {
        match errno(&error) {
            Some(nix::libc::EPERM) => TunError::NotPermitted { operation },
            Some(nix::libc::ENODEV) => TunError::NoSuchInterface {
                name: self.name.clone(),
            },
            Some(_) | None => self.error(operation, into_io(error)),
        }
    }

    /// As `explain`, for a request about IPv6: here EACCES means that a sysctl switched it off, and the other two that
    /// the kernel has none.
    fn explain_ipv6(&self, operation: &'static str, error: rtnetlink::Error) -> TunError {
        use nix::libc::{EACCES, EAFNOSUPPORT, EOPNOTSUPP};

        match errno(&error) {
            Some(EACCES | EAFNOSUPPORT | EOPNOTSUPP) => TunError::Ipv6Disabled {
                name: self.name.clone(),
            },
            Some(_) | None => self.explain(operation, error),
        }
    }
}

/// A netlink socket with the task that serves it, which ends with this.
#[derive(Debug)]
struct Netlink {
    handle: Handle,
    task: tokio::task::JoinHandle<()>,
}

impl Netlink {
    fn open() -> io::Result<Self> {
        let (connection, handle, _messages) = rtnetlink::new_connection()?;
        Ok(Self {
            handle,
            task: tokio::spawn(connection),
        })
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The errno that the kernel answered, when it answered one.
fn errno(error: &rtnetlink::Error) -> Option<i32> {
    if let rtnetlink::Error::NetlinkError(message) = error {
        Some(message.raw_code().saturating_abs())
    } else {
        None
    }
}

fn into_io(error: rtnetlink::Error) -> io::Error {
    match errno(&error) {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(error.to_string()),
    }
}
