//! The way between sessions and the egress: whose packet is next, and whether the month allows it.
//!
//! ```text
//! session ──judged──→ outward lines ──→ Output::Deliver (nothing waits), poll_delivery (what waited)
//! handle_packet ────→ inward lines  ──→ session        (at once, or by handle_egress)
//! ```
//!
//! **What a driver has to do.** Say how many packets the egress takes before it drains sessions
//! ([`Provider::on_egress_room`]), take [`Provider::poll_delivery`] until it is empty after it did, and call
//! [`Provider::handle_egress`] when [`Provider::poll_egress`] says. A driver whose egress takes any number of packets
//! says nothing. Without a rate and with room nothing ever waits, so one that does neither carries all the same.
//!
//! What the provider makes itself, resets and ICMP errors, waits in no line: it is of no client, and bounded where it
//! is made.

use std::time::Instant;

use bytes::Bytes;
use quell_wire::registry::ErrorCode;

use super::limits::{Ceiling, MonthUse, Step};
use super::session::Session;
use super::{Provider, SessionId};
use crate::drops::DropReason;
use crate::status::SessionStatus;

/// Packets of the world that one call of [`Provider::handle_egress`] hands to sessions: some 0.3 ms of work.
const RELEASED_MAX: usize = 256;

impl Provider {
    /// Goes on with what was carried in the month before a restart. To be said at the start, before the time is.
    pub fn restore_month(&mut self, used: MonthUse) {
        self.ceiling = Ceiling::new(self.config.month_bytes_max, used);
    }

    /// It is `unix_s` seconds after 1970, as far as the host knows. To be said at the start, and each minute or so.
    pub fn on_wall_clock(&mut self, unix_s: u64) {
        self.ceiling.on_wall_clock(unix_s);
    }

    /// What a restart must find.
    pub fn month_use(&self) -> MonthUse {
        self.ceiling.used()
    }

    /// The egress takes so many packets at the moment. It is to be said anew before each drain.
    pub fn on_egress_room(&mut self, packets: usize) {
        self.outward.on_room(packets);
    }

    /// Whether packets wait for nothing but room at the egress.
    pub fn awaits_egress_room(&self) -> bool {
        self.outward.awaits_room()
    }

    /// The next packet of the clients' that waited for its turn.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<Bytes> {
        let (id, packet) = self.outward.poll(now)?;
        self.count_delivered(id, &packet, now);
        Some(packet)
    }

    /// The next thing that passed the session's checks and may leave at once; others wait.
    pub(super) fn poll_passed(&mut self, id: SessionId, now: Instant) -> Option<Bytes> {
        loop {
            let packet = self.sessions.get_mut(&id)?.pop_passed()?;
            if let Some(packet) = self.outward.offer(id, packet, now) {
                self.count_delivered(id, &packet, now);
                return Some(packet);
            }
        }
    }

    fn count_delivered(&mut self, id: SessionId, packet: &Bytes, now: Instant) {
        self.ceiling.count(packet.len(), now);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.on_delivered(packet.len());
        }
    }

    /// A packet of the world whose turn it is.
    pub(super) fn hand_inward(&mut self, id: SessionId, packet: Bytes, now: Instant) {
        self.ceiling.count(packet.len(), now);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if let Err(reason) = session.handle_packet(packet, now) {
            self.tun_drops.count(reason);
        }
        self.look_if_due(id, now);
        if self.ready.back() != Some(&id) {
            self.ready.push_back(id);
        }
    }

    /// When to call [`Provider::handle_egress`] and then to take [`Provider::poll_delivery`] until it is empty, and why.
    pub fn poll_egress(&self) -> Option<(Instant, &'static str)> {
        let turns = [self.outward.poll_timeout(), self.inward.poll_timeout()];
        let turns = turns.into_iter().flatten().map(|at| (at, "share"));
        let month = self.ceiling.poll_timeout().map(|at| (at, "month"));
        turns.chain(month).min_by_key(|(at, _)| *at)
    }

    /// Does what is due at `now`: packets of the world that waited go to their sessions, which
    /// [`Provider::poll_ready`] announces; and a month that is used up ends.
    pub fn handle_egress(&mut self, now: Instant) {
        for _ in 0..RELEASED_MAX {
            let Some((id, packet)) = self.inward.poll(now) else {
                break;
            };
            self.hand_inward(id, packet, now);
        }
        match self.ceiling.step(self.config.drain, now) {
            Some(Step::Leave) => self.send_away(ErrorCode::MonthUsedUp),
            Some(Step::Shut) => self.close_all(ErrorCode::MonthUsedUp),
            None => {}
        }
    }

    /// The session ends: what waits of it is dropped.
    pub(super) fn forget_lines(&mut self, id: SessionId) {
        let outward = self.outward.remove(id, DropReason::PathClosed);
        self.ended_received_drops += outward.drops;
        self.inward.remove(id, DropReason::PathClosed);
    }

    /// The lines of a session go on as those of another.
    pub(super) fn move_lines(&mut self, from: SessionId, to: SessionId) {
        self.outward.rename(from, to);
        self.inward.rename(from, to);
    }

    /// All sessions, with their lines.
    pub(super) fn session_statuses(&self) -> Vec<SessionStatus> {
        let status = |(id, session): (SessionId, &Session)| {
            let (outward, inward) = (self.outward.status_of(id), self.inward.status_of(id));
            let mut status = session.status();
            status.received_drops += outward.drops;
            SessionStatus {
                outward,
                inward,
                ..status
            }
        };
        self.sessions.iter().map(status).collect()
    }
}
