//! IPv4 fragmentation (RFC 791 §3.2).
//!
//! For IPv4 packets without DF that are larger than the tunnel: their sender asked for exactly this, and would not
//! understand a "fragmentation needed". IPv6 is never fragmented on the way (RFC 8200 §5).
//!
//! A packet that already is a fragment is cut on: its offset and MF are carried into the pieces. Options go into the
//! first piece as they are, and into later ones where their copied flag says so, so a later header can be shorter and
//! its piece longer. Every piece but the last carries a multiple of 8 bytes.
//!
//! Bounded: at least 8 bytes a piece make 8,189 pieces of the largest packet; the smallest MTU is that of RFC 791, 68.

use crate::ipv4::{DONT_FRAGMENT, HEADER_BYTES_MAX, HEADER_BYTES_MIN, MORE_FRAGMENTS, OFFSET_MASK};
use crate::options::NO_OPERATION;
use crate::{IpPacket, Ipv4View, PACKET_BYTES_MAX, PacketError, checksum};

/// The least MTU that is fragmented to, in bytes: a header with all options, and 8 bytes of data.
pub const MTU_MIN: u16 = 68;

/// The flag of an option that goes into every fragment.
const OPTION_COPIED: u8 = 0x80;

/// The pieces of one packet, each a whole IPv4 packet in a buffer of its own, in order.
#[derive(Debug, Clone)]
pub struct Fragments<'a> {
    packet: Ipv4View<'a>,
    mtu: usize,
    later: Header,
    /// Bytes of the payload already handed out; `None` when all are.
    position: Option<usize>,
}

/// A header's bytes, without checksum.
#[derive(Debug, Clone, Copy)]
struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

/// Cuts a packet into pieces of at most `mtu` bytes. A packet that fits comes out as its only piece, unchanged.
///
/// # Errors
/// Those of [`IpPacket::parse`]; [`PacketError::DontFragment`] for IPv6, and for IPv4 with DF that does not fit;
/// [`PacketError::MtuTooSmall`] below [`MTU_MIN`]; [`PacketError::BadOption`] where options cannot be told apart;
/// [`PacketError::FragmentBeyondDatagram`] when the packet is a fragment that reaches past 65,535 bytes.
pub fn ipv4(packet: &[u8], mtu: u16) -> Result<Fragments<'_>, PacketError> {
    let packet = match IpPacket::parse(packet)? {
        IpPacket::V4(view) => view,
        IpPacket::V6(_) => return Err(PacketError::DontFragment),
    };
    if mtu < MTU_MIN {
        return Err(PacketError::MtuTooSmall);
    }
    let mtu = usize::from(mtu);
    if packet.bytes().len() > mtu {
        if packet.dont_fragment() {
            return Err(PacketError::DontFragment);
        }
        if usize::from(packet.fragment_offset()) + packet.payload().len() > PACKET_BYTES_MAX {
            return Err(PacketError::FragmentBeyondDatagram);
        }
    }
    let later = if packet.bytes().len() > mtu {
        Header::later(&packet)?
    } else {
        Header::first(&packet)
    };
    Ok(Fragments {
        packet,
        mtu,
        later,
        position: Some(0),
    })
}

impl Iterator for Fragments<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let position = self.position?;
        if position == 0 && self.packet.bytes().len() <= self.mtu {
            self.position = None;
            return Some(self.packet.bytes().to_vec());
        }
        let header = if position == 0 {
            Header::first(&self.packet)
        } else {
            self.later
        };
        let rest = self.packet.payload().get(position..).unwrap_or_default();
        let room = self.mtu - header.len;
        let (data, last) = match rest.get(..room / 8 * 8) {
            Some(data) if rest.len() > room => (data, false),
            Some(_) | None => (rest, true),
        };
        self.position = (!last).then_some(position + data.len());
        let offset = usize::from(self.packet.fragment_offset()) + position;
        Some(header.piece(data, offset, !last || self.packet.more_fragments()))
    }
}

impl std::iter::FusedIterator for Fragments<'_> {}

impl Header {
    /// The packet's own header.
    fn first(packet: &Ipv4View<'_>) -> Self {
        let mut header = Self {
            bytes: [0; HEADER_BYTES_MAX],
            len: 0,
        };
        header.push(packet.header());
        header
    }

    /// The header of later pieces: the copied options alone, filled up to whole words with end markers.
    fn later(packet: &Ipv4View<'_>) -> Result<Self, PacketError> {
        let mut header = Self {
            bytes: [0; HEADER_BYTES_MAX],
            len: 0,
        };
        header.push(packet.header().get(..HEADER_BYTES_MIN).unwrap_or_default());
        for option in packet.options() {
            let option = option?;
            if option.kind & OPTION_COPIED != 0 && option.kind != NO_OPERATION {
                header.push(option.bytes);
            }
        }
        header.len = header.len.next_multiple_of(4);
        header.bytes[0] = 0x40 | (header.len / 4) as u8;
        Ok(header)
    }

    fn push(&mut self, bytes: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.len).zip(bytes) {
            *place = *byte;
            self.len += 1;
        }
    }

    /// One piece: `offset` in bytes, `more` for MF.
    fn piece(mut self, data: &[u8], offset: usize, more: bool) -> Vec<u8> {
        let total = self.len + data.len();
        let flags = if more { MORE_FRAGMENTS } else { 0 };
        let field = (offset / 8) as u16 & OFFSET_MASK | flags;
        debug_assert!(total <= PACKET_BYTES_MAX && field & DONT_FRAGMENT == 0);
        self.bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        self.bytes[6..8].copy_from_slice(&field.to_be_bytes());
        self.bytes[10..12].fill(0);
        let sum = checksum::internet(&self.bytes[..self.len]);
        self.bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut piece = Vec::with_capacity(total);
        piece.extend_from_slice(&self.bytes[..self.len]);
        piece.extend_from_slice(data);
        piece
    }
}

#[cfg(test)]
mod tests;
