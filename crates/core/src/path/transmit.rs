//! What goes into the next datagram.
//!
//! PING and PONG first: they are small, and what they measure must not wait
//! behind packets. Then the pieces of a packet that is being cut, to the last,
//! before another packet begins; then whole packets, as many as fit. A head of
//! the queue that fits no datagram at all is cut, or its sender is told, so one
//! packet never blocks those behind it: a call yields a datagram, or nothing is
//! left that could leave.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quell_wire::frame::{self, LaneProbes, Ping, Pong};

use super::Path;
use super::fragment::ALWAYS_CARRIED_LEN;
use crate::drops::DropReason;

/// Datagrams are cut out of buffers of this size: one allocation for some 45 of
/// them, released when the last has left quinn.
const SLAB_LEN: usize = 64 * 1024;

impl Path {
    /// The next datagram to hand to QUIC, while the carrier has room.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Bytes> {
        self.now = now;
        self.drop_aged(now);
        if !self.carrier.has_space() {
            return None;
        }
        let limit = self.carrier.datagram_len_max();
        self.slab.reserve_datagram(limit);
        // A round that writes nothing has dropped what stood first, so rounds end.
        while self.has_output() {
            self.write_datagram(limit, now);
            if !self.slab.is_empty() {
                return Some(self.take_datagram(now));
            }
        }
        None
    }

    fn write_datagram(&mut self, limit: usize, now: Instant) {
        self.write_liveness(limit, now);
        if self.pieces.is_empty() {
            self.write_packets(limit, now);
        }
        if !self.pieces.is_empty() {
            self.write_pieces(limit);
        }
    }

    fn take_datagram(&mut self, now: Instant) -> Bytes {
        let datagram = self.slab.split().freeze();
        self.carrier.handed_over(datagram.len());
        self.counters.datagrams_sent += 1;
        self.liveness.on_sent(now);
        datagram
    }

    pub(super) fn has_output(&self) -> bool {
        self.liveness.has_output() || !self.pieces.is_empty() || !self.queue.is_empty()
    }

    fn write_liveness(&mut self, limit: usize, now: Instant) {
        if let Some(nonce) = self.liveness.poll_ping(now) {
            Ping {
                nonce,
                lanes: LaneProbes::new(),
            }
            .write(&mut self.slab);
        }
        while self.slab.len() + Pong::ENCODED_LEN <= limit {
            let Some(nonce) = self.liveness.poll_pong() else {
                return;
            };
            Pong { nonce }.write(&mut self.slab);
        }
    }

    /// Writes whole packets while they fit. A head that fits no datagram at all
    /// is cut into pieces, or told that it is too big.
    fn write_packets(&mut self, limit: usize, now: Instant) {
        while let Some(len) = self.queue.head_len() {
            let frame_len = frame::dgram_len(len);
            if frame_len > limit {
                self.take_oversize_head(limit, now);
                if !self.pieces.is_empty() {
                    return;
                }
                continue;
            }
            if self.slab.len() + frame_len > limit {
                return;
            }
            if let Some(packet) = self.queue.pop() {
                frame::write_dgram(&mut self.slab, &packet);
                self.count_sent(packet.len());
                self.remember_large(packet);
            }
        }
    }

    fn take_oversize_head(&mut self, limit: usize, now: Instant) {
        let cut_until = self.queue.aged_at();
        let Some(packet) = self.queue.pop() else {
            return;
        };
        if packet.len() > ALWAYS_CARRIED_LEN {
            self.handle_oversize(&packet, now);
            return;
        }
        match self.fragmenter.cut(&packet, limit) {
            Some(pieces) => {
                self.pieces = pieces;
                self.pieces_until = cut_until;
            }
            None => self.drops.count(DropReason::TooBig),
        }
    }

    fn write_pieces(&mut self, limit: usize) {
        let Some(piece) = self.pieces.front() else {
            return;
        };
        let frame = piece.frame();
        if frame.encoded_len() > limit {
            // The path shrank between two pieces: the packet is lost as a whole.
            self.pieces.clear();
            self.drops.count(DropReason::TooBig);
            return;
        }
        if self.slab.len() + frame.encoded_len() > limit {
            return;
        }
        frame.write(&mut self.slab);
        self.counters.pieces_sent += 1;
        let len = piece.data.len();
        self.counters.sent_bytes += len as u64;
        self.pieces.pop_front();
        if self.pieces.is_empty() {
            self.counters.sent += 1;
        }
    }

    fn count_sent(&mut self, len: usize) {
        self.counters.sent += 1;
        self.counters.sent_bytes += len as u64;
    }
}

/// Room for one datagram in the current slab, or a fresh slab.
trait ReserveDatagram {
    fn reserve_datagram(&mut self, len: usize);
}

impl ReserveDatagram for BytesMut {
    fn reserve_datagram(&mut self, len: usize) {
        if self.capacity() < len {
            *self = Self::with_capacity(SLAB_LEN.max(len));
        }
    }
}
