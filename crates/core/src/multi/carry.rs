//! What becomes of a packet: from the TUN to an exit, and back.
//!
//! Every packet of the TUN ends in a path or in `tun_drops`; every packet of a path
//! ends in the TUN or in `received_drops`.
//!
//! A flow stays on its exit for as long as that exit has a session, stalled or not:
//! its address in the world cannot move. When the session is gone, a TCP is told so
//! by a reset, at once and again whenever it still speaks; all else picks another
//! exit with its next packet.

use std::time::Instant;

use bytes::Bytes;
use quell_packet::{FlowKey, IpPacket, TcpView, icmp, protocol, reset};

use super::address::of_family;
use super::client::Client;
use super::exit_id::ExitId;
use super::guard::judge_inward;
use super::output::Output;
use super::race::{Answer, Ruling};
use crate::config::Raced;
use crate::drops::DropReason;

/// The server port of DNS.
const DNS_PORT: u16 = 53;

/// What a packet of the TUN wants.
enum Wants {
    /// To go where its flow goes.
    Flow,
    /// To open a connection.
    Open,
    /// To go where the flow goes that it is about, and to make none.
    Quoted,
}

impl Client {
    /// A packet of the TUN. Every outcome is counted.
    pub fn handle_packet(&mut self, packet: Bytes, now: Instant) {
        self.now = now;
        self.tun_packets += 1;
        if let Err(reason) = self.carry(packet, now) {
            self.tun_drops.count(reason);
        }
    }

    fn carry(&mut self, packet: Bytes, now: Instant) -> Result<(), DropReason> {
        if self.exits.live().all(|exit| exit.path.is_none()) {
            return Err(DropReason::NoTunnel);
        }
        let view = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
        let judged = self.guard.judge_outward(&view, self.inside.addresses());
        if judged == Err(DropReason::UnderlayAddress) {
            self.guard.on_looped(view.destination(), now);
        }
        judged?;
        let (key, wants) = if icmp::is_error(&view) {
            // What it quotes came in: the flow's own packets go the other way.
            let quoted = icmp::quoted_flow(&view).map(FlowKey::reversed);
            (quoted.unwrap_or_else(|| FlowKey::of(&view)), Wants::Quoted)
        } else {
            (FlowKey::of(&view), self.wants(&view))
        };
        let segment = tcp_of(&view);
        let known = self.flows.touch_outward(&key, segment.as_ref(), now);
        let known = known.map(|flow| (flow.exit, flow.lost));
        match (wants, known) {
            (Wants::Open, _) => self.open(key, packet, now),
            (Wants::Quoted, None) => {
                let exit = self.choose(&key, &[], now).ok_or(DropReason::NoTunnel)?;
                self.send(exit, packet, now).map(|_| ())
            }
            (_, Some((_, true))) => {
                if let Some(reset) = reset::tcp_reset_for(&view) {
                    self.hand_made(reset);
                }
                Err(DropReason::FlowLost)
            }
            (_, Some((exit, false))) => {
                if self.racer.len() > 0 && self.racer.is_racing(&key) {
                    self.end_race(&key, exit, now);
                }
                self.send(exit, packet, now).map(|_| ())
            }
            (Wants::Flow, None) => {
                let exit = self.choose(&key, &[], now).ok_or(DropReason::NoTunnel)?;
                self.flows.insert(key, exit, segment.as_ref(), now);
                self.send(exit, packet, now).map(|_| ())
            }
        }
    }

    fn wants(&self, view: &IpPacket<'_>) -> Wants {
        let first = view.fragment_offset() == 0;
        let opens = match view.protocol() {
            protocol::TCP => first && tcp_of(view).is_some_and(|tcp| tcp.is_opening()),
            protocol::UDP => {
                let dns = self.racer.config().race == Raced::TcpDns;
                dns && first && FlowKey::of(view).destination_port == DNS_PORT
            }
            _ => false,
        };
        if opens { Wants::Open } else { Wants::Flow }
    }

    /// Hands a packet to an exit; the number of its pack in the flow lane, if it took
    /// that.
    pub(super) fn send(
        &mut self,
        exit: ExitId,
        packet: Bytes,
        now: Instant,
    ) -> Result<Option<u64>, DropReason> {
        let source = IpPacket::parse(&packet)
            .map_err(|_| DropReason::Malformed)?
            .source();
        let Some(of) = self.exits.get_mut(exit.index()) else {
            return Err(DropReason::NoTunnel);
        };
        let packet = self.inside.outwards(packet, source, of.addresses());
        let (Some(packet), Some(path)) = (packet, &mut of.path) else {
            return Err(DropReason::NoTunnel);
        };
        let before = path.next_flow_number();
        path.handle_packet(packet, now);
        let after = path.next_flow_number();
        self.take_icmp(exit);
        Ok((after > before).then(|| after - 1))
    }

    /// The best exit for a flow that has those in `except` already; `None`: there is no
    /// other that carries its family.
    pub(super) fn choose(
        &mut self,
        key: &FlowKey,
        except: &[ExitId],
        now: Instant,
    ) -> Option<ExitId> {
        let carries = |exit: ExitId| {
            let of = self.exits.get(exit.index());
            of.is_some_and(|of| of_family(of.addresses(), key.source).is_some())
        };
        let mut candidates = self.candidates(now);
        candidates.retain(|candidate| carries(candidate.exit));
        if except.is_empty() {
            return self.chooser.choose(candidates.into_iter(), key.destination);
        }
        candidates.retain(|candidate| !except.contains(&candidate.exit));
        candidates.retain(|candidate| candidate.standing > super::choose::Standing::Waiting);
        self.chooser.best(candidates.into_iter(), key.destination)
    }

    // --- inwards ---------------------------------------------------------

    /// Takes what the path of `exit` received.
    pub(super) fn take_received(&mut self, exit: ExitId, now: Instant) {
        loop {
            let path = self
                .exits
                .get_mut(exit.index())
                .and_then(|of| of.path.as_deref_mut());
            let Some(packet) = path.and_then(|path| path.poll_received()) else {
                break;
            };
            match self.admit(exit, packet, now) {
                Ok(packet) => {
                    self.delivered += 1;
                    if let Some(of) = self.exits.get_mut(exit.index()) {
                        of.billed.on_received(packet.len());
                    }
                    self.out.push_back(Output::Deliver(packet));
                }
                Err(reason) => self.received_drops.count(reason),
            }
        }
        self.take_icmp(exit);
    }

    /// Takes ICMP errors that the path of `exit` made for the user.
    pub(super) fn take_icmp(&mut self, exit: ExitId) {
        let Some(of) = self.exits.get_mut(exit.index()) else {
            return;
        };
        let outside = *of.addresses();
        let Some(path) = &mut of.path else { return };
        while let Some(error) = path.poll_icmp() {
            let destination = IpPacket::parse(&error).map(|view| view.destination());
            let error = match destination {
                Ok(destination) if outside.owns(destination) => {
                    self.inside.inwards(error, destination)
                }
                Ok(_) | Err(_) => error,
            };
            self.out.push_back(Output::Deliver(error));
        }
    }

    /// A packet of an exit as the user gets it, or why not.
    fn admit(&mut self, exit: ExitId, packet: Bytes, now: Instant) -> Result<Bytes, DropReason> {
        let Some(of) = self.exits.get(exit.index()) else {
            return Err(DropReason::NoTunnel);
        };
        let view = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
        judge_inward(&view, of.addresses())?;
        let outside = view.destination();
        let is_error = icmp::is_error(&view);
        let key = if is_error {
            icmp::quoted_flow(&view)
        } else {
            Some(FlowKey::of(&view).reversed())
        };
        let own = of_family(self.inside.addresses(), outside);
        let key = key.map(|key| FlowKey {
            source: own.unwrap_or(outside),
            ..key
        });
        let segment = tcp_of(&view);
        let answer = answer_in(segment.as_ref(), is_error, &view);
        let kept = match key {
            Some(key) => self.meet(&key, exit, (answer, segment.as_ref(), is_error), now),
            None => Ok(true),
        };
        let packet = match of_path(&self.exits, exit) {
            Some(path) => path.clamp_mss(packet),
            None => packet,
        };
        let packet = self.inside.inwards(packet, outside);
        match (kept, key) {
            (Ok(true), _) => Ok(packet),
            (Ok(false), Some(key)) => {
                self.racer.keep(&key, packet);
                Err(DropReason::RaceKept)
            }
            (Ok(false), None) => Ok(packet),
            (Err(reason), _) => Err(reason),
        }
    }

    /// What a packet of an exit is to its flow: whether it goes to the user, or is kept.
    fn meet(
        &mut self,
        key: &FlowKey,
        exit: ExitId,
        (answer, segment, is_error): (Answer, Option<&TcpView<'_>>, bool),
        now: Instant,
    ) -> Result<bool, DropReason> {
        if self.racer.len() > 0 {
            match self.racer.on_answer(key, exit, answer) {
                Ruling::NoRace => {}
                Ruling::Pass => return Ok(true),
                Ruling::Keep => return Ok(false),
                Ruling::Lost => self.flows.assign(key, exit),
                Ruling::Won(losers) => {
                    self.flows.assign(key, exit);
                    self.close_flow_on(key, &losers, now);
                }
                Ruling::Late => {
                    self.close_late(key, exit, now);
                    return Err(DropReason::RaceLost);
                }
            }
        }
        if is_error {
            return Ok(true);
        }
        match self
            .flows
            .touch_inward(key, exit, segment, now)
            .map(|flow| flow.exit)
        {
            // Only a TCP has a state that two exits would confuse.
            Some(of) if of != exit && segment.is_some() => {
                self.close_late(key, exit, now);
                Err(DropReason::RaceLost)
            }
            Some(_) => Ok(true),
            None => {
                if !segment.is_some_and(TcpView::is_rst) {
                    self.flows.insert(*key, exit, None, now);
                }
                Ok(true)
            }
        }
    }

    // --- flows whose exit is gone ------------------------------------------

    /// The session of `exit` is gone, and with it what it carried: each TCP is told.
    ///
    /// A client of one provider has nowhere else to go. Its next session mostly has the
    /// same address, and where the provider's system translates it, the connections of
    /// before may go on.
    pub(super) fn lose_flows(&mut self, exit: ExitId, now: Instant) {
        if self.exits.len() == 1 {
            return;
        }
        let mut resets = Vec::new();
        self.flows
            .lose_exit(exit, now, |flow| resets.extend(flow.reset_for_user()));
        resets.into_iter().for_each(|reset| self.hand_made(reset));
    }

    /// Hands the TUN a packet that this client made.
    fn hand_made(&mut self, packet: Vec<u8>) {
        self.made += 1;
        self.out.push_back(Output::Deliver(packet.into()));
    }
}

fn of_path(exits: &[super::exit::Exit], exit: ExitId) -> Option<&crate::path::Path> {
    exits.get(exit.index())?.path.as_deref()
}

/// The TCP segment of a packet, unless it is a later fragment or none.
fn tcp_of<'a>(view: &IpPacket<'a>) -> Option<TcpView<'a>> {
    let whole = view.protocol() == protocol::TCP && view.fragment_offset() == 0;
    whole.then(|| TcpView::parse(view.payload()).ok()).flatten()
}

/// What a packet says to a question that is raced.
fn answer_in(segment: Option<&TcpView<'_>>, is_error: bool, view: &IpPacket<'_>) -> Answer {
    match segment {
        _ if is_error => Answer::No,
        Some(tcp) if tcp.is_rst() => Answer::No,
        Some(tcp) if tcp.is_syn() && tcp.is_ack() => Answer::Yes,
        Some(_) => Answer::Other,
        None if view.protocol() == protocol::UDP => Answer::Yes,
        None => Answer::Other,
    }
}
