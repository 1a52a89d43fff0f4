//! What the ends have to say goes into datagrams, and these into the carriers, as a driver does it: PING, SKIP, then packs;
//! an ACK when it is due, or with whatever else goes back.

use bytes::Bytes;
use quell_core::send::Kind;
use quell_wire::frame::{self, LaneProbes, PackFlags, Ping, Pong};

use super::traffic::{self, Offer, UNORDERED};
use super::{Datagram, Pair, Sent};

/// Payload of a datagram of `chatter`.
const CHATTER: [u8; 40] = [0x45; 40];

impl Pair {
    pub(crate) fn drain(&mut self) {
        self.take_deliveries();
        self.accept();
        loop {
            let moved = [self.send_forward(), self.send_back(), self.depart()];
            if moved == [false; 3] {
                return;
            }
        }
    }

    fn accept(&mut self) {
        while let Some(offer) = self.pending.front().copied() {
            let parts = usize::try_from(offer.parts).unwrap();
            if self.sender.admits(parts, parts * offer.len).is_err() {
                if self.setup.patient {
                    return;
                }
                self.dropped += 1;
                self.pending.pop_front();
                continue;
            }
            self.accept_one(&offer);
            self.pending.pop_front();
        }
    }

    fn accept_one(&mut self, offer: &Offer) {
        let (id, first) = (self.books.next_id(), self.sender.next_number());
        let dep = self.books.dep(offer.flow, first);
        if let Err(what) = self.books.accepted(offer, first, dep) {
            self.fail(&what);
        }
        for part in 0..offer.parts {
            let flags = PackFlags {
                first: part == 0,
                last: part + 1 == offer.parts,
                unordered: offer.flow == UNORDERED,
            };
            let data = traffic::content(id, offer.flow, part, offer.len);
            let dep = if part == 0 { dep } else { 0 };
            let number = self.sender.accept(flags, dep, &data, self.now);
            if number != Ok(first + part) {
                self.fail(&format!("admitted, then {number:?}"));
            }
        }
    }

    fn depart(&mut self) -> bool {
        let mut moved = false;
        while let Some(txs) = self.forward.depart(self.now) {
            txs.iter()
                .for_each(|tx| self.sender.on_departed(*tx, self.now));
            moved = true;
        }
        while self.back.depart(self.now).is_some() {
            moved = true;
        }
        moved
    }

    /// Hands over one datagram of the sender, if there is one.
    fn send_forward(&mut self) -> bool {
        if !self.forward.has_room(self.now) {
            return false;
        }
        let mut datagram = Datagram::default();
        let room = self.forward.config().datagram_len_max;
        self.sender.on_frame_len_max(room);
        if std::mem::take(&mut self.ping_wanted) || self.sender.wants_probe() {
            let probe = self.sender.probe();
            datagram.txs.extend(probe.map(|probe| probe.tx));
            self.nonce += 1;
            let lanes = LaneProbes::from_iter(probe);
            Ping {
                nonce: self.nonce,
                lanes,
            }
            .write(&mut datagram.bytes);
        }
        let left = room - datagram.bytes.len();
        if let Some(skip) = self.sender.poll_skip(left, self.now) {
            skip.write(&mut datagram.bytes);
        }
        let mut packs = Vec::new();
        loop {
            let left = room - datagram.bytes.len();
            let Some(transmit) = self.sender.poll_transmit(left, self.now) else {
                break;
            };
            transmit.pack.write(&mut datagram.bytes);
            datagram.txs.push(transmit.pack.tx);
            packs.push((transmit.pack.number, transmit.kind));
        }
        if datagram.bytes.is_empty() {
            return false;
        }
        datagram.packs = packs.len() as u64;
        for (number, kind) in &packs {
            let at = self.elapsed();
            self.sent.push(Sent {
                at,
                number: *number,
                kind: *kind,
            });
            if let Err(what) = self.books.sent(*number) {
                self.fail(&what);
            }
        }
        self.hand_over(datagram, &packs);
        true
    }

    fn hand_over(&mut self, datagram: Datagram, packs: &[(u64, Kind)]) {
        let bytes = self
            .record
            .is_some()
            .then(|| Bytes::copy_from_slice(&datagram.bytes));
        if let Err(refused) = self.forward.hand_over(datagram, self.now) {
            // The last one first, as they stood in line.
            refused
                .txs
                .iter()
                .rev()
                .for_each(|tx| self.sender.on_refused(*tx));
            packs
                .iter()
                .for_each(|(number, _)| self.books.refused(*number));
            self.sent.truncate(self.sent.len() - packs.len());
            return;
        }
        let at = self.elapsed();
        if let Some((record, bytes)) = self.record.as_mut().zip(bytes) {
            record.push((at, bytes));
        }
    }

    /// Hands over one datagram of the receiver, if there is one.
    fn send_back(&mut self) -> bool {
        if !self.back.has_room(self.now) {
            return false;
        }
        let mut datagram = Datagram::default();
        let room = self.back.config().datagram_len_max;
        if let Some(nonce) = self.pongs_due.pop_front() {
            let ack = self
                .receiver
                .piggyback_ack(room - Pong::ENCODED_LEN, self.now);
            if let Some(ack) = ack {
                ack.write(&mut datagram.bytes);
            }
            Pong { nonce }.write(&mut datagram.bytes);
        } else if let Some(ack) = self.receiver.poll_ack(room, self.now) {
            ack.write(&mut datagram.bytes);
        } else if self.chatter_at.is_some_and(|at| at <= self.now) {
            self.chatter_at = self.setup.chatter.map(|every| self.now + every);
            frame::write_dgram(&mut datagram.bytes, &CHATTER);
            let left = room - datagram.bytes.len();
            if let Some(ack) = self.receiver.piggyback_ack(left, self.now) {
                ack.write(&mut datagram.bytes);
            }
        } else {
            return false;
        }
        // An ACK that is refused is an ACK that is lost: the next one says it all.
        let _ = self.back.hand_over(datagram, self.now);
        true
    }
}
