//! What goes into the next datagram, in which order.
//!
//! ```text
//! ACK, PONG, PING │ SKIP │ resends │ deficit round robin: message, flow, dgram │ ACKs that fit
//!                 └─ not while stalled
//!                                  └─ not while hushed
//! ```
//!
//! What tells the other end something comes first: it is small, and what it
//! measures must not wait behind packets. A PONG follows the ACKs it vouches for in
//! the same datagram. Resends go before anything new, as the receiver holds whole
//! flows for them; but every second datagram begins with what nobody acknowledges,
//! where that waits: after an outage a window of resends may take seconds, and a
//! call is not to fall silent for a download. A datagram of the queue that fits no datagram of the path is cut
//! into packs or its sender is told, so one packet never blocks those behind it: a
//! call yields a datagram, or nothing is left that could leave.

use std::time::Instant;

use bytes::Bytes;
use quell_wire::frame::{self, Lane, LaneProbes, Ping, Pong};

use super::Path;
use super::causes::Cause;
use super::cut::ALWAYS_CARRIED_LEN;
use super::departure::Handed;
use super::service::Class;
use crate::health::path::Departed;
use crate::send::Kind;

impl Path {
    /// The next datagram to hand to QUIC, while the carrier has room.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Bytes> {
        // An owner that asks all its paths in turn asks most of them for nothing.
        if self.rest.is_drained() && (self.now == now || self.is_resting(now)) {
            self.now = now;
            return None;
        }
        self.now = now;
        // What a timer let out may be followed by more, and moves timers.
        self.rest.wake();
        self.drop_aged(now);
        let has_output = self.has_output(now);
        self.blocked = has_output && !self.carrier.has_space();
        if !has_output || self.blocked {
            return self.begin_rest();
        }
        let limit = self.carrier.datagram_len_max();
        self.slab.reserve(limit, now);
        self.write_datagram(limit, now);
        if self.slab.buffer.bytes.is_empty() {
            return self.begin_rest();
        }
        Some(self.take_datagram(now))
    }

    /// Nothing leaves before the next input or timer.
    fn begin_rest(&mut self) -> Option<Bytes> {
        let has_space = self.carrier.has_space();
        if has_space {
            // What begins with the packets nobody acknowledges is the datagram after one with resends.
            self.resent &= self.health.is_stalled();
            self.slab.rest();
        }
        self.rest.begin(has_space && !self.has_delivery());
        None
    }

    /// Whether there is nothing to do: nothing to send, to hand out or to decide before the time that
    /// [`Path::poll_timeout`] names, unless there is an input.
    pub(crate) fn is_resting(&self, now: Instant) -> bool {
        self.rest.lasts(now, || self.first_timer())
    }

    fn write_datagram(&mut self, limit: usize, now: Instant) {
        self.write_acks(limit, now);
        self.write_pongs(limit);
        self.write_ping(limit);
        if self.health.is_stalled() {
            return;
        }
        self.write_skips(limit, now);
        let hushed = self.health.is_hushed(now);
        if std::mem::take(&mut self.resent) && !hushed {
            self.write_dgrams(limit, now);
        }
        let before = self.slab.buffer.bytes.len();
        let more = self.write_resends(limit, hushed, now);
        self.resent = self.slab.buffer.bytes.len() > before;
        if !more && !hushed {
            self.write_new(limit, now);
        }
        if !self.slab.buffer.bytes.is_empty() {
            self.write_ready_acks(limit, now);
        }
    }

    fn take_datagram(&mut self, now: Instant) -> Bytes {
        let datagram = self.slab.cut(now);
        self.carrier.handed_over(datagram.len());
        self.departures.seal(datagram.len());
        self.counters.datagrams_sent += 1;
        self.liveness.on_sent(now);
        datagram
    }

    /// Whether something would leave if the carrier had room.
    fn has_output(&mut self, now: Instant) -> bool {
        let due = |receive: &crate::recv::ReceiveSequence| receive.is_ack_due(now);
        if self.liveness.owes_pong()
            || self.liveness.wants_ping()
            || self.lanes.receive.iter().any(due)
        {
            return true;
        }
        if self.health.is_stalled() {
            return false;
        }
        let hushed = self.health.is_hushed(now);
        let waits = |send: &mut super::lanes::Sender| {
            send.wants_skip()
                || send
                    .next_transmit(now)
                    .is_some_and(|(kind, _)| !hushed || kind != Kind::First)
        };
        self.lanes.send.iter_mut().any(waits) || (!hushed && !self.queue.is_empty())
    }

    fn room(&self, limit: usize) -> usize {
        limit.saturating_sub(self.slab.buffer.bytes.len())
    }

    fn write_acks(&mut self, limit: usize, now: Instant) {
        let reserved = if self.liveness.owes_pong() {
            Pong::ENCODED_LEN
        } else {
            0
        };
        for lane in Lane::ALL {
            let room = self.room(limit).saturating_sub(reserved);
            let receive = &mut self.lanes.receive[lane.index()];
            if receive.write_ack(room, now, &mut self.slab.buffer.bytes) {
                self.departures
                    .charge(Cause::Ack, self.slab.buffer.bytes.len());
            }
        }
    }

    /// What is not said yet rides along where there is room.
    fn write_ready_acks(&mut self, limit: usize, now: Instant) {
        for lane in Lane::ALL {
            let room = self.room(limit);
            let receive = &mut self.lanes.receive[lane.index()];
            if receive.write_ready_ack(room, now, &mut self.slab.buffer.bytes) {
                self.departures
                    .charge(Cause::Ack, self.slab.buffer.bytes.len());
            }
        }
    }

    fn write_pongs(&mut self, limit: usize) {
        while Pong::ENCODED_LEN <= self.room(limit) {
            let Some(nonce) = self.liveness.poll_pong() else {
                return;
            };
            Pong { nonce }.write(&mut self.slab.buffer.bytes);
            self.departures
                .charge(Cause::Ping, self.slab.buffer.bytes.len());
        }
    }

    fn write_ping(&mut self, limit: usize) {
        if !self.liveness.wants_ping() || self.room(limit) < Ping::ENCODED_LEN_MAX {
            return;
        }
        let Some(nonce) = self.liveness.poll_ping() else {
            return;
        };
        let mut lanes = LaneProbes::new();
        for lane in Lane::ALL {
            if let Some(probe) = self.lanes.send[lane.index()].probe() {
                lanes.insert(probe);
                self.departures
                    .note(Handed::Tx(lane, probe.tx, Departed::Ping));
            }
        }
        self.departures.note(Handed::Ping);
        Ping { nonce, lanes }.write(&mut self.slab.buffer.bytes);
        self.departures
            .charge(Cause::Ping, self.slab.buffer.bytes.len());
    }

    fn write_skips(&mut self, limit: usize, now: Instant) {
        for lane in Lane::ALL {
            let room = self.room(limit);
            if let Some(skip) = self.lanes.send[lane.index()].poll_skip(room, now) {
                skip.write(&mut self.slab.buffer.bytes);
                self.departures
                    .charge(Cause::Ack, self.slab.buffer.bytes.len());
            }
        }
    }

    /// Writes resends; whether some are left for the next datagram.
    fn write_resends(&mut self, limit: usize, hushed: bool, now: Instant) -> bool {
        for lane in Lane::ALL {
            // What fits no datagram is given up when it is looked for, which nobody else does in a hush.
            if !hushed && !self.lanes.send[lane.index()].may_resend() {
                continue;
            }
            while self
                .next_kind(lane, now)
                .is_some_and(|kind| kind != Kind::First)
            {
                if !self.write_pack(lane, limit, now) {
                    return true;
                }
            }
        }
        false
    }

    fn next_kind(&mut self, lane: Lane, now: Instant) -> Option<Kind> {
        let next = self.lanes.send[lane.index()].next_transmit(now);
        next.map(|(kind, _)| kind)
    }

    fn write_new(&mut self, limit: usize, now: Instant) {
        let (mut packets, mut bytes) = (0, 0);
        loop {
            self.cut_oversize_heads(limit, now);
            let head = |send: &mut super::lanes::Sender| {
                let next = send.next_transmit(now);
                next.map(|(_, len)| len)
            };
            let [message, flow] = &mut self.lanes.send;
            let dgram = self.queue.head_len().map(frame::dgram_len);
            let heads = [head(message), head(flow), dgram];
            let Some(class) = self.turns.next(heads) else {
                break;
            };
            let before = self.slab.buffer.bytes.len();
            let written = match class {
                Class::Message => self.write_pack(Lane::MESSAGE, limit, now),
                Class::Flow => self.write_pack(Lane::FLOW, limit, now),
                Class::Dgram => match self.write_dgram(limit) {
                    Some(len) => {
                        (packets, bytes) = (packets + 1, bytes + len);
                        true
                    }
                    None => false,
                },
            };
            if !written {
                break;
            }
            self.turns
                .served(class, self.slab.buffer.bytes.len() - before);
        }
        if packets > 0 {
            self.departures.note(Handed::Dgrams(packets, bytes));
        }
    }

    fn write_pack(&mut self, lane: Lane, limit: usize, now: Instant) -> bool {
        let room = self.room(limit);
        let Some(transmit) = self.lanes.send[lane.index()].poll_transmit(room, now) else {
            return false;
        };
        transmit.pack.write(&mut self.slab.buffer.bytes);
        let (kind, tx) = (transmit.kind, transmit.pack.tx);
        let bytes = transmit.pack.data.len();
        let (departs_as, cause) = match kind {
            Kind::First => (Departed::Pack, Cause::FirstSend),
            Kind::Evidence | Kind::Silence => (Departed::Resend, Cause::Resend),
        };
        self.departures.charge(cause, self.slab.buffer.bytes.len());
        self.lanes.on_handed_over(lane, kind, bytes);
        self.departures.note(Handed::Tx(lane, tx, departs_as));
        true
    }

    /// Fills the datagram with packets that nobody acknowledges.
    fn write_dgrams(&mut self, limit: usize, now: Instant) {
        let (mut packets, mut bytes) = (0, 0);
        self.cut_oversize_heads(limit, now);
        while let Some(len) = self.write_dgram(limit) {
            (packets, bytes) = (packets + 1, bytes + len);
            self.cut_oversize_heads(limit, now);
        }
        if packets > 0 {
            self.departures.note(Handed::Dgrams(packets, bytes));
        }
    }

    /// Writes the head of the queue if it fits; its bytes.
    fn write_dgram(&mut self, limit: usize) -> Option<u32> {
        let len = self.queue.head_len()?;
        if frame::dgram_len(len) > self.room(limit) {
            return None;
        }
        let packet = self.queue.pop()?;
        frame::write_dgram(&mut self.slab.buffer.bytes, &packet);
        self.departures
            .charge(Cause::FirstSend, self.slab.buffer.bytes.len());
        self.counters.sent += 1;
        self.counters.sent_bytes += packet.len() as u64;
        self.remember_large(packet);
        u32::try_from(len).ok()
    }

    /// Takes packets off the queue's head that fit no datagram: the path shrank
    /// while they waited.
    fn cut_oversize_heads(&mut self, limit: usize, now: Instant) {
        let too_long = |len: &usize| frame::dgram_len(*len) > limit;
        while self.queue.head_len().filter(too_long).is_some() {
            let Some(packet) = self.queue.pop() else {
                return;
            };
            if packet.len() > ALWAYS_CARRIED_LEN {
                self.handle_oversize(&packet, now);
            } else {
                self.queue_pieces(&packet);
            }
        }
    }

    /// The carrier refused the datagram that was handed over last: none of it happened. It is
    /// offered none until its facts change.
    pub fn on_refused(&mut self, now: Instant) {
        self.now = now;
        self.carrier.on_refused();
        self.rest.wake();
        self.counters.datagrams_sent = self.counters.datagrams_sent.saturating_sub(1);
        while let Some(part) = self.departures.take_back() {
            match part {
                Handed::Tx(lane, tx, _) => self.lanes.on_refused(lane, tx),
                Handed::Ping => self.liveness.on_refused(),
                Handed::Dgrams(packets, bytes) => self.take_back_dgrams(packets, bytes),
            }
        }
    }
}
