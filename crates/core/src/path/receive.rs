//! What the peer says.
//!
//! Each frame of a datagram is taken in its order, and what it says is passed to
//! the one whom it concerns: packs and SKIPs to the receiving end of their lane,
//! ACKs to the sending one, PINGs and PONGs to liveness and, as facts, to health.
//! A breach ends it; what came before stands.

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_wire::frame::{Ack, Frame, Frames, Lane, Ping};
use quell_wire::registry::ErrorCode;

use super::{Path, Violation, violation};

impl Path {
    /// Takes a datagram of the peer; whole packets wait in [`Path::poll_received`],
    /// messages in [`Path::poll_message`].
    ///
    /// # Errors
    /// The peer broke the protocol, or the path is dead for data although it
    /// answers: the connection is to be closed with it.
    pub fn handle_datagram(&mut self, datagram: &Bytes, now: Instant) -> Result<(), Violation> {
        self.now = now;
        self.rest.wake();
        self.counters.datagrams_received += 1;
        let taken = self.handle_frames(datagram, now);
        self.deliver();
        taken?;
        let change = self.health.on_heard(self.lanes.is_unacked(), now);
        self.apply(change, now);
        if self.health.is_dead(now) {
            let words = "the path answers, but nothing that is sent arrives";
            return Err(violation(ErrorCode::Idle, words));
        }
        Ok(())
    }

    fn handle_frames(&mut self, datagram: &Bytes, now: Instant) -> Result<(), Violation> {
        for frame in Frames::new(datagram) {
            let frame = frame.map_err(|error| Violation {
                code: error.code(),
                words: error.to_string(),
            })?;
            self.handle_frame(datagram, frame, now)?;
        }
        Ok(())
    }

    fn handle_frame(
        &mut self,
        datagram: &Bytes,
        frame: Frame<'_>,
        now: Instant,
    ) -> Result<(), Violation> {
        match frame {
            Frame::Dgram(packet) => {
                self.health.on_fed();
                self.receive(datagram.slice_ref(packet));
            }
            Frame::Pack(pack) => {
                self.health.on_fed();
                let data = datagram.slice_ref(pack.data);
                self.receiver(pack.lane).handle_pack(&pack, data, now)?;
            }
            Frame::Skip(skip) => self.receiver(skip.lane).handle_skip(&skip, now)?,
            Frame::Ack(ack) => self.handle_ack(&ack, now)?,
            Frame::Ping(ping) => self.handle_ping(&ping, now)?,
            Frame::Pong(pong) => {
                if let Some(answer) = self.liveness.handle_pong(pong.nonce, now) {
                    if let Some(rtt) = answer.rtt {
                        self.on_rtt(rtt, Duration::ZERO, now);
                    }
                    let change = self.health.on_pong(self.lanes.is_unacked(), now);
                    self.apply(change, now);
                }
            }
        }
        Ok(())
    }

    fn receiver(&mut self, lane: Lane) -> &mut crate::recv::ReceiveSequence {
        &mut self.lanes.receive[lane.index()]
    }

    fn handle_ack(&mut self, ack: &Ack<'_>, now: Instant) -> Result<(), Violation> {
        let acked = self.lanes.send[ack.lane.index()].handle_ack(ack, now)?;
        self.lanes.on_acked(ack.lane);
        if let Some(rtt) = acked.rtt {
            self.on_rtt(rtt, Duration::from_micros(ack.delay_us), now);
        }
        if acked.packs > 0 {
            let change = self.health.on_progress(self.lanes.is_unacked(), now);
            self.apply(change, now);
        }
        Ok(())
    }

    fn on_rtt(&mut self, latest: Duration, delay: Duration, now: Instant) {
        self.health.on_rtt(latest, delay, now);
        let Some(smoothed) = self.health.rtt() else {
            return;
        };
        for receive in &mut self.lanes.receive {
            receive.on_rtt(smoothed);
        }
    }

    fn handle_ping(&mut self, ping: &Ping, now: Instant) -> Result<(), Violation> {
        let owed_max = self.config.ping_burst_max as usize;
        let taken = self.liveness.handle_ping(ping.nonce, owed_max, now);
        taken.map_err(|code| Violation {
            code,
            words: format!("more than {} PINGs a second", self.config.pings_per_s_max),
        })?;
        for probe in ping.lanes.iter() {
            self.receiver(probe.lane).on_ping(probe, now)?;
        }
        Ok(())
    }

    /// Takes what the flow lane lets out. Messages wait until they are asked for:
    /// what is not taken holds the peer back.
    pub(super) fn deliver(&mut self) {
        let flow = Lane::FLOW.index();
        while let Some(delivery) = self.lanes.receive[flow].poll_deliver() {
            self.receive(delivery.bytes);
        }
    }

    /// Packets that wait for an earlier one of their flow come out: the session ends.
    pub(crate) fn release_holds(&mut self) {
        for receive in &mut self.lanes.receive {
            receive.release_holds();
        }
        self.rest.forget();
        self.deliver();
    }

    fn receive(&mut self, packet: Bytes) {
        self.counters.received += 1;
        self.counters.received_bytes += packet.len() as u64;
        self.received.push_back(packet);
    }

    /// The next packet that came out of the path, for the owner to judge.
    pub fn poll_received(&mut self) -> Option<Bytes> {
        self.received.pop_front()
    }
}
