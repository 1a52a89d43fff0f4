//! A server's address as people write it: a name or an IP address, and perhaps a port.
//!
//! | written | means |
//! |---|---|
//! | `vpn.example.net`, `192.0.2.1`, `2001:db8::1`, `[2001:db8::1]` | the default port |
//! | `vpn.example.net:443`, `192.0.2.1:443`, `[2001:db8::1]:443` | that port |
//!
//! An IPv6 address with a port needs its brackets: `2001:db8::1:443` *is* an
//! address, and guessing otherwise would dial the wrong host. Names are checked
//! by RFC 1123 (letters, digits, hyphens, labels of 63, 253 in all) plus the
//! underscore that private zones use; whether a name exists shows when it is
//! resolved, anew at each dial, since a provider may move. A name whose last
//! label is all digits would be a mistyped IPv4 address and is refused.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use quell_wire::registry::DEFAULT_PORT;
use thiserror::Error;

/// Longest name of a host (RFC 1123 §2.1, RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Longest part of a name between two dots (RFC 1035 §2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// A host to be dialed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// To be resolved at each dial.
    Name(String),
    /// Dialed as it is.
    Ip(IpAddr),
}

/// A host and its UDP port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    /// Name or address.
    pub host: Host,
    /// UDP port, 1 to 65535.
    pub port: u16,
}

/// Why a text is no server address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The port is missing, 0, too large or not a number.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// Brackets without an IPv6 address in them.
    #[error("not an IPv6 address in the brackets")]
    Brackets,
    /// Neither an IP address nor a name that a host can have.
    #[error("not the name of a host")]
    Name,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Ip(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
        }
    }
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self {
                host: Host::Ip(address),
                port: DEFAULT_PORT,
            });
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']').ok_or(AddressError::Brackets)?;
            let address: Ipv6Addr = address.parse().map_err(|_| AddressError::Brackets)?;
            let port = match rest {
                "" => DEFAULT_PORT,
                rest => port(rest.strip_prefix(':').ok_or(AddressError::Port)?)?,
            };
            return Ok(Self {
                host: Host::Ip(address.into()),
                port,
            });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, text)) => (host, port(text)?),
            None => (text, DEFAULT_PORT),
        };
        let host = match host.parse::<IpAddr>() {
            Ok(address) => Host::Ip(address),
            Err(_) if is_name(host) => Host::Name(host.to_owned()),
            Err(_) => return Err(AddressError::Name),
        };
        Ok(Self { host, port })
    }
}

/// Digits alone: `u16::from_str` would take a sign as well.
fn port(text: &str) -> Result<u16, AddressError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError::Port);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(AddressError::Port),
        Ok(port) => Ok(port),
    }
}

fn is_name(text: &str) -> bool {
    let relative = text.strip_suffix('.').unwrap_or(text);
    let numeric_end = relative
        .rsplit('.')
        .next()
        .is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    relative.len() <= NAME_BYTES_MAX && !numeric_end && relative.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let fits = (1..=LABEL_BYTES_MAX).contains(&label.len());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    fits && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_form_is_read_and_written_with_its_port() {
        let cases = [
            ("vpn.example.net", "vpn.example.net:6610"),
            ("vpn.example.net.", "vpn.example.net.:6610"),
            ("localhost:1", "localhost:1"),
            ("_vpn.internal:65535", "_vpn.internal:65535"),
            ("192.0.2.1", "192.0.2.1:6610"),
            ("192.0.2.1:443", "192.0.2.1:443"),
            ("2001:db8::1", "[2001:db8::1]:6610"),
            ("2001:db8::1:443", "[2001:db8::1:443]:6610"),
            ("[2001:db8::1]", "[2001:db8::1]:6610"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
        ];
        for (written, read) in cases {
            let address: ServerAddress = written.parse().unwrap();
            assert_eq!(address.to_string(), read);
            assert_eq!(read.parse::<ServerAddress>().unwrap(), address);
        }
    }

    #[test]
    fn an_address_is_no_name() {
        let address: ServerAddress = "192.0.2.1:443".parse().unwrap();
        assert_eq!(address.host, Host::Ip("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn what_could_only_fail_at_the_dial_is_refused() {
        let cases = [
            ("", AddressError::Name),
            (":443", AddressError::Name),
            ("a..b", AddressError::Name),
            ("-a.net", AddressError::Name),
            ("a-.net", AddressError::Name),
            ("a b.net", AddressError::Name),
            ("exämple.net", AddressError::Name),
            ("https://vpn.example.net", AddressError::Port),
            ("1.2.3", AddressError::Name),
            ("300.2.3.4", AddressError::Name),
            ("vpn:", AddressError::Port),
            ("vpn:0", AddressError::Port),
            ("vpn:65536", AddressError::Port),
            ("vpn:+1", AddressError::Port),
            ("vpn:1:2", AddressError::Port),
            ("[::1", AddressError::Brackets),
            ("[1.2.3.4]:1", AddressError::Brackets),
            ("[::1]443", AddressError::Port),
        ];
        for (written, why) in cases {
            assert_eq!(written.parse::<ServerAddress>(), Err(why), "{written}");
        }
    }

    #[test]
    fn names_end_at_63_a_label_and_253_in_all() {
        let label = "a".repeat(63);
        let name = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(name.len(), 253);
        name.parse::<ServerAddress>().unwrap();
        for longer in [format!("a{name}"), format!("{name}a"), "a".repeat(64)] {
            longer.parse::<ServerAddress>().unwrap_err();
        }
    }
}
