//! One rule of `egress.allow` or `egress.deny`, as people write it.
//!
//! ```text
//! rule    = prefix | service | prefix " " service
//! prefix  = "10.0.0.0/8" | "fd00::/8" | "10.1.2.3"            one address is itself
//! service = "tcp" [ports] | "udp" [ports] | "icmp"            "icmp" is ICMPv6 too
//! ports   = "/443" | "/1-1023"
//! ```
//!
//! A rule without a service speaks of everything that is sent to its addresses, also of protocols that have no name here.
//! A rule without a prefix speaks of ports, wherever they are: as a denial it holds for all addresses; as an allowance it
//! opens the port where nothing but the port is denied. `allow = ["tcp/25"]` lets mail out to the world, and not to the
//! host's own network: who writes it does not think of the addresses, so it does not decide about them.
//!
//! Ports are read from the first fragment of a packet. Later ones have none; they are of no use to anybody without the
//! first, and can change nothing in it: the ports are in the first 8 bytes, which no later fragment can overlap. So a port
//! that is denied is not denied in them, and one that is allowed is not allowed either. A first fragment too short to hold
//! its ports is taken for what is denied.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use quell_packet::{IpPacket, PacketError, Prefix, protocol};
use thiserror::Error;

/// A range of ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Every port.
    pub const ALL: Self = Self {
        first: 0,
        last: u16::MAX,
    };

    /// The port, where it is one.
    pub fn one(self) -> Option<u16> {
        (self.first == self.last).then_some(self.first)
    }

    fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl From<u16> for Ports {
    fn from(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }
}

/// What is done at a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// Everything.
    Any,
    /// ICMP and ICMPv6.
    Icmp,
    /// TCP to these ports.
    Tcp(Ports),
    /// UDP to these ports.
    Udp(Ports),
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Whose addresses; `None` for all.
    pub prefix: Option<Prefix>,
    /// What is done there.
    pub service: Service,
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The prefix is none.
    #[error("{0}")]
    Prefix(PacketError),
    /// The second word is none of the services.
    #[error("{0:?} is neither \"tcp\", \"udp\" nor \"icmp\", with or without ports")]
    Service(String),
    /// The ports are none, or in the wrong order, or of a protocol that has none.
    #[error("{0:?} is no port and no range of ports, lower one first")]
    Ports(String),
    /// More than two words, or none.
    #[error("it has {0} words")]
    Words(usize),
}

/// Which port a packet goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// This one.
    Known(u16),
    /// It cannot be read where it should stand.
    Hidden,
    /// There is none: another protocol, or a later fragment.
    None,
}

/// What is asked: may this be sent?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Where to; `None`: to whoever is nobody in particular.
    pub destination: Option<IpAddr>,
    /// The upper layer, see [`quell_packet::protocol`]; `None`: whatever it is.
    pub protocol: Option<u8>,
    /// The port.
    pub port: Port,
}

impl Asked {
    /// What a packet asks.
    pub fn of(ip: &IpPacket<'_>) -> Self {
        let number = ip.protocol();
        let port = match (number, ip.payload()) {
            (protocol::TCP | protocol::UDP, _) if ip.fragment_offset() != 0 => Port::None,
            (protocol::TCP | protocol::UDP, [_, _, high, low, ..]) => {
                Port::Known(u16::from_be_bytes([*high, *low]))
            }
            (protocol::TCP | protocol::UDP, _) => Port::Hidden,
            _ => Port::None,
        };
        Self {
            destination: Some(ip.destination()),
            protocol: Some(number),
            port,
        }
    }
}

impl Service {
    /// Whether what is asked is in it; `hidden` for a port that cannot be read.
    pub(super) fn covers(self, asked: &Asked, hidden: bool) -> bool {
        let (ports, number) = match self {
            Self::Any => return true,
            Self::Icmp => {
                return matches!(asked.protocol, Some(protocol::ICMP | protocol::ICMPV6));
            }
            Self::Tcp(ports) => (ports, protocol::TCP),
            Self::Udp(ports) => (ports, protocol::UDP),
        };
        asked.protocol == Some(number)
            && match asked.port {
                Port::Known(port) => ports.contains(port),
                Port::Hidden => hidden || ports == Ports::ALL,
                Port::None => ports == Ports::ALL,
            }
    }
}

impl FromStr for Service {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (name, ports) = match text.split_once('/') {
            Some((name, ports)) => (name, Some(ports)),
            None => (text, None),
        };
        let ports_of = |ports: Option<&str>| ports.map_or(Ok(Ports::ALL), str::parse);
        match (name, ports) {
            ("tcp", ports) => Ok(Self::Tcp(ports_of(ports)?)),
            ("udp", ports) => Ok(Self::Udp(ports_of(ports)?)),
            ("icmp", None) => Ok(Self::Icmp),
            ("icmp", Some(ports)) => Err(RuleError::Ports(ports.to_owned())),
            _ => Err(RuleError::Service(text.to_owned())),
        }
    }
}

impl FromStr for Ports {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Ports(text.to_owned());
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        // `u16::from_str` takes a sign, which nobody means.
        let port = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number).ok_or_else(wrong)
        };
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(wrong());
        }
        Ok(Self { first, last })
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let words: Vec<_> = text.split_ascii_whitespace().take(3).collect();
        let starts_with_letter = |word: &str| {
            let name = word.split('/').next().unwrap_or(word);
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic())
        };
        let (prefix, service) = match words[..] {
            [service] if starts_with_letter(service) => (None, service.parse()?),
            [prefix] => (Some(prefix), Service::Any),
            [prefix, service] => (Some(prefix), service.parse()?),
            _ => return Err(RuleError::Words(text.split_ascii_whitespace().count())),
        };
        let prefix = prefix.map(|text| text.parse().map_err(RuleError::Prefix));
        Ok(Self {
            prefix: prefix.transpose()?,
            service,
        })
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "/{first}"),
            (0, u16::MAX) => Ok(()),
            (first, last) => write!(f, "/{first}-{last}"),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Icmp => f.write_str("icmp"),
            Self::Tcp(ports) => write!(f, "tcp{ports}"),
            Self::Udp(ports) => write!(f, "udp{ports}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.prefix, self.service) {
            (Some(prefix), Service::Any) => write!(f, "{prefix}"),
            (Some(prefix), service) => write!(f, "{prefix} {service}"),
            (None, service) => write!(f, "{service}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_written_is_what_is_meant_and_is_written_back() {
        for text in [
            "10.0.0.0/8",
            "10.1.2.3/32 tcp/443",
            "tcp/25",
            "udp",
            "icmp",
            "::/0 udp/1-1023",
            "fd00::/8 icmp",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(rule("10.1.2.3"), rule("10.1.2.3/32"));
        assert_eq!(rule("  tcp/0-65535 "), rule("tcp"));
        assert_eq!(rule("tcp/7-7"), rule("tcp/7"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "sctp",
            "tcp/",
            "tcp/65536",
            "tcp/+5",
            "tcp/2-1",
            "tcp/1-",
            "tcp/-1",
            "tcp/1-2-3",
            "icmp/8",
            "TCP/25",
            "tcp/25 10.0.0.0/8",
            "10.0.0.0/8 tcp/25 udp/25",
            "example.net",
            "10.0.0.1:443",
        ] {
            text.parse::<Rule>().unwrap_err();
        }
    }

    #[test]
    fn a_range_of_ports_ends_where_it_says() {
        let service = rule("tcp/20-25").service;
        let asked = |number, port| Asked {
            destination: None,
            protocol: Some(number),
            port,
        };
        for (port, is_in) in [(19, false), (20, true), (25, true), (26, false)] {
            let asked = asked(protocol::TCP, Port::Known(port));
            assert_eq!(service.covers(&asked, false), is_in, "{port}");
        }
        assert!(!service.covers(&asked(protocol::UDP, Port::Known(20)), true));
        // A denial holds for what cannot be read, an allowance does not.
        assert!(service.covers(&asked(protocol::TCP, Port::Hidden), true));
        assert!(!service.covers(&asked(protocol::TCP, Port::Hidden), false));
        assert!(!service.covers(&asked(protocol::TCP, Port::None), true));
        assert!(
            rule("tcp")
                .service
                .covers(&asked(protocol::TCP, Port::None), false)
        );
    }
}
