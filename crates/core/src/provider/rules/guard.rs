//! The guard of one session's way out: what becomes of a packet of its client, and what the client hears.
//!
//! ```text
//! packet ─┬─ denied, or names its own way ─→ counted by class; answered while the allowance lasts:
//!         │                                   TCP      a reset, as if nobody listened (RFC 9293 §3.10.7.1)
//!         │                                   the rest "administratively prohibited" (RFC 1812 §5.2.7.1, RFC 4443 §3.1)
//!         ├─ echo request to the gateway ──→ answered here: people ping it, and only one of the egresses has such a host
//!         └─ the rest ─────────────────────→ the egress
//! ```
//!
//! A denial that nobody hears is a timeout of two minutes, and an hour of somebody's search; so it is answered. Any TCP
//! segment draws the reset, and not the SYN alone: a rule that is changed ends the connections it denies at once, where
//! silence would have them wait for a quarter of an hour. The answer goes to the address of the client that asked for it and
//! to nobody else, so it serves no attack; the allowance keeps a client that scans from filling its own way back.
//!
//! Answers are packets that the provider made: they are in the books of the path that carries them, and not among those
//! of the world.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quell_packet::build::Header;
use quell_packet::icmp::{self, Unreachable};
use quell_packet::reset::tcp_reset_for;
use quell_packet::{FlowKey, IcmpView, IpPacket, checksum, protocol};

use super::RuleSet;
use super::class::{Class, Denials};
use super::rule::{Asked, Port};
use crate::bucket::TokenBucket;
use crate::config::EgressRulesConfig;
use crate::counters::counters;
use crate::status::TunnelAddresses;

/// The IPv4 options by which a packet names its own way (RFC 791 §3.1).
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;

counters! {
    /// What the rules of the way out came to, in packets of clients.
    pub struct EgressCounters {
        /// Packets that were denied, by class. Their sum is that of the drop reason `denied`.
        pub denied: Denials,
        /// Denied packets that were answered with a reset or an ICMP error.
        pub denials_told: u64,
        /// Denied packets that were not answered, because there had been too many.
        pub denials_limited: u64,
        /// Echo requests to the provider's own address that it answered itself: neither delivered nor dropped.
        pub echoes_answered: u64,
    }
}

/// What becomes of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::provider) enum Fate {
    /// It goes to the egress.
    Pass,
    /// It is not sent; its client may hear this.
    Denied(Option<Bytes>),
    /// It was for the provider itself, which says this.
    Answered(Bytes),
}

/// The guard of one session.
#[derive(Debug)]
pub(in crate::provider) struct EgressGuard {
    rules: Arc<RuleSet>,
    gateway: TunnelAddresses,
    allowance: TokenBucket,
    counters: EgressCounters,
}

impl EgressGuard {
    pub(in crate::provider) fn new(
        rules: Arc<RuleSet>,
        config: &EgressRulesConfig,
        gateway: TunnelAddresses,
    ) -> Self {
        let (rate, burst) = (
            config.denial_answers_per_s_max,
            config.denial_answer_burst_max,
        );
        Self {
            rules,
            gateway,
            allowance: TokenBucket::new(rate, burst),
            counters: EgressCounters::default(),
        }
    }

    /// From the next packet on, these rules hold.
    pub(in crate::provider) fn on_rules(&mut self, rules: &Arc<RuleSet>) {
        self.rules = Arc::clone(rules);
    }

    pub(in crate::provider) fn counters(&self) -> EgressCounters {
        self.counters
    }

    /// Whether nothing may be sent on the flow; counts nothing.
    pub(in crate::provider) fn denies(&self, flow: &FlowKey) -> bool {
        let asked = Asked {
            destination: Some(flow.destination),
            protocol: Some(flow.protocol),
            port: Port::Known(flow.destination_port),
        };
        self.rules.judge(&asked).is_err()
    }

    /// Judges a packet of the client, whose source is its own.
    pub(in crate::provider) fn judge(&mut self, ip: &IpPacket<'_>, now: Instant) -> Fate {
        let judged = match is_source_routed(ip) {
            true => Err(Class::SourceRoute),
            false => self.rules.judge(&Asked::of(ip)),
        };
        let Err(class) = judged else {
            return Fate::Pass;
        };
        if class == Class::OwnAddress
            && let Some(reply) = self.echo_reply(ip)
        {
            self.counters.echoes_answered += 1;
            return Fate::Answered(reply);
        }
        self.counters.denied.count(class);
        Fate::Denied(self.tell(ip, now))
    }

    /// What the client hears of a denial.
    fn tell(&mut self, ip: &IpPacket<'_>, now: Instant) -> Option<Bytes> {
        if !self.allowance.is_ready(now) {
            self.counters.denials_limited += 1;
            return None;
        }
        let answer = match ip.protocol() {
            protocol::TCP => tcp_reset_for(ip),
            _ => {
                let from = self.own(ip.source())?;
                icmp::unreachable(ip.bytes(), Unreachable::AdminProhibited, from)
            }
        };
        // What may not be answered spends nothing of the allowance.
        let answer = answer?;
        self.allowance.take(now);
        self.counters.denials_told += 1;
        Some(answer.into())
    }

    /// The answer to an echo request that is for the provider in the tunnel, where it is a sound one.
    fn echo_reply(&self, ip: &IpPacket<'_>) -> Option<Bytes> {
        let (number, request, reply) = match ip {
            IpPacket::V4(_) => (protocol::ICMP, icmp::V4_ECHO_REQUEST, icmp::V4_ECHO_REPLY),
            IpPacket::V6(_) => (protocol::ICMPV6, icmp::V6_ECHO_REQUEST, icmp::V6_ECHO_REPLY),
        };
        let is_ours = self.own(ip.source()) == Some(ip.destination());
        if !is_ours || ip.protocol() != number {
            return None;
        }
        let message = IcmpView::parse(ip.payload()).ok()?;
        let is_request = (message.kind(), message.code()) == (request, 0);
        // A part of a message has no checksum that could be right.
        if !is_request || checksum::upper_layer_valid(ip) != Some(true) {
            return None;
        }
        let header = Header {
            // A way back that is narrower cuts it, as it would cut a host's.
            dont_fragment: false,
            ..Header::new(ip.destination(), ip.source())
        };
        let rest = message.rest_of_header();
        Some(header.icmp(reply, 0, rest, message.payload()).into())
    }

    /// The provider's address of the family of `other`.
    fn own(&self, other: IpAddr) -> Option<IpAddr> {
        match other {
            IpAddr::V4(_) => self.gateway.gateway_ipv4.map(IpAddr::from),
            IpAddr::V6(_) => self.gateway.gateway_ipv6.map(IpAddr::from),
        }
    }
}

/// Whether the packet goes on from its destination to an address that it brings along: then what was judged is not where
/// it ends. Hosts refuse such packets by default, and an egress on one that does not is no way around the rules.
fn is_source_routed(ip: &IpPacket<'_>) -> bool {
    match ip {
        IpPacket::V4(view) => view
            .options()
            .flatten()
            .any(|option| matches!(option.kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE)),
        IpPacket::V6(view) => view.is_en_route(),
    }
}
