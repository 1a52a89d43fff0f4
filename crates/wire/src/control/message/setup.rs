//! HELLO and WELCOME: how a session begins.
//!
//! The client says what it speaks and how much it will take; the provider answers with the session's identity, its
//! inner addresses and its own bounds. `limits` in HELLO is what the *client* grants for each lane towards it, in
//! WELCOME what the provider grants: the credit before the first ACK.
//!
//! `features` are bits of optional additions to the protocol, of which version 1 has none; a reader keeps unknown bits
//! and ignores them.

use std::net::{Ipv4Addr, Ipv6Addr};

use minicbor::Decoder;

use super::finish;
use crate::control::ControlError;
use crate::control::cbor::{self, At, Body, Fields, Written};
use crate::control::message::SessionId;
use crate::frame::Credit;
use crate::registry::{AGENT_BYTES_MAX, Field, control, field};
use crate::varint;

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version that the client wants to speak.
    pub version: u64,
    /// What the client can do beyond it, as bits.
    pub features: u64,
    /// Software and version, for the provider's statistics; at most [`AGENT_BYTES_MAX`] bytes.
    pub agent: String,
    /// What the client grants for each lane before its first ACK.
    pub limits: Credit,
}

impl Hello {
    pub(in crate::control) fn encode(&self) -> Result<Vec<u8>, ControlError> {
        let at = At {
            message: "HELLO",
            field: field::hello::AGENT.name,
        };
        at.at_most(self.agent.len() as u64, AGENT_BYTES_MAX)?;
        check_limits("HELLO", self.limits)?;
        let body = Body::message(control::HELLO, 4).and_then(|mut body| {
            body.field(field::hello::VERSION, self.version)?;
            body.field(field::hello::FEATURES, self.features)?;
            body.text_field(field::hello::AGENT, &self.agent)?;
            body.credit_field(field::hello::LIMITS, self.limits)?;
            Ok(body)
        });
        finish("HELLO", body)
    }

    pub(in crate::control) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let hello = Self {
            version: fields.required(field::hello::VERSION, cbor::u64)?,
            features: fields.required(field::hello::FEATURES, cbor::u64)?,
            agent: fields.required(field::hello::AGENT, |d, at| {
                cbor::text(d, at, AGENT_BYTES_MAX)
            })?,
            limits: fields.required(field::hello::LIMITS, cbor::credit)?,
        };
        fields.finish()?;
        Ok(hello)
    }
}

/// The provider's answer to HELLO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both speak.
    pub version: u64,
    /// What the provider can do beyond it, as bits.
    pub features: u64,
    /// The session's name for RESUME. Not a secret: RESUME is bound to the client's key.
    pub session_id: SessionId,
    /// The client's inner IPv4 address and prefix length, 0 to 32.
    pub ipv4: Option<(Ipv4Addr, u8)>,
    /// The client's inner IPv6 address and prefix length, 0 to 128.
    pub ipv6: Option<(Ipv6Addr, u8)>,
    /// The provider's own inner IPv4 address.
    pub gateway_ipv4: Option<Ipv4Addr>,
    /// The provider's own inner IPv6 address.
    pub gateway_ipv6: Option<Ipv6Addr>,
    /// The largest inner packet, in bytes, that the provider carries.
    pub mtu: u16,
    /// What the provider grants for each lane before its first ACK.
    pub limits: Credit,
}

impl Welcome {
    pub(in crate::control) fn encode(&self) -> Result<Vec<u8>, ControlError> {
        check_limits("WELCOME", self.limits)?;
        let at = |field: Field| At {
            message: "WELCOME",
            field: field.name,
        };
        self.ipv4.map_or(Ok(0), |(_, length)| {
            prefix(length, 32, at(field::welcome::IPV4))
        })?;
        self.ipv6.map_or(Ok(0), |(_, length)| {
            prefix(length, 128, at(field::welcome::IPV6))
        })?;
        finish("WELCOME", self.body())
    }

    fn body(&self) -> Written<Body> {
        let optional = [
            self.ipv4.is_some(),
            self.ipv6.is_some(),
            self.gateway_ipv4.is_some(),
            self.gateway_ipv6.is_some(),
        ];
        let mut body = Body::message(
            control::WELCOME,
            5 + optional.into_iter().filter(|&there| there).count(),
        )?;
        body.field(field::welcome::VERSION, self.version)?;
        body.field(field::welcome::FEATURES, self.features)?;
        body.bytes_field(field::welcome::SESSION_ID, &self.session_id)?;
        if let Some((address, length)) = self.ipv4 {
            subnet_field(&mut body, field::welcome::IPV4, &address.octets(), length)?;
        }
        if let Some((address, length)) = self.ipv6 {
            subnet_field(&mut body, field::welcome::IPV6, &address.octets(), length)?;
        }
        if let Some(address) = self.gateway_ipv4 {
            body.bytes_field(field::welcome::GATEWAY_IPV4, &address.octets())?;
        }
        if let Some(address) = self.gateway_ipv6 {
            body.bytes_field(field::welcome::GATEWAY_IPV6, &address.octets())?;
        }
        body.field(field::welcome::MTU, self.mtu)?;
        body.credit_field(field::welcome::LIMITS, self.limits)?;
        Ok(body)
    }

    pub(in crate::control) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let welcome = Self {
            version: fields.required(field::welcome::VERSION, cbor::u64)?,
            features: fields.required(field::welcome::FEATURES, cbor::u64)?,
            session_id: fields.required(field::welcome::SESSION_ID, cbor::byte_array)?,
            ipv4: fields.optional(field::welcome::IPV4, |d, at| subnet(d, at, 32, cbor::ipv4))?,
            ipv6: fields.optional(field::welcome::IPV6, |d, at| subnet(d, at, 128, cbor::ipv6))?,
            gateway_ipv4: fields.optional(field::welcome::GATEWAY_IPV4, cbor::ipv4)?,
            gateway_ipv6: fields.optional(field::welcome::GATEWAY_IPV6, cbor::ipv6)?,
            mtu: fields.required(field::welcome::MTU, cbor::u16)?,
            limits: fields.required(field::welcome::LIMITS, cbor::credit)?,
        };
        fields.finish()?;
        Ok(welcome)
    }
}

fn check_limits(message: &'static str, limits: Credit) -> Result<(), ControlError> {
    let at = At {
        message,
        field: field::hello::LIMITS.name,
    };
    if limits.max_bytes.max(limits.max_number) > varint::MAX {
        Err(at.invalid("is above 2^62 - 1"))
    } else {
        Ok(())
    }
}

fn subnet_field(body: &mut Body, field: Field, address: &[u8], length: u8) -> Written {
    body.key(field)?;
    body.array(2)?;
    body.bytes(address)?;
    body.u64(u64::from(length))
}

fn subnet<'b, A>(
    decoder: &mut Decoder<'b>,
    at: At,
    longest: u8,
    address: impl FnOnce(&mut Decoder<'b>, At) -> Result<A, ControlError>,
) -> Result<(A, u8), ControlError> {
    cbor::pair(decoder, at)?;
    Ok((
        address(decoder, at)?,
        prefix(cbor::u8(decoder, at)?, longest, at)?,
    ))
}

fn prefix(length: u8, longest: u8, at: At) -> Result<u8, ControlError> {
    if length > longest {
        Err(at.invalid("has a prefix longer than the address"))
    } else {
        Ok(length)
    }
}
