//! The control messages, one struct each, with their bounds.
//!
//! Each has `decode`, which reads its fields in the order of their keys, and `encode`, which first checks what a type
//! of its own does not already rule out. The bounds are the same both ways, so that what one end writes the other end
//! reads. See the parent module for the layout.

mod resume;
mod setup;

use std::net::IpAddr;

use bytes::Bytes;

pub use self::resume::{Resume, ResumeLane, Resumed, SessionId};
pub use self::setup::{Hello, Welcome};
use super::ControlError;
use super::cbor::{self, At, Body, Fields, Written};
use crate::registry::{
    self, CONTRACT_BYTES_MAX, Field, RECEIPT_BYTES_MAX, WORDS_BYTES_MAX, control, field,
};

/// Makes a body's bytes. The encoder's error cannot arise: a `Vec` takes any bytes, and no value here has an encoding
/// that could fail; were it to, the message would be one that cannot be read.
fn finish(message: &'static str, body: Written<Body>) -> Result<Vec<u8>, ControlError> {
    body.map(Body::into_bytes)
        .map_err(|_| ControlError::WrongType {
            message,
            field: "map",
            wanted: "encodable",
        })
}

/// A signed allowance of bytes, in its own binary form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The signed form, opaque here; at most [`CONTRACT_BYTES_MAX`] bytes.
    pub bytes: Bytes,
}

impl Contract {
    const AT: At = At {
        message: "CONTRACT",
        field: "bytes",
    };

    pub(super) fn encode(&self) -> Result<Vec<u8>, ControlError> {
        opaque(
            Self::AT,
            control::CONTRACT,
            field::contract::BYTES,
            &self.bytes,
            CONTRACT_BYTES_MAX,
        )
    }

    pub(super) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let bytes = fields.required(field::contract::BYTES, |d, at| {
            copied(d, at, CONTRACT_BYTES_MAX)
        })?;
        fields.finish()?;
        Ok(Self { bytes })
    }
}

/// A client-signed running total under a contract, in its own binary form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The signed form, opaque here; at most [`RECEIPT_BYTES_MAX`] bytes.
    pub bytes: Bytes,
}

impl Receipt {
    const AT: At = At {
        message: "RECEIPT",
        field: "bytes",
    };

    pub(super) fn encode(&self) -> Result<Vec<u8>, ControlError> {
        opaque(
            Self::AT,
            control::RECEIPT,
            field::receipt::BYTES,
            &self.bytes,
            RECEIPT_BYTES_MAX,
        )
    }

    pub(super) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let bytes = fields.required(field::receipt::BYTES, |d, at| {
            copied(d, at, RECEIPT_BYTES_MAX)
        })?;
        fields.finish()?;
        Ok(Self { bytes })
    }
}

fn opaque(
    at: At,
    number: u64,
    field: Field,
    bytes: &[u8],
    max: usize,
) -> Result<Vec<u8>, ControlError> {
    at.at_most(bytes.len() as u64, max)?;
    let body = Body::message(number, 1).and_then(|mut body| {
        body.bytes_field(field, bytes)?;
        Ok(body)
    });
    finish(at.message, body)
}

fn copied(decoder: &mut minicbor::Decoder<'_>, at: At, max: usize) -> Result<Bytes, ControlError> {
    let bytes = cbor::bytes(decoder, at)?;
    at.at_most(bytes.len() as u64, max)?;
    Ok(Bytes::copy_from_slice(bytes))
}

/// A flow as its client sees it: `source` is the client's inner address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// The IP protocol number (6 TCP, 17 UDP).
    pub protocol: u8,
    /// The client's inner address; of the same family as `destination`.
    pub source: IpAddr,
    /// The client's port, 0 where the protocol has none.
    pub source_port: u16,
    /// The far address.
    pub destination: IpAddr,
    /// The far port, 0 where the protocol has none.
    pub destination_port: u16,
}

/// The client gives a flow up; the provider resets the far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowClose {
    /// The flow.
    pub flow: FiveTuple,
    /// Of a TCP connection: what its destination expects next, the sequence number of the reset. Without it the
    /// destination is reset when it speaks.
    pub sequence: Option<u32>,
}

impl FlowClose {
    const DESTINATION: At = At {
        message: "FLOW_CLOSE",
        field: field::flow_close::DESTINATION.name,
    };

    fn check(self) -> Result<Self, ControlError> {
        if self.flow.source.is_ipv4() == self.flow.destination.is_ipv4() {
            Ok(self)
        } else {
            Err(Self::DESTINATION.invalid("is of another family than `source`"))
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, ControlError> {
        let Self { flow, sequence } = self.check()?;
        let fields = 5 + usize::from(sequence.is_some());
        let body = Body::message(control::FLOW_CLOSE, fields).and_then(|mut body| {
            body.field(field::flow_close::PROTOCOL, flow.protocol)?;
            address_field(&mut body, field::flow_close::SOURCE, flow.source)?;
            body.field(field::flow_close::SOURCE_PORT, flow.source_port)?;
            address_field(&mut body, field::flow_close::DESTINATION, flow.destination)?;
            body.field(field::flow_close::DESTINATION_PORT, flow.destination_port)?;
            if let Some(sequence) = sequence {
                body.field(field::flow_close::SEQUENCE, sequence)?;
            }
            Ok(body)
        });
        finish("FLOW_CLOSE", body)
    }

    pub(super) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let flow = FiveTuple {
            protocol: fields.required(field::flow_close::PROTOCOL, cbor::u8)?,
            source: fields.required(field::flow_close::SOURCE, address)?,
            source_port: fields.required(field::flow_close::SOURCE_PORT, cbor::u16)?,
            destination: fields.required(field::flow_close::DESTINATION, address)?,
            destination_port: fields.required(field::flow_close::DESTINATION_PORT, cbor::u16)?,
        };
        let sequence = fields.optional(field::flow_close::SEQUENCE, cbor::u32)?;
        fields.finish()?;
        Self { flow, sequence }.check()
    }
}

fn address_field(body: &mut Body, field: Field, address: IpAddr) -> Written {
    match address {
        IpAddr::V4(address) => body.bytes_field(field, &address.octets()),
        IpAddr::V6(address) => body.bytes_field(field, &address.octets()),
    }
}

fn address(decoder: &mut minicbor::Decoder<'_>, at: At) -> Result<IpAddr, ControlError> {
    let bytes = cbor::bytes(decoder, at)?;
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| v6())
        .map_err(|_| at.invalid("is neither 4 nor 16 bytes"))
}

/// The sender takes no new session or flow, and closes when it is drained or the time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goaway {
    /// Why: an [`registry::ErrorCode`], or a number of a later version.
    pub reason: u64,
    /// Milliseconds until the sender closes at the latest.
    pub drain_ms: u64,
}

impl Goaway {
    pub(super) fn encode(&self) -> Result<Vec<u8>, ControlError> {
        let body = Body::message(control::GOAWAY, 2).and_then(|mut body| {
            body.field(field::goaway::REASON, self.reason)?;
            body.field(field::goaway::DRAIN_MS, self.drain_ms)?;
            Ok(body)
        });
        finish("GOAWAY", body)
    }

    pub(super) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let reason = fields.required(field::goaway::REASON, cbor::u64)?;
        let drain_ms = fields.required(field::goaway::DRAIN_MS, cbor::u64)?;
        fields.finish()?;
        Ok(Self { reason, drain_ms })
    }
}

/// A refusal or fault, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// An [`registry::ErrorCode`], or a number of a later version.
    pub code: u64,
    /// For people, at most [`WORDS_BYTES_MAX`] bytes. The peer chose them: whoever prints them escapes them.
    pub words: String,
}

impl ErrorMessage {
    /// A message of `code`, with its own words and then what is particular about this case, cut to the bound.
    #[must_use]
    pub fn new(code: registry::ErrorCode, particulars: impl std::fmt::Display) -> Self {
        let mut words = format!("{code}: {particulars}");
        words.truncate(words.floor_char_boundary(WORDS_BYTES_MAX));
        Self {
            code: code.code(),
            words,
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, ControlError> {
        let at = At {
            message: "ERROR",
            field: field::error::WORDS.name,
        };
        at.at_most(self.words.len() as u64, WORDS_BYTES_MAX)?;
        let body = Body::message(control::ERROR, 2).and_then(|mut body| {
            body.field(field::error::CODE, self.code)?;
            body.text_field(field::error::WORDS, &self.words)?;
            Ok(body)
        });
        finish("ERROR", body)
    }

    pub(super) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let code = fields.required(field::error::CODE, cbor::u64)?;
        let words = fields.required(field::error::WORDS, |d, at| {
            cbor::text(d, at, WORDS_BYTES_MAX)
        })?;
        fields.finish()?;
        Ok(Self { code, words })
    }
}
