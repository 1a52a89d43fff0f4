//! The queue of packets that are never acknowledged nor sent again.
//!
//! A first-in first-out queue with two bounds: bytes, refused at the tail, and
//! age, dropped at the head. The head is the oldest, so looking at it alone
//! finds everything overdue (cases B62, B63). A refused packet changes nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

#[derive(Debug)]
struct Waiting {
    packet: Bytes,
    since: Instant,
}

/// Packets waiting for the carrier, oldest first.
#[derive(Debug)]
pub(crate) struct DgramQueue {
    packets: VecDeque<Waiting>,
    bytes: usize,
    bytes_max: usize,
    age_max: Duration,
}

impl DgramQueue {
    pub(crate) fn new(bytes_max: usize, age_max: Duration) -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            bytes_max,
            age_max,
        }
    }

    /// Appends `packet`, or hands it back when its bytes do not fit.
    pub(crate) fn push(&mut self, packet: Bytes, now: Instant) -> Result<(), Bytes> {
        if self.bytes + packet.len() > self.bytes_max {
            return Err(packet);
        }
        self.bytes += packet.len();
        self.packets.push_back(Waiting { packet, since: now });
        Ok(())
    }

    /// Takes a packet off the head that is overdue at `now`.
    pub(crate) fn pop_aged(&mut self, now: Instant) -> Option<Bytes> {
        let head = self.packets.front()?;
        if now.saturating_duration_since(head.since) < self.age_max {
            return None;
        }
        self.pop()
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let head = self.packets.pop_front()?;
        self.bytes -= head.packet.len();
        Some(head.packet)
    }

    pub(crate) fn head_len(&self) -> Option<usize> {
        self.packets.front().map(|head| head.packet.len())
    }

    /// When the head becomes overdue.
    pub(crate) fn aged_at(&self) -> Option<Instant> {
        self.packets.front()?.since.checked_add(self.age_max)
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a packet of `len_bytes` would be refused.
    pub(crate) fn is_full_for(&self, len_bytes: usize) -> bool {
        self.bytes + len_bytes > self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const AGE: Duration = Duration::from_millis(100);

    fn packet(tag: u8, len: usize) -> Bytes {
        Bytes::from(vec![tag; len])
    }

    #[test]
    fn the_last_byte_fits_and_one_more_is_refused_unchanged() {
        // case B62
        let now = Instant::now();
        let mut queue = DgramQueue::new(100, AGE);
        queue.push(packet(1, 60), now).unwrap();
        queue.push(packet(2, 40), now).unwrap();
        assert_eq!(queue.push(packet(3, 1), now), Err(packet(3, 1)));
        assert_eq!((queue.len(), queue.bytes()), (2, 100));
        assert_eq!(queue.pop(), Some(packet(1, 60)));
    }

    #[test]
    fn only_the_head_ages_and_exactly_at_its_limit() {
        // case B63
        let t0 = Instant::now();
        let mut queue = DgramQueue::new(1_000, AGE);
        queue.push(packet(1, 10), t0).unwrap();
        queue.push(packet(2, 10), t0 + AGE / 2).unwrap();
        assert_eq!(queue.aged_at(), Some(t0 + AGE));
        assert_eq!(queue.pop_aged(t0 + AGE - Duration::from_nanos(1)), None);
        assert_eq!(queue.pop_aged(t0 + AGE), Some(packet(1, 10)));
        assert_eq!(queue.pop_aged(t0 + AGE), None);
        assert_eq!(queue.aged_at(), Some(t0 + AGE + AGE / 2));
        assert_eq!(queue.bytes(), 10);
    }
}
