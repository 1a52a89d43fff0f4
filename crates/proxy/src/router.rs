//! Each packet from the tunnel to whom it concerns.
//!
//! A packet is judged once, as a whole ([`judge_network`], [`judge_upper`]): what reaches a flow or a port is well-formed,
//! between two hosts, and has right checksums; and it is for an address of ours. A TCP segment of no flow is answered with a reset, as any host would,
//! so that the far end learns that the application is gone. Everything else that concerns nobody is counted and dropped in
//! silence.
//!
//! After each batch the router steps back, so that the flows take what it queued before the next batch comes.

use std::time::Instant;

use bytes::Bytes;
use quell_packet::reassembly::{Fate, Reassembly};
use quell_packet::{FlowKey, IcmpView, IpPacket, icmp, protocol};
use quell_stack::{Inlet, Ledger as _, answer, judge_network, judge_upper};

use crate::books::{DropReason, Refusal};
use crate::common::Common;

/// What is incomplete.
#[derive(Default)]
struct Router {
    fragments: Reassembly,
}

/// Runs until no packet will come.
pub(crate) async fn run(common: &Common, inlet: &Inlet) {
    let mut router = Router::default();
    loop {
        let due = router.fragments.poll_timeout();
        let expired = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            batch = inlet.receive() => match batch {
                Some(batch) => router.route_all(common, batch, inlet),
                None => return,
            },
            () = expired => {
                router.fragments.expire(Instant::now());
                router.count_given_up(common);
            }
        }
        tokio::task::yield_now().await;
    }
}

impl Router {
    fn route_all(&mut self, common: &Common, mut batch: Vec<Bytes>, inlet: &Inlet) {
        for packet in batch.drain(..) {
            if let Err(reason) = self.route(common, packet) {
                common.books.drop_many(reason, 1);
            }
        }
        inlet.recycle(batch);
    }

    fn count_given_up(&mut self, common: &Common) {
        let given_up = self.fragments.take_given_up();
        common.books.drop_many(DropReason::Fragment, given_up);
    }

    /// Judges a packet, and hands it on when it is whole. A fragment that is held waits in the books.
    fn route(&mut self, common: &Common, packet: Bytes) -> Result<(), DropReason> {
        let ip = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
        judge_network(&ip)?;
        if !ip.is_fragment() {
            return hand_on(common, &ip, &packet);
        }
        let fate = self.fragments.take(&ip, Instant::now());
        self.count_given_up(common);
        match fate {
            Fate::Held => Ok(()),
            Fate::Refused => Err(DropReason::Fragment),
            Fate::Whole { packet, pieces } => {
                // The last one is counted by whoever takes the whole.
                common.books.consumed(pieces);
                let packet = Bytes::from(packet);
                let ip = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
                hand_on(common, &ip, &packet)
            }
        }
    }
}

/// Hands a whole packet on; whoever takes it counts it.
fn hand_on(common: &Common, ip: &IpPacket<'_>, packet: &Bytes) -> Result<(), DropReason> {
    judge_upper(ip)?;
    if !common.tunnel.borrow().has(ip.destination()) {
        return Err(DropReason::NotOurs);
    }
    let key = FlowKey::of(ip).reversed();
    match (*ip, ip.protocol()) {
        (_, protocol::TCP) => match common.flows.find(&key) {
            Some(flow) => {
                let pushed = flow.feed.push(packet.clone());
                pushed.map_err(|_| DropReason::QueueFull)
            }
            None => {
                answer::reset(ip, &common.outbox);
                Err(DropReason::NoFlow)
            }
        },
        (_, protocol::UDP) => common.ports.feed(&key, packet.clone()),
        (IpPacket::V4(_), protocol::ICMP) | (IpPacket::V6(_), protocol::ICMPV6)
            if icmp::is_error(ip) =>
        {
            take_error(common, ip)
        }
        _ => Err(DropReason::Unsupported),
    }
}

/// Takes an ICMP error: what it says, it says about a packet of ours.
fn take_error(common: &Common, ip: &IpPacket<'_>) -> Result<(), DropReason> {
    let quoted = icmp::quoted_flow(ip).ok_or(DropReason::Malformed)?;
    if quoted.protocol == protocol::UDP {
        return Err(DropReason::DatagramError);
    }
    let flow = common.flows.find(&quoted).ok_or(DropReason::NoFlow)?;
    if !flow.feed.take_too_big(ip) {
        let message = IcmpView::parse(ip.payload()).map_err(|_| DropReason::Malformed)?;
        flow.fail(meaning(ip, &message));
    }
    common.books.consumed(1);
    Ok(())
}

/// What an error says to an application that connects.
const fn meaning(ip: &IpPacket<'_>, message: &IcmpView<'_>) -> Refusal {
    match (ip, message.kind(), message.code()) {
        (IpPacket::V4(_), icmp::V4_UNREACHABLE, 3) | (IpPacket::V6(_), icmp::V6_UNREACHABLE, 4) => {
            Refusal::Refused
        }
        (IpPacket::V4(_), icmp::V4_UNREACHABLE, 9 | 10 | 13)
        | (IpPacket::V6(_), icmp::V6_UNREACHABLE, 1 | 5 | 6) => Refusal::Prohibited,
        _ => Refusal::Unreachable,
    }
}
