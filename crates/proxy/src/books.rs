//! What became of every request and every packet, and what there is at the moment.
//!
//! Two accounts that must add up at any time:
//!
//! - requests: `asked = granted + refused(reason) + pending`. A request is a connection to the SOCKS port, or one HTTP
//!   request; an application that goes away before it got an answer is a refusal, too, of its own making;
//! - packets from the tunnel: `offered = consumed + dropped(reason) + waiting`.
//!
//! The counters are written by the proxy's thread alone (but `offered`) and read by any; they are relaxed, so a snapshot
//! taken in the middle of a packet may be off by that packet. Nothing here holds an address or a name.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_stack::{Ledger, Unsound, counted};
use serde::Serialize;

counted! {
    /// Why an application did not get what it asked for.
    Refusal {
        /// It said nothing, or not all, in time.
        HandshakeTimedOut = "handshake_timed_out",
        /// It did not speak the protocol.
        Malformed = "malformed",
        /// User name or password are missing or wrong.
        Unauthorized = "unauthorized",
        /// A command, or a form of request, that is not offered.
        UnsupportedCommand = "unsupported_command",
        /// A kind of address that is not known.
        UnsupportedAddress = "unsupported_address",
        /// It went away before it was answered.
        ApplicationGone = "application_gone",
        /// `connections_max` connections are there.
        ConnectionsFull = "connections_full",
        /// `flows_max` flows are there.
        FlowsFull = "flows_full",
        /// `associations_max` UDP associations are there.
        AssociationsFull = "associations_full",
        /// The host has no memory, file descriptor or port to spare.
        HostExhausted = "host_exhausted",
        /// The tunnel has no session yet.
        NoSession = "no_session",
        /// The tunnel does not carry the destination's family.
        NoRoute = "no_route",
        /// The session's addresses changed under the request.
        SessionChanged = "session_changed",
        /// The destination is no single host, or its port is 0.
        BadDestination = "bad_destination",
        /// There is no such name, or it has no address.
        NameNotFound = "name_not_found",
        /// No DNS server gave an answer.
        NameUnanswered = "name_unanswered",
        /// The destination refused.
        Refused = "refused",
        /// The destination cannot be reached.
        Unreachable = "unreachable",
        /// The provider, or somebody beyond, forbids it.
        Prohibited = "prohibited",
        /// The destination was silent.
        TimedOut = "timed_out",
        /// The destination's HTTP was broken off, or none.
        BadAnswer = "bad_answer",
    }
}

counted! {
    /// Why a packet from the tunnel did nothing.
    DropReason {
        /// No whole, well-formed packet.
        Malformed = "malformed",
        /// A checksum is wrong.
        BadChecksum = "bad_checksum",
        /// Source or destination is no single host, or not the final one.
        BadAddress = "bad_address",
        /// For an address that is not the session's.
        NotOurs = "not_ours",
        /// A part of a datagram that was not completed in time, or does not fit the others.
        Fragment = "fragment",
        /// Neither TCP, UDP nor an ICMP error about one of ours.
        Unsupported = "unsupported",
        /// For a flow or a port that is not there. A TCP segment is answered with a reset.
        NoFlow = "no_flow",
        /// The flow's queue was full.
        QueueFull = "queue_full",
        /// The flow ended before it took the packet.
        FlowEnded = "flow_ended",
        /// An ICMP error about a datagram.
        DatagramError = "datagram_error",
    }
}

counted! {
    /// What else happened.
    Event {
        /// A SYN went out.
        TcpOpened = "tcp_opened",
        /// The destination answered.
        TcpEstablished = "tcp_established",
        /// The flow failed to open, or lost a race for its name.
        TcpNotEstablished = "tcp_not_established",
        /// Both directions ended in order.
        TcpClosed = "tcp_closed",
        /// The destination reset it.
        TcpResetByPeer = "tcp_reset_by_peer",
        /// The application reset it, or went away.
        TcpResetByApplication = "tcp_reset_by_application",
        /// It carried nothing for too long.
        TcpIdle = "tcp_idle",
        /// Its address is no longer the session's, or the proxy ended.
        TcpCutOff = "tcp_cut_off",
        /// A UDP association was begun.
        AssociationOpened = "association_opened",
        /// It ended.
        AssociationEnded = "association_ended",
        /// A datagram of an application went out.
        DatagramOut = "datagram_out",
        /// A datagram was handed to an application.
        DatagramIn = "datagram_in",
        /// A datagram of an application was a fragment, which is not offered (RFC 1928 §7).
        DatagramFragment = "datagram_fragment",
        /// A datagram came from somebody who is not the association's application.
        DatagramStranger = "datagram_stranger",
        /// A datagram of an application was no request, or for nobody who can be reached.
        DatagramRefused = "datagram_refused",
        /// A datagram found no room, one way or the other.
        DatagramDropped = "datagram_dropped",
        /// A name was asked for.
        NameAsked = "name_asked",
        /// A name was remembered.
        NameRemembered = "name_remembered",
        /// A DNS answer was too long for a datagram, and asked for again over TCP.
        NameTruncated = "name_truncated",
        /// A DNS answer was not the one to our question, or not from whom we asked.
        NameLie = "name_lie",
        /// No connection could be accepted for want of a file descriptor or memory; it waits.
        AcceptDeferred = "accept_deferred",
        /// A reset or a segment was written beyond what was gathered.
        AnswerSent = "answer_sent",
        /// One found no room.
        AnswerDropped = "answer_dropped",
        /// A packet was handed over to the tunnel.
        PacketOut = "packet_out",
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Books {
    asked: AtomicU64,
    granted: AtomicU64,
    offered: AtomicU64,
    consumed: AtomicU64,
    refusals: [AtomicU64; Refusal::ALL.len()],
    drops: [AtomicU64; DropReason::ALL.len()],
    events: [AtomicU64; Event::ALL.len()],
    connections: AtomicU64,
    flows: AtomicU64,
    associations: AtomicU64,
}

const RELAXED: Ordering = Ordering::Relaxed;

impl Ledger for Books {
    fn offered(&self, packets: usize) {
        self.offered.fetch_add(packets as u64, RELAXED);
    }

    fn consumed(&self, packets: usize) {
        self.consumed.fetch_add(packets as u64, RELAXED);
    }

    fn packet_out(&self) {
        self.note(Event::PacketOut);
    }

    fn answered(&self, went: bool) {
        self.note(if went {
            Event::AnswerSent
        } else {
            Event::AnswerDropped
        });
    }
}

impl From<Unsound> for DropReason {
    fn from(unsound: Unsound) -> Self {
        match unsound {
            Unsound::Port => Self::Malformed,
            Unsound::Address => Self::BadAddress,
            Unsound::Checksum => Self::BadChecksum,
        }
    }
}

impl Books {
    pub(crate) fn drop_many(&self, reason: DropReason, packets: usize) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.fetch_add(packets as u64, RELAXED);
        }
    }

    pub(crate) fn note(&self, event: Event) {
        if let Some(counter) = self.events.get(event as usize) {
            counter.fetch_add(1, RELAXED);
        }
    }

    fn refuse(&self, why: Refusal) {
        if let Some(counter) = self.refusals.get(why as usize) {
            counter.fetch_add(1, RELAXED);
        }
    }

    pub(crate) fn set_connections(&self, count: usize) {
        self.connections.store(count as u64, RELAXED);
    }

    pub(crate) fn set_flows(&self, count: usize) {
        self.flows.store(count as u64, RELAXED);
    }

    pub(crate) fn set_associations(&self, count: usize) {
        self.associations.store(count as u64, RELAXED);
    }

    pub(crate) fn status(&self) -> ProxyCounts {
        fn of<T: Copy>(all: &[T], counters: &[AtomicU64]) -> Vec<(T, u64)> {
            let counts = counters.iter().map(|counter| counter.load(RELAXED));
            all.iter().copied().zip(counts).collect()
        }
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let refusals = of(Refusal::ALL, &self.refusals);
        let drops = of(DropReason::ALL, &self.drops);
        let (granted, consumed) = (self.granted.load(RELAXED), self.consumed.load(RELAXED));
        let refused = sum(&refusals.iter().map(|(_, count)| *count).collect::<Vec<_>>());
        let dropped = sum(&drops.iter().map(|(_, count)| *count).collect::<Vec<_>>());
        // Read last: what came meanwhile waits, and nothing is below zero.
        let (asked, offered) = (self.asked.load(RELAXED), self.offered.load(RELAXED));
        ProxyCounts {
            connections: self.connections.load(RELAXED),
            flows: self.flows.load(RELAXED),
            associations: self.associations.load(RELAXED),
            asked,
            granted,
            pending: asked.saturating_sub(granted + refused),
            refusals,
            offered,
            consumed,
            waiting: offered.saturating_sub(consumed + dropped),
            drops,
            events: of(Event::ALL, &self.events),
        }
    }
}

/// A request that is being looked at: counted when it comes, and once more when it is answered, however that ends.
pub(crate) struct Asked {
    books: Arc<Books>,
    is_answered: bool,
}

impl Asked {
    pub(crate) fn new(books: &Arc<Books>) -> Self {
        books.asked.fetch_add(1, RELAXED);
        Self {
            books: Arc::clone(books),
            is_answered: false,
        }
    }

    pub(crate) fn grant(mut self) {
        self.is_answered = true;
        self.books.granted.fetch_add(1, RELAXED);
    }

    pub(crate) fn refuse(mut self, why: Refusal) {
        self.is_answered = true;
        self.books.refuse(why);
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.is_answered {
            self.books.refuse(Refusal::ApplicationGone);
        }
    }
}

/// Counts what lives: its clones, less the first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live(Rc<()>);

impl Live {
    pub(crate) fn count(&self) -> usize {
        Rc::strong_count(&self.0) - 1
    }
}

/// What a proxy holds, and what became of its requests and packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProxyCounts {
    /// Connections of applications.
    pub connections: u64,
    /// TCP flows through the tunnel, those that are not established included.
    pub flows: u64,
    /// UDP associations.
    pub associations: u64,
    /// Requests of applications.
    pub asked: u64,
    /// Those that got what they asked for.
    pub granted: u64,
    /// Those that are not answered yet.
    pub pending: u64,
    /// Those that did not get it, by reason.
    #[serde(serialize_with = "labelled")]
    pub refusals: Vec<(Refusal, u64)>,
    /// Packets that the tunnel handed over.
    pub offered: u64,
    /// Those that did their work.
    pub consumed: u64,
    /// Those that stand in a queue of the proxy.
    pub waiting: u64,
    /// Those that did nothing, by reason.
    #[serde(serialize_with = "labelled")]
    pub drops: Vec<(DropReason, u64)>,
    /// What else happened.
    #[serde(serialize_with = "labelled")]
    pub events: Vec<(Event, u64)>,
}

impl ProxyCounts {
    /// Requests refused for one reason.
    #[must_use]
    pub fn refused(&self, why: Refusal) -> u64 {
        let found = self.refusals.iter().find(|(known, _)| *known == why);
        found.map_or(0, |(_, count)| *count)
    }

    /// Packets dropped for one reason.
    #[must_use]
    pub fn dropped(&self, why: DropReason) -> u64 {
        let found = self.drops.iter().find(|(known, _)| *known == why);
        found.map_or(0, |(_, count)| *count)
    }

    /// How often something happened.
    #[must_use]
    pub fn count(&self, event: Event) -> u64 {
        let found = self.events.iter().find(|(known, _)| *known == event);
        found.map_or(0, |(_, count)| *count)
    }

    /// Whether both accounts add up.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let refused: u64 = self.refusals.iter().map(|(_, count)| count).sum();
        let dropped: u64 = self.drops.iter().map(|(_, count)| count).sum();
        self.asked == self.granted + refused + self.pending
            && self.offered == self.consumed + dropped + self.waiting
    }
}

/// A thing with a label.
trait Labelled: Copy {
    fn label(self) -> &'static str;
}

macro_rules! labelled {
    ($($name:ident)*) => {
        $(impl Labelled for $name {
            fn label(self) -> &'static str {
                self.label()
            }
        })*
    };
}

labelled!(Refusal DropReason Event);

fn labelled<T: Labelled, S: serde::Serializer>(
    counts: &[(T, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(what, count)| (what.label(), count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_its_own() {
        let labels: std::collections::BTreeSet<_> = Event::ALL.iter().map(|e| e.label()).collect();
        assert_eq!(labels.len(), Event::ALL.len());
        let labels: std::collections::BTreeSet<_> =
            Refusal::ALL.iter().map(|e| e.label()).collect();
        assert_eq!(labels.len(), Refusal::ALL.len());
        let labels: std::collections::BTreeSet<_> =
            DropReason::ALL.iter().map(|e| e.label()).collect();
        assert_eq!(labels.len(), DropReason::ALL.len());
    }

    #[test]
    fn each_request_is_counted_once_whatever_becomes_of_it() {
        let books = Arc::new(Books::default());
        let pending = Asked::new(&books);
        Asked::new(&books).grant();
        Asked::new(&books).refuse(Refusal::TimedOut);
        drop(Asked::new(&books));
        let counts = books.status();
        assert_eq!((counts.asked, counts.granted, counts.pending), (4, 1, 1));
        assert_eq!(counts.refused(Refusal::TimedOut), 1);
        assert_eq!(counts.refused(Refusal::ApplicationGone), 1);
        assert!(counts.adds_up());
        drop(pending);
        assert_eq!(books.status().pending, 0);
    }
}
