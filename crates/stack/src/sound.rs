//! Whether a packet may be acted upon.
//!
//! A packet is judged once, as a whole: what reaches a flow or an association is well-formed, between two hosts, and has
//! right checksums. A TUN's kernel would look at them; here nobody else does. What is wrong is dropped in silence: an
//! answer to a damaged packet would go to whoever the damage names.

use quell_packet::{FlowKey, IpPacket, addr, checksum, protocol};

/// Why a packet may not be acted upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// A part of a larger datagram: nothing here reassembles.
    #[error("a fragment")]
    Fragment,
    /// A port that cannot be spoken to.
    #[error("port 0")]
    Port,
    /// Source or destination is no single host (multicast, broadcast, unspecified, IPv4-mapped), or not the final one (a
    /// routing header).
    #[error("an address that is no host's")]
    Address,
    /// A checksum is wrong.
    #[error("a wrong checksum")]
    Checksum,
}

/// Judges a packet.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn judge(ip: &IpPacket<'_>) -> Result<(), Unsound> {
    if ip.is_fragment() {
        return Err(Unsound::Fragment);
    }
    let ports = FlowKey::of(ip);
    let lacks_port = match ip.protocol() {
        protocol::TCP => ports.source_port == 0 || ports.destination_port == 0,
        protocol::UDP => ports.destination_port == 0,
        _ => false,
    };
    if lacks_port {
        return Err(Unsound::Port);
    }
    if matches!(ip, IpPacket::V6(view) if view.has_routing_header()) {
        return Err(Unsound::Address);
    }
    let (source, destination) = (ip.source(), ip.destination());
    let is_sound = |address| addr::is_host(address) && !addr::is_v4_mapped(address);
    if !is_sound(source) || !is_sound(destination) {
        return Err(Unsound::Address);
    }
    let header_valid = match ip {
        IpPacket::V4(view) => view.header_checksum_valid(),
        IpPacket::V6(_) => true,
    };
    if !header_valid || checksum::upper_layer_valid(ip) == Some(false) {
        return Err(Unsound::Checksum);
    }
    Ok(())
}
