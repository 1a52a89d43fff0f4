//! The racer at work: what [`Racer`] decides is sent, and who has lost is told.
//!
//! [`Racer`]: super::race::Racer

use std::time::Instant;

use bytes::Bytes;
use quell_packet::{FlowKey, IpPacket, TcpView};
use quell_wire::control::{Control, FiveTuple, FlowClose};

use super::address::of_family;
use super::client::Client;
use super::exit_id::ExitId;
use super::may;
use super::output::Output;
use super::race::Again;
use super::verdict::No;
use crate::drops::DropReason;
use crate::path::Path;
use crate::send::Degraded as _;

impl Client {
    /// The user opens a connection, or asks once more.
    pub(super) fn open(
        &mut self,
        key: FlowKey,
        packet: Bytes,
        now: Instant,
    ) -> Result<(), DropReason> {
        if self.racer.is_racing(&key) {
            return self.ask_again(&key, packet, now);
        }
        let exit = self.choose(&key, &[], now).ok_or(DropReason::NoTunnel)?;
        self.flows.open(key, exit, first_sequence(&packet), now);
        let raced = may::may_race(0, self.narrows(now), self.racer.config()).is_ok()
            && self.racer.begin(key, packet.clone(), now);
        let pack = self.send(exit, packet, now)?;
        if raced {
            self.racer.on_sent(&key, exit, pack);
        }
        Ok(())
    }

    /// The user's TCP had no answer: its packet goes another way.
    fn ask_again(&mut self, key: &FlowKey, packet: Bytes, now: Instant) -> Result<(), DropReason> {
        let width = may::race_width(self.narrows(now), self.racer.config());
        match self.racer.again(key, packet.clone(), width, now) {
            Some(Again::Refuse(refusal)) => {
                self.out.push_back(Output::Deliver(refusal));
                self.made += 1;
                Err(DropReason::RaceRefused)
            }
            Some(Again::Add) | None => self.send_copy(key, &[], packet, now),
            Some(Again::Replace(oldest)) => self.send_copy(key, &oldest, packet, now),
        }
    }

    /// Sends a copy over the next best exit, in place of those over `oldest`. Where
    /// there is no other exit, the oldest has it once more.
    fn send_copy(
        &mut self,
        key: &FlowKey,
        oldest: &[ExitId],
        packet: Bytes,
        now: Instant,
    ) -> Result<(), DropReason> {
        let live: Vec<_> = self.racer.live(key).collect();
        let next = self.choose(key, &live, now);
        let exit = match (next, live.first()) {
            (Some(next), _) => {
                oldest
                    .iter()
                    .for_each(|exit| self.racer.on_replaced(key, *exit));
                self.close_flow_on(key, oldest, now);
                next
            }
            (None, Some(first)) => *first,
            (None, None) => self.choose(key, &[], now).ok_or(DropReason::NoTunnel)?,
        };
        self.flows.assign(key, exit);
        let pack = self.send(exit, packet, now)?;
        self.racer.on_sent(key, exit, pack);
        Ok(())
    }

    /// Second copies of what was sent a while ago over exits that did not say so.
    pub(super) fn hedge(&mut self, now: Instant) {
        loop {
            let exits = &self.exits;
            let is_acked = |exit: ExitId, pack| {
                let path = exits.get(exit.index()).and_then(|of| of.path.as_deref());
                path.is_some_and(|path: &Path| path.is_flow_pack_settled(pack))
            };
            let Some(key) = self.racer.poll_hedge(is_acked, now) else {
                return;
            };
            if self.send_unasked(&key, now) {
                self.racer.count_hedge();
            }
        }
    }

    /// An exit brings no more answers: what waits for one there asks elsewhere.
    pub(super) fn on_exit_failed(&mut self, exit: ExitId, now: Instant) {
        for key in self.racer.on_exit_failed(exit) {
            if self.send_unasked(&key, now) {
                self.racer.count_after_failure();
            }
        }
    }

    /// Sends a copy that no packet of the user's stands for; whether it was sent. Why
    /// not, the status says.
    fn send_unasked(&mut self, key: &FlowKey, now: Instant) -> bool {
        let sent = self.may_send_unasked(key, now).and_then(|(exit, packet)| {
            self.extra_copies += 1;
            let sent = self.send(exit, packet, now);
            let sent = sent.inspect_err(|reason| self.tun_drops.count(*reason));
            let pack = sent.map_err(|_| No::Alone)?;
            self.racer.on_sent(key, exit, pack);
            Ok(())
        });
        self.race_held = sent.err();
        sent.is_ok()
    }

    /// Whether a copy may be sent that the user did not ask for, and over which exit.
    ///
    /// After [`may::may_race`], in this order: another exit that could answer, the
    /// budget.
    fn may_send_unasked(&mut self, key: &FlowKey, now: Instant) -> Result<(ExitId, Bytes), No> {
        let live: Vec<_> = self.racer.live(key).collect();
        may::may_race(live.len(), self.narrows(now), self.racer.config())?;
        let except = if live.is_empty() {
            self.failed_exit(key)
        } else {
            live
        };
        let exit = self.choose(key, &except, now).ok_or(No::Alone)?;
        let packet = self.racer.packet(key).ok_or(No::Alone)?;
        if self.racer.reserve(key, now) {
            Ok((exit, packet))
        } else {
            Err(No::RaceBudget)
        }
    }

    /// Why no copy is sent that was not asked for.
    fn narrows(&self, now: Instant) -> Option<No> {
        may::narrows(self.signal.is_degraded(now), self.steering.network.metered)
    }

    /// Copies of the question about a flow that wait for an answer.
    pub fn live_copies(&self, key: &FlowKey) -> usize {
        self.racer.live(key).count()
    }

    /// Where a flow without a copy had its last one.
    fn failed_exit(&self, key: &FlowKey) -> Vec<ExitId> {
        self.flows
            .peek(key)
            .map(|flow| flow.exit)
            .into_iter()
            .collect()
    }

    /// The user has no use for an answer any more. The exit that its flow is on hears
    /// of it by the packet that says so, all others by FLOW_CLOSE.
    pub(super) fn end_race(&mut self, key: &FlowKey, exit: ExitId, now: Instant) {
        let mut live = self.racer.end(key);
        live.retain(|other| *other != exit);
        self.close_flow_on(key, &live, now);
    }

    /// Tells exits that they have lost.
    pub(super) fn close_flow_on(&mut self, key: &FlowKey, losers: &[ExitId], now: Instant) {
        let sequence = self
            .flows
            .peek(key)
            .and_then(|flow| flow.track.first_sequence());
        for exit in losers {
            self.close_flow(key, *exit, sequence, now);
        }
    }

    /// Something came from an exit that is out: perhaps it did not hear of that.
    pub(super) fn close_late(&mut self, key: &FlowKey, exit: ExitId, now: Instant) {
        if self.late_closes.take(now) {
            self.close_flow(key, exit, None, now);
        }
    }

    fn close_flow(&mut self, key: &FlowKey, exit: ExitId, sequence: Option<u32>, now: Instant) {
        let Some(of) = self.exits.get_mut(exit.index()).filter(|of| of.is_up()) else {
            return;
        };
        let Some(source) = of_family(of.addresses(), key.source) else {
            return;
        };
        let flow = FiveTuple {
            protocol: key.protocol,
            source,
            source_port: key.source_port,
            destination: key.destination,
            destination_port: key.destination_port,
        };
        of.say(&Control::FlowClose(FlowClose { flow, sequence }), now);
        self.out.append(&mut of.out);
    }
}

/// The number after a SYN's own: what a reset of the connection has to carry.
fn first_sequence(packet: &[u8]) -> Option<u32> {
    let view = IpPacket::parse(packet).ok()?;
    let tcp = TcpView::parse(view.payload()).ok()?;
    Some(tcp.sequence().wrapping_add(1))
}
