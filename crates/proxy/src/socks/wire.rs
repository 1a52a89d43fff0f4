//! The messages of SOCKS5: bytes to values, and replies to bytes.
//!
//! A parser is given all that came so far. It says how many bytes its message took, or that there are too few, or that no
//! further byte can make it right; it looks at no byte beyond its message. Every length is one byte, so no message is
//! longer than 513.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use zeroize::Zeroizing;

use crate::dial::Target;

/// The version of SOCKS, first in each message but those of RFC 1929.
const VERSION: u8 = 5;
/// The version of the password's messages (RFC 1929 §2).
const PASSWORD_VERSION: u8 = 1;

const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Another version, or something else.
    Version,
    /// An unknown kind of address.
    AddressType,
    /// A name that is no text.
    Name,
}

type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

/// How an application says who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    None = 0,
    Password = 2,
    Unacceptable = 0xff,
}

/// The methods that an application offers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Methods(Vec<u8>);

impl Methods {
    pub(crate) fn offers(&self, method: Method) -> bool {
        self.0.contains(&(method as u8))
    }
}

/// A user name and a password, as they were given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Password {
    pub(crate) username: Vec<u8>,
    pub(crate) password: Zeroizing<Vec<u8>>,
}

/// What an application wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Connect,
    Bind,
    UdpAssociate,
    Unknown,
}

/// What an application wants, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) target: Target,
}

/// How it went (RFC 1928 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TtlExpired = 6,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

/// The first message: version, and methods.
pub(crate) fn greeting(bytes: &[u8]) -> Parsed<Methods> {
    let mut reader = Reader::new(bytes);
    reader.expect(VERSION)?;
    let methods = reader.counted();
    Ok(methods.map(|methods| (Methods(methods.to_vec()), reader.at)))
}

/// The second, where a password is asked for.
pub(crate) fn password(bytes: &[u8]) -> Parsed<Password> {
    let mut reader = Reader::new(bytes);
    reader.expect(PASSWORD_VERSION)?;
    let Some((username, password)) = reader.counted().zip(reader.counted()) else {
        return Ok(None);
    };
    let password = Password {
        username: username.to_vec(),
        password: Zeroizing::new(password.to_vec()),
    };
    Ok(Some((password, reader.at)))
}

/// The last: what is wanted.
pub(crate) fn request(bytes: &[u8]) -> Parsed<Request> {
    let mut reader = Reader::new(bytes);
    reader.expect(VERSION)?;
    let Some(command) = reader.byte() else {
        return Ok(None);
    };
    // Reserved: whatever it is, nothing follows from it.
    if reader.byte().is_none() {
        return Ok(None);
    }
    let command = match command {
        1 => Command::Connect,
        2 => Command::Bind,
        3 => Command::UdpAssociate,
        _ => Command::Unknown,
    };
    let target = reader.target()?;
    Ok(target.map(|target| (Request { command, target }, reader.at)))
}

/// The header of a datagram (RFC 1928 §7).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DatagramHeader {
    /// Where it goes.
    pub(crate) target: Target,
    /// Its place in a sequence of fragments; 0 is a whole one.
    pub(crate) fragment: u8,
}

/// The header of a datagram; `None` when it is cut short.
pub(crate) fn datagram(bytes: &[u8]) -> Parsed<DatagramHeader> {
    let mut reader = Reader::new(bytes);
    let (Some(_), Some(_), Some(fragment)) = (reader.byte(), reader.byte(), reader.byte()) else {
        return Ok(None);
    };
    let target = reader.target()?;
    Ok(target.map(|target| (DatagramHeader { target, fragment }, reader.at)))
}

/// The answer to a greeting.
pub(crate) const fn method_reply(method: Method) -> [u8; 2] {
    [VERSION, method as u8]
}

/// The answer to a password.
pub(crate) fn password_reply(is_known: bool) -> [u8; 2] {
    [PASSWORD_VERSION, u8::from(!is_known)]
}

/// The answer to a request.
pub(crate) fn reply(status: Status, bound: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![VERSION, status as u8, 0];
    put_address(&mut bytes, bound);
    bytes
}

/// Puts the header of a datagram that came from `from` into an emptied buffer.
pub(crate) fn put_datagram_header(bytes: &mut Vec<u8>, from: SocketAddr) {
    bytes.clear();
    bytes.extend_from_slice(&[0; 3]);
    put_address(bytes, from);
}

fn put_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(v4) => {
            bytes.push(ADDRESS_V4);
            bytes.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes.push(ADDRESS_V6);
            bytes.extend_from_slice(&v6.octets());
        }
    }
    bytes.extend_from_slice(&address.port().to_be_bytes());
}

/// Reads on; `None` is too few bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at + len)?;
        self.at += len;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Bytes behind their count.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.byte()?;
        self.take(len.into())
    }

    /// A byte that must be this one, once it is there.
    fn expect(&mut self, expected: u8) -> Result<(), Malformed> {
        match self.byte() {
            Some(byte) if byte != expected => Err(Malformed::Version),
            Some(_) | None => Ok(()),
        }
    }

    fn target(&mut self) -> Result<Option<Target>, Malformed> {
        let Some(kind) = self.byte() else {
            return Ok(None);
        };
        let host = match kind {
            ADDRESS_V4 => self
                .array()
                .map(|v4: [u8; 4]| Host::Address(Ipv4Addr::from(v4).into())),
            ADDRESS_V6 => self
                .array()
                .map(|v6: [u8; 16]| Host::Address(Ipv6Addr::from(v6).into())),
            ADDRESS_NAME => self.counted().map(Host::Name),
            _ => return Err(Malformed::AddressType),
        };
        let Some((host, port)) = host.zip(self.array().map(u16::from_be_bytes)) else {
            return Ok(None);
        };
        Ok(Some(match host {
            Host::Address(address) => Target::Address(SocketAddr::new(address, port)),
            Host::Name(name) => {
                let name = std::str::from_utf8(name).map_err(|_| Malformed::Name)?;
                // Some write an address where a name belongs.
                Target::of(name, port)
            }
        }))
    }
}

enum Host<'a> {
    Address(IpAddr),
    Name(&'a [u8]),
}

#[cfg(test)]
mod tests;
