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
use quell_packet::{FlowKey, IpPacket, fragment, icmp};

use super::{ALWAYS_CARRIED_LEN, Path};
use crate::bucket::TokenBucket;
use crate::drops::DropReason;

/// ICMP errors a second in the long run, a path; RFC 4443 §2.4(f) asks for a
/// limit. 100 is one for each of 100 connections that just met a smaller path.
const ICMP_PER_S_MAX: u32 = 100;
/// ICMP errors at once: a window of packets in flight when the path shrinks.
const ICMP_BURST_MAX: u32 = 200;

/// Large packets remembered for the case that the path shrinks under them: one of
/// each of some flows. They pin their buffers, 16 at most.
pub(super) const RECENT_LARGE_MAX: usize = 16;

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
    /// Keeps a packet that a narrower path would not carry.
    pub(super) fn remember_large(&mut self, packet: Bytes) {
        if packet.len() <= ALWAYS_CARRIED_LEN {
            return;
        }
        if self.recent_large.len() >= RECENT_LARGE_MAX {
            self.recent_large.pop_front();
        }
        self.recent_large.push_back(packet);
    }

    /// Tells the senders of recent large packets what the path carries now.
    ///
    /// A path that shrank swallowed the last packets without a word, and their
    /// senders would find out by retransmission timers that double each time. A
    /// TCP that is told sends again at once (RFC 1191 §6.4).
    pub(super) fn tell_of_shrinking(&mut self) {
        let mtu = self.inner_mtu();
        let mut told: Vec<FlowKey> = Vec::new();
        while let Some(packet) = self.recent_large.pop_back() {
            let Ok(view) = IpPacket::parse(&packet) else {
                continue;
            };
            let flow = FlowKey::of(&view);
            if packet.len() <= usize::from(mtu) || !view.dont_fragment() || told.contains(&flow) {
                continue;
            }
            told.push(flow);
            let destination = view.destination();
            self.icmp.too_big(&packet, destination, mtu, self.now);
        }
    }

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
            self.route(piece.into(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use quell_packet::build;

    use super::*;
    use crate::budget::ProcessBudget;
    use crate::config::PathConfig;
    use crate::health::Signal;
    use crate::path::{CarrierFacts, PathTerms, Role};

    fn facts(datagram_len_max: usize) -> CarrierFacts {
        CarrierFacts {
            datagram_len_max,
            backlog_bytes: 0,
            cwnd_bytes: 1_000_000,
            rtt: Duration::from_millis(1),
        }
    }

    /// An IPv6 packet of `len` bytes from `port`: never fragmented on the way.
    fn packet(port: u16, len: usize) -> Bytes {
        let address = |text: &str, port| SocketAddr::new(text.parse().unwrap(), port);
        let (from, to) = (address("fd71::2", port), address("2001:db8::1", 443));
        build::udp(from, to, &vec![0; len - 48]).into()
    }

    fn sent_over(datagram_len_max: usize, packets: &[Bytes], now: Instant) -> Path {
        let terms = PathTerms {
            config: PathConfig::default(),
            role: Role::Client,
            mtu_max: 1_500,
            signal: Signal::default(),
            budget: ProcessBudget::default(),
            seed: 1,
        };
        let mut path = Path::new(terms, now);
        path.on_carrier(facts(datagram_len_max), now);
        for packet in packets {
            path.handle_packet(packet.clone(), now);
        }
        while path.poll_datagram(now).is_some() {
            path.on_carrier(facts(datagram_len_max), now);
        }
        assert!(path.poll_icmp().is_none());
        path
    }

    // case B44
    #[test]
    fn a_path_that_shrinks_tells_each_flow_once_what_fits() {
        let now = Instant::now();
        let packets = [
            packet(1, 1_390),
            packet(1, 1_390),
            packet(2, 1_390),
            packet(3, 1_290),
        ];
        let mut path = sent_over(1_414, &packets, now);
        path.on_carrier(facts(1_312), now);
        let told: Vec<_> = std::iter::from_fn(|| path.poll_icmp()).collect();
        assert_eq!(told.len(), 2, "flow 3 fits, flow 1 is told once");
        for error in told {
            let view = IpPacket::parse(&error).unwrap();
            assert_eq!(icmp::reported_mtu(&view), Some(1_297));
        }
        path.on_carrier(facts(1_300), now);
        assert!(path.poll_icmp().is_none(), "nothing was sent since");
    }

    #[test]
    fn a_path_that_grows_or_stays_tells_nobody_and_small_packets_are_not_kept() {
        let now = Instant::now();
        let mut path = sent_over(1_414, &[packet(1, 1_390)], now);
        path.on_carrier(facts(1_414), now);
        path.on_carrier(facts(1_440), now);
        assert!(path.poll_icmp().is_none());
        let mut path = sent_over(1_414, &[packet(1, 1_280)], now);
        path.on_carrier(facts(1_000), now);
        assert!(path.poll_icmp().is_none());
    }

    #[test]
    fn sixteen_large_packets_are_kept_and_no_more() {
        let now = Instant::now();
        let packets: Vec<_> = (1..=17).map(|port| packet(port, 1_390)).collect();
        let mut path = sent_over(1_414, &packets, now);
        assert_eq!(path.recent_large.len(), RECENT_LARGE_MAX);
        path.on_carrier(facts(1_200), now);
        assert_eq!(
            std::iter::from_fn(|| path.poll_icmp()).count(),
            RECENT_LARGE_MAX
        );
    }
}
