//! The buffers that datagrams are cut out of.
//!
//! A datagram is handed to QUIC as a slice of a buffer that holds many, and the buffer is free when the last of them has
//! left. By then the next one is used up, too, mostly: so two take turns, and a path that is busy allocates nothing. A
//! buffer of which something has not left (a congestion window holds it) is let go of, and another takes its place.
//!
//! *Sizes.* A buffer that was used up within [`BUFFER_TIME`] is followed by one of twice its size, from [`BUFFER_LEN_MIN`] to
//! [`BUFFER_LEN_MAX`]. A path that hardly speaks (*sparse*: nothing for [`SPARSE_TIME`], and then something) holds none while
//! it rests; a provider of thousands of idle sessions would hold a gigabyte otherwise.
//!
//! *One for many.* An owner of many paths lends its own buffer to those that speak often ([`super::Path::swap_buffer`]): it
//! stays in the processor's cache, where a thousand buffers for a thousand sessions in turn would not. A path that is
//! sparse keeps to its own small one. What it says may stand in a queue for as long as its connection lasts, a PING to a
//! client that is gone, and must not hold a large buffer of which all else has left.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

/// Some 45 full datagrams.
const BUFFER_LEN_MAX: usize = 64 * 1024;
/// One datagram, and the answers to a few PINGs.
const BUFFER_LEN_MIN: usize = 2 * 1024;
/// A buffer that was used up sooner than this is followed by one of twice its size.
const BUFFER_TIME: Duration = Duration::from_millis(100);
/// A path that said nothing for so long hardly speaks: a keepalive, and the answer to it.
const SPARSE_TIME: Duration = Duration::from_secs(1);

/// What the next datagram is written into, and what takes its place.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(super) bytes: BytesMut,
    /// Used up; its datagrams leave.
    spent: BytesMut,
    len: usize,
    since: Option<Instant>,
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            bytes: BytesMut::new(),
            spent: BytesMut::new(),
            len: BUFFER_LEN_MIN,
            since: None,
        }
    }
}

impl Buffer {
    /// Makes room for one datagram of `len` bytes: here, in the buffer before if all of it has left, or in a fresh one.
    fn reserve(&mut self, len: usize, now: Instant) {
        if self.bytes.capacity() >= len {
            return;
        }
        let is_busy = |since| now.saturating_duration_since(since) < BUFFER_TIME;
        self.len = if self.since.is_some_and(is_busy) {
            (2 * self.len).min(BUFFER_LEN_MAX)
        } else {
            BUFFER_LEN_MIN
        };
        self.since = Some(now);
        std::mem::swap(&mut self.bytes, &mut self.spent);
        let wanted = self.len.max(len);
        if !self.bytes.try_reclaim(wanted) || self.bytes.capacity() > wanted {
            self.bytes = BytesMut::with_capacity(wanted);
        }
    }
}

/// A path's own buffer, and how often it speaks.
#[derive(Debug)]
pub(super) struct Slab {
    pub(super) buffer: Buffer,
    /// When a datagram was cut out last.
    cut_at: Option<Instant>,
    /// The last datagrams, all of one moment, came after a long silence.
    is_sparse: bool,
}

impl Default for Slab {
    fn default() -> Self {
        Self {
            buffer: Buffer::default(),
            cut_at: None,
            is_sparse: true,
        }
    }
}

impl Slab {
    /// The datagram that was written.
    pub(super) fn cut(&mut self, now: Instant) -> Bytes {
        // More of the same moment is as sparse as the first of it.
        if self.cut_at != Some(now) {
            self.is_sparse = self.was_silent(now);
            self.cut_at = Some(now);
        }
        self.buffer.bytes.split().freeze()
    }

    fn was_silent(&self, now: Instant) -> bool {
        let is_long = |at: Instant| now.saturating_duration_since(at) >= SPARSE_TIME;
        self.cut_at.is_none_or(is_long)
    }

    /// Whether what is cut out at `now` comes soon after what was before.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        !self.is_sparse && !self.was_silent(now)
    }

    /// Lets go of what a path that hardly speaks has left.
    pub(super) fn rest(&mut self) {
        if self.is_sparse {
            self.buffer = Buffer::default();
        }
    }

    /// Makes room for one datagram of `len` bytes.
    pub(super) fn reserve(&mut self, len: usize, now: Instant) {
        self.buffer.reserve(len, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts a PING out at `now`; the bytes that the path holds when it rests again.
    fn held(slab: &mut Slab, now: Instant) -> usize {
        slab.reserve(1_400, now);
        slab.buffer.bytes.extend_from_slice(&[0; 35]);
        assert_eq!(slab.cut(now).len(), 35);
        slab.rest();
        slab.buffer.bytes.capacity()
    }

    #[test]
    fn a_path_that_hardly_speaks_holds_no_buffer_and_one_that_does_keeps_it() {
        let t0 = Instant::now();
        let mut slab = Slab::default();
        assert_eq!(held(&mut slab, t0), 0);
        let soon = t0 + SPARSE_TIME - Duration::from_nanos(1);
        assert!(held(&mut slab, soon) > 0, "the next may come soon, too");
        assert_eq!(held(&mut slab, soon + SPARSE_TIME), 0);
        assert_eq!(held(&mut slab, soon + SPARSE_TIME), 0, "the same moment");
    }

    #[test]
    fn it_is_busy_from_its_second_word_in_a_second_until_it_is_silent_for_one() {
        let t0 = Instant::now();
        let mut slab = Slab::default();
        assert!(!slab.is_busy(t0));
        held(&mut slab, t0);
        assert!(!slab.is_busy(t0), "the first after a silence");
        let soon = t0 + SPARSE_TIME - Duration::from_nanos(1);
        held(&mut slab, soon);
        assert!(slab.is_busy(soon));
        assert!(slab.is_busy(soon + SPARSE_TIME - Duration::from_nanos(1)));
        assert!(!slab.is_busy(soon + SPARSE_TIME));
    }

    /// Where a full datagram begins that is written at `now`.
    fn cut(buffer: &mut Buffer, now: Instant) -> (Bytes, *const u8) {
        buffer.reserve(1_400, now);
        buffer.bytes.extend_from_slice(&[0; 1_400]);
        let datagram = buffer.bytes.split().freeze();
        let at = datagram.as_ptr();
        (datagram, at)
    }

    #[test]
    fn two_buffers_take_turns_once_their_datagrams_have_left() {
        let now = Instant::now();
        let mut buffer = Buffer::default();
        (0..200).for_each(|_| drop(cut(&mut buffer, now)));
        assert_eq!(buffer.len, BUFFER_LEN_MAX);
        let each = BUFFER_LEN_MAX / 1_400;
        let places =
            |buffer: &mut Buffer| -> Vec<_> { (0..2 * each).map(|_| cut(buffer, now).1).collect() };
        let first = places(&mut buffer);
        assert_eq!(places(&mut buffer), first, "the same two");
        let held: Vec<_> = (0..each).map(|_| cut(&mut buffer, now).0).collect();
        let is_held = |at: *const u8| held.iter().any(|datagram| datagram.as_ptr() == at);
        assert!(!places(&mut buffer).into_iter().any(is_held));
    }

    #[test]
    fn a_buffer_that_lasts_is_followed_by_a_small_one() {
        let t0 = Instant::now();
        let mut buffer = Buffer::default();
        (0..200).for_each(|_| drop(cut(&mut buffer, t0)));
        let later = t0 + BUFFER_TIME;
        for _ in 0..2 * BUFFER_LEN_MAX / 1_400 {
            cut(&mut buffer, later);
            if buffer.since == Some(later) {
                break;
            }
        }
        assert!(buffer.bytes.capacity() < BUFFER_LEN_MIN);
    }
}
