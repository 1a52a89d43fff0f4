//! The driver of both ends, from one wake-up to the next.
//!
//! ```text
//! offers ─▶ SendSequence ─▶ [PING, SKIP, PACKs] ─▶ carrier, link ─▶ ReceiveSequence ─▶ deliveries
//!                ▲                                                        │
//!                └────────── link, carrier ◀── [ACK, PONG], chatter with a piggybacked ACK
//! ```
//!
//! Never by ticks: they would hide a timer that is late, and an end is woken only when it asked for it. Datagrams are real
//! bytes, written and parsed by `quell-wire`. What stands here is what a driver does; every rule of a lane stands in the core.
//! After each step the books must close (`check`); a failure names time, step and seed, and `for_seeds` adds the command.

mod arrive;
mod books;
mod carrier;
mod check;
mod leave;
pub(crate) mod traffic;

use std::cell::Cell;
use std::collections::VecDeque;
use std::iter::Peekable;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::LaneConfig;
use quell_core::config::receive::ReceiveConfig;
use quell_core::recv::ReceiveSequence;
use quell_core::send::{self, Degraded, Kind, SendSequence, Unlimited};
use quell_sim::link::LinkConfig;
use quell_wire::frame::{Frame, Frames, Lane};

pub(crate) use books::{Books, Out};
pub(crate) use carrier::{Carrier, CarrierConfig, Datagram};
use traffic::Offer;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const S: Duration = Duration::from_secs(1);

/// Most steps at one instant, and of one call of [`Pair::run_for`].
const STEPS_AT_ONCE_MAX: u32 = 2_000;
const STEPS_A_RUN_MAX: u32 = 20_000_000;
/// What a number may cost in the sender's rings: slot, two transmissions, a queued resend, doubled.
const BYTES_A_NUMBER_MAX: usize = 2 * (128 + 2 * 64 + 8);

/// The backend's signal, switched by a test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch(pub(crate) Rc<Cell<bool>>);

impl Degraded for Switch {
    fn is_degraded(&self, _now: Instant) -> bool {
        self.0.get()
    }
}

/// The numbers of the packs in a datagram.
pub(crate) fn packs_of(datagram: &[u8]) -> impl Iterator<Item = u64> + '_ {
    Frames::new(datagram).filter_map(|frame| match frame.unwrap() {
        Frame::Pack(pack) => Some(pack.number),
        Frame::Ack(_) | Frame::Skip(_) | Frame::Dgram(_) | Frame::Ping(_) | Frame::Pong(_) => None,
    })
}

/// What a pair is built from.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) lane: Lane,
    pub(crate) send: LaneConfig,
    pub(crate) receive: ReceiveConfig,
    /// Both directions.
    pub(crate) carrier: CarrierConfig,
    /// How often a datagram of other business goes back, on which an ACK may ride.
    pub(crate) chatter: Option<Duration>,
    /// Offers that are refused wait instead of being dropped.
    pub(crate) patient: bool,
}

impl Setup {
    /// RTT 50 ms, 20 Mbit/s, no fault.
    pub(crate) fn new(lane: Lane, seed: u64) -> Self {
        let link = LinkConfig {
            delay: 25 * MS,
            ..LinkConfig::default()
        };
        Self {
            seed,
            lane,
            send: LaneConfig::default(),
            receive: ReceiveConfig::default(),
            carrier: CarrierConfig {
                link,
                datagram_len_max: 1_200,
                cwnd_bytes: 125_000,
                rtt: 50 * MS,
                held: false,
                refusals: 0.0,
            },
            chatter: None,
            patient: true,
        }
    }

    pub(crate) fn build(self) -> Pair {
        Pair::new(self)
    }
}

/// One hand-over, as a test may want to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) at: Duration,
    pub(crate) number: u64,
    pub(crate) kind: Kind,
}

pub(crate) struct Pair {
    setup: Setup,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    steps: u64,
    pub(crate) sender: SendSequence<Unlimited, Switch>,
    pub(crate) receiver: ReceiveSequence,
    pub(crate) forward: Carrier,
    pub(crate) back: Carrier,
    pub(crate) degraded: Switch,
    pub(crate) books: Books,
    traffic: Peekable<Box<dyn Iterator<Item = Offer>>>,
    pending: VecDeque<Offer>,
    /// Offers dropped because the lane refused them.
    pub(crate) dropped: u64,
    /// Whether the application takes what is delivered.
    pub(crate) takes: bool,
    /// Whether deliveries lay there untaken.
    slept: bool,
    chatter_at: Option<Instant>,
    ping_wanted: bool,
    nonce: u64,
    pongs_due: VecDeque<u64>,
    pub(crate) pongs: u64,
    srtt: Option<Duration>,
    /// When the sender heard an ACK last, until its lane ended.
    pub(crate) heard_at: Option<Instant>,
    pub(crate) sent: Vec<Sent>,
    /// Each datagram of the sender and its hand-over, when it is asked for.
    pub(crate) record: Option<Vec<(Duration, Bytes)>>,
    memory_max: usize,
}

impl Pair {
    fn new(setup: Setup) -> Self {
        let start = Instant::now();
        let degraded = Switch::default();
        let send = setup.send.clone().try_new().unwrap();
        let receive = setup.receive.clone().try_new().unwrap();
        let credit = receive.first_credit();
        let delivery = if setup.lane == Lane::MESSAGE {
            send::Delivery::Strict
        } else {
            send::Delivery::Skipping
        };
        let seed = setup.seed;
        let memory_max =
            send.window_bytes + send::PACK_BYTES_MAX + send.window_numbers * BYTES_A_NUMBER_MAX;
        let none: Box<dyn Iterator<Item = Offer>> = Box::new(std::iter::empty());
        Self {
            books: Books::new(setup.lane, send.sends_max(), credit),
            sender: SendSequence::new(
                setup.lane,
                delivery,
                send,
                credit,
                (Unlimited, degraded.clone()),
                seed,
            ),
            receiver: ReceiveSequence::new(setup.lane, receive, start),
            forward: Carrier::new(setup.carrier, 2 * seed, start),
            back: Carrier::new(setup.carrier, 2 * seed + 1, start),
            start,
            now: start,
            steps: 0,
            degraded,
            traffic: none.peekable(),
            pending: VecDeque::new(),
            dropped: 0,
            takes: true,
            slept: false,
            chatter_at: setup.chatter.map(|every| start + every),
            ping_wanted: false,
            nonce: 0,
            pongs_due: VecDeque::new(),
            pongs: 0,
            srtt: None,
            heard_at: None,
            sent: Vec::new(),
            record: None,
            memory_max,
            setup,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now.duration_since(self.start)
    }

    /// Offers this from here on; times count from the beginning of the pair.
    pub(crate) fn offer(&mut self, offers: impl IntoIterator<Item = Offer, IntoIter: 'static>) {
        let offers: Box<dyn Iterator<Item = Offer>> = Box::new(offers.into_iter());
        self.traffic = offers.peekable();
    }

    /// Offers one packet at once.
    pub(crate) fn offer_one(&mut self, flow: u16, len: usize) {
        let offer = Offer {
            at: self.elapsed(),
            flow,
            len,
            parts: 1,
        };
        self.pending.push_back(offer);
        self.drain();
        self.check();
    }

    /// Measures a steady path: 40 packets of flow 9 that wait for nothing, one RTT and more apart. Their PTO is the path's.
    pub(crate) fn warm_up(&mut self) {
        let gap = 2 * self.setup.carrier.rtt;
        let elapsed = self.elapsed();
        self.offer(traffic::steady(40, 9, 100, elapsed, gap));
        self.run_to_rest(40 * gap + S);
        self.sent.clear();
    }

    /// The receiver's end has no other business any more.
    pub(crate) fn stop_chatter(&mut self) {
        (self.chatter_at, self.setup.chatter) = (None, None);
    }

    /// Changes both directions.
    pub(crate) fn set_path(&mut self, change: impl Fn(&mut CarrierConfig)) {
        for carrier in [&mut self.forward, &mut self.back] {
            let mut config = carrier.config();
            change(&mut config);
            carrier.set_config(config);
        }
    }

    /// Cuts both directions, or heals them.
    pub(crate) fn set_cut(&mut self, cut: bool) {
        self.set_path(|carrier| carrier.link.blackhole = cut);
    }

    /// Sends a PING with the next datagram, as a path does that wants to know.
    pub(crate) fn ping(&mut self) {
        self.ping_wanted = true;
        self.drain();
        self.check();
    }

    pub(crate) fn next_wake(&mut self) -> Option<Instant> {
        let start = self.start;
        let offer = self.traffic.peek().map(|offer| start + offer.at);
        let receiver = self.receiver.poll_timeout().map(|(at, _)| at);
        // What is due waits for room, which comes with a departure or when a refusal clears.
        let room_at = if self.back.has_room(self.now) {
            self.now
        } else {
            self.back.room_at()
        };
        let backwards = [receiver, self.chatter_at].map(|at| at.map(|at| at.max(room_at)));
        let carriers = [&self.forward, &self.back].map(|carrier| carrier.poll_timeout(self.now));
        let sender = self.sender.poll_timeout().map(|(at, _)| at);
        let all = [offer, sender].into_iter().chain(backwards).chain(carriers);
        all.flatten().min()
    }

    /// Goes to the next wake-up that is at most `end` and does what is due.
    fn step(&mut self, end: Instant) -> bool {
        let Some(at) = self.next_wake().filter(|at| *at <= end) else {
            return false;
        };
        self.now = self.now.max(at);
        self.steps += 1;
        self.arrive();
        self.fire();
        self.drain();
        self.check();
        true
    }

    /// Lives for `time` and stands exactly at its end.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        let (mut at_once, mut before) = (0, self.now);
        for steps in 0.. {
            if !self.step(end) {
                break;
            }
            at_once = if self.now > before { 0 } else { at_once + 1 };
            before = self.now;
            if at_once > STEPS_AT_ONCE_MAX || steps > STEPS_A_RUN_MAX {
                self.fail("it never comes to rest");
            }
        }
        self.now = end;
    }

    /// The clock stands `time` later, and nobody was woken in between.
    pub(crate) fn jump(&mut self, time: Duration) {
        self.now += time;
        self.arrive();
        self.fire();
        self.drain();
        self.check();
    }

    /// Lives until `at` after the beginning.
    pub(crate) fn run_until(&mut self, at: Duration) {
        self.run_for(at.saturating_sub(self.elapsed()));
    }

    /// Lives until nothing is left to do, at most for `time`.
    pub(crate) fn run_to_rest(&mut self, time: Duration) {
        let end = self.now + time;
        while !self.is_at_rest() {
            if !self.step(end) {
                self.fail("it does not come to rest");
            }
        }
    }

    pub(crate) fn is_at_rest(&mut self) -> bool {
        self.traffic.peek().is_none()
            && (self.pending.is_empty() || self.sender.exhausted().is_some())
            && self.sender.poll_timeout().is_none()
            && self.sender.counters().in_flight == 0
            && self.receiver.poll_timeout().is_none()
            && self.forward.is_idle(self.now)
            && self.back.is_idle(self.now)
    }

    fn fire(&mut self) {
        let now = self.now;
        let is_due = |(at, _): &(Instant, &'static str)| *at <= now;
        if self.sender.poll_timeout().filter(is_due).is_some() {
            self.sender.handle_timeout(now);
        }
        if self.receiver.poll_timeout().filter(is_due).is_some() {
            self.receiver.handle_timeout(now);
        }
        while let Some(offer) = self.traffic.next_if(|offer| self.start + offer.at <= now) {
            self.pending.push_back(offer);
        }
    }

    /// Ends the run: something that must hold does not.
    pub(crate) fn fail(&self, what: &str) -> ! {
        panic!(
            "{what}\nat {:?}, step {}, seed {}",
            self.elapsed(),
            self.steps,
            self.setup.seed
        )
    }
}
