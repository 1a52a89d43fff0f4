//! Each packet from the tunnel to whom it concerns.
//!
//! A packet is judged once, as a whole ([`judge`]): what reaches a flow or a port is well-formed, between two hosts, and has
//! right checksums; and it is for an address of ours. A TCP segment of no flow is answered with a reset, as any host would,
//! so that the far end learns that the application is gone. Everything else that concerns nobody is counted and dropped in
//! silence.
//!
//! After each batch the router steps back, so that the flows take what it queued before the next batch comes.

use bytes::Bytes;
use quell_packet::{FlowKey, IcmpView, IpPacket, icmp, protocol};
use quell_stack::{Inlet, Ledger as _, answer, judge};

use crate::books::{DropReason, Refusal};
use crate::common::Common;

/// Runs until no packet will come.
pub(crate) async fn run(common: &Common, inlet: &Inlet) {
    while let Some(mut batch) = inlet.receive().await {
        for packet in batch.drain(..) {
            if let Err(reason) = route(common, packet) {
                common.books.drop_many(reason, 1);
            }
        }
        inlet.recycle(batch);
        tokio::task::yield_now().await;
    }
}

/// Hands a packet on; whoever takes it counts it.
fn route(common: &Common, packet: Bytes) -> Result<(), DropReason> {
    let ip = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
    judge(&ip)?;
    if !common.tunnel.borrow().has(ip.destination()) {
        return Err(DropReason::NotOurs);
    }
    let key = FlowKey::of(&ip).reversed();
    match (ip, ip.protocol()) {
        (_, protocol::TCP) => match common.flows.find(&key) {
            Some(flow) => {
                let pushed = flow.feed.push(packet.clone());
                pushed.map_err(|_| DropReason::QueueFull)
            }
            None => {
                answer::reset(&ip, &common.outbox);
                Err(DropReason::NoFlow)
            }
        },
        (_, protocol::UDP) => common.ports.feed(&key, packet.clone()),
        (IpPacket::V4(_), protocol::ICMP) | (IpPacket::V6(_), protocol::ICMPV6)
            if icmp::is_error(&ip) =>
        {
            take_error(common, &ip)
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
