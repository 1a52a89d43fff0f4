//! What the local device gives: which lane it takes, and whether there is room.
//!
//! ```text
//! packet ─┬─ larger than the MTU ──→ told, or fragmented ──┐
//!         ├─ TCP, and TCP takes the flow lane ──→ flow lane │ each fragment anew
//!         │   └─ a pure ACK ──→ the same, unordered         │
//!         │       └─ of a closed window ────────────────────┤
//!         └─ the rest ─┬─ fits a datagram ──→ dgram queue ←─┘
//!                      └─ 1,280 bytes at most ──→ pieces, flow lane, unordered
//! ```
//!
//! A *pure ACK* says everything up to a number, so the next one replaces it and an old one is ignored. It waits for nothing,
//! and nothing waits for it: were the ACKs behind a lost one held until that is repaired, the user's TCP would see a round
//! trip twice as long, twice as often. One that closes the window must not come after the one that opens it again
//! (RFC 9293 §3.10.7.4 has it believed), so it is never repaired.
//!
//! A queue that a TCP can fill, it fills; so what waits in the flow lane for its
//! first send is bounded by *time*, at the rate that the path has at the moment.
//! The packet that would wait longer is dropped, and its TCP learns what a router's
//! queue would have taught it. Only where the whole window leaves within that time
//! does the device wait instead ([`Path::is_full_for`]): the bottleneck is this
//! machine then, and nobody's packets wait long.
//!
//! A path that does not answer has no rate, and a drop teaches nothing there: each
//! TCP stops by itself when its window is out, and the last packets of that window,
//! were they dropped, would be missed only by a timer that has grown with the
//! outage. So then the lane's window alone is the bound.

use std::time::Instant;

use bytes::Bytes;
use quell_packet::{FlowKey, IpPacket, TcpView, protocol};
use quell_wire::frame::Lane;

use super::Path;
use super::cut::{FRAGMENTS_MAX, cut};
use crate::config::TcpLane;
use crate::drops::DropReason;
use crate::send::TakenBack;

/// Datagrams that may wait in the flow lane on any path, however slow: the first
/// flight of a TCP (RFC 6928) and some acknowledgements.
const FLOW_WAIT_DATAGRAMS_MIN: usize = 16;

/// The window of a segment of TCP that is a pure ACK; `None` for any other packet.
fn pure_ack_window(packet: &IpPacket<'_>) -> Option<u16> {
    if packet.is_fragment() {
        return None;
    }
    let segment = TcpView::parse(packet.payload()).ok()?;
    segment.is_pure_ack().then(|| segment.window())
}

impl Path {
    /// Takes a packet of the local device. Every outcome is counted.
    pub fn handle_packet(&mut self, packet: Bytes, now: Instant) {
        self.now = now;
        self.rest.wake();
        self.counters.accepted += 1;
        let change = self.health.on_demand(now);
        self.apply(change, now);
        if packet.len() > usize::from(self.inner_mtu()) {
            self.handle_oversize(&packet, now);
        } else {
            self.route(packet, now);
        }
    }

    /// Queues a packet that the path carries.
    pub(super) fn route(&mut self, packet: Bytes, now: Instant) {
        let flow = self.config.lanes.tcp == TcpLane::Flow;
        match IpPacket::parse(&packet) {
            Ok(view) if flow && view.protocol() == protocol::TCP => match pure_ack_window(&view) {
                Some(0) => self.queue_dgram(packet, now),
                Some(_) => self.queue_flow(&packet, None),
                None => self.queue_flow(&packet, Some(FlowKey::of(&view))),
            },
            Ok(_) | Err(_) => self.queue_dgram(packet, now),
        }
    }

    fn queue_dgram(&mut self, packet: Bytes, now: Instant) {
        if self.health.is_stalled() {
            self.drops.count(DropReason::PathStalled);
        } else if packet.len() > self.dgram_payload_len_max() {
            self.queue_pieces(&packet);
        } else if self.queue.push(packet, now).is_err() {
            self.drops.count(DropReason::QueueFull);
        }
    }

    /// Queues a packet without acknowledgement that crosses in pieces only.
    pub(super) fn queue_pieces(&mut self, packet: &Bytes) {
        self.queue_flow(packet, None);
    }

    /// Queues a packet in the flow lane, in the order of `flow` or in none.
    fn queue_flow(&mut self, packet: &Bytes, flow: Option<FlowKey>) {
        let Some(cut) = cut(packet.len(), self.pack_payload_len_max(), FRAGMENTS_MAX) else {
            self.drops.count(DropReason::TooBig);
            return;
        };
        let waiting = self.lanes.waiting_bytes(Lane::FLOW);
        if waiting + packet.len() > self.flow_wait_bytes_max() {
            self.drops.count(DropReason::QueueFull);
            return;
        }
        let order = &mut self.order;
        let dep = |first, end| flow.map_or(0, |key| order.enter(key, first, end));
        let taken = self
            .lanes
            .accept(Lane::FLOW, packet, cut, (flow.is_none(), dep), self.now);
        match taken {
            Ok(()) => {
                self.counters.laned += 1;
                self.counters.laned_bytes += packet.len() as u64;
            }
            Err(_) => {
                self.drops.count(DropReason::QueueFull);
                self.ask_for_credit();
            }
        }
    }

    /// Cuts packets of the flow lane anew that no longer fit: they were accepted, so
    /// they are not dropped because the path shrank, unless there is no room for the
    /// more packs that they take.
    pub(super) fn cut_anew(&mut self, now: Instant) {
        for taken in self.lanes.send[Lane::FLOW.index()].take_back_oversize(now) {
            if let Err(reason) = self.queue_again(&taken) {
                self.counters.laned -= 1;
                self.counters.laned_bytes -= taken.packet.len() as u64;
                self.drops.count(reason);
            }
        }
    }

    fn queue_again(&mut self, taken: &TakenBack) -> Result<(), DropReason> {
        let packet = &taken.packet;
        let cut = cut(packet.len(), self.pack_payload_len_max(), FRAGMENTS_MAX);
        let cut = cut.ok_or(DropReason::TooBig)?;
        let flow = IpPacket::parse(packet).map(|view| FlowKey::of(&view));
        let flow = flow.ok().filter(|_| !taken.unordered);
        let order = &mut self.order;
        let dep = |first, end| flow.map_or(0, |key| order.enter(key, first, end));
        let (how, at) = ((taken.unordered, dep), taken.accepted_at);
        let accepted = self.lanes.accept(Lane::FLOW, packet, cut, how, at);
        accepted.map_err(|_| DropReason::QueueFull)
    }

    /// A lane that waits for credit with nothing on its way asks for it, however
    /// often it is refused, once a second.
    pub(super) fn ask_for_credit(&mut self) {
        let rest = self.config.health.prompted_ping_min;
        let rests = |asked| self.now.saturating_duration_since(asked) < rest;
        if !self.lanes.is_starved() || self.credit_asked_at.is_some_and(rests) {
            return;
        }
        self.credit_asked_at = Some(self.now);
        self.liveness.want_ping();
    }

    /// Most bytes that may wait in the flow lane for their first send.
    fn flow_wait_bytes_max(&self) -> usize {
        if self.health.is_doubtful(self.now) {
            return usize::MAX;
        }
        let floor = FLOW_WAIT_DATAGRAMS_MIN * self.carrier.datagram_len_max();
        self.carrier
            .bytes_in(self.config.lanes.flow_wait_max)
            .max(floor)
    }

    /// Whether the device should wait: so many packets of `len_bytes` each find no
    /// room, and what stands in their way is gone soon.
    pub fn is_full_for(&self, packets: usize, len_bytes: usize) -> bool {
        let bytes = packets.saturating_mul(len_bytes);
        if self.queue.is_full_for(bytes) {
            return true;
        }
        let window = self.config.lanes.send.window_bytes;
        let fast = self.carrier.bytes_in(self.config.lanes.flow_wait_max) >= window;
        let flow = &self.lanes.send[Lane::FLOW.index()];
        fast && !self.health.is_stalled() && flow.admits(packets, bytes).is_err()
    }
}
