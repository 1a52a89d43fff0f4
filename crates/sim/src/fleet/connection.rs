//! A connection in the world: who has it, what has been handed to it, what its far end is.

use quell_core::path::CarrierFacts;

use super::carriage::Side;
use super::node::{Causes, ClientId, ServerId};

/// Names a connection; a place that is used again has another turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    pub(crate) place: u32,
    pub(crate) turn: u32,
}

/// What the provider's end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Far {
    /// No first packet came yet.
    Fresh,
    /// The doorman wants to see the address proved.
    Retried,
    /// A handshake that was let in.
    Greeting,
    /// A session of the provider.
    Session(u64),
    /// A host that knows it no more, or never let it in.
    Gone,
}

/// What was handed to one end and has not left.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pending {
    /// Of datagrams.
    units: Causes,
    /// Of control messages.
    control: u32,
}

impl Pending {
    pub(crate) fn add(&mut self, causes: &Causes) {
        self.units.first_send += causes.first_send;
        self.units.resend += causes.resend;
        self.units.race += causes.race;
        self.units.ack += causes.ack;
        self.units.ping += causes.ping;
        self.units.control += causes.control;
    }

    pub(crate) fn add_control(&mut self, len_bytes: u32) {
        self.control += len_bytes;
    }

    /// A datagram of `len_bytes` left, and `backlog_bytes` of units did not.
    pub(crate) fn leave(&mut self, len_bytes: u32, backlog_bytes: u32) -> Causes {
        let mut left = self
            .units
            .total()
            .saturating_sub(backlog_bytes)
            .min(len_bytes);
        let mut room = len_bytes - left;
        let mut gone = Causes::default();
        let mut take = |from: &mut u32, to: &mut u32| {
            let part = left.min(*from);
            left -= part;
            *from -= part;
            *to += part;
        };
        let units = &mut self.units;
        // In this order: exact while nothing waits, as is the rule; where more stands in line, the sums are.
        take(&mut units.first_send, &mut gone.first_send);
        take(&mut units.resend, &mut gone.resend);
        take(&mut units.race, &mut gone.race);
        take(&mut units.ack, &mut gone.ack);
        take(&mut units.ping, &mut gone.ping);
        take(&mut units.control, &mut gone.control);
        room = room.min(self.control);
        self.control -= room;
        gone.control += room;
        gone
    }
}

/// Whether a node may do the same after one as after the other. Where nothing stands in the queue there is room, whatever
/// the round trip and the window are: they decide how much may stand there, and are told with what is handed over next.
/// Each acknowledgement changes them, and most of what happens in a fleet is one.
fn leaves_the_same(before: &CarrierFacts, after: &CarrierFacts) -> bool {
    let is_empty = before.backlog_bytes == 0 && after.backlog_bytes == 0;
    let is_as_long = before.datagram_len_max == after.datagram_len_max;
    before == after || (is_empty && is_as_long)
}

/// The same of a connection that may have come up, or ended.
pub(crate) fn changes_nothing(before: Option<CarrierFacts>, after: Option<CarrierFacts>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => leaves_the_same(&before, &after),
        (before, after) => before.is_none() && after.is_none(),
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection<C> {
    pub(crate) turn: u32,
    pub(crate) client: ClientId,
    pub(crate) server: ServerId,
    pub(crate) attempt: u64,
    /// The client's node has not been told its end, nor given it up.
    pub(crate) at_client: bool,
    pub(crate) far: Far,
    pub(crate) carriage: C,
    /// What was handed to the client's end, and to the provider's.
    pub(crate) pending: [Pending; 2],
    /// When what was sent last towards the provider arrives, and towards the client.
    pub(crate) due_ns: [u64; 2],
    /// The provider's end is looked at then; `u64::MAX`: never.
    pub(crate) wake_ns: u64,
    /// When the provider's node wants to be called for it, as it said last.
    pub(crate) node_due_ns: u64,
    /// Whether the client's end is over, as far as the world was told.
    pub(crate) stood: bool,
    /// What each end's node was told last of what the connection can take. `None`: it is to be told again, for something
    /// was handed over since, or the node has asked for leave beyond the window.
    pub(crate) told: [Option<CarrierFacts>; 2],
}

impl<C> Connection<C> {
    /// Whether these facts are news for the node of an end. What stands in the queue is looked at each time: whether it
    /// may leave is a question of time, too.
    pub(crate) fn is_news(&self, side: Side, facts: &CarrierFacts) -> bool {
        let told = self.told[side as usize];
        facts.backlog_bytes > 0 || told.is_none_or(|told| !leaves_the_same(&told, facts))
    }
}
