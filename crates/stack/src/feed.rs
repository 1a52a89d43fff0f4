//! The queue before one flow's TCP: what a router puts in, and the flow's task takes.
//!
//! It is bounded by packets, and holds a full window at the usual sizes, so it overflows only when a peer sends past its
//! window or the task is starved; then the newest is dropped, and that peer's TCP makes up for it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use bytes::Bytes;
use quell_packet::{IpPacket, icmp};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Packets that wait for a flow's task: a full window of 256 KiB in segments of 1,240 bytes is 212.
pub const QUEUE_PACKETS_MAX: usize = 256;

/// The least that a path carries over IPv4, in bytes (RFC 791); less would be an attack.
const V4_MTU_MIN: u32 = 576;
/// The least that a path carries over IPv6, in bytes (RFC 8200 §5).
const V6_MTU_MIN: u32 = 1_280;

/// The flow's queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the flow's queue is full")]
pub struct QueueFull;

/// What a router and a flow's task share.
#[derive(Debug)]
pub struct Feed {
    queue: RefCell<VecDeque<Bytes>>,
    wake: Notify,
    path_mtu: Cell<u16>,
}

impl Feed {
    /// An empty queue, of a flow whose path takes packets of `path_mtu` bytes.
    #[must_use]
    pub fn new(path_mtu: u16) -> Self {
        Self {
            queue: RefCell::default(),
            wake: Notify::new(),
            path_mtu: Cell::new(path_mtu),
        }
    }

    /// Queues a packet that was found sound ([`judge_upper`](crate::judge_upper)), and wakes the task.
    ///
    /// # Errors
    /// [`QueueFull`], and the packet is dropped.
    pub fn push(&self, packet: Bytes) -> Result<(), QueueFull> {
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= QUEUE_PACKETS_MAX {
            return Err(QueueFull);
        }
        queue.push_back(packet);
        self.wake.notify_one();
        Ok(())
    }

    /// Moves all that waits into `packets`; how many.
    pub(crate) fn drain_into(&self, packets: &mut VecDeque<Bytes>) -> usize {
        let mut queue = self.queue.borrow_mut();
        let count = queue.len();
        packets.extend(queue.drain(..));
        count
    }

    /// Takes the next packet, where no TCP is fed.
    pub fn pop(&self) -> Option<Bytes> {
        self.queue.borrow_mut().pop_front()
    }

    /// Packets that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Wakes the task though nothing was queued.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Resolves when the task was woken, also if that was before the call.
    pub fn woken(&self) -> Notified<'_> {
        self.wake.notified()
    }

    /// The longest packet that the path takes, in bytes.
    #[must_use]
    pub fn path_mtu(&self) -> u16 {
        self.path_mtu.get()
    }

    /// The path takes packets of `mtu` bytes at most.
    pub fn lower_path_mtu(&self, mtu: u16) {
        self.path_mtu.set(mtu.min(self.path_mtu.get()));
    }

    /// Takes a "packet too big" about this flow; whether it was one.
    pub fn take_too_big(&self, error: &IpPacket<'_>) -> bool {
        let Some(mtu) = icmp::reported_mtu(error) else {
            return false;
        };
        let least = if error.source().is_ipv4() {
            V4_MTU_MIN
        } else {
            V6_MTU_MIN
        };
        self.lower_path_mtu(u16::try_from(mtu.max(least)).unwrap_or(u16::MAX));
        true
    }
}
