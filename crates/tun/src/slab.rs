//! The buffers that packets are read into.
//!
//! A packet's length is known only after it was read, so each read needs room for the longest, 65,535 bytes, and uses
//! about 1,500. A buffer for each packet would allocate 43 times too much; one buffer to read into and a copy would cost
//! a pass over the data. So one *slab* holds a batch: the reader fills it from the front, and at the end the packets are
//! [split off](BytesMut::split_to), which copies and allocates nothing.
//!
//! Packets of one slab count their holders in one place. While one thread cuts and another lets go, each count costs a
//! cache line's way from core to core, which was a twentieth of what a tunnel takes. So a batch is cut before it is handed
//! over, and the next one begins in a slab of its own.
//!
//! A batch of few bytes ([`COPY_BYTES_MAX`]) would pin a slab for little. It is copied out into memory of its own size, and
//! the slab is free at once.
//!
//! The price is pinning: a slab is free again only when *all* packets cut from it are gone, so a packet of 40 bytes that
//! is kept for a minute keeps [`SLAB_BYTES`] for a minute. Who keeps packets beyond the next step copies them (the lanes
//! do, DESIGN §4). With `p` packets alive at most `p` slabs are pinned, and with packets that move in batches about one
//! slab a batch: a queue of 16 batches pins 16 · 160 KiB = 2.5 MiB. The pool itself holds [`POOL_SLABS`] more.
//!
//! A slab that is in use goes to the pool's end; the next one is the first in the pool that is free. When none is, a new
//! one is allocated and the oldest leaves the pool: its memory goes when its packets do. At a steady rate no slab is
//! allocated.

use std::collections::VecDeque;

use bytes::BytesMut;

use crate::device::{BATCH_PACKETS_MAX, PACKET_BYTES_MAX};

/// The size of the buffer that packets are cut from: a batch of 64 packets of 1,500 bytes, the last of which may still
/// be as long as 65,535 bytes; and so what one packet that is kept pins at most.
pub const SLAB_BYTES: usize = 160 * 1024;

const _: () = assert!((BATCH_PACKETS_MAX - 1) * 1_500 + PACKET_BYTES_MAX <= SLAB_BYTES);

/// Batches of so many bytes at most are copied out: 8 KiB take some 0.3 µs, and no slab is kept for them.
const COPY_BYTES_MAX: usize = 8 * 1024;

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

    /// The buffer of the batch, with room for the longest packet. The caller appends one packet to it.
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

    /// Starts a batch, at the front of a slab.
    pub(crate) fn start_batch(&mut self) {
        if !self.current.try_reclaim(SLAB_BYTES) {
            self.turn_over();
        }
    }

    /// Ends the batch: what was appended is cut into packets of these lengths.
    pub(crate) fn cut(&mut self, lens: &[usize], batch: &mut Vec<BytesMut>) {
        let mut all = if self.current.len() <= COPY_BYTES_MAX {
            let copy = BytesMut::from(&self.current[..]);
            self.current.clear();
            copy
        } else {
            self.current.split()
        };
        batch.extend(lens.iter().map(|len| all.split_to(*len)));
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

    fn read(pool: &mut SlabPool, lens: &[usize]) -> Vec<BytesMut> {
        pool.start_batch();
        for len in lens {
            let buffer = pool.buffer();
            buffer.resize(buffer.len() + len, 7);
        }
        let mut batch = Vec::new();
        pool.cut(lens, &mut batch);
        batch
    }

    #[test]
    fn packets_of_a_batch_share_a_slab_and_are_changed_alone() {
        let mut pool = SlabPool::new();
        let mut batch = read(&mut pool, &[1_500; 64]);
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
        pool.buffer().resize(SLAB_BYTES - PACKET_BYTES_MAX, 7);
        assert!(pool.has_room());
        pool.buffer().resize(SLAB_BYTES - PACKET_BYTES_MAX + 1, 7);
        assert!(!pool.has_room());
    }

    #[test]
    fn a_steady_rate_reuses_the_same_memory() {
        let mut pool = SlabPool::new();
        let mut queue = VecDeque::new();
        for _ in 0..1_000 {
            queue.push_back(read(&mut pool, &[1_500; 64]));
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
    fn a_trickle_pins_no_slab_even_when_it_is_kept() {
        let mut pool = SlabPool::new();
        let kept: Vec<_> = (0..1_000).map(|_| read(&mut pool, &[1_500, 40])).collect();
        assert_eq!(pool.allocated, 1);
        let is_own = |packet: &BytesMut| packet.capacity() <= 2 * 1_540;
        assert!(kept.iter().flatten().all(is_own));
    }

    #[test]
    fn a_batch_is_copied_out_up_to_a_bound_and_not_beyond() {
        let mut pool = SlabPool::new();
        let one = read(&mut pool, &[COPY_BYTES_MAX]);
        let two = read(&mut pool, &[COPY_BYTES_MAX + 1]);
        let three = read(&mut pool, &[1]);
        assert_eq!(pool.allocated, 2, "the second batch alone keeps its slab");
        assert!(
            [one, two, three]
                .iter()
                .flatten()
                .flatten()
                .all(|byte| *byte == 7)
        );
    }

    #[test]
    fn the_pool_is_bounded_when_every_packet_is_kept() {
        let mut pool = SlabPool::new();
        let mut kept = Vec::new();
        for _ in 0..50 {
            kept.extend(read(&mut pool, &[65_535]));
            assert!(pool.used.len() <= POOL_SLABS);
        }
        assert!(
            kept.iter()
                .all(|packet| packet.iter().all(|byte| *byte == 7))
        );
    }
}
