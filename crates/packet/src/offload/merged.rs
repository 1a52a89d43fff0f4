//! The header of the super-packet that a run becomes.
//!
//! The super-packet is written as one vector: this header, then each packet's payload from where it is. The header is
//! that of the run's first packet with the lengths of the whole, PSH if the last packet has it, an IPv4 checksum, and the
//! pseudo header's sum in the upper layer's checksum field, which is how the kernel keeps a checksum that nobody needs
//! to compute before the packet leaves the host (`CHECKSUM_PARTIAL`).
//!
//! A single packet goes behind a virtio header of zeros, as it is.

use crate::checksum;
use crate::ipv6;
use crate::offload::virtio::HEADER_BYTES;
use crate::offload::{Gso, Run, TCP_CHECKSUM_AT, TCP_FLAGS_AT, UDP_CHECKSUM_AT, VirtioHeader, put};
use crate::{IpPacket, protocol, tcp};

/// Bytes of the virtio header, an IPv6 header and a TCP header with all options.
const BYTES_MAX: usize = HEADER_BYTES + ipv6::HEADER_BYTES + TCP_BYTES_MAX;
/// Bytes of a TCP header with all options.
const TCP_BYTES_MAX: usize = 60;

/// A virtio header, and the headers of a super-packet behind it.
#[derive(Debug, Clone)]
pub struct MergedHeader {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

impl MergedHeader {
    /// The header of `run`, a run of at least two of these `packets`, as [`Coalescer::plan`](super::Coalescer::plan) gave
    /// it. `None` for a run of one, or of other packets.
    #[must_use]
    pub fn of<P: AsRef<[u8]>>(run: &Run, packets: &[P]) -> Option<Self> {
        if run.count() < 2 {
            return None;
        }
        let mut places = run.places();
        let first = packets.get(places.next()?)?.as_ref();
        let last = packets.get(places.last()?)?.as_ref();
        let header_len = run.header_len();
        let mut merged = Self {
            bytes: [0; BYTES_MAX],
            len: HEADER_BYTES + header_len,
        };
        let (virtio, header) = merged
            .bytes
            .get_mut(..HEADER_BYTES + header_len)?
            .split_first_chunk_mut::<HEADER_BYTES>()?;
        header.copy_from_slice(first.get(..header_len)?);
        *virtio = virtio_of(run).encode();
        write_ip(run, header);
        write_upper(run, header, first, last)?;
        Some(merged)
    }

    /// What is to be written before the payloads.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

fn virtio_of(run: &Run) -> VirtioHeader {
    let shape = run.shape();
    VirtioHeader {
        needs_checksum: true,
        gso: match (shape.is_tcp, shape.is_v4) {
            (true, true) => Gso::TcpV4,
            (true, false) => Gso::TcpV6,
            (false, _) => Gso::Udp,
        },
        ecn: false,
        header_len: run.header_len() as u16,
        gso_size: shape.size as u16,
        checksum_start: shape.ip_len() as u16,
        checksum_offset: if shape.is_tcp {
            TCP_CHECKSUM_AT as u16
        } else {
            UDP_CHECKSUM_AT as u16
        },
    }
}

fn write_ip(run: &Run, header: &mut [u8]) {
    let total = header.len() + run.payload_len();
    if run.shape().is_v4 {
        put(header, 2, (total as u16).to_be_bytes());
        put(header, 10, [0, 0]);
        let sum = checksum::internet(header.get(..run.shape().ip_len()).unwrap_or_default());
        put(header, 10, sum.to_be_bytes());
    } else {
        let length = (total - ipv6::HEADER_BYTES) as u16;
        put(header, 4, length.to_be_bytes());
    }
}

fn write_upper(run: &Run, header: &mut [u8], first: &[u8], last: &[u8]) -> Option<()> {
    let shape = run.shape();
    let ip = IpPacket::parse(first).ok()?;
    let upper = header.get_mut(shape.ip_len()..)?;
    let length = (upper.len() + run.payload_len()) as u16;
    let (number, at) = if shape.is_tcp {
        let pushed = last.get(shape.ip_len() + TCP_FLAGS_AT)? & tcp::flags::PSH;
        *upper.get_mut(TCP_FLAGS_AT)? |= pushed;
        (protocol::TCP, TCP_CHECKSUM_AT)
    } else {
        put(upper, 4, length.to_be_bytes());
        (protocol::UDP, UDP_CHECKSUM_AT)
    };
    let pseudo = checksum::pseudo(ip.source(), ip.destination(), number, length);
    put(upper, at, (!pseudo.finish()).to_be_bytes());
    Some(())
}
