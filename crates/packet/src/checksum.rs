//! The Internet checksum (RFC 1071), its pseudo headers, and its incremental update (RFC 1624).
//!
//! The sum is one's complement over 16-bit words, and that sum does not care about byte order or word width: adding
//! native 32-bit words into 64-bit lanes and folding once at the end gives the same 16 bits, a byte swap apart. Eight
//! independent lanes let the compiler use vector registers; the 64-bit lanes hold 2³² additions before they could
//! overflow, far beyond any packet.
//!
//! Values are in host order, as the `u16` a header field reads as: write them with `to_be_bytes`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{IpPacket, UdpView, protocol};

/// A running one's complement sum, in native byte order.
///
/// Pieces are added one after another; each but the last must have an even number of bytes, since a word never spans
/// two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u16);

impl Sum {
    /// The sum of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes; an odd last one is padded with a zero byte.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        Self(fold(sum_native(bytes) + u64::from(self.0)))
    }

    /// Adds one word given in host order.
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self(fold(self.0 as u64 + word.to_be() as u64))
    }

    /// The checksum: the complement of the sum. Over bytes that hold their right checksum it is 0.
    #[must_use]
    pub const fn finish(self) -> u16 {
        !u16::from_be(self.0)
    }
}

/// The checksum over a run of bytes, such as an IPv4 header or an ICMPv4 message. 0 when the bytes hold the right one.
#[must_use]
pub fn internet(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).finish()
}

/// The pseudo header of TCP and UDP over IPv4 (RFC 9293 §3.1); `length` is the upper layer's, in bytes.
#[must_use]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    Sum::new()
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .word(u16::from(protocol))
        .word(length)
}

/// The pseudo header of upper layers over IPv6 (RFC 8200 §8.1); `length` is the upper layer's, in bytes.
#[must_use]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    Sum::new()
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .bytes(&length.to_be_bytes())
        .word(u16::from(protocol))
}

/// The pseudo header of a pair of addresses; of a mixed pair, that of the IPv4 one mapped into IPv6. `length` is the
/// upper layer's, in bytes.
#[must_use]
pub fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, length: u16) -> Sum {
    let v6 = |address| match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            pseudo_v4(source, destination, protocol, length)
        }
        (source, destination) => {
            pseudo_v6(v6(source), v6(destination), protocol, u32::from(length))
        }
    }
}

/// The checksum after one 16-bit word under it changed: RFC 1624 equation 3, HC' = ~(~HC + ~m + m').
///
/// A word that stands at an odd offset changes the bytes of two words; one's complement sums rotate with their bytes,
/// so swapping the bytes of both `old` and `new` accounts for that.
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// What a change of whole words does to every checksum over them: RFC 1624 equation 3 for any number of words at once.
///
/// The words must stand at an even offset under the checksum, as addresses do, and as everything does that stands in an
/// ICMP message behind its 8 bytes of header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change(Sum);

impl Change {
    /// `new` stands where `old` stood; as many bytes, an even number of them.
    #[must_use]
    pub fn of(old: &[u8], new: &[u8]) -> Self {
        let Sum(old) = Sum::new().bytes(old);
        Self(Sum(!old).bytes(new))
    }

    /// Both changes.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let (Self(Sum(one)), Self(Sum(other))) = (self, other);
        Self(Sum(fold(one as u64 + other as u64)))
    }

    /// The checksum behind the change of one that stood before it.
    #[must_use]
    pub const fn apply(self, checksum: u16) -> u16 {
        let Self(Sum(change)) = self;
        Sum(fold((!checksum.to_be()) as u64 + change as u64)).finish()
    }
}

/// Whether the upper layer's checksum is right. `None` where there is none to judge: fragments, protocols other than
/// TCP, UDP, ICMP and ICMPv6, and a UDP datagram over IPv4 without one.
///
/// With an IPv6 routing header the final destination stands in that header, and the answer is `None`.
#[must_use]
pub fn upper_layer_valid(ip: &IpPacket<'_>) -> Option<bool> {
    if ip.is_fragment() || matches!(ip, IpPacket::V6(view) if view.has_routing_header()) {
        return None;
    }
    let covered = match ip.protocol() {
        protocol::TCP => ip.payload(),
        protocol::ICMPV6 if matches!(ip, IpPacket::V6(_)) => ip.payload(),
        protocol::ICMP if matches!(ip, IpPacket::V4(_)) => {
            return Some(internet(ip.payload()) == 0);
        }
        protocol::UDP => match UdpView::parse(ip.payload()) {
            Ok(udp) if udp.checksum() == 0 => {
                return matches!(ip, IpPacket::V6(_)).then_some(false);
            }
            Ok(udp) => ip.payload().get(..usize::from(udp.length()))?,
            Err(_) => return Some(false),
        },
        _ => return None,
    };
    let length = u16::try_from(covered.len()).ok()?;
    let pseudo = pseudo(ip.source(), ip.destination(), ip.protocol(), length);
    Some(pseudo.bytes(covered).finish() == 0)
}

/// Folds the carries back in until 16 bits are left.
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The unfolded sum of native words.
fn sum_native(bytes: &[u8]) -> u64 {
    let mut lanes = [0_u64; 8];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let (doubles, rest) = rest.as_chunks::<4>();
    let doubles: u64 = doubles
        .iter()
        .map(|word| u64::from(u32::from_ne_bytes(*word)))
        .sum();
    let (words, tail) = rest.as_chunks::<2>();
    let word = words
        .first()
        .map_or(0, |word| u64::from(u16::from_ne_bytes(*word)));
    let tail = tail
        .first()
        .map_or(0, |&last| u64::from(u16::from_ne_bytes([last, 0])));
    lanes.iter().sum::<u64>() + doubles + word + tail
}

#[cfg(test)]
mod tests;
