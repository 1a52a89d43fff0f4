//! A checked view of an IPv4 packet (RFC 791).
//!
//! The fixed 20 bytes are held as an array, so reading a field is an offset known to the compiler: in bounds by type
//! and free of checks at run time. Two lengths remain to be believed, and both are compared with the buffer once: the
//! header's (IHL, 5 to 15 words) and the packet's (total length, which must be the buffer's).
//!
//! Options are not interpreted on parse. A malformed option does not stop a packet from being carried; only who copies
//! options ([`crate::fragment`]) has to refuse it.

use std::net::Ipv4Addr;

use crate::options::Options;
use crate::{Ecn, PacketError, checksum};

/// Bytes of a header without options.
pub const HEADER_BYTES_MIN: usize = 20;
/// Bytes of a header with all options it can hold (IHL 15).
pub const HEADER_BYTES_MAX: usize = 60;
/// The "don't fragment" bit of the flags and offset field.
pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
/// The "more fragments" bit of the flags and offset field.
pub(crate) const MORE_FRAGMENTS: u16 = 0x2000;
/// The offset part of the flags and offset field, in units of 8 bytes.
pub(crate) const OFFSET_MASK: u16 = 0x1fff;

/// A packet whose header and total length were checked against the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4View<'a> {
    bytes: &'a [u8],
    fixed: &'a [u8; HEADER_BYTES_MIN],
    header_len: usize,
}

impl<'a> Ipv4View<'a> {
    /// Checks a buffer that holds exactly one IPv4 packet.
    ///
    /// # Errors
    /// [`PacketError::Empty`], [`PacketError::UnknownVersion`], [`PacketError::Truncated`] below 20 bytes,
    /// [`PacketError::BadHeaderLength`] for an IHL below 5 or beyond the buffer, [`PacketError::LengthMismatch`] when
    /// the total length is not the buffer's.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let view = Self::checked_header(bytes)?;
        if usize::from(view.total_len()) != bytes.len() {
            return Err(PacketError::LengthMismatch);
        }
        Ok(view)
    }

    /// Checks the beginning of a packet as an ICMP error quotes it, see [`crate::IpPacket::parse_quoted`].
    ///
    /// # Errors
    /// As [`Ipv4View::parse`]; [`PacketError::LengthMismatch`] for a total length below the header's.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let view = Self::checked_header(bytes)?;
        let total = usize::from(view.total_len());
        if total < view.header_len {
            return Err(PacketError::LengthMismatch);
        }
        Ok(Self {
            bytes: bytes.get(..total).unwrap_or(bytes),
            ..view
        })
    }

    fn checked_header(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let first = *bytes.first().ok_or(PacketError::Empty)?;
        if first >> 4 != 4 {
            return Err(PacketError::UnknownVersion);
        }
        let fixed = bytes.first_chunk().ok_or(PacketError::Truncated)?;
        let header_len = usize::from(first & 0x0f) * 4;
        if header_len < HEADER_BYTES_MIN || header_len > bytes.len() {
            return Err(PacketError::BadHeaderLength);
        }
        Ok(Self {
            bytes,
            fixed,
            header_len,
        })
    }

    /// All bytes of the packet.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The total length field, in bytes.
    #[must_use]
    pub const fn total_len(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Bytes of the header, options included: 20 to 60.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// The header's bytes.
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        self.bytes.get(..self.header_len).unwrap_or_default()
    }

    /// The options, in order, each as it stands.
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        Options::new(
            self.bytes
                .get(HEADER_BYTES_MIN..self.header_len)
                .unwrap_or_default(),
        )
    }

    /// The bytes behind the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_len..).unwrap_or_default()
    }

    /// The byte of DSCP and ECN (formerly type of service).
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.fixed[1]
    }

    /// The ECN field (RFC 3168).
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.traffic_class())
    }

    /// What tells the fragments of one datagram from another's.
    #[must_use]
    pub const fn identification(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// The field of flags and fragment offset, as it stands.
    const fn flags_and_offset(&self) -> u16 {
        u16::from_be_bytes([self.fixed[6], self.fixed[7]])
    }

    /// The DF bit.
    #[must_use]
    pub const fn dont_fragment(&self) -> bool {
        self.flags_and_offset() & DONT_FRAGMENT != 0
    }

    /// The MF bit.
    #[must_use]
    pub const fn more_fragments(&self) -> bool {
        self.flags_and_offset() & MORE_FRAGMENTS != 0
    }

    /// Where the payload stands in its datagram, in bytes.
    #[must_use]
    pub const fn fragment_offset(&self) -> u16 {
        (self.flags_and_offset() & OFFSET_MASK) * 8
    }

    /// Hops left.
    #[must_use]
    pub const fn ttl(&self) -> u8 {
        self.fixed[8]
    }

    /// The upper layer's number.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// The header checksum field.
    #[must_use]
    pub const fn header_checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[10], self.fixed[11]])
    }

    /// Whether the header checksum is right. Not asked by [`Ipv4View::parse`]: see [`crate::ip`].
    #[must_use]
    pub fn header_checksum_valid(&self) -> bool {
        checksum::internet(self.header()) == 0
    }

    /// The source address.
    #[must_use]
    pub const fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(
            self.fixed[12],
            self.fixed[13],
            self.fixed[14],
            self.fixed[15],
        )
    }

    /// The destination address.
    #[must_use]
    pub const fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(
            self.fixed[16],
            self.fixed[17],
            self.fixed[18],
            self.fixed[19],
        )
    }
}
