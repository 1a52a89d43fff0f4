//! Whether a packet may be acted upon.
//!
//! A packet is judged once, in two steps with reassembly between them: what reaches a flow or an association is well-formed, between two hosts, and has
//! right checksums. A TUN's kernel would look at them; here nobody else does. What is wrong is dropped in silence: an
//! answer to a damaged packet would go to whoever the damage names.

use quell_packet::{FlowKey, IpPacket, addr, checksum, protocol};

/// Why a packet may not be acted upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
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

/// Judges the packet as one between two hosts; all that can be said of a fragment.
///
/// # Errors
/// [`Unsound::Address`], [`Unsound::Checksum`].
pub fn judge_network(ip: &IpPacket<'_>) -> Result<(), Unsound> {
    if matches!(ip, IpPacket::V6(view) if view.has_routing_header()) {
        return Err(Unsound::Address);
    }
    let (source, destination) = (ip.source(), ip.destination());
    let is_sound = |address| addr::is_host(address) && !addr::is_v4_mapped(address);
    if !is_sound(source) || !is_sound(destination) {
        return Err(Unsound::Address);
    }
    match ip {
        IpPacket::V4(view) if !view.header_checksum_valid() => Err(Unsound::Checksum),
        IpPacket::V4(_) | IpPacket::V6(_) => Ok(()),
    }
}

/// Judges what a whole packet carries.
///
/// # Errors
/// [`Unsound::Port`], [`Unsound::Checksum`].
pub fn judge_upper(ip: &IpPacket<'_>) -> Result<(), Unsound> {
    let ports = FlowKey::of(ip);
    let lacks_port = match ip.protocol() {
        protocol::TCP => ports.source_port == 0 || ports.destination_port == 0,
        protocol::UDP => ports.destination_port == 0,
        _ => false,
    };
    if lacks_port {
        return Err(Unsound::Port);
    }
    if checksum::upper_layer_valid(ip) == Some(false) {
        return Err(Unsound::Checksum);
    }
    Ok(())
}
