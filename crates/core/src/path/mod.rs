//! One client–provider session as its packets see it.
//!
//! ```text
//! handle_packet   → queue ─┬ fits ───────────────→ DGRAM ─┐
//!                          └ larger, ≤ 1,280 B → PACKs ───┼→ poll_datagram → QUIC
//!                                        PING, PONG ──────┘
//! handle_datagram → frames → whole packets → poll_received → (owner's guard) → device
//! ```
//!
//! Invariants:
//! - Everything handed to [`Path::handle_packet`] is sent, queued, or dropped
//!   with a reason: [`Counters::accepted`] = `sent` + `dropped` + `in_flight`.
//! - A datagram is built only when the carrier has room for it, so nothing waits
//!   where it can no longer be aged or reordered.
//! - No frame of the peer allocates more than the datagram it came in, except
//!   fragments, which have their own bound.
//!
//! A packet too large for the path is answered where it came from: the sender is
//! told the size that fits (RFC 1191, RFC 8201), or, where IPv4 allows it, the
//! packet is fragmented.

pub mod carrier;
mod counters;
mod fragment;
mod liveness;
mod oversize;
mod queue;
mod transmit;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quell_packet::mss;
use quell_wire::frame::{self, Frame, Frames, Lane, Pack};
use quell_wire::registry::ErrorCode;

use carrier::Carrier;
pub use carrier::CarrierFacts;
pub use counters::{Counters, PathBooks};
pub use fragment::{ALWAYS_CARRIED_LEN, FRAGMENTS_MAX};
use fragment::{Fragmenter, Piece, Reassembly};
use liveness::Liveness;
pub use liveness::Role;
use oversize::IcmpErrors;
use queue::DgramQueue;

use crate::config::PathConfig;
use crate::drops::{DropReason, Drops};

/// A breach of the protocol by the peer: the connection must be closed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What the peer is told.
    pub code: ErrorCode,
    /// What a person reads, at both ends.
    pub words: String,
}

/// The packets of one session.
#[derive(Debug)]
pub struct Path {
    config: PathConfig,
    mtu_max: u16,
    carrier: Carrier,
    queue: DgramQueue,
    fragmenter: Fragmenter,
    pieces: VecDeque<Piece>,
    /// When the packet that is being cut has waited too long.
    pieces_until: Option<Instant>,
    reassembly: Reassembly,
    liveness: Liveness,
    icmp: IcmpErrors,
    recent_large: VecDeque<Bytes>,
    received: VecDeque<Bytes>,
    slab: BytesMut,
    counters: Counters,
    drops: Drops,
    piece_drops: Drops,
    now: Instant,
}

impl Path {
    /// A path whose local device takes packets of up to `mtu_max` bytes.
    ///
    /// `seed` feeds the nonces of PINGs. Nothing is sent before the first
    /// [`Path::on_carrier`].
    pub fn new(config: PathConfig, role: Role, mtu_max: u16, seed: u64, now: Instant) -> Self {
        Self {
            queue: DgramQueue::new(config.dgram_queue_bytes_max, config.dgram_age_max),
            reassembly: Reassembly::new(config.reassembly_bytes_max, config.reassembly_age_max),
            liveness: Liveness::new(&config, role, seed, now),
            config,
            mtu_max,
            carrier: Carrier::default(),
            fragmenter: Fragmenter::default(),
            pieces: VecDeque::new(),
            pieces_until: None,
            icmp: IcmpErrors::default(),
            recent_large: VecDeque::with_capacity(oversize::RECENT_LARGE_MAX),
            received: VecDeque::new(),
            slab: BytesMut::new(),
            counters: Counters::default(),
            drops: Drops::default(),
            piece_drops: Drops::default(),
            now,
        }
    }

    /// The largest inner packet that crosses whole, or [`ALWAYS_CARRIED_LEN`]
    /// where that is more, in bytes; never more than the device takes.
    pub fn inner_mtu(&self) -> u16 {
        let whole = dgram_payload_len_max(self.carrier.datagram_len_max());
        let carried = whole.max(ALWAYS_CARRIED_LEN);
        u16::try_from(carried).unwrap_or(u16::MAX).min(self.mtu_max)
    }

    /// The address that ICMP errors of this end come from, one for each family.
    pub fn set_icmp_source(&mut self, source: IpAddr) {
        self.icmp.set_source(source);
    }

    /// Measures the path with a PING as soon as there is room.
    pub fn want_ping(&mut self) {
        self.liveness.want_ping();
    }

    /// What the QUIC connection can take.
    pub fn on_carrier(&mut self, facts: CarrierFacts) {
        let before = self.inner_mtu();
        self.carrier.update(facts);
        if self.inner_mtu() < before {
            self.tell_of_shrinking();
        }
    }

    /// Whether a packet of `len_bytes` would be dropped because the queue is full.
    pub fn is_full_for(&self, len_bytes: usize) -> bool {
        self.queue.is_full_for(len_bytes)
    }

    /// Whether something waits for room in the carrier.
    pub fn is_blocked(&self) -> bool {
        self.has_output() && !self.carrier.has_space()
    }

    /// Takes a packet of the local device. Every outcome is counted.
    pub fn handle_packet(&mut self, packet: Bytes, now: Instant) {
        self.now = now;
        self.counters.accepted += 1;
        if packet.len() > usize::from(self.inner_mtu()) {
            self.handle_oversize(&packet, now);
        } else {
            self.enqueue(packet, now);
        }
    }

    fn enqueue(&mut self, packet: Bytes, now: Instant) {
        if self.queue.push(packet, now).is_err() {
            self.drops.count(DropReason::QueueFull);
        }
    }

    /// Takes a datagram of the peer; whole packets wait in [`Path::poll_received`].
    ///
    /// # Errors
    /// The peer broke the protocol. What came before the breach stands.
    pub fn handle_datagram(&mut self, datagram: &Bytes, now: Instant) -> Result<(), Violation> {
        self.now = now;
        self.counters.datagrams_received += 1;
        for frame in Frames::new(datagram) {
            let frame = frame.map_err(|error| Violation {
                code: error.code(),
                words: error.to_string(),
            })?;
            self.handle_frame(datagram, frame, now)?;
        }
        Ok(())
    }

    fn handle_frame(
        &mut self,
        datagram: &Bytes,
        frame: Frame<'_>,
        now: Instant,
    ) -> Result<(), Violation> {
        match frame {
            Frame::Dgram(packet) => self.receive(datagram.slice_ref(packet)),
            Frame::Pack(pack) => return self.handle_pack(datagram, &pack, now),
            Frame::Ping(ping) => {
                let owed_max = self.config.ping_burst_max as usize;
                let taken = self.liveness.handle_ping(ping.nonce, owed_max, now);
                return taken.map_err(|code| Violation {
                    code,
                    words: format!("more than {} PINGs a second", self.config.pings_per_s_max),
                });
            }
            Frame::Pong(pong) => self.liveness.handle_pong(pong.nonce, now),
            Frame::Ack(_) => {
                return Err(violation(
                    ErrorCode::AckedUnsent,
                    "nothing was sent that is acknowledged",
                ));
            }
            Frame::Skip(_) => {
                return Err(violation(
                    ErrorCode::WrongState,
                    "SKIP on a lane that was not opened",
                ));
            }
        }
        Ok(())
    }

    fn handle_pack(
        &mut self,
        datagram: &Bytes,
        pack: &Pack<'_>,
        now: Instant,
    ) -> Result<(), Violation> {
        if pack.lane != Lane::FLOW || !pack.flags.unordered {
            return Err(violation(
                ErrorCode::WrongState,
                "PACK on a lane that was not opened",
            ));
        }
        self.counters.pieces_received += 1;
        match self
            .reassembly
            .insert(pack, datagram.slice_ref(pack.data), now)
        {
            Ok(Some(complete)) => {
                self.counters.pieces_used += complete.pieces;
                self.receive(complete.packet);
            }
            Ok(None) => {}
            Err(reason) => self.piece_drops.count(reason),
        }
        Ok(())
    }

    fn receive(&mut self, packet: Bytes) {
        self.counters.received += 1;
        self.counters.received_bytes += packet.len() as u64;
        self.received.push_back(packet);
    }

    /// The next packet that came out of the path, for the owner to judge.
    pub fn poll_received(&mut self) -> Option<Bytes> {
        self.received.pop_front()
    }

    /// The next ICMP error for the local device.
    pub fn poll_icmp(&mut self) -> Option<Bytes> {
        self.icmp.poll()
    }

    /// Lowers the MSS of a TCP SYN on its way to the local device, so that the
    /// answering side sends what this path carries whole.
    ///
    /// Received packets share their datagram's buffer; only a SYN is copied.
    pub fn clamp_mss(&self, packet: Bytes) -> Bytes {
        let mtu = self.inner_mtu();
        if !mss::wants_clamp(&packet, mtu) {
            return packet;
        }
        let mut copy = BytesMut::from(packet.as_ref());
        mss::clamp(&mut copy, mtu);
        copy.freeze()
    }

    fn drop_aged(&mut self, now: Instant) {
        if !self.pieces.is_empty() && self.pieces_until.is_some_and(|until| until <= now) {
            self.pieces.clear();
            self.drops.count(DropReason::Aged);
        }
        while self.queue.pop_aged(now).is_some() {
            self.drops.count(DropReason::Aged);
        }
        let expired = self.reassembly.expire(now);
        self.piece_drops.add(DropReason::FragmentTimeout, expired);
    }

    /// When to call [`Path::handle_timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if !self.received.is_empty() || self.icmp.has_output() {
            return Some((self.now, "output"));
        }
        if self.has_output() && self.carrier.has_space() {
            return Some((self.now, "datagram"));
        }
        let timers = [
            (self.aged_at(), "age limit"),
            (self.reassembly.poll_timeout(), "reassembly"),
            (self.liveness.poll_timeout(), "keepalive"),
        ];
        let due = |(at, why): (Option<Instant>, &'static str)| at.map(|at| (at, why));
        timers.into_iter().filter_map(due).min_by_key(|(at, _)| *at)
    }

    /// The packet that is being cut is older than those in the queue.
    fn aged_at(&self) -> Option<Instant> {
        if self.pieces.is_empty() {
            return self.queue.aged_at();
        }
        self.pieces_until
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.drop_aged(now);
        self.liveness.handle_timeout(now);
    }

    /// Drops what waits: the session is over.
    pub fn close(&mut self) {
        self.drops.add(DropReason::PathClosed, self.in_flight());
        while self.queue.pop().is_some() {}
        self.pieces.clear();
        let pieces = self.reassembly.len() as u64;
        self.piece_drops.add(DropReason::PathClosed, pieces);
        self.reassembly = Reassembly::new(
            self.config.reassembly_bytes_max,
            self.config.reassembly_age_max,
        );
    }

    fn in_flight(&self) -> u64 {
        self.queue.len() as u64 + u64::from(!self.pieces.is_empty())
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        Counters {
            in_flight: self.in_flight(),
            pieces_in_flight: self.reassembly.len() as u64,
            pings_sent: self.liveness.pings_sent(),
            icmp_made: self.icmp.made(),
            icmp_limited: self.icmp.limited(),
            ..self.counters
        }
    }

    /// Packets of the local device that were not carried.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// Pieces of the peer's packets that were dropped.
    pub fn piece_drops(&self) -> Drops {
        self.piece_drops
    }

    /// Bytes waiting in the queue.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// The round trip that the last PING measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.liveness.rtt()
    }
}

/// Longest packet whose DGRAM takes at most `frame_len` bytes.
fn dgram_payload_len_max(frame_len: usize) -> usize {
    let longest = frame_len.saturating_sub(frame::dgram_len(0));
    let header = frame::dgram_len(longest) - longest;
    frame_len.saturating_sub(header)
}

fn violation(code: ErrorCode, words: &str) -> Violation {
    Violation {
        code,
        words: words.to_owned(),
    }
}
