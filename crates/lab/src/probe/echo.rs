//! Echo messages (RFC 792, RFC 4443) and the sockets that carry them.
//!
//! The unprivileged ping socket is tried first and the raw one next. They differ in three ways, all met here: a raw IPv4
//! socket hands out the IP header, sees every echo on the machine (requests too), and leaves identifier and checksum to us,
//! while the kernel sets them on a ping socket. The ICMPv6 checksum is always the kernel's.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, Protocol, Socket, Type};

use super::PAYLOAD_BYTES_MAX;
use crate::error::{Context, Result};

/// Type, code, checksum, identifier, sequence number.
const HEADER_BYTES: usize = 8;

static NEXT_IDENTIFIER: AtomicU16 = AtomicU16::new(1);

/// A nonblocking socket for echo requests to one destination and their answers.
#[derive(Debug)]
pub(crate) struct EchoSocket {
    socket: Socket,
    is_raw: bool,
    is_v6: bool,
    identifier: u16,
    message: Vec<u8>,
    buffer: Vec<u8>,
}

impl EchoSocket {
    /// For bodies of up to `body_bytes`; an answer with a longer one is cut off after one byte more.
    pub(crate) fn open(destination: IpAddr, body_bytes: usize) -> Result<Self> {
        let what = || format!("ping socket towards {destination}");
        let (domain, protocol) = match destination {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let (socket, is_raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (
                Socket::new(domain, Type::RAW, Some(protocol)).context(what)?,
                true,
            ),
        };
        socket.set_nonblocking(true).context(what)?;
        // The default holds three of the longest messages, and a raw socket is handed everybody's.
        crate::buffers::enlarge(&socket);
        socket
            .connect(&SocketAddr::new(destination, 0).into())
            .context(what)?;
        Ok(Self {
            socket,
            is_raw,
            is_v6: destination.is_ipv6(),
            identifier: NEXT_IDENTIFIER.fetch_add(1, Ordering::Relaxed)
                ^ (std::process::id() as u16),
            message: Vec::with_capacity(HEADER_BYTES + body_bytes),
            // An IPv4 header with all its options comes before the message on a raw socket.
            buffer: vec![0; 60 + HEADER_BYTES + body_bytes.min(PAYLOAD_BYTES_MAX) + 1],
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn send(&mut self, number: u16, body: &[u8]) -> io::Result<()> {
        let kind = if self.is_v6 { 128 } else { 8 };
        self.message.clear();
        self.message.extend_from_slice(&[kind, 0, 0, 0]);
        self.message
            .extend_from_slice(&self.identifier.to_be_bytes());
        self.message.extend_from_slice(&number.to_be_bytes());
        self.message.extend_from_slice(body);
        if !self.is_v6 {
            let sum = checksum(&self.message).to_be_bytes();
            self.message[2..4].copy_from_slice(&sum);
        }
        (&self.socket).write(&self.message).map(|_| ())
    }

    /// The next answer's number and body; `None`: a message that is none of ours. An error of kind
    /// [`io::ErrorKind::WouldBlock`]: no more; any other may be an ICMP error about one of the requests, it does not tell
    /// which.
    pub(crate) fn receive(&mut self) -> io::Result<Option<(u16, &[u8])>> {
        let len = (&self.socket).read(&mut self.buffer)?;
        let bytes = &self.buffer[..len];
        let header_len = match bytes.first() {
            Some(first) if self.is_raw && !self.is_v6 => usize::from(first & 0x0f) * 4,
            Some(_) | None => 0,
        };
        let message = bytes
            .get(header_len..)
            .and_then(<[u8]>::split_first_chunk::<HEADER_BYTES>);
        let Some((header, body)) = message else {
            return Ok(None);
        };
        let reply = if self.is_v6 { 129 } else { 0 };
        let identifier = u16::from_be_bytes([header[4], header[5]]);
        if header[0] != reply || (self.is_raw && identifier != self.identifier) {
            return Ok(None);
        }
        Ok(Some((u16::from_be_bytes([header[6], header[7]]), body)))
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(message: &[u8]) -> u16 {
    let mut sum: u32 = message
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The example of RFC 1071 §3.
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        assert_eq!(checksum(&[0x01]), !0x0100);
        // It holds for the longest message: no sum overflows.
        assert_eq!(
            checksum(&vec![0xff; PAYLOAD_BYTES_MAX + HEADER_BYTES + 1]),
            0
        );
    }
}
