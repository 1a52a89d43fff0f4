//! The virtio-net header (virtio 1.3 §5.1.6) as a Linux TUN with `IFF_VNET_HDR` puts it before each packet.
//!
//! ```text
//! 0      1      2          4          6             8               10
//! flags  type   hdr_len    gso_size   csum_start    csum_offset     packet …
//! ```
//!
//! The 16-bit fields are in the machine's own order: the legacy form, which is a TUN's default (`TUNSETVNETLE` and
//! `TUNSETVNETBE` would change it). Ten bytes are the default size (`TUNSETVNETHDRSZ`); the two more of merged receive
//! buffers say nothing on a TUN.
//!
//! `hdr_len` is a hint about how the kernel holds the packet, and on a forwarded packet it may be all of it; so nothing
//! is ever computed from it. Flags that only tell (`DATA_VALID`, `RSC_INFO`) are passed over. A type that nobody
//! switched on is refused: its packet cannot be taken apart by who does not know it.

use crate::PacketError;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// What kind of super-packet follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gso {
    /// None: a packet like any other.
    #[default]
    None,
    /// TCP segments over IPv4.
    TcpV4,
    /// TCP segments over IPv6.
    TcpV6,
    /// UDP datagrams over either family (`UDP_L4`, "USO").
    Udp,
}

/// The header, checked for what can be checked without the packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VirtioHeader {
    /// The checksum field holds the pseudo header's sum alone; the rest is left to the reader.
    pub needs_checksum: bool,
    /// What kind of super-packet follows.
    pub gso: Gso,
    /// A TCP super-packet whose first segment alone has CWR.
    pub ecn: bool,
    /// A hint: bytes of all headers, or more.
    pub header_len: u16,
    /// Payload bytes of each segment but the last, which may be shorter.
    pub gso_size: u16,
    /// Where the checksum begins to cover, in bytes from the packet's first.
    pub checksum_start: u16,
    /// Where the checksum stands, in bytes from `checksum_start`.
    pub checksum_offset: u16,
}

impl VirtioHeader {
    /// Before a packet that is whole: no offload.
    pub const PLAIN: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

    /// Reads a header.
    ///
    /// # Errors
    /// [`PacketError::UnknownOffload`] for a type of super-packet that is none of [`Gso`].
    pub const fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, PacketError> {
        let [flags, kind, h0, h1, g0, g1, s0, s1, o0, o1] = *bytes;
        let gso = match kind & !GSO_ECN {
            GSO_NONE => Gso::None,
            GSO_TCP_V4 => Gso::TcpV4,
            GSO_TCP_V6 => Gso::TcpV6,
            GSO_UDP => Gso::Udp,
            _ => return Err(PacketError::UnknownOffload),
        };
        Ok(Self {
            needs_checksum: flags & NEEDS_CHECKSUM != 0,
            gso,
            ecn: kind & GSO_ECN != 0,
            header_len: u16::from_ne_bytes([h0, h1]),
            gso_size: u16::from_ne_bytes([g0, g1]),
            checksum_start: u16::from_ne_bytes([s0, s1]),
            checksum_offset: u16::from_ne_bytes([o0, o1]),
        })
    }

    /// Writes the header.
    #[must_use]
    pub const fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind = match self.gso {
            Gso::None => GSO_NONE,
            Gso::TcpV4 => GSO_TCP_V4,
            Gso::TcpV6 => GSO_TCP_V6,
            Gso::Udp => GSO_UDP,
        };
        let [h0, h1] = self.header_len.to_ne_bytes();
        let [g0, g1] = self.gso_size.to_ne_bytes();
        let [s0, s1] = self.checksum_start.to_ne_bytes();
        let [o0, o1] = self.checksum_offset.to_ne_bytes();
        let flags = if self.needs_checksum {
            NEEDS_CHECKSUM
        } else {
            0
        };
        let kind = if self.ecn { kind | GSO_ECN } else { kind };
        [flags, kind, h0, h1, g0, g1, s0, s1, o0, o1]
    }
}
