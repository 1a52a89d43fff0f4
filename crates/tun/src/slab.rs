//! The buffers that packets are read into.
//!
//! A packet's length is known only after it was read, so each read needs room for the longest, 65,535 bytes, and uses
//! about 1,500. A buffer for each packet would allocate 43 times too much; one buffer to read into and a copy would cost
//! a pass over the data. So one *slab* holds many packets: the reader fills it from the front, and each packet is
//! [split off](BytesMut::split_to), which copies and allocates nothing.
//!
//! The price is pinning: a slab is free again only when *all* packets cut from it are gone, so a packet of 40 bytes that
//! is kept for a minute keeps [`SLAB_BYTES`] for a minute. Who keeps packets beyond the next step copies them (the lanes
//! do, DESIGN §4). With `p` packets alive at most `p` slabs are pinned, and with packets that move in batches about one
//! slab a batch: a queue of 16 batches pins 16 · 160 KiB = 2.5 MiB. The pool itself holds [`POOL_SLABS`] more.
//!
//! A batch never spans two slabs, and starts in a used one only when half a batch of 1,500 bytes a packet still fits: else
//! every second batch would be a stub. A slab that is used up goes to the pool's end; the next one is the first in the pool that is free. When none is, a new
//! one is allocated and the oldest leaves the pool: its memory goes when its packets do. At a steady rate nothing is
//! allocated.

use std::collections::VecDeque;

use bytes::BytesMut;

use crate::device::{BATCH_PACKETS_MAX, PACKET_BYTES_MAX};

/// The size of the buffer that packets are cut from: a batch of 64 packets of 1,500 bytes, the last of which may still
/// be as long as 65,535 bytes; and so what one packet that is kept pins at most.
pub const SLAB_BYTES: usize = 160 * 1024;

const _: () = assert!((BATCH_PACKETS_MAX - 1) * 1_500 + PACKET_BYTES_MAX <= SLAB_BYTES);

/// The room that a batch starts with at least: half a batch of 1,500 bytes a packet, the last one as long as may be.
const BATCH_ROOM_BYTES: usize = (BATCH_PACKETS_MAX / 2 - 1) * 1_500 + PACKET_BYTES_MAX;

/// Used slabs that are remembered for their memory.
pub(crate) const POOL_SLABS: usize = 8;

/// The slab in use, and the used ones.
#[derive(Debug)]
pub(crate) struct SlabPool {
    current: BytesMut,
    used: VecDeque<BytesMut>,
    #[cfg(test)]
    allocated: usize,
}

impl SlabPool {
    pub(crate) fn new() -> Self {
        Self {
            current: BytesMut::with_capacity(SLAB_BYTES),
            used: VecDeque::with_capacity(POOL_SLABS),
            #[cfg(test)]
            allocated: 1,
        }
    }

    /// An empty buffer with room for the longest packet. The caller reads one packet into it and splits it off.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        if !self.current.try_reclaim(PACKET_BYTES_MAX) {
            self.turn_over();
        }
        &mut self.current
    }

    /// Whether the slab in use has room for another packet without a turn-over, so that a batch stays in one slab.
    pub(crate) fn has_room(&self) -> bool {
        self.current.capacity() - self.current.len() >= PACKET_BYTES_MAX
    }

    /// Starts a batch: at the front of the slab when all its packets are gone, else behind them if enough is left.
    pub(crate) fn start_batch(&mut self) {
        let left = self.current.capacity() - self.current.len();
        if !self.current.try_reclaim(SLAB_BYTES) && left < BATCH_ROOM_BYTES {
            self.turn_over();
        }
    }

    fn turn_over(&mut self) {
        let free = self
            .used
            .iter_mut()
            .position(|slab| slab.try_reclaim(SLAB_BYTES));
        let next = free
            .and_then(|index| self.used.remove(index))
            .unwrap_or_else(|| {
                #[cfg(test)]
                {
                    self.allocated += 1;
                }
                BytesMut::with_capacity(SLAB_BYTES)
            });
        let full = std::mem::replace(&mut self.current, next);
        if self.used.len() >= POOL_SLABS {
            self.used.pop_front();
        }
        self.used.push_back(full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pool: &mut SlabPool, bytes: usize) -> BytesMut {
        let buffer = pool.buffer();
        buffer.resize(bytes, 7);
        buffer.split_to(bytes)
    }

    #[test]
    fn packets_of_a_batch_share_a_slab_and_are_changed_alone() {
        let mut pool = SlabPool::new();
        pool.start_batch();
        let mut batch: Vec<_> = (0..64).map(|_| read(&mut pool, 1_500)).collect();
        let first = batch[0].as_ptr() as usize;
        let last = batch[63].as_ptr() as usize;
        assert_eq!(last - first, 63 * 1_500, "one slab, no gap");
        batch[1].fill(9);
        assert!(batch[0].iter().chain(&batch[2][..]).all(|byte| *byte == 7));
    }

    #[test]
    fn room_is_for_the_longest_packet_and_not_one_byte_less() {
        let mut pool = SlabPool::new();
        pool.start_batch();
        let kept = read(&mut pool, SLAB_BYTES - PACKET_BYTES_MAX);
        assert!(pool.has_room());
        let one_more = read(&mut pool, 1);
        assert!(!pool.has_room());
        assert!(pool.buffer().capacity() >= PACKET_BYTES_MAX, "a new slab");
        drop((kept, one_more));
    }

    #[test]
    fn a_steady_rate_reuses_the_same_memory() {
        let mut pool = SlabPool::new();
        let mut queue = VecDeque::new();
        for _ in 0..1_000 {
            pool.start_batch();
            let batch: Vec<_> = (0..64).map(|_| read(&mut pool, 1_500)).collect();
            queue.push_back(batch);
            if queue.len() > 4 {
                queue.pop_front();
            }
        }
        assert!(
            pool.allocated <= 6,
            "{} slabs for a queue of four batches",
            pool.allocated
        );
    }

    #[test]
    fn a_trickle_that_is_used_up_at_once_stays_in_one_slab() {
        let mut pool = SlabPool::new();
        for _ in 0..1_000 {
            pool.start_batch();
            drop(read(&mut pool, 1_500));
        }
        assert_eq!(pool.allocated, 1);
    }

    #[test]
    fn a_batch_starts_in_a_used_slab_while_half_a_batch_fits() {
        let mut pool = SlabPool::new();
        pool.start_batch();
        let kept = read(&mut pool, SLAB_BYTES - BATCH_ROOM_BYTES);
        pool.start_batch();
        assert_eq!(pool.allocated, 1);
        let one_more = read(&mut pool, 1);
        pool.start_batch();
        assert_eq!(pool.allocated, 2);
        drop((kept, one_more));
    }

    #[test]
    fn the_pool_is_bounded_when_every_packet_is_kept() {
        let mut pool = SlabPool::new();
        let mut kept = Vec::new();
        for _ in 0..50 {
            pool.start_batch();
            kept.push(read(&mut pool, 65_535));
            assert!(pool.used.len() <= POOL_SLABS);
        }
        assert!(
            kept.iter()
                .all(|packet| packet.iter().all(|byte| *byte == 7))
        );
    }
}
