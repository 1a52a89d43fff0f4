//! A checked view of a UDP header (RFC 768).
//!
//! The length field counts the header and may leave bytes of the IP payload out; those are not UDP's, and the view
//! leaves them out too. A first fragment holds less than its length field says and is refused with `LengthMismatch`:
//! who only wants the ports asks [`crate::FlowKey::of`]. A length of 0 belongs to jumbograms, which are not carried.

use crate::PacketError;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;

/// A datagram whose length field was checked against the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpView<'a> {
    fixed: &'a [u8; HEADER_BYTES],
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Checks a datagram: the payload of an [`crate::IpPacket`] that is not a fragment.
    ///
    /// # Errors
    /// [`PacketError::Truncated`] below 8 bytes, [`PacketError::BadHeaderLength`] for a length field below 8,
    /// [`PacketError::LengthMismatch`] for one beyond the buffer.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (fixed, rest) = bytes.split_first_chunk().ok_or(PacketError::Truncated)?;
        let view = Self {
            fixed,
            payload: rest,
        };
        let length = usize::from(view.length())
            .checked_sub(HEADER_BYTES)
            .ok_or(PacketError::BadHeaderLength)?;
        let payload = rest.get(..length).ok_or(PacketError::LengthMismatch)?;
        Ok(Self { fixed, payload })
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

    /// The length field: header and payload, in bytes.
    #[must_use]
    pub const fn length(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// The checksum field; 0 means "none", which only IPv4 allows.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[6], self.fixed[7]])
    }

    /// The bytes behind the header, as many as the length field says.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
