//! One end of a modelled connection.

use std::collections::VecDeque;

use super::handshake::{self, Handshake, Step, parts};
use super::{
    ACK_AFTER, ACK_DELAY_NS, ACK_DELAY_SHORT_US, ACK_LEN, Ack, Body, CLOSE_LEN, DATAGRAM_FRAME_LEN,
    DATAGRAM_OVERHEAD, Flight, HEADER_LEN, IDLE_NS, INITIAL_CWND, INITIAL_RTT_NS, LATE_LEN,
    PACKET_LEN_MIN, PING_LEN, SIZE_LOSSES_MAX, SIZES, STREAM_FRAME_LEN, Udp, event_queue,
};
use crate::fleet::carriage::CarriageEvent;
use crate::fleet::node::Ended;

/// Probes for each timeout (RFC 9002 §6.2.4 allows two).
const PROBES: u8 = 2;

mod recovery;
#[cfg(test)]
mod tests;

#[derive(Debug)]
enum State {
    Handshaking(Box<Handshake>),
    Standing,
    /// It closed, and has not said so yet.
    Closing {
        is_dial: bool,
    },
    Over,
}

/// A packet that asks for an acknowledgement and has none.
#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u32,
    len_bytes: u16,
    at_ns: u64,
    /// The control message in it, plus 1.
    control: u32,
}

#[derive(Debug)]
struct Message<U> {
    number: u32,
    unit: U,
    len_bytes: u32,
    /// It is to leave, for the first time or again.
    due: bool,
}

/// Control messages: those of this end that are not acknowledged, those of the other that came too early.
#[derive(Debug)]
struct Controls<U> {
    out: VecDeque<Message<U>>,
    early: Vec<(u32, U)>,
}

impl<U> Controls<U> {
    fn is_empty(&self) -> bool {
        self.out.is_empty() && self.early.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct End<U> {
    state: State,
    pub(super) events: VecDeque<CarriageEvent<U>>,
    queue: VecDeque<(U, u32)>,
    queued_bytes: u32,
    pub(super) granted: bool,
    /// No congestion window, and no watch over datagrams that left.
    pub(super) unheld: bool,
    // Sending.
    next_number: u32,
    sent: VecDeque<Sent>,
    in_flight: u32,
    cwnd: u32,
    ssthresh: u32,
    /// Packets below this number were sent before the window was last halved.
    recovery_until: u32,
    srtt_us: u32,
    rttvar_us: u32,
    timeouts: u8,
    probes: u8,
    /// The window was full since the last acknowledgement.
    is_limited: bool,
    /// The server confirmed the handshake; until then the client repeats its last flight.
    confirmed: bool,
    /// Parts that are to leave of the last flight of an end that stands.
    last_flight: u8,
    last_flight_at_ns: u64,
    /// The size that the path is known to carry, by its place in the table; losses of a probe for the next; that probe,
    /// plus 1, while it is under way.
    size: u8,
    size_losses: u8,
    size_probe: u32,
    // Control.
    controls: Option<Box<Controls<U>>>,
    control_next: u32,
    control_came: u32,
    // Receiving.
    largest: Option<u32>,
    before: u64,
    largest_at_ns: u64,
    unacked: u8,
    ack_at_ns: Option<u64>,
    /// When an acknowledgement that nobody asked for goes along.
    bundle_at_ns: u64,
    // Idle.
    idle_from_ns: u64,
    asked_since_heard: bool,
}

impl<U: Clone> End<U> {
    pub(super) fn handle(&mut self, udp: Udp<U>, now_ns: u64) {
        match &udp.body {
            Body::Handshake { flight, part } => return self.on_flight(*flight, *part, now_ns),
            Body::Close => {
                if !self.is_over() {
                    self.over(Ended::Closed);
                }
                return;
            }
            Body::None
            | Body::Ping
            | Body::Datagram(_)
            | Body::Datagrams(_)
            | Body::Control(..) => {}
        }
        if !matches!(self.state, State::Standing) {
            return;
        }
        self.hear(now_ns);
        self.confirmed = true;
        self.last_flight = 0;
        if let Some(ack) = udp.ack {
            self.on_ack(ack, now_ns);
        }
        let asks = !matches!(udp.body, Body::None);
        if !self.receive(udp.number, asks, now_ns) {
            return;
        }
        if udp.urgent {
            self.ack_at_ns = Some(now_ns);
        }
        match udp.body {
            Body::Datagram(unit) => self.events.push_back(CarriageEvent::Datagram(unit)),
            Body::Datagrams(units) => {
                self.events
                    .extend(units.into_iter().map(CarriageEvent::Datagram));
            }
            Body::Control(number, unit) => self.on_control(number, *unit),
            Body::None | Body::Ping | Body::Handshake { .. } | Body::Close => {}
        }
    }

    fn on_control(&mut self, number: u32, unit: U) {
        if number < self.control_came {
            return;
        }
        if number > self.control_came {
            let early = &mut self.controls().early;
            if early.iter().all(|(of, _)| *of != number) {
                early.push((number, unit));
            }
            return;
        }
        self.control_came += 1;
        self.events.push_back(CarriageEvent::Control(unit));
        while let Some(controls) = &mut self.controls {
            let next = self.control_came;
            let Some(place) = controls.early.iter().position(|(of, _)| *of == next) else {
                break;
            };
            let (_, unit) = controls.early.swap_remove(place);
            self.control_came += 1;
            self.events.push_back(CarriageEvent::Control(unit));
        }
        self.tidy();
    }

    pub(super) fn poll_udp(&mut self, now_ns: u64) -> Option<Udp<U>> {
        match &mut self.state {
            State::Over => return None,
            State::Closing { is_dial } => {
                let is_dial = *is_dial;
                self.state = State::Over;
                return Some(self.closing(is_dial));
            }
            State::Handshaking(handshake) => {
                let (flight, part) = handshake.poll(now_ns)?;
                return Some(of_flight(flight, part));
            }
            State::Standing => {}
        }
        if let Some(udp) = self.poll_last_flight(now_ns) {
            return Some(udp);
        }
        if let Some(udp) = self.poll_probe(now_ns) {
            return Some(udp);
        }
        // A packet is taken for as long as the path carries.
        let is_free = self.granted || self.unheld;
        let has_room = is_free || self.in_flight + u32::from(self.mtu()) < self.cwnd;
        if has_room && let Some(udp) = self.poll_control(now_ns) {
            return Some(udp);
        }
        if has_room && let Some(udp) = self.poll_datagrams(self.mtu(), now_ns) {
            return Some(udp);
        }
        self.is_limited |= !has_room;
        if self.ack_at_ns.is_some_and(|at| at <= now_ns) {
            return Some(self.packet(Body::None, 0, 0, now_ns));
        }
        self.poll_size(now_ns)
    }

    /// As many datagrams that wait as a UDP payload of `len_max` takes.
    fn poll_datagrams(&mut self, len_max: u16, now_ns: u64) -> Option<Udp<U>> {
        let room = u32::from(len_max) - HEADER_LEN;
        let fits = |(_, len): &(U, u32)| DATAGRAM_FRAME_LEN + len <= room;
        self.queue.front().filter(|next| fits(next))?;
        let (unit, len_bytes) = self.queue.pop_front()?;
        self.queued_bytes -= len_bytes;
        let mut len = DATAGRAM_FRAME_LEN + len_bytes;
        let mut body = Body::Datagram(unit);
        while let Some((_, next)) = self.queue.front()
            && len + DATAGRAM_FRAME_LEN + next + ACK_LEN + LATE_LEN <= room
            && let Some((unit, len_bytes)) = self.queue.pop_front()
        {
            self.queued_bytes -= len_bytes;
            len += DATAGRAM_FRAME_LEN + len_bytes;
            body = match body {
                Body::Datagram(first) => Body::Datagrams(vec![first, unit]),
                Body::Datagrams(mut units) => {
                    units.push(unit);
                    Body::Datagrams(units)
                }
                Body::None
                | Body::Ping
                | Body::Control(..)
                | Body::Handshake { .. }
                | Body::Close => body,
            };
        }
        Some(self.packet_within(len_max, body, len, 0, now_ns))
    }

    /// A probe for the next size.
    fn poll_size(&mut self, now_ns: u64) -> Option<Udp<U>> {
        let next = SIZES.get(usize::from(self.size) + 1)?;
        if self.size_probe != 0 || self.size_losses == SIZE_LOSSES_MAX {
            return None;
        }
        self.size_probe = self.next_number + 1;
        let len = u32::from(*next) - HEADER_LEN;
        let mut udp = self.packet_within(*next, Body::Ping, len, 0, now_ns);
        udp.urgent = true;
        Some(udp)
    }

    fn poll_last_flight(&mut self, now_ns: u64) -> Option<Udp<U>> {
        self.last_flight = self.last_flight.checked_sub(1)?;
        self.last_flight_at_ns = now_ns;
        Some(of_flight(self.last_flight_kind(), self.last_flight))
    }

    /// What a probe can carry, it carries, if it is no longer than what every path takes.
    fn poll_probe(&mut self, now_ns: u64) -> Option<Udp<U>> {
        self.probes = self.probes.checked_sub(1)?;
        let mut udp = match self.poll_control(now_ns) {
            Some(udp) => udp,
            None => match self.poll_datagrams(SIZES[0], now_ns) {
                Some(udp) => udp,
                None => self.packet(Body::Ping, PING_LEN, 0, now_ns),
            },
        };
        udp.urgent = true;
        Some(udp)
    }

    fn poll_control(&mut self, now_ns: u64) -> Option<Udp<U>> {
        let controls = self.controls.as_mut()?;
        let message = controls.out.iter_mut().find(|message| message.due)?;
        message.due = false;
        let (number, unit) = (message.number, Box::new(message.unit.clone()));
        let len = STREAM_FRAME_LEN + message.len_bytes;
        Some(self.packet(Body::Control(number, unit), len, number + 1, now_ns))
    }
}

/// Set in [`End::control_next`] of a server: a flag that costs no byte.
const IS_SERVER: u32 = 1 << 31;

impl<U> End<U> {
    pub(super) fn client() -> Self {
        Self::new(Handshake::client(), 0)
    }

    pub(super) fn server() -> Self {
        Self::new(Handshake::server(), IS_SERVER)
    }

    fn new(handshake: Handshake, flag: u32) -> Self {
        Self {
            state: State::Handshaking(Box::new(handshake)),
            events: event_queue(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            granted: false,
            unheld: false,
            next_number: 0,
            sent: VecDeque::new(),
            in_flight: 0,
            cwnd: INITIAL_CWND,
            ssthresh: u32::MAX,
            recovery_until: 0,
            srtt_us: 0,
            rttvar_us: 0,
            timeouts: 0,
            probes: 0,
            is_limited: false,
            confirmed: false,
            last_flight: 0,
            last_flight_at_ns: 0,
            size: 0,
            size_losses: 0,
            size_probe: 0,
            controls: None,
            control_next: flag,
            control_came: 0,
            largest: None,
            before: 0,
            largest_at_ns: 0,
            unacked: 0,
            ack_at_ns: None,
            bundle_at_ns: 0,
            idle_from_ns: 0,
            asked_since_heard: false,
        }
    }

    // --- what the owner asks ------------------------------------------------

    pub(super) fn stands(&self) -> bool {
        matches!(self.state, State::Standing)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    pub(super) fn backlog_bytes(&self) -> u32 {
        self.queued_bytes
    }

    fn mtu(&self) -> u16 {
        SIZES
            .get(usize::from(self.size))
            .map_or(SIZES[0], |size| *size)
    }

    pub(super) fn datagram_len_max(&self) -> usize {
        (self.mtu() - DATAGRAM_OVERHEAD).into()
    }

    pub(super) fn cwnd(&self) -> u32 {
        self.cwnd
    }

    pub(super) fn rtt_ns(&self) -> u64 {
        if self.srtt_us == 0 {
            INITIAL_RTT_NS
        } else {
            u64::from(self.srtt_us) * 1_000
        }
    }

    pub(super) fn queue_datagram(&mut self, unit: U, len_bytes: u32) {
        self.queued_bytes += len_bytes;
        self.queue.push_back((unit, len_bytes));
    }

    pub(super) fn queue_control(&mut self, unit: U, len_bytes: u32) {
        if !self.stands() {
            return;
        }
        let number = self.control_next & !IS_SERVER;
        self.control_next += 1;
        self.controls().out.push_back(Message {
            number,
            unit,
            len_bytes,
            due: true,
        });
    }

    fn controls(&mut self) -> &mut Controls<U> {
        self.controls.get_or_insert_with(|| {
            Box::new(Controls {
                out: VecDeque::new(),
                early: Vec::new(),
            })
        })
    }

    fn tidy(&mut self) {
        if self.controls.as_ref().is_some_and(|c| c.is_empty()) {
            self.controls = None;
        }
    }

    pub(super) fn close(&mut self) {
        match self.state {
            // A server that heard nothing has nobody to say it to.
            State::Handshaking(_) if self.control_next & IS_SERVER != 0 => self.kill(),
            State::Handshaking(_) => self.leave(State::Closing { is_dial: true }),
            State::Standing => self.leave(State::Closing { is_dial: false }),
            State::Closing { .. } | State::Over => {}
        }
    }

    pub(super) fn kill(&mut self) {
        self.leave(State::Over);
        self.events.clear();
    }

    pub(super) fn over(&mut self, ended: Ended) {
        if matches!(self.state, State::Closing { .. } | State::Over) {
            return;
        }
        self.leave(State::Over);
        self.events.push_back(CarriageEvent::Closed(ended));
    }

    fn leave(&mut self, state: State) {
        self.state = state;
        self.queue = VecDeque::new();
        self.queued_bytes = 0;
        self.sent = VecDeque::new();
        self.in_flight = 0;
        self.controls = None;
        self.ack_at_ns = None;
        self.probes = 0;
        self.last_flight = 0;
    }

    // --- handshake ------------------------------------------------------------

    fn last_flight_kind(&self) -> Flight {
        match self.control_next & IS_SERVER != 0 {
            true => Flight::S2,
            false => Flight::C2,
        }
    }

    fn on_flight(&mut self, flight: Flight, part: u8, now_ns: u64) {
        self.hear(now_ns);
        let is_server = self.control_next & IS_SERVER != 0;
        let last_flight = parts(self.last_flight_kind());
        match &mut self.state {
            State::Handshaking(handshake) => {
                if let Step::Stands(rtt) = handshake.on_part(flight, part, now_ns) {
                    self.state = State::Standing;
                    self.last_flight = last_flight;
                    self.confirmed = is_server;
                    if let Some(rtt) = rtt {
                        // A sample for each of the three kinds of keys.
                        (0..3).for_each(|_| self.on_rtt(rtt));
                    }
                    self.events.push_back(CarriageEvent::Connected);
                }
            }
            State::Standing => match flight {
                // Our last flight was lost.
                Flight::C2 if is_server && part == 0 => self.last_flight = last_flight,
                Flight::S1 if !is_server && part == 0 => self.last_flight = last_flight,
                Flight::S2 if !is_server => self.confirmed = true,
                Flight::C1 | Flight::S1 | Flight::C2 | Flight::S2 | Flight::Again => {}
            },
            State::Closing { .. } | State::Over => {}
        }
    }

    fn closing(&self, is_dial: bool) -> Udp<U> {
        Udp {
            // RFC 9000 §14.1: a client pads its Initial packets.
            len_bytes: if is_dial {
                1_200
            } else {
                HEADER_LEN + CLOSE_LEN
            },
            number: self.next_number,
            ack: None,
            urgent: false,
            body: Body::Close,
        }
    }

    // --- packets ----------------------------------------------------------------

    fn packet(&mut self, body: Body<U>, frames_len: u32, control: u32, now_ns: u64) -> Udp<U> {
        self.packet_within(self.mtu(), body, frames_len, control, now_ns)
    }

    /// A packet of `frames_len` bytes of frames, and what acknowledgement goes along and fits into `len_max`.
    fn packet_within(
        &mut self,
        len_max: u16,
        body: Body<U>,
        frames_len: u32,
        control: u32,
        now_ns: u64,
    ) -> Udp<U> {
        let number = self.next_number;
        self.next_number += 1;
        let asks = !matches!(body, Body::None);
        let has_room = HEADER_LEN + frames_len + ACK_LEN + LATE_LEN <= len_max.into();
        let ack = has_room.then(|| self.take_ack(asks, now_ns)).flatten();
        let ack_len = ack.map_or(0, |ack| match ack.delay_us > ACK_DELAY_SHORT_US {
            true => ACK_LEN + LATE_LEN,
            false => ACK_LEN,
        });
        let len_bytes = (HEADER_LEN + frames_len + ack_len).max(PACKET_LEN_MIN);
        let is_datagram = matches!(body, Body::Datagram(_) | Body::Datagrams(_));
        if asks && !(self.unheld && is_datagram) {
            self.sent.push_back(Sent {
                number,
                len_bytes: u16::try_from(len_bytes).unwrap_or(u16::MAX),
                at_ns: now_ns,
                control,
            });
            self.in_flight += len_bytes.min(u32::from(u16::MAX));
        }
        if asks && !std::mem::replace(&mut self.asked_since_heard, true) {
            self.idle_from_ns = now_ns;
        }
        Udp {
            len_bytes,
            number,
            ack,
            urgent: false,
            body,
        }
    }

    /// An acknowledgement that is due, or goes along with a packet that asks for one itself: once a probe timeout, in case
    /// the last was lost.
    fn take_ack(&mut self, asks: bool, now_ns: u64) -> Option<Ack> {
        if self.ack_at_ns.take().is_none() && !(asks && self.bundle_at_ns <= now_ns) {
            return None;
        }
        self.unacked = 0;
        self.bundle_at_ns = now_ns.saturating_add(self.pto_base_ns());
        let delay_us = now_ns.saturating_sub(self.largest_at_ns) / 1_000;
        Some(Ack {
            largest: self.largest?,
            before: self.before,
            delay_us: u32::try_from(delay_us).unwrap_or(u32::MAX),
        })
    }

    /// Notes a packet that came; whether it is new.
    fn receive(&mut self, number: u32, asks: bool, now_ns: u64) -> bool {
        let mut has_gap = false;
        match self.largest {
            Some(largest) if number <= largest => {
                let back = largest - number;
                let bit = 1_u64.checked_shl(back.wrapping_sub(1)).unwrap_or(0);
                if back == 0 || bit == 0 || self.before & bit != 0 {
                    return false;
                }
                self.before |= bit;
                has_gap = true;
            }
            Some(largest) => {
                let by = number - largest;
                has_gap |= by > 1;
                self.before = self.before.checked_shl(by).unwrap_or(0)
                    | 1_u64.checked_shl(by - 1).unwrap_or(0);
                (self.largest, self.largest_at_ns) = (Some(number), now_ns);
            }
            None => (self.largest, self.largest_at_ns) = (Some(number), now_ns),
        }
        if asks {
            self.unacked = self.unacked.saturating_add(1);
            self.bundle_at_ns = now_ns;
            let at = self.ack_at_ns.unwrap_or(now_ns + ACK_DELAY_NS);
            let at_once = has_gap || self.unacked > ACK_AFTER;
            self.ack_at_ns = Some(if at_once { now_ns } else { at });
        }
        true
    }

    // --- time ----------------------------------------------------------------------

    fn hear(&mut self, now_ns: u64) {
        self.idle_from_ns = now_ns;
        self.asked_since_heard = false;
    }

    fn probe_at(&self) -> Option<u64> {
        let last = self.sent.back()?;
        Some(last.at_ns.saturating_add(self.pto_ns()))
    }

    /// When the client's last flight is sent again: it hears nothing of it.
    fn flight_at(&self) -> Option<u64> {
        let waits = !self.confirmed && self.last_flight == 0;
        waits.then(|| self.last_flight_at_ns.saturating_add(self.pto_ns()))
    }

    fn idle_at(&self) -> u64 {
        // RFC 9000 §10.1: never shorter than three probe timeouts.
        self.idle_from_ns.saturating_add(IDLE_NS)
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        match &self.state {
            State::Over | State::Closing { .. } => None,
            State::Handshaking(handshake) => {
                let is_silent = self.control_next & IS_SERVER != 0 && self.idle_from_ns == 0;
                let idle = (!is_silent).then(|| self.idle_at());
                handshake.poll_timeout().into_iter().chain(idle).min()
            }
            State::Standing => {
                let timers = [self.probe_at(), self.flight_at(), self.ack_at_ns];
                let timers = timers.into_iter().flatten();
                timers.chain([self.idle_at()]).min()
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        if self.poll_timeout().is_none_or(|at| at > now_ns) {
            return;
        }
        if self.idle_at() <= now_ns {
            return self.over(Ended::TimedOut);
        }
        if let State::Handshaking(handshake) = &mut self.state {
            return handshake.handle_timeout(now_ns);
        }
        let mut timed_out = false;
        if self.flight_at().is_some_and(|at| at <= now_ns) {
            self.last_flight = parts(self.last_flight_kind());
            self.last_flight_at_ns = now_ns;
            timed_out = true;
        }
        if self.probe_at().is_some_and(|at| at <= now_ns) {
            self.probes = PROBES;
            timed_out = true;
        }
        if timed_out {
            self.timeouts = self.timeouts.saturating_add(1);
        }
    }
}

fn of_flight<U>(flight: Flight, part: u8) -> Udp<U> {
    Udp {
        len_bytes: handshake::len_bytes(flight, part).into(),
        number: 0,
        ack: None,
        urgent: false,
        body: Body::Handshake { flight, part },
    }
}

/// A client's first flight.
pub(super) fn first_flight<U>() -> impl Iterator<Item = Udp<U>> {
    (0..parts(Flight::C1)).map(|part| of_flight(Flight::C1, part))
}
