//! Lowering the MSS option of a TCP SYN to what the tunnel carries.
//!
//! TCP learns a path's MTU from "packet too big" messages, and networks lose those. A SYN tells the far end how large a
//! segment may be; a tunnel that lowers the value there never has to send the message for that connection. The value
//! is `mtu` less the packet's own IP header (options and extension headers included) and the 20 bytes of TCP: 40 below
//! the MTU over IPv4, 60 over IPv6. It is only ever lowered, and a SYN without the option is left alone: its sender
//! gets the defaults of 536 and 1,220 bytes (RFC 9293 §3.7.1), which a tunnel of 1,280 carries.
//!
//! The packet's checksum must be whole (no offload left to do): it is updated, not computed, so a segment that arrived
//! damaged stays damaged. Malformed options end the search; what stands before them counts.
//!
//! Receivers hold shared buffers: [`wants_clamp`] reads, and only who gets a `true` copies and calls [`clamp`].

use crate::{IpPacket, TcpView, checksum, protocol, tcp};

/// The least value written, in bytes: Linux sends no smaller segments (`tcp_min_snd_mss`), and 0 would end a connection
/// before it began. It only matters below an MTU of 108, where no tunnel is of use.
pub const MSS_MIN: u16 = 48;

/// MSS options that fit a header; each round of [`clamp`] lowers one.
const OPTIONS_MAX: usize = 10;

/// Where the checksum stands in a TCP header.
const CHECKSUM_AT: usize = 16;

/// An MSS option that is too large.
struct Oversized {
    /// Bytes of the packet before the TCP header.
    tcp_at: usize,
    /// Bytes of the TCP header before the option's value.
    value_at: usize,
    old: u16,
    new: u16,
}

/// Whether [`clamp`] with the same `mtu` (bytes of IP packet) would change the packet. Reads only.
#[must_use]
pub fn wants_clamp(packet: &[u8], mtu: u16) -> bool {
    oversized(packet, mtu).is_some()
}

/// Lowers every MSS option of a TCP SYN that is above what `mtu` (bytes of IP packet) leaves, and updates the checksum.
/// `false`, and no change, for everything else.
pub fn clamp(packet: &mut [u8], mtu: u16) -> bool {
    let mut changed = false;
    for _ in 0..OPTIONS_MAX {
        let Some(found) = oversized(packet, mtu) else {
            break;
        };
        let Some(tcp) = packet.get_mut(found.tcp_at..) else {
            break;
        };
        if !write(tcp, &found) {
            break;
        }
        changed = true;
    }
    changed
}

fn write(tcp: &mut [u8], found: &Oversized) -> bool {
    let odd = found.value_at % 2 == 1;
    let aligned = |value: u16| if odd { value.swap_bytes() } else { value };
    let Some(value) = tcp
        .get_mut(found.value_at..)
        .and_then(|rest| rest.first_chunk_mut())
    else {
        return false;
    };
    *value = found.new.to_be_bytes();
    let Some(sum) = tcp
        .get_mut(CHECKSUM_AT..)
        .and_then(|rest| rest.first_chunk_mut())
    else {
        return false;
    };
    *sum = checksum::update(
        u16::from_be_bytes(*sum),
        aligned(found.old),
        aligned(found.new),
    )
    .to_be_bytes();
    true
}

/// The first MSS option that is too large.
fn oversized(packet: &[u8], mtu: u16) -> Option<Oversized> {
    let ip = IpPacket::parse(packet).ok()?;
    if ip.protocol() != protocol::TCP || ip.is_fragment() {
        return None;
    }
    let tcp = TcpView::parse(ip.payload()).ok()?;
    if !tcp.is_syn() {
        return None;
    }
    let tcp_at = ip.header_len();
    let headers = u16::try_from(tcp_at + tcp::HEADER_BYTES_MIN).unwrap_or(u16::MAX);
    let new = mtu.saturating_sub(headers).max(MSS_MIN);
    let (old, value_at) = tcp.mss_options().find(|&(value, _)| value > new)?;
    Some(Oversized {
        tcp_at,
        value_at,
        old,
        new,
    })
}

#[cfg(test)]
mod tests;
