//! One client's packets that wait, oldest first.
//!
//! What waits owns its bytes: a packet that shares a buffer with others would keep that buffer for as long as it waits,
//! and the bound would be one of nothing. Bytes are counted with what each packet costs beside them, so that a flood of
//! empty packets is bounded too.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::bucket::ByteBucket;
use crate::drops::Drops;

/// What a waiting packet costs beside its bytes: its place in the line and its allocation's head.
pub(super) const OVERHEAD_BYTES: usize = 64;
/// What may wait however old it is: two packets of an Ethernet's size. At a share of a few kbit/s every packet is old
/// before its turn comes, and a line without one would have no turn at all.
pub(super) const AGELESS_BYTES: usize = 2 * (1_500 + OVERHEAD_BYTES);

#[derive(Debug)]
struct Waiting {
    packet: Bytes,
    since: Instant,
}

/// The line of one client in one direction.
#[derive(Debug, Default)]
pub(super) struct Line {
    packets: VecDeque<Waiting>,
    bytes: usize,
    /// The client's own rate.
    pub(super) rate: Option<ByteBucket>,
    /// Bytes that it may send in this round.
    pub(super) deficit: usize,
    /// Whether this round's bytes were given.
    pub(super) is_granted: bool,
    /// What did not get its turn, by reason.
    pub(super) drops: Drops,
}

impl Line {
    pub(super) fn new(rate: Option<ByteBucket>) -> Self {
        Self {
            rate,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes that wait, with what they cost beside.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn head_len(&self) -> Option<usize> {
        self.packets.front().map(|head| head.packet.len())
    }

    pub(super) fn push(&mut self, packet: &[u8], now: Instant) {
        self.bytes += packet.len() + OVERHEAD_BYTES;
        self.packets.push_back(Waiting {
            packet: Bytes::copy_from_slice(packet),
            since: now,
        });
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let head = self.packets.pop_front()?;
        self.bytes -= head.packet.len() + OVERHEAD_BYTES;
        Some(head.packet)
    }

    /// Takes a packet off the head that waited for `wait_max` or longer, while enough is left to have a turn with.
    pub(super) fn pop_aged(&mut self, wait_max: Duration, now: Instant) -> Option<Bytes> {
        let head = self.packets.front()?;
        let left = self.bytes - head.packet.len() - OVERHEAD_BYTES;
        let is_aged = now.saturating_duration_since(head.since) >= wait_max;
        if !is_aged || left < AGELESS_BYTES {
            return None;
        }
        self.pop()
    }

    /// Its turn is over, or it has nothing to send: what was left of it is not kept.
    pub(super) fn rest(&mut self) {
        self.deficit = 0;
        self.is_granted = false;
    }
}
