//! What must be true after every step.
//!
//! Each end keeps books of its own, and the world counts what went in and out of it: both must say the same, to the packet.
//!
//! | over one end | |
//! |---|---|
//! | accepted | = sent + given to a lane + dropped + in flight |
//! | of a lane | = acked + given up + dropped + in flight; and received = delivered + duplicate + dropped + held |
//! | packets of the device | = those dropped before a path + those given to one |
//! | datagrams sent, packets, packs, ACKs, SKIPs and PINGs in them | = what the world parsed out of them |
//! | datagrams received | = came + none lost between |
//! | received | = delivered + dropped + waiting for its turn |
//! | output | none is left after a drain |
//!
//! | over both ends, each way | |
//! |---|---|
//! | handed over | = arrived + lost + under way, in datagrams, packets and packs |
//! | the link | loses and copies as many as it says |
//!
//! Sums run over all sessions there were: a session that ends takes nothing out of the books.

use quell_core::drops::{DropReason, Drops};
use quell_core::path::{LaneBooks, PathBooks};

use super::parcel::{Cargo, Fate};
use super::{Connection, World};

/// What went in and out of an end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// Packets of its device that were handed in.
    pub(super) packets: u64,
    /// Packets for its device that came out, ICMP errors and resets of its own included.
    pub(super) delivered: u64,
    /// What it sent.
    pub(super) handed: Cargo,
    /// What came to it.
    pub(super) came: Cargo,
}

/// What an end says of itself.
struct Said {
    books: PathBooks,
    unaccounted: i64,
    packets: u64,
    packet_drops: Drops,
    received_drops: Drops,
    delivered: u64,
    /// Packets of the other end that were for this one itself, and were answered.
    answered: u64,
    /// Packets that wait for their turn at the device.
    waiting: u64,
    /// Packets of its device that wait for their turn.
    waiting_inward: u64,
    /// Packets for its device that it made itself, ICMP errors not counted.
    made: u64,
    early_datagrams: u64,
}

impl World {
    pub(super) fn check(&self) {
        for (number, node) in self.clients.iter().enumerate() {
            let status = node.core.status(self.now);
            let mut books = status.ended;
            if let Some(path) = status.path() {
                books += path.books();
            }
            let said = Said {
                books,
                unaccounted: status.unaccounted,
                packets: status.tun_packets,
                packet_drops: status.tun_drops,
                received_drops: status.received_drops,
                delivered: status.delivered,
                answered: 0,
                waiting: 0,
                waiting_inward: 0,
                made: 0,
                early_datagrams: status.early_datagrams,
            };
            self.check_end(&format!("client {number}"), &said, &node.seen);
        }
        self.check_provider();
        self.check_paths();
        self.check_drained();
    }

    /// After a drain no end may say that it has output: a driver would spin, or, without the wake-up, stall.
    fn check_drained(&self) {
        let clients = self.clients.iter().map(|node| node.core.poll_timeout());
        let live = self
            .connections
            .values()
            .filter_map(Connection::live_session);
        let sessions = live.map(|id| self.provider.poll_timeout(id));
        for (_, why) in clients.chain(sessions).flatten() {
            if why == "output" || why == "datagram" {
                self.fail(&format!("an end that was drained is due for \"{why}\""));
            }
        }
    }

    fn check_provider(&self) {
        let status = self.provider.status();
        let mut said = Said {
            books: status.ended,
            unaccounted: status.unaccounted,
            packets: status.tun_packets,
            packet_drops: status.tun_drops,
            received_drops: status.ended_received_drops,
            delivered: status.ended_delivered,
            answered: status.egress.echoes_answered,
            waiting: 0,
            waiting_inward: status.inward.waiting_packets as u64,
            made: status.ended_closed.resets,
            early_datagrams: status.early_datagrams,
        };
        for session in &status.sessions {
            said.books += session.path.books();
            said.received_drops += session.received_drops;
            said.delivered += session.delivered;
            said.waiting += session.outward.waiting_packets as u64;
            said.made += session.closed.resets;
        }
        if status.egress.denied.total() != said.received_drops[DropReason::Denied] {
            self.fail("what was denied by class is not what was dropped as denied");
        }
        self.check_end("the provider", &said, &self.provider_seen);
    }

    fn check_end(&self, end: &str, said: &Said, seen: &Seen) {
        let c = &said.books.counters;
        let equal = |what: &str, left: u64, right: u64| {
            if left != right {
                self.fail(&format!(
                    "{end}: {what}: {left} is not {right}\n{:#?}",
                    said.books
                ));
            }
        };
        equal(
            "accepted = sent + given to a lane + dropped + in flight",
            c.accepted,
            c.sent + c.laned + said.books.drops.total() + c.in_flight,
        );
        equal("unaccounted", said.unaccounted.unsigned_abs(), 0);
        equal("packets handed in", said.packets, seen.packets);
        let given = said.packets - said.packet_drops.total() - said.waiting_inward;
        if c.accepted < given {
            self.fail(&format!(
                "{end}: {given} packets were given to paths, which know of {}",
                c.accepted
            ));
        }
        equal("datagrams sent", c.datagrams_sent, seen.handed.datagrams);
        equal("packets sent", c.sent, seen.handed.packets);
        let lanes = [&said.books.message, &said.books.flow];
        let sum = |of: fn(&LaneBooks) -> u64| lanes.iter().map(|lane| of(lane)).sum::<u64>();
        let sends = |lane: &LaneBooks| {
            lane.send.first_sends + lane.send.evidence_resends + lane.send.silence_resends
        };
        equal("packs sent", sum(sends), seen.handed.packs);
        equal("SKIPs sent", sum(|lane| lane.send.skips), seen.handed.skips);
        equal("ACKs sent", sum(|lane| lane.receive.acks), seen.handed.acks);
        equal("PINGs sent", c.pings_sent, seen.handed.pings);
        self.check_causes(end, &said.books, &seen.handed);
        equal(
            "datagrams received",
            c.datagrams_received + said.early_datagrams,
            seen.came.datagrams,
        );
        equal(
            "received = delivered + dropped + waiting + answered",
            c.received,
            said.delivered + said.received_drops.total() + said.waiting + said.answered,
        );
        equal(
            "packets delivered",
            said.delivered + said.made + c.icmp_made,
            seen.delivered,
        );
        if !self.lied_to && said.early_datagrams == 0 {
            let received = sum(|lane| lane.receive.received);
            equal("packs received", received, seen.came.packs);
            let flow = said.books.flow.receive.deliveries;
            equal("received", c.received, seen.came.packets + flow);
        }
    }

    /// Bytes by cause are those that left: all that was handed over, less what still waits or was taken with its path.
    fn check_causes(&self, end: &str, books: &PathBooks, handed: &Cargo) {
        let left = &books.frame_bytes;
        let told = handed.ack_bytes + handed.ping_bytes;
        for (cause, left, handed) in [
            ("ack", left.ack, handed.ack_bytes),
            ("ping", left.ping, handed.ping_bytes),
            ("data", left.first_send + left.resend, handed.bytes - told),
            ("race", left.race, 0),
        ] {
            if left > handed {
                self.fail(&format!("{end}: of {handed} {cause} bytes {left} left"));
            }
        }
    }

    fn check_paths(&self) {
        for connection in self.connections.values() {
            for direction in [&connection.to_provider, &connection.to_client] {
                if !direction.is_conserved() {
                    self.fail(&format!(
                        "a link lost count: {:?} {:?}",
                        direction.fate(),
                        direction.link()
                    ));
                }
            }
        }
        for fate in self.fates() {
            let parts = |part: fn(&Cargo) -> u64| {
                (part(&fate.sent), part(&fate.arrived) + part(&fate.lost))
            };
            for (name, (sent, over)) in [
                ("datagrams", parts(|cargo| cargo.datagrams)),
                ("packets", parts(|cargo| cargo.packets)),
                ("packs", parts(|cargo| cargo.packs)),
            ] {
                if over > sent {
                    self.fail(&format!(
                        "more {name} arrived or were lost than sent: {fate:?}"
                    ));
                }
            }
        }
    }

    /// Fails unless nothing is under way and everything that was sent arrived or was lost, in datagrams, packets and packs.
    pub fn expect_rest(&self) {
        for fate in self.fates() {
            let Fate {
                sent,
                arrived,
                lost,
                ..
            } = fate;
            let mut over = arrived;
            over += lost;
            if over != sent {
                self.fail(&format!("not at rest: {fate:?}"));
            }
        }
    }
}

impl std::ops::AddAssign for Fate {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.copies += other.copies;
        self.lost += other.lost;
    }
}
