//! Packets that the path does not carry whole and may not cut.
//!
//! The sender is told at once which size fits: with an ICMP error when the
//! packet must not be fragmented (IPv6, or IPv4 with DF), by fragmenting it when
//! it may be. A black hole would leave its TCP waiting for ever (cases B44, B45,
//! B48). Errors are limited in rate and never answer an error (RFC 4443 §2.4).

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use quell_packet::{IpPacket, fragment, icmp};

use super::Path;
use crate::bucket::TokenBucket;
use crate::drops::DropReason;

/// ICMP errors a second in the long run, a path; RFC 4443 §2.4(f) asks for a
/// limit. 100 is one for each of 100 connections that just met a smaller path.
const ICMP_PER_S_MAX: u32 = 100;
/// ICMP errors at once: a window of packets in flight when the path shrinks.
const ICMP_BURST_MAX: u32 = 200;

/// ICMP errors on their way to the local device.
#[derive(Debug)]
pub(crate) struct IcmpErrors {
    source_ipv4: Option<IpAddr>,
    source_ipv6: Option<IpAddr>,
    waiting: VecDeque<Bytes>,
    allowance: TokenBucket,
    made: u64,
    limited: u64,
}

impl Default for IcmpErrors {
    fn default() -> Self {
        Self {
            source_ipv4: None,
            source_ipv6: None,
            waiting: VecDeque::new(),
            allowance: TokenBucket::new(ICMP_PER_S_MAX, ICMP_BURST_MAX),
            made: 0,
            limited: 0,
        }
    }
}

impl IcmpErrors {
    pub(crate) fn set_source(&mut self, source: IpAddr) {
        match source {
            IpAddr::V4(_) => self.source_ipv4 = Some(source),
            IpAddr::V6(_) => self.source_ipv6 = Some(source),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Bytes> {
        self.waiting.pop_front()
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// Errors that the rate forbade.
    pub(crate) fn limited(&self) -> u64 {
        self.limited
    }

    /// Answers `original` with the MTU that fits, where that is allowed.
    fn too_big(&mut self, original: &[u8], destination: IpAddr, mtu: u16, now: Instant) {
        let own = match destination {
            IpAddr::V4(_) => self.source_ipv4,
            IpAddr::V6(_) => self.source_ipv6,
        };
        // Without an address of our own the error comes from where the packet went.
        let source = own.unwrap_or(destination);
        let Some(error) = icmp::too_big(original, mtu, source) else {
            return;
        };
        // What may not be answered spends nothing of the allowance.
        if !self.allowance.take(now) {
            self.limited += 1;
            return;
        }
        self.waiting.push_back(error.into());
        self.made += 1;
    }
}

impl Path {
    /// Fragments, or tells the sender; the packet itself is counted either way.
    pub(super) fn handle_oversize(&mut self, packet: &Bytes, now: Instant) {
        let mtu = self.inner_mtu();
        let Ok(view) = IpPacket::parse(packet) else {
            self.drops.count(DropReason::Malformed);
            return;
        };
        if view.dont_fragment() {
            let destination = view.destination();
            self.icmp.too_big(packet, destination, mtu, now);
            self.drops.count(DropReason::TooBig);
            return;
        }
        let Ok(fragments) = fragment::ipv4(packet, mtu) else {
            self.drops.count(DropReason::TooBig);
            return;
        };
        // The fragments take the place of the packet that was accepted.
        self.counters.accepted -= 1;
        for piece in fragments {
            self.counters.accepted += 1;
            self.enqueue(piece.into(), now);
        }
    }
}
