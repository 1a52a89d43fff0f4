//! A checked view of a TCP header (RFC 9293).
//!
//! Read for three things: the ports of the flow, the flags that open and close it, and the MSS option that has to be
//! lowered to what the tunnel carries. Sequence numbers are there for tests and for the resets of lost races.

use crate::PacketError;
use crate::options::{NO_OPERATION, Options};

/// Bytes of a header without options.
pub const HEADER_BYTES_MIN: usize = 20;
/// The maximum segment size option.
pub const OPTION_MSS: u8 = 2;

/// The flag bits (byte 13 of the header).
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

/// A segment whose data offset was checked against the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpView<'a> {
    bytes: &'a [u8],
    fixed: &'a [u8; HEADER_BYTES_MIN],
    header_len: usize,
}

impl<'a> TcpView<'a> {
    /// Checks a segment: the payload of an [`crate::IpPacket`] that is not a later fragment.
    ///
    /// # Errors
    /// [`PacketError::Truncated`] below 20 bytes, [`PacketError::BadHeaderLength`] for a data offset below 5 or beyond
    /// the buffer.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let fixed: &[u8; HEADER_BYTES_MIN] = bytes.first_chunk().ok_or(PacketError::Truncated)?;
        let header_len = usize::from(fixed[12] >> 4) * 4;
        if header_len < HEADER_BYTES_MIN || header_len > bytes.len() {
            return Err(PacketError::BadHeaderLength);
        }
        Ok(Self {
            bytes,
            fixed,
            header_len,
        })
    }

    /// The source port.
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// The destination port.
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// The sequence number.
    #[must_use]
    pub const fn sequence(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// The acknowledgement number.
    #[must_use]
    pub const fn acknowledgement(&self) -> u32 {
        u32::from_be_bytes([self.fixed[8], self.fixed[9], self.fixed[10], self.fixed[11]])
    }

    /// Bytes of the header, options included: 20 to 60.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// The flag bits, see [`flags`].
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.fixed[13]
    }

    /// SYN is set, with or without ACK.
    #[must_use]
    pub const fn is_syn(&self) -> bool {
        self.flags() & flags::SYN != 0
    }

    /// SYN without ACK: the first segment of a connection.
    #[must_use]
    pub const fn is_opening(&self) -> bool {
        self.flags() & (flags::SYN | flags::ACK | flags::RST) == flags::SYN
    }

    /// ACK is set.
    #[must_use]
    pub const fn is_ack(&self) -> bool {
        self.flags() & flags::ACK != 0
    }

    /// FIN is set.
    #[must_use]
    pub const fn is_fin(&self) -> bool {
        self.flags() & flags::FIN != 0
    }

    /// RST is set.
    #[must_use]
    pub const fn is_rst(&self) -> bool {
        self.flags() & flags::RST != 0
    }

    /// The window field, unscaled.
    #[must_use]
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.fixed[14], self.fixed[15]])
    }

    /// The checksum field; it covers a pseudo header too, see [`crate::checksum::upper_layer_valid`].
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[16], self.fixed[17]])
    }

    /// The urgent pointer.
    #[must_use]
    pub const fn urgent_pointer(&self) -> u16 {
        u16::from_be_bytes([self.fixed[18], self.fixed[19]])
    }

    /// The options, in order, padding left out.
    pub fn options(
        &self,
    ) -> impl Iterator<Item = Result<crate::options::RawOption<'a>, PacketError>> + use<'a> {
        let list = self
            .bytes
            .get(HEADER_BYTES_MIN..self.header_len)
            .unwrap_or_default();
        Options::new(list).filter(|option| !option.is_ok_and(|it| it.kind == NO_OPERATION))
    }

    /// Every well-formed MSS option that stands before the first malformed one: its value, and where its two bytes
    /// stand, from the header's first byte.
    pub fn mss_options(&self) -> impl Iterator<Item = (u16, usize)> + use<'a> {
        self.options()
            .map_while(Result::ok)
            .filter_map(|option| match *option.bytes {
                [OPTION_MSS, 4, high, low] => Some((
                    u16::from_be_bytes([high, low]),
                    HEADER_BYTES_MIN + option.at + 2,
                )),
                _ => None,
            })
    }

    /// The value of the first MSS option, in bytes.
    #[must_use]
    pub fn mss(&self) -> Option<u16> {
        self.mss_options().next().map(|(value, _)| value)
    }

    /// The number after the segment's last: SYN and FIN take one each, like a byte of payload (RFC 9293 §3.4).
    #[must_use]
    pub fn sequence_end(&self) -> u32 {
        let controls = u32::from(self.is_syn()) + u32::from(self.is_fin());
        let bytes = u32::try_from(self.payload().len()).unwrap_or(u32::MAX);
        self.sequence().wrapping_add(bytes).wrapping_add(controls)
    }

    /// It says what was received and nothing else: no payload, and none of SYN, FIN, RST and URG.
    #[must_use]
    pub fn is_pure_ack(&self) -> bool {
        const OTHERS: u8 = flags::SYN | flags::FIN | flags::RST | flags::URG;
        self.is_ack() && self.flags() & OTHERS == 0 && self.payload().is_empty()
    }

    /// The bytes behind the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_len..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Header, Segment};

    #[test]
    fn a_pure_ack_says_nothing_else() {
        let header = Header::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let is_pure = |flags, payload: &[u8]| {
            let fields = Segment {
                flags,
                ..Segment::default()
            };
            let packet = header.tcp(1, 2, &fields, payload);
            TcpView::parse(&packet[20..]).is_ok_and(|segment| segment.is_pure_ack())
        };
        assert!(is_pure(flags::ACK, b"") && is_pure(flags::ACK | flags::PSH, b""));
        assert!(!is_pure(flags::ACK, b"x") && !is_pure(0, b""));
        for other in [flags::SYN, flags::FIN, flags::RST, flags::URG] {
            assert!(!is_pure(flags::ACK | other, b""), "{other:#x}");
        }
    }
}
