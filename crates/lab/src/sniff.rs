//! Sees every IP packet that crosses a namespace: an AF_PACKET socket (packet(7)) and what is remarkable among its catch.
//!
//! It stands on the wire and not in a host's stack, so no rule or route of the host hides anything from it. Packets that
//! nobody can be without (neighbour discovery, multicast listeners, router solicitations) are not counted as anybody's.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Context, Result};
use crate::netns::Namespace;
use crate::stop::{Stop, wait_readable};

/// Every protocol (`ETH_P_ALL`).
const ALL: u16 = 0x0003;
const ETHERNET_BYTES: usize = 14;
const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;
/// Neighbour discovery (RFC 4861) and multicast listeners (RFC 3810), as ICMPv6 types.
const HOUSEKEEPING: [u8; 7] = [130, 131, 132, 133, 134, 135, 136];
/// Remarkable packets that are kept; more are counted.
const KEPT_MAX: usize = 1_000;

/// A packet that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// From where.
    pub source: IpAddr,
    /// To where.
    pub destination: IpAddr,
    /// IP's protocol number.
    pub protocol: u8,
    /// The ports of UDP and TCP, else 0.
    pub ports: (u16, u16),
}

#[derive(Debug, Default)]
struct Books {
    total: u64,
    remarkable: u64,
    kept: Vec<Seen>,
}

/// A running sniffer; dropping it stops it.
#[derive(Debug)]
pub struct Sniffer {
    books: Arc<Mutex<Books>>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Sniffer {
    /// Sees what crosses any interface of `namespace`, and keeps what `is_remarkable`.
    ///
    /// # Errors
    /// There is no such socket: this takes root.
    pub fn start(
        namespace: &Namespace,
        is_remarkable: impl Fn(&Seen) -> bool + Send + 'static,
    ) -> Result<Self> {
        let what = || "packet socket".to_owned();
        let socket = namespace
            .run(|| {
                let protocol = Protocol::from(i32::from(ALL.to_be()));
                let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
                socket.set_nonblocking(true)?;
                Ok::<_, std::io::Error>(socket)
            })?
            .context(what)?;
        crate::buffers::enlarge(&socket);
        let stop = Arc::new(Stop::new()?);
        let books = Arc::new(Mutex::new(Books::default()));
        let (told, noted) = (Arc::clone(&stop), Arc::clone(&books));
        let thread = std::thread::Builder::new()
            .name("lab-sniffer".into())
            .spawn(move || watch(socket, &told, &noted, is_remarkable))
            .context(what)?;
        Ok(Self {
            books,
            stop,
            thread: Some(thread),
        })
    }

    /// How many IP packets it has seen.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.books.lock().total
    }

    /// What was remarkable since the last call, a thousand at most, and how many there were.
    #[must_use]
    pub fn take(&self) -> (u64, Vec<Seen>) {
        let mut books = self.books.lock();
        let count = std::mem::take(&mut books.remarkable);
        (count, std::mem::take(&mut books.kept))
    }
}

impl Drop for Sniffer {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn watch(
    mut socket: Socket,
    stop: &Stop,
    books: &Mutex<Books>,
    is_remarkable: impl Fn(&Seen) -> bool,
) -> Result<()> {
    let mut frame = vec![0; 70_000];
    while !stop.is_asked() {
        wait_readable(&[socket.as_fd(), stop.fd()], None)?;
        while let Ok(count) = socket.read(&mut frame) {
            let Some(seen) = frame.get(ETHERNET_BYTES..count).and_then(parse) else {
                continue;
            };
            let mut books = books.lock();
            books.total += 1;
            if is_remarkable(&seen) {
                books.remarkable += 1;
                if books.kept.len() < KEPT_MAX {
                    books.kept.push(seen);
                }
            }
        }
    }
    Ok(())
}

/// What a packet is; `None` for what is no IP, and for the housekeeping of a link.
fn parse(packet: &[u8]) -> Option<Seen> {
    let (source, destination, protocol, rest) = match packet.first()? >> 4 {
        4 => {
            let octets = |at: usize| -> Option<[u8; 4]> { packet.get(at..at + 4)?.try_into().ok() };
            let header = usize::from(packet[0] & 0x0f) * 4;
            let source = IpAddr::from(Ipv4Addr::from(octets(12)?));
            let destination = IpAddr::from(Ipv4Addr::from(octets(16)?));
            (source, destination, *packet.get(9)?, packet.get(header..)?)
        }
        6 => {
            let octets =
                |at: usize| -> Option<[u8; 16]> { packet.get(at..at + 16)?.try_into().ok() };
            let source = IpAddr::from(Ipv6Addr::from(octets(8)?));
            let destination = IpAddr::from(Ipv6Addr::from(octets(24)?));
            let (mut protocol, mut rest) = (*packet.get(6)?, packet.get(40..)?);
            if protocol == 0 {
                // Hop-by-hop options, in which multicast listeners report.
                let bytes = (usize::from(*rest.get(1)?) + 1) * 8;
                (protocol, rest) = (*rest.first()?, rest.get(bytes..)?);
            }
            if protocol == ICMPV6 && is_housekeeping(*rest.first()?) {
                return None;
            }
            (source, destination, protocol, rest)
        }
        _ => return None,
    };
    let port = |at: usize| -> Option<u16> {
        Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?))
    };
    let ports = match protocol {
        UDP | TCP => (port(0)?, port(2)?),
        _ => (0, 0),
    };
    Some(Seen {
        source,
        destination,
        protocol,
        ports,
    })
}

fn is_housekeeping(kind: u8) -> bool {
    HOUSEKEEPING.contains(&kind) || kind == 143
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stderr)]

    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::topology;

    #[test]
    fn what_crosses_the_router_is_seen_and_nothing_is_made_up() {
        if let Some(why) = crate::netns::unavailable() {
            eprintln!("skipped: {why}");
            return;
        }
        let net = topology::routed(1_500).unwrap();
        let sniffer = Sniffer::start(&net.router, |seen| seen.ports.1 == 4_242).unwrap();
        net.client
            .run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.send_to(b"x", (topology::WORLD_V4, 4_242)).unwrap();
                let socket = UdpSocket::bind("[::]:0").unwrap();
                socket.send_to(b"x", (topology::WORLD_V6, 4_242)).unwrap();
            })
            .unwrap();
        let started = Instant::now();
        let mut seen = Vec::new();
        while started.elapsed() < Duration::from_secs(5)
            && ![topology::WORLD_V4, topology::WORLD_V6]
                .iter()
                .all(|to| seen.iter().any(|seen: &Seen| seen.destination == *to))
        {
            seen.extend(sniffer.take().1);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            seen.iter().any(|seen| seen.source == topology::CLIENT_V4),
            "{seen:?}"
        );
        assert!(
            seen.iter().any(|seen| seen.source == topology::CLIENT_V6),
            "{seen:?}"
        );
        assert!(seen.iter().all(|seen| seen.protocol == UDP));
    }

    #[test]
    fn bytes_that_are_no_packet_are_passed_over() {
        for bytes in [&[][..], &[0x45], &[0x60; 39], &[0x45; 20], &[0xff; 60]] {
            let _ = parse(bytes);
        }
        assert_eq!(parse(&[0x10; 60]), None);
    }
}
