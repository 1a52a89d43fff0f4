//! A SOCKS5 client (RFC 1928), so that loads reach a network as applications do that know a proxy.
//!
//! ```text
//! CONNECT        TCP to the proxy ─ greeting ─ request ─ reply ─ from there on the connection is the destination's
//! UDP ASSOCIATE  the same, and beside it a UDP socket: each datagram has a header of 10 or 22 bytes that says where to
//! ```
//!
//! No authentication, no names, no fragments: what a load on a loopback needs. Nothing is believed that was not asked for: a
//! reply of another version, an address of an unknown kind, a datagram from elsewhere than the destination are errors or
//! strays. A refusal is an [`io::Error`] whose kind is the one that a socket of this host would have given.
//!
//! [`connect`] and [`Association`] wait in calls with a deadline, for threads; `connect_async` is the same for tasks. The bytes
//! of both come from the same few functions.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::error::{Context, Result};
use crate::probe::{PAYLOAD_BYTES_MAX, local_towards};

const VERSION: u8 = 5;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;
const IPV4: u8 = 1;
const IPV6: u8 = 4;

/// Version, number of methods, and the one that needs no authentication.
const GREETING: [u8; 3] = [VERSION, 1, 0];

/// The longest address: 16 bytes and a port.
const ADDRESS_BYTES_MAX: usize = 18;

/// A stream to `destination` through the SOCKS5 proxy at `proxy`. The call, connecting included, takes `within` at most.
///
/// # Errors
/// [`LabError::Io`](crate::LabError::Io): the proxy is not there, does not answer in time, or refuses.
pub fn connect(proxy: SocketAddr, destination: SocketAddr, within: Duration) -> Result<TcpStream> {
    open(proxy, destination, within)
        .context(|| format!("connection to {destination} through the proxy at {proxy}"))
}

fn open(proxy: SocketAddr, destination: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    let mut stream = Timed::connect(proxy, within)?;
    stream.ask(CONNECT, destination)?;
    stream.into_inner()
}

/// As [`connect`], without a deadline of its own.
pub(crate) async fn connect_async(
    proxy: SocketAddr,
    destination: SocketAddr,
) -> io::Result<tokio::net::TcpStream> {
    let mut stream = tokio::net::TcpStream::connect(proxy).await?;
    stream.write_all(&GREETING).await?;
    let mut method = [0; 2];
    stream.read_exact(&mut method).await?;
    check_method(method)?;
    stream.write_all(&request(CONNECT, destination)).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let mut bound = [0; ADDRESS_BYTES_MAX];
    stream.read_exact(&mut bound[..check_reply(head)?]).await?;
    Ok(stream)
}

/// A stream whose calls share one deadline.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn connect(proxy: SocketAddr, within: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + within;
        let stream = TcpStream::connect_timeout(&proxy, within)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, deadline })
    }

    /// Greets, asks for `command`, and returns where the proxy has bound.
    fn ask(&mut self, command: u8, address: SocketAddr) -> io::Result<SocketAddr> {
        self.arm()?;
        self.stream.write_all(&GREETING)?;
        let mut method = [0; 2];
        self.read(&mut method)?;
        check_method(method)?;
        self.stream.write_all(&request(command, address))?;
        let mut head = [0; 4];
        self.read(&mut head)?;
        let mut bound = [0; ADDRESS_BYTES_MAX];
        let bound = &mut bound[..check_reply(head)?];
        self.read(bound)?;
        address_of(bound).ok_or_else(|| invalid("a reply without an address"))
    }

    fn read(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        // Not `read_exact`: each wait is to have what is left of the time.
        while !bytes.is_empty() {
            self.arm()?;
            match self.stream.read(bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => bytes = &mut bytes[read..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn arm(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))
    }

    fn into_inner(self) -> io::Result<TcpStream> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }
}

/// A way for datagrams to one destination through a proxy. Dropping it ends it.
#[derive(Debug)]
pub struct Association {
    /// The association lives as long as this does.
    _control: TcpStream,
    socket: UdpSocket,
    destination: SocketAddr,
    /// A header, and room for the body behind it.
    message: Vec<u8>,
    header_bytes: usize,
    buffer: Vec<u8>,
}

impl Association {
    /// Asks the proxy at `proxy` for a way to `destination`; takes `within` at most. Its socket does not block.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn open(proxy: SocketAddr, destination: SocketAddr, within: Duration) -> Result<Self> {
        Self::associate(proxy, destination, within)
            .context(|| format!("datagrams to {destination} through the proxy at {proxy}"))
    }

    fn associate(proxy: SocketAddr, destination: SocketAddr, within: Duration) -> io::Result<Self> {
        let socket = UdpSocket::bind((local_towards(proxy.ip()), 0))?;
        let mut control = Timed::connect(proxy, within)?;
        let own = SocketAddr::new(
            control.stream.local_addr()?.ip(),
            socket.local_addr()?.port(),
        );
        let relay = control.ask(UDP_ASSOCIATE, own)?;
        // A proxy may leave its address out: it is the one that was spoken to.
        let relay = match relay.ip().is_unspecified() {
            true => SocketAddr::new(proxy.ip(), relay.port()),
            false => relay,
        };
        socket.connect(relay)?;
        socket.set_nonblocking(true)?;
        crate::buffers::enlarge(&socket);
        let mut message = vec![0, 0, 0];
        put_address(&mut message, destination);
        let header_bytes = message.len();
        Ok(Self {
            _control: control.into_inner()?,
            socket,
            destination,
            message,
            header_bytes,
            buffer: vec![0; PAYLOAD_BYTES_MAX + 1],
        })
    }

    /// Sends a datagram with this body.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&mut self, body: &[u8]) -> io::Result<()> {
        self.message.truncate(self.header_bytes);
        self.message.extend_from_slice(body);
        self.socket.send(&self.message).map(|_| ())
    }

    /// The body of the next datagram; `None`: it is not one of the destination's.
    ///
    /// # Errors
    /// The socket's; `WouldBlock` when there is no more.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let len = self.socket.recv(&mut self.buffer)?;
        let datagram = &self.buffer[..len];
        Ok(datagram.strip_prefix(&self.message[..self.header_bytes]))
    }

    /// Where its datagrams go.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        self.destination
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `command` for `address` (RFC 1928 §4).
fn request(command: u8, address: SocketAddr) -> Vec<u8> {
    let mut request = vec![VERSION, command, 0];
    put_address(&mut request, address);
    request
}

fn put_address(message: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            message.push(IPV4);
            message.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            message.push(IPV6);
            message.extend_from_slice(&ip.octets());
        }
    }
    message.extend_from_slice(&address.port().to_be_bytes());
}

/// The address and port that `bytes` are.
fn address_of(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk::<2>()?;
    let ip = match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
        (Ok(ip), _) => IpAddr::V4(Ipv4Addr::from(ip)),
        (_, Ok(ip)) => IpAddr::V6(Ipv6Addr::from(ip)),
        (Err(_), Err(_)) => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

fn check_method([version, method]: [u8; 2]) -> io::Result<()> {
    match (version, method) {
        (VERSION, 0) => Ok(()),
        (VERSION, _) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the proxy asks for a password",
        )),
        (_, _) => Err(invalid("not a SOCKS5 proxy")),
    }
}

/// How many bytes of address and port follow a reply's first four (RFC 1928 §6).
fn check_reply([version, status, _, kind]: [u8; 4]) -> io::Result<usize> {
    use io::ErrorKind as Kind;

    if version != VERSION {
        return Err(invalid("not a SOCKS5 proxy"));
    }
    let (refused, words) = match status {
        0 => {
            return match kind {
                IPV4 => Ok(6),
                IPV6 => Ok(18),
                _ => Err(invalid("a reply without an address")),
            };
        }
        2 => (Kind::PermissionDenied, "not allowed by ruleset"),
        3 => (Kind::NetworkUnreachable, "network unreachable"),
        4 => (Kind::HostUnreachable, "host unreachable"),
        5 => (Kind::ConnectionRefused, "connection refused"),
        6 => (Kind::TimedOut, "TTL expired"),
        7 => (Kind::Unsupported, "command not supported"),
        8 => (Kind::Unsupported, "address type not supported"),
        _ => (Kind::Other, "general failure"),
    };
    Err(io::Error::new(
        refused,
        format!("the proxy refuses: {words}"),
    ))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
