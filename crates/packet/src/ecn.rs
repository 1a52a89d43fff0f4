//! The ECN field (RFC 3168) and how a tunnel end may change it.
//!
//! A queue of ours that marks instead of dropping sets CE; it may do so only on packets whose sender declared itself
//! capable, else the mark is a signal that nobody reads where a drop would have been one. Both changes keep the IPv4
//! header checksum right by RFC 1624, so no header is summed anew.

use crate::{IpPacket, checksum};

/// The two bits, in the order of their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not take part.
    NotEct = 0,
    /// Capable, L4S (RFC 9331).
    Ect1 = 1,
    /// Capable, classic.
    Ect0 = 2,
    /// Congestion was experienced.
    Ce = 3,
}

impl Ecn {
    /// The field of an IPv4 "type of service" or IPv6 traffic class byte.
    #[must_use]
    pub const fn from_traffic_class(class: u8) -> Self {
        match class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits, 0 to 3.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// Writes the ECN field of a packet and keeps its checksum; `false`, and no change, when the bytes are no packet.
pub fn set(packet: &mut [u8], ecn: Ecn) -> bool {
    let class = match IpPacket::parse(packet) {
        Ok(IpPacket::V4(view)) => view.traffic_class() & !3 | ecn.bits(),
        Ok(IpPacket::V6(view)) => view.traffic_class() & !3 | ecn.bits(),
        Err(_) => return false,
    };
    match packet {
        [first, second, ..] if *first >> 4 == 6 => {
            *first = 0x60 | class >> 4;
            *second = class << 4 | *second & 0x0f;
        }
        [first, second, _, _, _, _, _, _, _, _, high, low, ..] => {
            let old = u16::from_be_bytes([*first, *second]);
            let new = u16::from_be_bytes([*first, class]);
            *second = class;
            [*high, *low] =
                checksum::update(u16::from_be_bytes([*high, *low]), old, new).to_be_bytes();
        }
        _ => return false,
    }
    true
}

/// Marks congestion on a packet whose sender takes part; `false`, and no change, on any other: that one is to be
/// dropped where it would have been marked (RFC 3168 §5).
pub fn mark_ce(packet: &mut [u8]) -> bool {
    match IpPacket::parse(packet).map(|ip| ip.ecn()) {
        Ok(Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce) => set(packet, Ecn::Ce),
        Ok(Ecn::NotEct) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
