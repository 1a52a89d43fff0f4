//! One connection on a way that delays, cuts and counts. It knows nothing of what makes the connection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_sim::fleet::carriage::{Carriage, CarriageEvent, Carriages, Side, UdpDatagram as _};
use quell_sim::fleet::node::Ended;

use crate::course::{Course, Load, Sending};
use crate::zeros;

/// Bytes that may wait in a carriage for the next datagram to be handed over; beyond them it is not sent at all, as the
/// core would keep it.
const BACKLOG_BYTES_MAX: usize = 64 * 1024;
/// After a cut's begin the core takes a path for silent, and opens its window.
const GRANT_AFTER: Duration = Duration::from_secs(3);
/// A stateless reset: less than what it answers, so that two hosts cannot go on (RFC 9000 §10.3.3).
const RESET_BYTES: u64 = 42;
/// No course has nearly as many wake-ups: beyond them a timer stands still.
const STEPS_MAX: u32 = 1_000_000;

/// What one side of a course came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// UDP payload that left.
    pub(crate) bytes: u64,
    /// Datagrams that left.
    pub(crate) datagrams: u64,
    /// Datagrams of the load that arrived here.
    pub(crate) arrived: u64,
    /// When it was connected.
    pub(crate) connected: Option<Duration>,
    /// The first of the load that arrived here after the cut, counted from the heal.
    pub(crate) healed: Option<Duration>,
    /// When and how it ended.
    pub(crate) closed: Option<(Duration, Ended)>,
}

enum Due<P> {
    Arrive(Side, P),
    Send(usize),
    Grant,
    /// A host's word that it knows nothing of the connection.
    Reset(Side),
}

struct Entry<P> {
    at: Duration,
    order: u64,
    due: Due<P>,
}

impl<P> PartialEq for Entry<P> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl<P> Eq for Entry<P> {}
impl<P> PartialOrd for Entry<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<P> Ord for Entry<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A connection, its way, and what has become of both.
pub(crate) struct Way<C: Carriage<Bytes>> {
    pub(crate) carriage: C,
    course: Course,
    sendings: Vec<Sending>,
    origin: Instant,
    now: Duration,
    heap: BinaryHeap<Reverse<Entry<C::Udp>>>,
    order: u64,
    figures: [Figures; 2],
    granted: [bool; 2],
    /// The carriage leaves resets to the world.
    resets_by_host: bool,
    /// Control messages, by who received them.
    pub(crate) messages: [Vec<Bytes>; 2],
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

fn index(side: Side) -> usize {
    usize::from(side == Side::Server)
}

/// Both sides' figures after a whole course: the client's first. Stateless resets are the carriage's own, or the host's.
pub(crate) fn run<C: Carriages<Bytes>>(
    carriages: &mut C,
    course: &Course,
    resets_by_host: bool,
) -> [Figures; 2] {
    let mut way = Way::new(carriages, *course);
    way.resets_by_host = resets_by_host;
    way.go(course.until);
    way.figures
}

impl<C: Carriage<Bytes>> Way<C> {
    pub(crate) fn new(carriages: &mut impl Carriages<Bytes, Carriage = C>, course: Course) -> Self {
        let origin = Instant::now();
        let mut way = Self {
            carriage: carriages.dial(1, origin),
            course,
            sendings: course.sendings(),
            origin,
            now: Duration::ZERO,
            heap: BinaryHeap::new(),
            order: 0,
            figures: [Figures::default(); 2],
            granted: [false; 2],
            resets_by_host: false,
            messages: [Vec::new(), Vec::new()],
        };
        for (number, sending) in way.sendings.clone().iter().enumerate() {
            way.push(sending.at, Due::Send(number));
        }
        if let Some(cut) = course.cut.filter(|_| course.granted) {
            way.push(cut.from + GRANT_AFTER, Due::Grant);
        }
        way.drain();
        way
    }

    pub(crate) fn instant(&self) -> Instant {
        self.origin + self.now
    }

    pub(crate) fn figures(&self, side: Side) -> Figures {
        self.figures[index(side)]
    }

    fn push(&mut self, at: Duration, due: Due<C::Udp>) {
        let order = self.order;
        self.order += 1;
        self.heap.push(Reverse(Entry { at, order, due }));
    }

    /// Goes on until this time.
    pub(crate) fn go(&mut self, until: Duration) {
        self.drain();
        for _ in 0..STEPS_MAX {
            let timers = SIDES.map(|side| self.carriage.poll_timeout(side));
            let timer = timers.into_iter().flatten().min();
            let timer = timer.map(|at| at.saturating_duration_since(self.origin));
            let first = self.heap.peek().map(|Reverse(entry)| entry.at);
            let Some(next) = timer.into_iter().chain(first).min() else {
                break;
            };
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            match self.heap.pop() {
                Some(Reverse(entry)) if entry.at <= self.now => self.perform(entry.due),
                Some(entry) => self.heap.push(entry),
                None => {}
            }
            let now = self.instant();
            for side in SIDES {
                if self.carriage.poll_timeout(side).is_some_and(|at| at <= now) {
                    self.carriage.handle_timeout(side, now);
                }
            }
            self.drain();
        }
        let late = |side| {
            self.carriage
                .poll_timeout(side)
                .is_some_and(|at| at < self.instant())
        };
        assert!(!SIDES.into_iter().any(late), "a timer stands still");
        self.now = until;
    }

    fn perform(&mut self, due: Due<C::Udp>) {
        let now = self.instant();
        match due {
            Due::Arrive(side, udp) => {
                if std::mem::take(&mut self.granted[index(side)]) {
                    self.carriage.grant(side, false, now);
                }
                if self.resets_by_host
                    && self.figures[index(side)].closed.is_some()
                    && !udp.is_dial()
                {
                    self.reset(side);
                    return;
                }
                self.carriage.handle(side, udp, now);
            }
            Due::Reset(side) => self.carriage.on_reset(side, now),
            Due::Send(number) => {
                let Sending {
                    side, len_bytes, ..
                } = self.sendings[number];
                if self.course.load == Load::Control {
                    let unit = zeros(len_bytes);
                    self.carriage.send_control(side, unit, len_bytes, now);
                } else {
                    self.send(side, len_bytes);
                }
            }
            Due::Grant => {
                for side in SIDES {
                    self.granted[index(side)] = true;
                    self.carriage.grant(side, true, now);
                }
            }
        }
    }

    /// The host of `side` answers what was sent to a connection that it has forgotten.
    fn reset(&mut self, side: Side) {
        let figures = &mut self.figures[index(side)];
        figures.bytes += RESET_BYTES;
        figures.datagrams += 1;
        if !self
            .course
            .cut
            .is_some_and(|cut| cut.swallows(side, self.now))
        {
            self.push(self.now + self.course.delay, Due::Reset(side.other()));
        }
    }

    fn send(&mut self, side: Side, len_bytes: u32) {
        let now = self.instant();
        if let Some(facts) = self.carriage.facts(side)
            && facts.backlog_bytes < BACKLOG_BYTES_MAX
        {
            self.carriage
                .send_datagram(side, zeros(len_bytes), len_bytes, now);
        }
    }

    /// Until neither end has anything to say.
    fn drain(&mut self) {
        for side in SIDES {
            while let Some(event) = self.carriage.poll_event(side) {
                self.on_event(side, event);
            }
        }
        for side in SIDES {
            while let Some(udp) = self.carriage.poll_udp(side, self.origin + self.now) {
                let figures = &mut self.figures[index(side)];
                figures.bytes += u64::from(udp.len_bytes());
                figures.datagrams += 1;
                if !self
                    .course
                    .cut
                    .is_some_and(|cut| cut.swallows(side, self.now))
                {
                    self.push(self.now + self.course.delay, Due::Arrive(side.other(), udp));
                }
            }
        }
    }

    fn on_event(&mut self, side: Side, event: CarriageEvent<Bytes>) {
        let now = self.now;
        let figures = &mut self.figures[index(side)];
        match event {
            CarriageEvent::Connected => figures.connected = Some(now),
            CarriageEvent::Closed(ended) => figures.closed = Some((now, ended)),
            CarriageEvent::Control(message) => {
                self.arrived(side);
                self.messages[index(side)].push(message);
            }
            CarriageEvent::Datagram(unit) => {
                self.arrived(side);
                if self.course.load == Load::Pings && side == Side::Server {
                    self.send(Side::Server, unit.len() as u32);
                }
            }
        }
    }

    /// What was under way at the heal does not say that the way is whole.
    fn arrived(&mut self, side: Side) {
        let figures = &mut self.figures[index(side)];
        figures.arrived += 1;
        let healed = self
            .course
            .cut
            .and_then(|cut| self.now.checked_sub(cut.until));
        if let Some(since) = healed.filter(|since| *since > self.course.delay) {
            figures.healed.get_or_insert(since);
        }
    }
}
