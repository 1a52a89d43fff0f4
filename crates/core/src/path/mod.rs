//! One client–provider session as its packets see it.
//!
//! ```text
//! handle_packet  → intake ─┬ dgram queue ─┐
//! send_message   → ────────┴ lanes ───────┴→ transmit → poll_datagram → QUIC
//! handle_datagram → receive ─┬ lanes → packets → poll_received → (owner's guard) → device
//!                            │         messages → poll_message
//!                            └ ACK, PONG → lanes, health
//! ```
//!
//! | file | question |
//! |---|---|
//! | `intake`, `messages`, `order`, `cut` | which lane does it take, after which pack, in how many pieces |
//! | `queue`, `lanes` | what waits |
//! | `transmit`, `service` | what goes into the next datagram, whose turn it is |
//! | `slab` | what are datagrams written into |
//! | `carrier`, `departure` | has QUIC room, and when did what it was given leave |
//! | `receive` | what does the peer say |
//! | `rest` | when is there something to do again |
//! | `liveness` | PING and PONG |
//! | `suspend` | what if the connection is lost |
//! | `oversize` | what becomes of packets that the path does not carry |
//! | `causes`, `counters` | what were the bytes for, and what happened |
//!
//! Whether the path is well is asked of `crate::health::path`.
//!
//! Invariants:
//! - Everything handed in is sent, in a lane, queued, or dropped with a reason
//!   ([`PathBooks::unaccounted`]).
//! - A datagram is built only when the carrier has room for it, so nothing waits
//!   where it can no longer be aged or reordered.
//! - No frame of the peer makes us hold more than the credit that we gave.
//!
//! A packet too large for the path is answered where it came from: the sender is
//! told the size that fits (RFC 1191, RFC 8201), or, where IPv4 allows it, the
//! packet is fragmented.

mod billed;
pub mod carrier;
mod causes;
mod counters;
mod cut;
mod departure;
mod intake;
mod lanes;
mod liveness;
mod messages;
mod order;
mod oversize;
mod queue;
mod receive;
mod rest;
mod service;
mod slab;
mod suspend;
mod transmit;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quell_packet::mss;
use quell_wire::frame::{self, Credit, Lane};
use quell_wire::registry::ErrorCode;

use carrier::Carrier;
pub use carrier::CarrierFacts;
pub use causes::{FrameBytes, UdpCauses};
pub use counters::{Counters, LaneBooks, PathBooks};
pub use cut::{ALWAYS_CARRIED_LEN, FRAGMENTS_MAX};
use departure::{Departures, Handed};
use lanes::Lanes;
use liveness::Liveness;
pub use liveness::Role;
pub use messages::{MESSAGE_PACK_LEN, MessagesEnd};
use order::FlowOrder;
use oversize::IcmpErrors;
use queue::DgramQueue;
use rest::{Rest, Timer};
use service::Turns;
pub(crate) use slab::Buffer;
use slab::Slab;

use crate::budget::ProcessBudget;
use crate::config::{PathConfig, TcpLane};
use crate::drops::{DropReason, Drops};
use crate::health::Signal;
use crate::health::path::{Change, Departed, PathHealth};
use crate::multi::Carried;

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
    departures: Departures,
    queue: DgramQueue,
    lanes: Lanes,
    order: FlowOrder,
    turns: Turns,
    health: PathHealth,
    liveness: Liveness,
    icmp: IcmpErrors,
    recent_large: VecDeque<Bytes>,
    received: VecDeque<Bytes>,
    /// When a refusal for want of credit drew a PING last.
    credit_asked_at: Option<Instant>,
    messages_end: Option<MessagesEnd>,
    messages_ended: bool,
    slab: Slab,
    counters: Counters,
    drops: Drops,
    rest: Rest,
    /// What is left waits for room in the carrier.
    blocked: bool,
    /// The last datagram carried resends.
    resent: bool,
    now: Instant,
}

/// What a path is told when it begins.
#[derive(Debug, Clone)]
pub struct PathTerms {
    /// Its settings, validated.
    pub config: PathConfig,
    /// Which end it is.
    pub role: Role,
    /// The largest packet that the local device takes, in bytes.
    pub mtu_max: u16,
    /// Whether the control plane is degraded.
    pub signal: Signal,
    /// What all paths of the process may spend on resends into silences together
    /// (DESIGN §6 "Resend budget").
    pub budget: ProcessBudget,
    /// Feeds all its random draws.
    pub seed: u64,
}

impl Path {
    /// A path with nothing in it. Nothing is sent before the first
    /// [`Path::on_carrier`], and nothing acknowledged before
    /// [`Path::on_first_credit`].
    pub fn new(terms: PathTerms, now: Instant) -> Self {
        let PathTerms {
            config,
            role,
            mtu_max,
            signal,
            budget,
            seed,
        } = terms;
        let lane = &config.lanes.send;
        Self {
            queue: DgramQueue::new(config.dgram_queue_bytes_max, config.dgram_age_max),
            lanes: Lanes::new(&config.lanes, (&budget.path(), &signal), seed, now),
            order: FlowOrder::new(seed),
            health: PathHealth::new(config.health.clone(), lane, role, seed),
            liveness: Liveness::new(&config, role, seed, now),
            config,
            mtu_max,
            carrier: Carrier::default(),
            departures: Departures::default(),
            turns: Turns::default(),
            icmp: IcmpErrors::default(),
            recent_large: VecDeque::new(),
            received: VecDeque::new(),
            credit_asked_at: None,
            messages_end: None,
            messages_ended: false,
            slab: Slab::default(),
            counters: Counters::default(),
            drops: Drops::default(),
            rest: Rest::default(),
            blocked: false,
            resent: false,
            now,
        }
    }

    // --- sizes -----------------------------------------------------------

    /// The largest inner packet that crosses whole, or [`ALWAYS_CARRIED_LEN`]
    /// where that is more, in bytes; never more than the device takes.
    ///
    /// Where TCP takes the flow lane, a packet has to fit a pack: one that crossed
    /// in two would cost a second datagram.
    pub fn inner_mtu(&self) -> u16 {
        let whole = match self.config.lanes.tcp {
            TcpLane::Flow => self.pack_payload_len_max(),
            TcpLane::Dgram => self.dgram_payload_len_max(),
        };
        let carried = whole.max(ALWAYS_CARRIED_LEN);
        u16::try_from(carried).unwrap_or(u16::MAX).min(self.mtu_max)
    }

    /// Longest packet that one DGRAM of the path carries, in bytes.
    fn dgram_payload_len_max(&self) -> usize {
        let frame_len = self.carrier.datagram_len_max();
        let longest = frame_len.saturating_sub(frame::dgram_len(0));
        let header = frame::dgram_len(longest) - longest;
        frame_len.saturating_sub(header)
    }

    /// Longest payload of one pack of the path, in bytes.
    fn pack_payload_len_max(&self) -> usize {
        let overhead = self.lanes.send[Lane::FLOW.index()].pack_overhead_bytes();
        self.carrier.datagram_len_max().saturating_sub(overhead)
    }

    /// Whether the path speaks so often that a buffer may be lent to it.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        self.slab.is_busy(now)
    }

    /// Exchanges the buffer that datagrams are written into.
    pub(crate) fn swap_buffer(&mut self, other: &mut Buffer) {
        std::mem::swap(&mut self.slab.buffer, other);
    }

    /// The address that ICMP errors of this end come from, one for each family.
    pub fn set_icmp_source(&mut self, source: IpAddr) {
        self.icmp.set_source(source);
    }

    // --- facts -----------------------------------------------------------

    /// What the peer's greeting lets each lane send.
    pub fn on_first_credit(&mut self, credit: Credit) {
        self.rest.forget();
        self.lanes
            .send
            .iter_mut()
            .for_each(|send| send.grant(credit));
    }

    /// What our greeting lets the peer send in each lane.
    pub fn first_credit(&self) -> Credit {
        self.config.lanes.receive.first_credit()
    }

    /// Measures the path with a PING as soon as there is room.
    pub fn want_ping(&mut self) {
        self.rest.wake();
        self.liveness.want_ping();
    }

    /// What the QUIC connection can take, and with it, what has left.
    pub fn on_carrier(&mut self, facts: CarrierFacts, now: Instant) {
        if self.is_no_news(&facts, now) {
            self.carrier.update(facts);
            return;
        }
        self.now = now;
        self.rest.wake();
        self.look_at_departures(facts.backlog_bytes, now);
        let (mtu, frame_len) = (self.inner_mtu(), self.carrier.datagram_len_max());
        self.carrier.update(facts);
        if self.carrier.datagram_len_max() == frame_len {
            return;
        }
        let frame_len = self.carrier.datagram_len_max();
        let fits = |send: &mut lanes::Sender| send.on_frame_len_max(frame_len);
        self.lanes.send.iter_mut().for_each(fits);
        self.cut_anew(now);
        if self.inner_mtu() < mtu {
            self.tell_of_shrinking();
        }
    }

    /// Time runs for what left. The budget is told of all of it at once: it is shared by threads, and the lanes of a path
    /// share one.
    fn look_at_departures(&mut self, backlog_bytes: usize, now: Instant) {
        let mut first_sent = 0;
        while let Some(part) = self.departures.poll(backlog_bytes) {
            first_sent += self.on_departed(part, now);
        }
        if first_sent > 0 {
            self.lanes.send[Lane::FLOW.index()].book_first_sent(first_sent, now);
        }
    }

    /// A part of a datagram left; its payload that left for the first time and counts for the budget, in bytes.
    fn on_departed(&mut self, part: Handed, now: Instant) -> usize {
        let mut first_sent = 0;
        match part {
            Handed::Tx(lane, tx, departed_as) => {
                let send = &mut self.lanes.send[lane.index()];
                first_sent = send.note_departed(tx, now);
                // What was acknowledged before we looked leaves no question open.
                if departed_as != Departed::Ping && send.is_unacked() {
                    self.health.on_departed(departed_as, now);
                }
            }
            Handed::Ping => {
                if self.liveness.on_departed(now) {
                    self.health.on_departed(Departed::Ping, now);
                }
            }
            Handed::Dgrams(..) => self.health.on_departed(Departed::Dgram, now),
        }
        first_sent
    }

    fn take_back_dgrams(&mut self, packets: u32, bytes: u32) {
        self.counters.sent -= u64::from(packets);
        self.counters.sent_bytes -= u64::from(bytes);
        self.drops.add(DropReason::Refused, packets.into());
    }

    fn apply(&mut self, change: Change, now: Instant) {
        if change.ping {
            self.liveness.want_ping();
        }
        if change.pause {
            self.lanes.pause(now);
        }
        if change.resume {
            self.lanes.resume(now);
        }
    }

    /// Whether something waits that the carrier's queue holds up: room in it, or
    /// news of what left it. The driver looks at the carrier when something left.
    pub fn awaits_departure(&self) -> bool {
        self.blocked || self.departures.is_waiting()
    }

    // --- towards the device ----------------------------------------------

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

    /// Whether a path that rests would go on resting: nothing of its own stands in the carrier, whose room for the next
    /// datagram stays. A round trip or a window alone lets nothing leave.
    fn is_no_news(&self, facts: &CarrierFacts, now: Instant) -> bool {
        facts.backlog_bytes == 0
            && facts.datagram_len_max == self.carrier.datagram_len_max()
            && !self.departures.is_waiting()
            && self.is_resting(now)
    }

    // --- time ------------------------------------------------------------

    fn drop_aged(&mut self, now: Instant) {
        while self.queue.pop_aged(now).is_some() {
            self.drops.count(DropReason::Aged);
        }
    }

    /// When to call [`Path::handle_timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        if let Some(timer) = self.rest.timer(|| self.first_timer()) {
            debug_assert_eq!(timer, self.first_timer(), "a timer changed unnoticed");
            return timer;
        }
        if self.has_delivery() {
            return Some((self.now, "output"));
        }
        if !self.rest.is_drained() && self.carrier.has_space() {
            return Some((self.now, "datagram"));
        }
        self.first_timer()
    }

    /// Whether something waits for the owner to take it.
    fn has_delivery(&self) -> bool {
        !self.received.is_empty() || self.icmp.has_output()
    }

    fn first_timer(&self) -> Timer {
        let own = [
            (self.queue.aged_at(), "age limit"),
            (self.liveness.poll_timeout(), "keepalive"),
        ];
        let due = |(at, why): (Option<Instant>, &'static str)| at.map(|at| (at, why));
        let sending = self
            .lanes
            .send
            .iter()
            .filter_map(|send| send.poll_timeout());
        own.into_iter()
            .filter_map(due)
            .chain(sending)
            .chain(self.receive_timeouts())
            .chain(self.health.poll_timeout(self.lanes.is_unacked()))
            .min_by_key(|(at, _)| *at)
    }

    /// An ACK that is due waits for room like anything else, a hold does not.
    fn receive_timeouts(&self) -> impl Iterator<Item = (Instant, &'static str)> {
        let has_space = self.carrier.has_space();
        self.lanes.receive.iter().filter_map(move |receive| {
            if has_space {
                receive.poll_timeout()
            } else {
                receive.poll_hold().map(|at| (at, "hold"))
            }
        })
    }

    /// Does what is due at `now`.
    ///
    /// # Errors
    /// Nothing made progress for so long that the session is over: the connection
    /// is to be closed with it.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), Violation> {
        self.now = now;
        if self.is_resting(now) && !self.lanes.is_unacked() {
            // An owner with many paths calls all of them when one is due. Only the signal is looked at.
            self.lanes.look_at_signal(now);
            return Ok(());
        }
        self.rest.wake();
        self.drop_aged(now);
        self.liveness.handle_timeout(now);
        for (send, receive) in self.lanes.send.iter_mut().zip(&mut self.lanes.receive) {
            send.handle_timeout(now);
            receive.handle_timeout(now);
        }
        self.deliver();
        if self.lanes.wants_probe() {
            self.liveness.want_ping();
        }
        let change = self.health.handle_timeout(self.lanes.is_unacked(), now);
        self.apply(change, now);
        if self.health.is_gone(now) {
            let words = format!("no answer for {:?}", self.health.gone_after());
            return Err(violation(ErrorCode::Idle, &words));
        }
        Ok(())
    }

    /// Drops what waits: the session is over.
    pub fn close(&mut self) {
        self.drops.add(DropReason::PathClosed, self.in_flight());
        while self.queue.pop().is_some() {}
        self.end_messages();
        self.lanes.close(self.now);
        self.blocked = false;
        self.rest.forget();
    }

    fn in_flight(&self) -> u64 {
        self.queue.len() as u64
    }

    // --- what a person sees ----------------------------------------------

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        Counters {
            in_flight: self.in_flight(),
            pings_sent: self.liveness.pings_sent(),
            icmp_made: self.icmp.made(),
            icmp_limited: self.icmp.limited(),
            stalls: self.health.stalls(),
            ..self.counters
        }
    }

    /// Packets of the local device that were not carried.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// Bytes of frames that left, by cause.
    pub fn frame_bytes(&self) -> FrameBytes {
        self.departures.left()
    }

    /// Bytes waiting in the queue of what nobody acknowledges.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Grows with each acknowledgement or answer that was news.
    pub fn progress(&self) -> u64 {
        self.health.progress()
    }

    /// The round trip that the last PING measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.liveness.rtt()
    }

    /// What the flow lane carried so far, in packs.
    pub(crate) fn carried(&self) -> Carried {
        let send = self.lanes.send[Lane::FLOW.index()].counters();
        Carried {
            sent: send.first_sends,
            acked: send.acked,
            resent: send.evidence_resends,
        }
    }

    /// The number of the flow lane's next pack.
    pub(crate) fn next_flow_number(&self) -> u64 {
        self.lanes.send[Lane::FLOW.index()].next_number()
    }

    /// Whether a pack of the flow lane was acknowledged, or given up.
    pub(crate) fn is_flow_pack_settled(&self, number: u64) -> bool {
        self.lanes.send[Lane::FLOW.index()].is_settled(number)
    }

    /// Whether a client that stalls asks often here. One of its paths does: with the
    /// others an answer is worth less, and six that ask often are a storm of their own.
    pub(crate) fn set_eager(&mut self, eager: bool, now: Instant) {
        if self.health.set_eager(eager, now) {
            self.rest.forget();
        }
    }

    pub(crate) fn pings_sent(&self) -> u64 {
        self.liveness.pings_sent()
    }

    pub(crate) fn pings_answered(&self) -> u64 {
        self.liveness.pings_answered()
    }

    /// Whether nothing is sent for the first time, because nothing comes back. What
    /// is handed over meanwhile is little and timed: the congestion window, full of
    /// what was lost, must not hold it.
    pub fn is_hushed(&self, now: Instant) -> bool {
        self.health.is_hushed(now)
    }

    /// Whether the path does not answer.
    pub fn is_stalled(&self) -> bool {
        self.health.is_stalled()
    }
}

fn violation(code: ErrorCode, words: &str) -> Violation {
    Violation {
        code,
        words: words.to_owned(),
    }
}
