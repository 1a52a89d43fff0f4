//! One end of a client's session with a provider: a sequence each way, and the connection that carries both.
//!
//! Both sequences outlive the connection: what is down is repeated into nothing, or waits (the make says which), until it
//! is dialled again or the ack timeout ends it. Acks go straight out and are lost with the connection.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quell_core::path::CarrierFacts;

use super::receive::{Arrival, ReceiveSequence};
use super::rules::Rules;
use super::send::{Outlet, Pack, SendSequence};
use super::unit::{Body, Parcel, Unit};
use super::write::Writer;
use crate::fleet::node::Item;

/// Both sequences.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) send: SendSequence,
    receive: ReceiveSequence,
    writer: Writer,
    out: VecDeque<Parcel>,
}

/// What came of a unit.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// To be handed on.
    pub(crate) items: Vec<Item>,
    /// What the other end has, and all before it.
    pub(crate) acked: Vec<Pack>,
    /// What the other end has, but not all before it.
    pub(crate) parked: Option<Body>,
}

impl Peer {
    pub(crate) fn new(ack_timeout: Duration, needs_contract: bool) -> Self {
        Self {
            send: SendSequence::new(ack_timeout, needs_contract),
            receive: ReceiveSequence::default(),
            writer: Writer::default(),
            out: VecDeque::new(),
        }
    }

    fn outlet<'a>(
        &'a mut self,
        rules: &'a Rules,
        degraded: bool,
    ) -> (&'a mut SendSequence, Outlet<'a>) {
        let outlet = Outlet {
            rules,
            degraded,
            writer: &mut self.writer,
            out: &mut self.out,
        };
        (&mut self.send, outlet)
    }

    /// Sends what was never sent and may be.
    pub(crate) fn flush(&mut self, rules: &Rules, degraded: bool, now: Instant) {
        let (send, mut outlet) = self.outlet(rules, degraded);
        send.flush(&mut outlet, now);
    }

    /// Queues a pack and sends it if it may go; whether there was room.
    pub(crate) fn push(
        &mut self,
        body: Body,
        is_first: bool,
        (rules, degraded): (&Rules, bool),
        now: Instant,
    ) -> bool {
        let taken = self.send.push(body, is_first, now);
        self.flush(rules, degraded, now);
        taken
    }

    pub(crate) fn on_up(&mut self) {
        self.writer.on_up();
    }

    pub(crate) fn on_down(&mut self) {
        self.writer.on_down();
        self.out.clear();
    }

    pub(crate) fn on_carrier(&mut self, facts: &CarrierFacts) {
        self.writer.on_carrier(facts);
    }

    /// Takes a datagram of the other end.
    pub(crate) fn handle(&mut self, unit: &Unit, rules: &Rules, now: Instant) -> Arrived {
        let mut arrived = Arrived::default();
        match *unit {
            Unit::Pack {
                sequence,
                number,
                head,
                body,
            } => {
                let pack = Arrival {
                    sequence,
                    number,
                    head,
                    body,
                };
                self.receive
                    .handle(pack, rules.ack_delay, now, &mut arrived.items);
                self.put_acks(now);
            }
            Unit::Ack { sequence, next } => {
                let acked = |pack: &Pack| arrived.acked.push(*pack);
                self.send.on_ack(sequence, next, now, acked);
            }
            Unit::Selective { sequence, number } => {
                arrived.parked = self.send.on_selective(sequence, number, now);
            }
            Unit::Part | Unit::Hello | Unit::Welcome => {}
        }
        arrived
    }

    fn put_acks(&mut self, now: Instant) {
        let (out, is_up) = (&mut self.out, self.writer.is_up());
        self.receive.take_acks(now, |unit| {
            if is_up {
                out.push_back(Parcel::ack(unit));
            }
        });
    }

    /// Sends what is due: acks, resends, and what may go for the first time. Ends the sequence if its time is over: its
    /// packs go to `lost`, and `true` is returned.
    pub(crate) fn handle_timeout(
        &mut self,
        rules: &Rules,
        degraded: bool,
        now: Instant,
        lost: impl FnMut(Pack),
    ) -> bool {
        self.put_acks(now);
        let ended = self.send.end_if_due(now, lost);
        let (send, mut outlet) = self.outlet(rules, degraded);
        send.resend(&mut outlet, now);
        send.flush(&mut outlet, now);
        ended
    }

    pub(crate) fn poll_timeout(&self, rules: &Rules) -> Option<Instant> {
        let send = self.send.poll_timeout(rules, &self.writer);
        [self.receive.ack_at(), send].into_iter().flatten().min()
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    pub(crate) fn poll_output(&mut self) -> Option<Parcel> {
        self.out.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::upstream_2026_08::RULES;

    #[test]
    fn an_ack_is_lost_with_its_connection() {
        let now = Instant::now();
        let pack = Unit::Pack {
            sequence: 1,
            number: 0,
            head: 0,
            body: Body::Ping,
        };
        for is_up in [true, false] {
            let mut peer = Peer::new(RULES.ack_timeout, false);
            peer.on_up();
            peer.handle(&pack, &RULES, now);
            if !is_up {
                peer.on_down();
            }
            peer.handle_timeout(&RULES, false, now + RULES.ack_delay, |_| {});
            assert_eq!(peer.poll_output().is_some(), is_up);
        }
    }
}
