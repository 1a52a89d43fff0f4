//! What a policy has to be: a client's half and a provider's half, driven from outside.
//!
//! Both are sans-IO, by the contract of the core: inputs `handle_*` and facts `on_*` take `now` last, outputs are drained
//! after each input until there are none, and `poll_timeout` says when to come back. A policy is free in what its two
//! halves say to each other ([`Policy::Unit`]); the world knows lengths, and what the bytes were for.
//!
//! Books: each [`Item`] that is offered is delivered once, dropped, or still somewhere; the world counts deliveries at the
//! far end itself and does not take a policy's word for them.
//!
//! An item can be lost in two ways. **With a word:** the connection of the user's that it went over is reset, so the user
//! knows that what was not acknowledged may not have come, opens another and sends it again, as any application does whose
//! connection is reset. Such an item is counted in [`ClientFacts::sent_again`], and delivered in the end. **In silence:**
//! nobody said anything, and nobody sends it again. The user's TCP would, after its own timeout; here it does not, so that
//! whatever the tunnel lost without a word stays lost and is seen. A run's `lost_items` are these alone.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quell_core::health::backend::Work;
use quell_core::path::CarrierFacts;
use quell_core::provider::doorman;
use rand::rngs::SmallRng;

/// A client of the fleet, by number.
pub type ClientId = u32;
/// A provider of the fleet, by number.
pub type ServerId = u16;
/// A backend of the fleet, by number.
pub type BackendId = u8;

/// What a user's packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A segment of a TCP connection, of the number of its flow. Policies that know no flows carry it as any packet.
    Tcp,
    /// A datagram that nobody acknowledges.
    Udp,
}

/// One packet of a user, or of the world's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Unique in the client, counted from 0.
    pub number: u32,
    /// The connection it belongs to, counted from 0.
    pub flow: u16,
    /// What it is.
    pub kind: Kind,
    /// Its length as an IP packet, headers included: 40 to 1,500.
    pub len_bytes: u16,
}

/// What the bytes of a unit are for; they sum to its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes {
    /// User bytes for the first time, with their framing.
    pub first_send: u32,
    /// The same once more, over the same path.
    pub resend: u32,
    /// Copies over one more path.
    pub race: u32,
    /// Acknowledgements of the policy's own.
    pub ack: u32,
    /// Questions whether the path lives, and their answers.
    pub ping: u32,
    /// What sets up and ends sessions.
    pub control: u32,
}

impl Causes {
    /// All of them: the unit's length.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.first_send + self.resend + self.race + self.ack + self.ping + self.control
    }
}

/// What a client wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOutput<U> {
    /// Connect to this provider. Answered by `on_connected` or `on_closed` with the same number.
    Dial {
        /// Whom.
        server: ServerId,
        /// Unique in the client.
        attempt: u64,
    },
    /// End the connection, or the dial.
    Close {
        /// To whom.
        server: ServerId,
    },
    /// Send this unreliably.
    Datagram {
        /// To whom.
        server: ServerId,
        /// What.
        unit: U,
        /// What its bytes are for.
        causes: Causes,
    },
    /// Send this in order and repeat it as QUIC repeats stream data.
    Control {
        /// To whom.
        server: ServerId,
        /// What.
        unit: U,
        /// Its length.
        len_bytes: u32,
    },
    /// Ask a backend. Answered by `on_answer` with the same number, or never.
    Ask {
        /// Which.
        backend: BackendId,
        /// For what.
        work: Work,
        /// Unique in the client.
        call: u64,
    },
    /// Hand this to the user: an answer of the world.
    Deliver(Item),
}

/// What a provider wants done for one of its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerOutput<U> {
    /// Send this unreliably.
    Datagram {
        /// What.
        unit: U,
        /// What its bytes are for.
        causes: Causes,
    },
    /// Send this in order, as QUIC's streams do.
    Control {
        /// What.
        unit: U,
        /// Its length.
        len_bytes: u32,
    },
    /// End the connection.
    Close,
    /// Hand this to the world.
    Deliver(Item),
}

/// What a backend answered, or what became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// As hoped.
    Yes,
    /// 503, with what Retry-After said.
    Unavailable(Option<Duration>),
    /// Connection refused, reset, or an answer that says nothing.
    Failed,
}

/// How a connection or a dial ended, as the end that is told knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The host said that nobody listens, or refused the session.
    Refused,
    /// The peer closed it in words.
    Closed,
    /// Nothing was heard for too long.
    TimedOut,
    /// A host that knows nothing of the connection said so.
    Reset,
    /// Our own network took it.
    Broken,
}

/// What a client tells of itself, for checkers and reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientFacts {
    /// Sessions that stand.
    pub sessions: u16,
    /// Packs that wait for an acknowledgement.
    pub unacked: u32,
    /// Items that users have and the client has not taken yet.
    pub waiting_items: u64,
    /// Bytes that paths hold until they may leave.
    pub held_bytes: u64,
    /// Items that were dropped, with a reason of its own each.
    pub dropped: u64,
    /// Items that users sent again: the connection that they went over was reset before the far side had them. One that
    /// was sent again twice counts twice.
    pub sent_again: u64,
    /// Whether it takes its backend for degraded.
    pub degraded: bool,
    /// Items accepted less acknowledged, dropped and in flight: anything but 0 is a fault.
    pub unaccounted: i64,
}

/// The client's half of a policy.
pub trait ClientNode<U> {
    /// A user's packet.
    fn offer(&mut self, item: Item, now: Instant);
    /// The far side has this item of the user's. What its TCP acknowledges, told at once and for nothing: the user's end
    /// keeps what is not acknowledged, for a reset. Who models no user's TCP has no use for it.
    fn on_far_has(&mut self, item: &Item) {
        let _ = item;
    }
    /// The connection stands.
    fn on_connected(&mut self, server: ServerId, attempt: u64, now: Instant);
    /// The dial failed, or the connection is gone.
    fn on_closed(&mut self, server: ServerId, attempt: u64, ended: Ended, now: Instant);
    /// What the connection can take.
    fn on_carrier(&mut self, server: ServerId, attempt: u64, facts: CarrierFacts, now: Instant);
    /// UDP payload bytes that this client has put on the wire so far.
    fn on_wire(&mut self, bytes_out: u64, now: Instant);
    /// The machine slept, or the network changed.
    fn on_wake(&mut self, now: Instant);
    /// A datagram of the provider's half.
    fn handle_datagram(&mut self, server: ServerId, attempt: u64, unit: &U, now: Instant);
    /// A control message of the provider's half.
    fn handle_control(&mut self, server: ServerId, attempt: u64, unit: &U, now: Instant);
    /// A backend answered.
    fn on_answer(&mut self, call: u64, answer: Answer, now: Instant);
    /// The next thing to do.
    fn poll_output(&mut self, now: Instant) -> Option<ClientOutput<U>>;
    /// Whether the window is to be opened for what was handed over (a question into silence).
    fn is_hushed(&self, server: ServerId, now: Instant) -> bool;
    /// When to come back.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant);
    /// How it stands.
    fn facts(&self, now: Instant) -> ClientFacts;
}

/// How long a provider without a doorman bears with a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The provider's half of a policy. A session is known by the number that `on_connection` gave.
pub trait ServerNode<U> {
    /// A first packet of a dial came from this address. One that is accepted ends with `on_handshake_ended`.
    fn on_initial(&mut self, source: SocketAddr, is_proven: bool, now: Instant) -> doorman::Answer {
        let _ = (source, is_proven);
        let deadline = now + HANDSHAKE_TIMEOUT;
        doorman::Answer::Accept { deadline }
    }
    /// A handshake that was accepted is over.
    fn on_handshake_ended(&mut self, how: doorman::Ended) {
        let _ = how;
    }
    /// A client is connected.
    ///
    /// # Errors
    /// It is not taken.
    fn on_connection(&mut self, client: ClientId, now: Instant) -> Result<u64, Ended>;
    /// The connection of a session is gone.
    fn on_closed(&mut self, session: u64, ended: Ended, now: Instant);
    /// What its connection can take.
    fn on_carrier(&mut self, session: u64, facts: CarrierFacts, now: Instant);
    /// A datagram of the client's half.
    fn handle_datagram(&mut self, session: u64, unit: &U, now: Instant);
    /// A control message of the client's half.
    fn handle_control(&mut self, session: u64, unit: &U, now: Instant);
    /// The world answers one of the session's items.
    fn answer(&mut self, session: u64, item: Item, now: Instant);
    /// Whether the window of the session's connection is to be opened for what was handed over.
    fn is_hushed(&self, session: u64, now: Instant) -> bool {
        let _ = (session, now);
        false
    }
    /// The next thing to do for a session.
    fn poll_output(&mut self, session: u64, now: Instant) -> Option<ServerOutput<U>>;
    /// A session that has something to say, whoever caused it.
    fn poll_ready(&mut self) -> Option<u64>;
    /// When to come back for a session.
    fn poll_timeout(&self, session: u64) -> Option<Instant>;
    /// Does what is due for a session.
    fn handle_timeout(&mut self, session: u64, now: Instant);
    /// Is told to stop: carries on for a while, and tells its clients.
    fn drain(&mut self, now: Instant);
    /// When it has carried on for long enough; `None`: it was not told to stop.
    fn drained_at(&self) -> Option<Instant>;
    /// Time for what belongs to no session of a connection: sessions that wait for their clients.
    fn poll_idle(&self) -> Option<Instant>;
    /// Does what is due of that.
    fn handle_idle(&mut self, now: Instant);
}

/// One way to build clients and providers.
pub trait Policy {
    /// What both halves say to each other.
    type Unit: Clone + fmt::Debug;
    /// The client's half.
    type Client: ClientNode<Self::Unit>;
    /// The provider's half.
    type Server: ServerNode<Self::Unit>;

    /// Client number `id`, that may use providers 0 to `servers` − 1 and ask backends 0 to `backends` − 1.
    fn client(&self, id: ClientId, fleet: &FleetSize, seed: u64, now: Instant) -> Self::Client;
    /// Provider number `id`; `incarnation` counts its restarts.
    fn server(&self, id: ServerId, incarnation: u32, fleet: &FleetSize, seed: u64) -> Self::Server;
    /// What is left of a unit from which all that acknowledges or answers was lost; `None`: nothing.
    fn without_acks(&self, unit: &Self::Unit) -> Option<Self::Unit>;
    /// The user's items that a unit of the client's carries, each with the number it has on its path, for the checkers:
    /// `(path-wide number, item)`.
    fn packs(&self, unit: &Self::Unit, packs: &mut Vec<(u64, u32)>);
}

/// How many of each there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetSize {
    /// Clients.
    pub clients: u32,
    /// Providers.
    pub servers: u16,
    /// Backends.
    pub backends: u8,
    /// Providers that one client knows of: its catalog, drawn from all by its number.
    pub catalog: u16,
}

impl FleetSize {
    /// The providers that a client knows of, each once, in an order of its own. Where it may know all of them, it does.
    #[must_use]
    pub fn catalog_of(&self, client: ClientId) -> Vec<ServerId> {
        let (all, wanted) = (u64::from(self.servers), usize::from(self.catalog));
        if all == 0 {
            return Vec::new();
        }
        let mut catalog: Vec<ServerId> = Vec::with_capacity(wanted.min(usize::from(self.servers)));
        if wanted >= usize::from(self.servers) {
            let first = u64::from(client) % all;
            catalog.extend((0..all).filter_map(|n| ServerId::try_from((first + n) % all).ok()));
            return catalog;
        }
        for draw in 0.. {
            if catalog.len() == wanted {
                break;
            }
            let hash = mixed(u64::from(client) << 20 | draw);
            let server = ServerId::try_from(hash % all).unwrap_or(0);
            if !catalog.contains(&server) {
                catalog.push(server);
            }
        }
        catalog
    }
}

/// A number that looks drawn, of another (the finalizer of SplitMix64).
#[must_use]
pub fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The generator of whoever needs one: seeded by the world's seed and whose it is.
#[must_use]
pub fn rng_of(seed: u64, whose: u64) -> SmallRng {
    use rand::SeedableRng as _;
    SmallRng::seed_from_u64(seed ^ whose.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
