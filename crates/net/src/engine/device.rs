//! The packets' device of a client, and what it is to look like.
//!
//! A device is two halves on threads of their own and a signal that ends the reading one: the kernel's TUN, a TUN that
//! somebody else opened (a mobile system's VPN service), a channel, or whatever an embedder makes of the two traits. Its
//! addresses and routes are whoever's it is.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use quell_core::status::TunnelAddresses;
use quell_tun::channel::{self, ChannelHandle};
use quell_tun::os::TunDevice;
use quell_tun::{StopHandle, TunError, TunReader, TunWriter};

/// The packets' device: a TUN, or a channel, or one's own.
pub struct Device {
    /// The reading half.
    pub reader: Box<dyn TunReader>,
    /// The writing half.
    pub writer: Box<dyn TunWriter>,
    /// Wakes the reading half when all ends.
    pub stop: StopHandle,
}

impl Device {
    /// A device of one's own. `stop` is to end a read that waits: [`StopHandle::with_channel`] gives the signal, and what
    /// a reader selects on.
    pub fn own(
        reader: impl TunReader + 'static,
        writer: impl TunWriter + 'static,
        stop: StopHandle,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
            stop,
        }
    }

    /// A pair of bounded channels of `capacity` packets each way, and the far side of it: inject what is to be sent, take
    /// what came.
    #[must_use]
    pub fn channel(capacity: usize) -> (Self, ChannelHandle) {
        let (device, handle) = channel::pair(capacity);
        let (reader, writer, stop) = device.split();
        (Self::own(reader, writer, stop), handle)
    }

    /// A TUN file that somebody else opened, without packet information and without virtio-net headers, such as what
    /// Android's `VpnService.Builder.establish()` gives. It is closed at the end.
    ///
    /// # Errors
    /// [`TunError::Create`]: it cannot be made non-blocking, or there is no file for the stop signal.
    pub fn from_fd(file: OwnedFd) -> Result<Self, TunError> {
        let (reader, writer, stop) = TunDevice::from_any_fd(file)?.split();
        Ok(Self::own(reader, writer, stop))
    }
}

/// What the device should look like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// Addresses of the current session; `None` before the first.
    pub addresses: Option<TunnelAddresses>,
    /// The MTU, in bytes; 0 before the first session.
    pub mtu: u16,
    /// Where the tunnel's own datagrams go, of each provider that was found.
    pub underlay: Vec<IpAddr>,
}
