//! A question to bytes, bytes to an answer.
//!
//! The parser is the crate `domain`'s, over borrowed bytes: it checks what it is asked for, and follows compressed names
//! within bounds. What is judged here is whether the answer is the one to our question, and how long it holds: as long as
//! the shortest-lived link of its chain of aliases.

use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, ParsedName, Record, ToName};
use domain::rdata::{A, Aaaa, Cname};

/// Most addresses of one answer that are taken.
const ADDRESSES_MAX: usize = 16;
/// Bytes of an answer that we take in one datagram: 1,280 less both headers (RFC 9715 §3.1 has 1,400 on open paths).
const UDP_PAYLOAD_BYTES: u16 = 1_232;
/// Most aliases of one answer that are followed: more than anybody makes, few enough for a server that makes a circle.
const ALIASES_MAX: usize = 16;
/// The longest that an answer is believed.
const TTL_MAX: Duration = Duration::from_secs(3_600);

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// A records.
    V4,
    /// AAAA records.
    V6,
}

impl Family {
    const fn rtype(self) -> Rtype {
        match self {
            Self::V4 => Rtype::A,
            Self::V6 => Rtype::AAAA,
        }
    }
}

/// A name and the family of addresses that are asked for. Names are compared without their case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    name: Name<Vec<u8>>,
    family: Family,
}

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// These, for so long. None at all: the name has no address of this family.
    Addresses(Vec<IpAddr>, Duration),
    /// There is no such name.
    NoSuchName,
    /// The answer is too long for a datagram.
    Truncated,
    /// The server could not or would not say.
    ServerFailed,
}

impl Question {
    /// A question; `None` for what is no name, and for the names of the host itself, which are nobody else's to answer
    /// (RFC 6761 §6.3). A host's name has no escapes in it, with which either could be disguised, and no brackets.
    #[must_use]
    pub fn new(name: &str, family: Family) -> Option<Self> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !name.bytes().all(is_of_name) {
            return None;
        }
        let bare = name.strip_suffix('.').unwrap_or(name);
        let last = bare.rsplit('.').next().unwrap_or(bare);
        if bare.is_empty() || last.eq_ignore_ascii_case("localhost") {
            return None;
        }
        let name = Name::vec_from_str(name).ok()?;
        Some(Self { name, family })
    }

    /// The question as a message with the number `id`.
    #[must_use]
    pub fn to_message(&self, id: u16) -> Option<Vec<u8>> {
        let mut message = MessageBuilder::new_vec();
        message.header_mut().set_id(id);
        message.header_mut().set_rd(true);
        let mut message = message.question();
        message.push((&self.name, self.family.rtype())).ok()?;
        let mut message = message.additional();
        message
            .opt(|options| {
                options.set_udp_payload_size(UDP_PAYLOAD_BYTES);
                Ok(())
            })
            .ok()?;
        Some(message.finish())
    }

    /// What `bytes` answers; `None` when it is no answer to this question.
    #[must_use]
    pub fn read(&self, id: u16, bytes: &[u8]) -> Option<Answer> {
        let message = Message::from_slice(bytes).ok()?;
        let header = message.header();
        let is_reply = header.qr() && header.opcode() == Opcode::QUERY && header.id() == id;
        let question = message.sole_question().ok()?;
        let is_ours = question.qname().name_eq(&self.name)
            && question.qtype() == self.family.rtype()
            && question.qclass() == Class::IN;
        if !is_reply || !is_ours {
            return None;
        }
        if header.tc() {
            return Some(Answer::Truncated);
        }
        Some(match header.rcode() {
            Rcode::NOERROR => self
                .addresses(message)
                .map_or(Answer::ServerFailed, |(addresses, ttl)| {
                    Answer::Addresses(addresses, ttl)
                }),
            Rcode::NXDOMAIN => Answer::NoSuchName,
            _ => Answer::ServerFailed,
        })
    }

    /// The name that the question's name is another name for, and how long it is.
    fn canonical<'m>(
        &self,
        message: &'m Message<[u8]>,
    ) -> Option<(ParsedName<&'m [u8]>, Duration)> {
        let mut name = message.sole_question().ok()?.into_qname();
        let mut ttl = TTL_MAX;
        for _ in 0..=ALIASES_MAX {
            let mut aliases = message.answer().ok()?.limit_to_in::<Cname<_>>();
            let is_ours = |record: &Record<ParsedName<&[u8]>, Cname<ParsedName<&[u8]>>>| {
                record.owner().name_eq(&name)
            };
            let Some(alias) = aliases.find_map(|alias| alias.ok().filter(is_ours)) else {
                return Some((name, ttl));
            };
            ttl = ttl.min(alias.ttl().into_duration());
            name = alias.into_data().into_cname();
        }
        None
    }

    /// The addresses of the name that the question's name is another name for.
    fn addresses(&self, message: &Message<[u8]>) -> Option<(Vec<IpAddr>, Duration)> {
        let (name, mut ttl) = self.canonical(message)?;
        let mut addresses = Vec::new();
        let answer = message.answer().ok()?;
        let mut take = |owner_is_it: bool, lives: Duration, address: IpAddr| {
            if owner_is_it && addresses.len() < ADDRESSES_MAX {
                ttl = ttl.min(lives);
                addresses.push(address);
            }
        };
        match self.family {
            Family::V4 => {
                for record in answer.limit_to_in::<A>() {
                    let record = record.ok()?;
                    let address = record.data().addr().into();
                    take(
                        record.owner().name_eq(&name),
                        record.ttl().into_duration(),
                        address,
                    );
                }
            }
            Family::V6 => {
                for record in answer.limit_to_in::<Aaaa>() {
                    let record = record.ok()?;
                    let address = record.data().addr().into();
                    take(
                        record.owner().name_eq(&name),
                        record.ttl().into_duration(),
                        address,
                    );
                }
            }
        }
        Some((addresses, ttl))
    }
}

#[cfg(test)]
mod tests;
