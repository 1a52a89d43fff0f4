//! What a client hears of a packet that was refused.
//!
//! A reset is the destination's to send, so it comes from there; an ICMP error is a router's, so it comes from the
//! gateway. Both are work that the client makes us do: a token bucket bounds it.

use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use quell_packet::icmp::{Unreachable, unreachable};
use quell_packet::reset::tcp_reset_for;
use quell_packet::{IpPacket, TcpView, protocol};

use super::RefusalCounters;
use crate::bucket::TokenBucket;
use crate::config::ClientLimitsConfig;
use crate::status::TunnelAddresses;

#[derive(Debug)]
pub(super) struct Refusals {
    bucket: TokenBucket,
    counters: RefusalCounters,
}

impl Refusals {
    pub(super) fn new(config: &ClientLimitsConfig) -> Self {
        Self {
            bucket: TokenBucket::new(config.refusals_per_s, config.refusal_burst),
            counters: RefusalCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> RefusalCounters {
        self.counters
    }

    /// The answer to a packet that was refused, as a packet for the client; `None`: silence.
    pub(super) fn tell(
        &mut self,
        packet: &[u8],
        addresses: &TunnelAddresses,
        now: Instant,
    ) -> Option<Bytes> {
        let answer = self.bucket.is_ready(now).then(|| answer(packet, addresses));
        let Some(answer) = answer.flatten() else {
            self.counters.silent += 1;
            return None;
        };
        self.bucket.take(now);
        self.counters.told += 1;
        Some(answer.into())
    }
}

fn answer(packet: &[u8], addresses: &TunnelAddresses) -> Option<Vec<u8>> {
    let view = IpPacket::parse(packet).ok()?;
    let opens = view.protocol() == protocol::TCP
        && TcpView::parse(view.payload()).is_ok_and(|tcp| tcp.is_opening());
    if opens {
        return tcp_reset_for(&view);
    }
    let gateway: IpAddr = match view {
        IpPacket::V4(_) => addresses.gateway_ipv4?.into(),
        IpPacket::V6(_) => addresses.gateway_ipv6?.into(),
    };
    unreachable(packet, Unreachable::AdminProhibited, gateway)
}
