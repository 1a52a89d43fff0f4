//! A channel in the place of a TUN: packets of the caller's own.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quell::{ChannelHandle, Device};

/// Packets each way that may wait, at most.
const CAPACITY_MAX: u32 = 65_536;

/// A device whose packets the caller has: what is injected goes into the tunnel, what is taken came out of it.
#[derive(uniffi::Object)]
pub struct Packets {
    /// Until a tunnel takes it.
    device: Mutex<Option<Device>>,
    handle: ChannelHandle,
}

#[uniffi::export]
impl Packets {
    /// Queues of so many packets each way, 1 to 65,536.
    #[uniffi::constructor]
    pub fn new(capacity: u32) -> Arc<Self> {
        let (device, handle) = Device::channel(capacity.clamp(1, CAPACITY_MAX) as usize);
        Arc::new(Self {
            device: Mutex::new(Some(device)),
            handle,
        })
    }

    /// Queues a whole IP packet for the tunnel; whether it was taken. It is not when the queue is full, when it is no IP
    /// packet, or when the tunnel has ended.
    pub fn inject(&self, packet: Vec<u8>) -> bool {
        self.handle.inject_copy(&packet).is_ok()
    }

    /// The next packet out of the tunnel, waiting for it so many milliseconds at most.
    pub fn take(&self, limit_ms: u32) -> Option<Vec<u8>> {
        let limit = Duration::from_millis(limit_ms.into());
        self.handle.take_within(limit).map(Vec::from)
    }
}

impl Packets {
    /// The device, once.
    pub(crate) fn take_device(&self) -> Option<Device> {
        self.device.lock().take()
    }
}
