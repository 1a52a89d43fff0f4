//! What became of every packet, and what there is at the moment.
//!
//! For packets from clients, at any time: `offered = consumed + dropped(reason) + waiting`, where `waiting` is what
//! stands in queues inside the egress, fragments of incomplete datagrams among them. A packet is consumed when it did its work: its segment was given to the flow's
//! TCP, its datagram to a host socket, or it opened a flow that may still fail. What was refused is dropped, with the
//! reason, whether or not the client was told.
//!
//! The counters are written by the egress's thread alone and read by any; they are relaxed, so a snapshot taken in the
//! middle of a packet may be off by that packet. Nothing here holds an address.

use std::sync::atomic::{AtomicU64, Ordering};

use quell_stack::{Ledger, Unsound, counted};
use serde::Serialize;

counted! {
    /// Why a client's packet did nothing.
    DropReason {
        /// No whole, well-formed packet.
        Malformed = "malformed",
        /// A checksum is wrong.
        BadChecksum = "bad_checksum",
        /// Source or destination is no single host (multicast, broadcast, unspecified, IPv4-mapped), or not the final one (a
        /// routing header).
        BadAddress = "bad_address",
        /// Neither TCP, UDP nor ICMP.
        UnsupportedProtocol = "unsupported_protocol",
        /// An ICMP message that is neither an echo request nor an error about a packet to its sender.
        UnsupportedIcmp = "unsupported_icmp",
        /// A part of a larger datagram that is not, or was not in time, one of a whole.
        Fragment = "fragment",
        /// A TCP segment of a flow that is not there; answered with a reset.
        NoFlow = "no_flow",
        /// The policy said no.
        Denied = "denied",
        /// `tcp_flows_max` flows are there.
        FlowsFull = "flows_full",
        /// `tcp_connecting_max` flows wait for their outside connection.
        ConnectingFull = "connecting_full",
        /// The host gave no socket: out of file descriptors (but those left to the rest of the process), memory or ports.
        SocketsExhausted = "sockets_exhausted",
        /// The flow's queue was full.
        QueueFull = "queue_full",
        /// The flow ended before it took the packet.
        FlowEnded = "flow_ended",
        /// The host socket's buffer was full.
        SocketFull = "socket_full",
        /// The host has no way to the destination.
        Unreachable = "unreachable",
        /// The datagram is larger than the host can send.
        TooLarge = "too_large",
        /// The host refused to send for another reason.
        SendFailed = "send_failed",
        /// The host gives no unprivileged echo sockets.
        EchoUnavailable = "echo_unavailable",
    }
}

counted! {
    /// What happened, apart from packets that clients sent in vain.
    Event {
        /// A TCP flow was begun: a SYN was taken.
        TcpOpened = "tcp_opened",
        /// Its outside connection stood, and the client was told.
        TcpEstablished = "tcp_established",
        /// The destination refused.
        TcpRefused = "tcp_refused",
        /// The destination could not be reached.
        TcpUnreachable = "tcp_unreachable",
        /// The destination did not answer in time.
        TcpConnectTimedOut = "tcp_connect_timed_out",
        /// The client gave up before the outside stood.
        TcpAbandoned = "tcp_abandoned",
        /// Both directions ended in order.
        TcpClosed = "tcp_closed",
        /// The client reset the flow.
        TcpResetByClient = "tcp_reset_by_client",
        /// The outside reset it.
        TcpResetOutside = "tcp_reset_outside",
        /// It carried nothing for too long.
        TcpIdle = "tcp_idle",
        /// The egress ended, or the flow failed inside it.
        TcpCutOff = "tcp_cut_off",
        /// A UDP or echo association was begun.
        AssociationOpened = "association_opened",
        /// It carried nothing for too long.
        AssociationIdle = "association_idle",
        /// It made room for another.
        AssociationEvicted = "association_evicted",
        /// Its host socket failed.
        AssociationFailed = "association_failed",
        /// A datagram came from a remote that was not spoken to.
        ReplyFiltered = "reply_filtered",
        /// A datagram from outside found no room towards the clients.
        ReplyDropped = "reply_dropped",
        /// An ICMP error from outside was passed on.
        ErrorPassedOn = "error_passed_on",
        /// A reset or ICMP error was sent to a client.
        AnswerSent = "answer_sent",
        /// One found no room towards the clients.
        AnswerDropped = "answer_dropped",
        /// A packet was handed over towards the clients.
        PacketOut = "packet_out",
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Books {
    offered: AtomicU64,
    consumed: AtomicU64,
    drops: [AtomicU64; DropReason::ALL.len()],
    events: [AtomicU64; Event::ALL.len()],
    connecting: AtomicU64,
    flows: AtomicU64,
    associations: AtomicU64,
    echo: AtomicU64,
}

const RELAXED: Ordering = Ordering::Relaxed;

impl Ledger for Books {
    fn offered(&self, packets: usize) {
        self.offered.fetch_add(packets as u64, RELAXED);
    }

    fn consumed(&self, packets: usize) {
        self.consume(packets);
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
    pub(super) fn consume(&self, packets: usize) {
        self.consumed.fetch_add(packets as u64, RELAXED);
    }

    pub(super) fn drop_one(&self, reason: DropReason) {
        self.drop_many(reason, 1);
    }

    pub(super) fn drop_many(&self, reason: DropReason, packets: usize) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.fetch_add(packets as u64, RELAXED);
        }
    }

    pub(super) fn note(&self, event: Event) {
        self.note_many(event, 1);
    }

    pub(super) fn note_many(&self, event: Event, times: usize) {
        if let Some(counter) = self.events.get(event as usize) {
            counter.fetch_add(times as u64, RELAXED);
        }
    }

    pub(super) fn set_flows(&self, flows: usize, connecting: usize) {
        self.flows.store(flows as u64, RELAXED);
        self.connecting.store(connecting as u64, RELAXED);
    }

    pub(super) fn set_associations(&self, associations: usize) {
        self.associations.store(associations as u64, RELAXED);
    }

    pub(super) fn set_echo(&self, echo: EchoState) {
        self.echo.store(echo as u64, RELAXED);
    }

    pub(super) fn status(&self) -> UserspaceStatus {
        let counts = |counters: &[AtomicU64]| -> Vec<u64> {
            counters
                .iter()
                .map(|counter| counter.load(RELAXED))
                .collect()
        };
        let drops: Vec<_> = DropReason::ALL
            .iter()
            .copied()
            .zip(counts(&self.drops))
            .collect();
        let events = Event::ALL
            .iter()
            .copied()
            .zip(counts(&self.events))
            .collect();
        let consumed = self.consumed.load(RELAXED);
        let dropped: u64 = drops.iter().map(|(_, count)| count).sum();
        // Read last: what was offered meanwhile waits, and nothing is below zero.
        let offered = self.offered.load(RELAXED);
        UserspaceStatus {
            tcp_flows: self.flows.load(RELAXED),
            tcp_connecting: self.connecting.load(RELAXED),
            associations: self.associations.load(RELAXED),
            echo: EchoState::of(self.echo.load(RELAXED)),
            offered,
            consumed,
            waiting: offered.saturating_sub(consumed + dropped),
            drops,
            events,
        }
    }
}

/// Whether clients' echo requests go anywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EchoState {
    /// None was asked for yet.
    #[default]
    Untried = 0,
    /// The host gives unprivileged echo sockets.
    Available = 1,
    /// It does not: on Linux, the process's group is outside of `net.ipv4.ping_group_range`.
    Forbidden = 2,
}

impl EchoState {
    const fn of(word: u64) -> Self {
        match word {
            1 => Self::Available,
            2 => Self::Forbidden,
            _ => Self::Untried,
        }
    }
}

/// What a userspace egress holds, and what became of its packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UserspaceStatus {
    /// TCP flows, those whose outside connection does not stand yet included.
    pub tcp_flows: u64,
    /// TCP flows whose outside connection does not stand yet.
    pub tcp_connecting: u64,
    /// UDP and echo associations.
    pub associations: u64,
    /// Whether echo works.
    pub echo: EchoState,
    /// Packets that clients' side handed over.
    pub offered: u64,
    /// Those that did their work.
    pub consumed: u64,
    /// Those that stand in a queue of the egress.
    pub waiting: u64,
    /// Those that did nothing, by reason.
    #[serde(serialize_with = "labelled_drops")]
    pub drops: Vec<(DropReason, u64)>,
    /// What else happened.
    #[serde(serialize_with = "labelled_events")]
    pub events: Vec<(Event, u64)>,
}

impl UserspaceStatus {
    /// Packets dropped for one reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        let found = self.drops.iter().find(|(known, _)| *known == reason);
        found.map_or(0, |(_, count)| *count)
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().map(|(_, count)| count).sum()
    }

    /// How often something happened.
    #[must_use]
    pub fn count(&self, event: Event) -> u64 {
        let found = self.events.iter().find(|(known, _)| *known == event);
        found.map_or(0, |(_, count)| *count)
    }
}

fn labelled_drops<S: serde::Serializer>(
    counts: &[(DropReason, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(reason, count)| (reason.label(), count)))
}

fn labelled_events<S: serde::Serializer>(
    counts: &[(Event, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(event, count)| (event.label(), count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_its_own() {
        let labels: std::collections::BTreeSet<_> = DropReason::ALL
            .iter()
            .map(|reason| reason.label())
            .chain(Event::ALL.iter().map(|event| event.label()))
            .collect();
        assert_eq!(labels.len(), DropReason::ALL.len() + Event::ALL.len());
    }

    #[test]
    fn what_is_neither_consumed_nor_dropped_waits() {
        let books = Books::default();
        books.offered(5);
        books.consume(2);
        books.drop_one(DropReason::EchoUnavailable);
        let status = books.status();
        assert_eq!((status.offered, status.consumed, status.waiting), (5, 2, 2));
        assert_eq!(status.dropped(DropReason::EchoUnavailable), 1);
        assert_eq!(status.dropped_total(), 1);
    }
}
