//! What comes out of the links goes into the ends; what an end accuses the other of fails the run.

use bytes::Bytes;
use quell_wire::frame::{Frame, Frames};

use super::Pair;

impl Pair {
    pub(super) fn arrive(&mut self) {
        while let Some(datagram) = self.forward.poll(self.now) {
            self.arrive_forward(&datagram);
            self.drain();
        }
        while let Some(datagram) = self.back.poll(self.now) {
            self.arrive_back(&datagram);
            self.drain();
        }
    }

    fn arrive_forward(&mut self, datagram: &Bytes) {
        for frame in Frames::new(datagram) {
            let result = match frame.unwrap() {
                Frame::Pack(pack) => {
                    let cumulative = self.receiver.cumulative();
                    self.books
                        .arrives(pack.number, cumulative, self.srtt, self.now);
                    let data = datagram.slice_ref(pack.data);
                    self.receiver.handle_pack(&pack, data, self.now)
                }
                Frame::Skip(skip) => self.receiver.handle_skip(&skip, self.now),
                Frame::Ping(ping) => {
                    self.pongs_due.push_back(ping.nonce);
                    let probe = ping.lanes.of(self.setup.lane);
                    probe.map_or(Ok(()), |probe| self.receiver.on_ping(probe, self.now))
                }
                Frame::Ack(_) | Frame::Dgram(_) | Frame::Pong(_) => Ok(()),
            };
            if let Err(violation) = result {
                self.fail(&format!("the receiver accuses: {violation:?}"));
            }
            // Each arrival frees what it frees at this moment.
            self.take_deliveries();
        }
    }

    fn arrive_back(&mut self, datagram: &Bytes) {
        for frame in Frames::new(datagram) {
            match frame.unwrap() {
                Frame::Ack(ack) => {
                    if let Err(violation) = self.sender.handle_ack(&ack, self.now) {
                        self.fail(&format!("the sender accuses: {violation:?}"));
                    }
                    self.books.granted(ack.credit);
                    if self.sender.exhausted().is_none() {
                        self.heard_at = Some(self.now);
                    }
                }
                Frame::Pong(_) => self.pongs += 1,
                Frame::Pack(_) | Frame::Skip(_) | Frame::Ping(_) | Frame::Dgram(_) => {}
            }
        }
        // Both ends measure the same path; here the receiver is told what the sender found.
        self.srtt = self.sender.rtt();
        if let Some(srtt) = self.srtt {
            self.receiver.on_rtt(srtt);
        }
    }

    pub(super) fn take_deliveries(&mut self) {
        // What waited for the application was released at a moment that nobody saw.
        self.slept |= !self.takes;
        while self.takes
            && let Some(delivery) = self.receiver.poll_deliver()
        {
            let cumulative = self.receiver.cumulative();
            let seen = (!self.slept).then_some(self.now);
            let at = self.elapsed();
            if let Err(what) = self.books.delivery(&delivery, cumulative, seen, at) {
                self.fail(&what);
            }
        }
        self.slept &= !self.takes;
    }
}
