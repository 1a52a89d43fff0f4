//! Control messages: what rides the bidirectional stream between a client and a provider, version 1.
//!
//! On the stream each message is its length, a QUIC varint of any form, and then that many bytes, at most
//! [`CONTROL_MESSAGE_BYTES_MAX`]. The bytes are one CBOR map (RFC 8949) with unsigned integer keys; key 0 holds the
//! message type, the others are in [`crate::registry::field`]:
//!
//! ```text
//! HELLO       1  version uint, features uint, agent text <= 64, limits credit
//! WELCOME     2  version uint, features uint, session_id bytes 16, ipv4? ipv6? address, gateway_ipv4? bytes 4,
//!                gateway_ipv6? bytes 16, mtu uint16, limits credit
//! CONTRACT    3  bytes <= 4096            RECEIPT  4  bytes <= 4096
//! FLOW_CLOSE  5  protocol uint8, source bytes 4|16, source_port uint16, destination, destination_port, sequence? uint32
//! RESUME      6  session_id bytes 16, epoch uint, lanes [lane*]       RESUMED  7  the same
//! GOAWAY      8  reason uint, drain_ms uint      ERROR  9  code uint, words text <= 1024
//!   credit   [max_bytes, max_number]      address  [bytes 4|16, prefix length]
//!   lane     {1: lane, 2: cumulative, 3: [first, last, first, last, ...], 4: credit}
//! ```
//!
//! Rules, which make one message one encoding (RFC 8949 §4.2.1, but for the length of integers, which a reader does
//! not check):
//! - Lengths are definite. Keys ascend; so a key that comes twice, or out of order, is an error, known or not.
//! - Unknown keys are skipped, whatever they hold, to a nesting of 16. Nothing follows the map.
//! - A mandatory field that is missing, of another type or out of bounds is an error that names message and field.
//! - An unknown *type* is an error: a peer sends one only after the other offered the feature.
//!
//! CONTRACT and RECEIPT carry a form of their own, signed as bytes; here they are opaque.
//!
//! A message is decoded into owned values. That allocates, but only after the bounds above were checked, and for bytes
//! that are there: [`ControlDecoder`] refuses an oversize message at its prefix.

mod cbor;
mod decoder;
mod error;
mod message;

use bytes::{BufMut, BytesMut};
use minicbor::Decoder;

pub use self::decoder::ControlDecoder;
pub use self::error::ControlError;
pub use self::message::{
    Contract, ErrorMessage, FiveTuple, FlowClose, Goaway, Hello, Receipt, Resume, ResumeLane,
    Resumed, SessionId, Welcome,
};
use crate::registry::{CONTROL_MESSAGE_BYTES_MAX, control, field};
use crate::varint;

/// One control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The client's first message.
    Hello(Hello),
    /// The provider's answer to HELLO.
    Welcome(Welcome),
    /// A signed allowance of bytes, client to provider.
    Contract(Contract),
    /// A client-signed running total, client to provider.
    Receipt(Receipt),
    /// The client gives a flow up, such as the loser of a race.
    FlowClose(FlowClose),
    /// The client takes a suspended session up again, in place of HELLO.
    Resume(Resume),
    /// The provider's answer to RESUME.
    Resumed(Resumed),
    /// The sender takes no new work and closes soon.
    Goaway(Goaway),
    /// A refusal or fault, in words.
    Error(ErrorMessage),
}

impl Control {
    /// The message's name in errors, logs and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "HELLO",
            Self::Welcome(_) => "WELCOME",
            Self::Contract(_) => "CONTRACT",
            Self::Receipt(_) => "RECEIPT",
            Self::FlowClose(_) => "FLOW_CLOSE",
            Self::Resume(_) => "RESUME",
            Self::Resumed(_) => "RESUMED",
            Self::Goaway(_) => "GOAWAY",
            Self::Error(_) => "ERROR",
        }
    }

    /// Appends the message with its length prefix.
    ///
    /// # Errors
    /// When a field breaks a bound that a reader would refuse (a text too long, a lane twice, ranges out of order);
    /// `buf` is untouched then.
    pub fn encode(&self, buf: &mut BytesMut) -> Result<(), ControlError> {
        let body = self.encode_body()?;
        buf.reserve(varint::len(body.len() as u64) + body.len());
        varint::write(buf, body.len() as u64);
        buf.put_slice(&body);
        Ok(())
    }

    /// The message's CBOR, without the length prefix.
    ///
    /// # Errors
    /// As [`Control::encode`].
    pub fn encode_body(&self) -> Result<Vec<u8>, ControlError> {
        let body = match self {
            Self::Hello(hello) => hello.encode(),
            Self::Welcome(welcome) => welcome.encode(),
            Self::Contract(contract) => contract.encode(),
            Self::Receipt(receipt) => receipt.encode(),
            Self::FlowClose(close) => close.encode(),
            Self::Resume(resume) => resume.encode("RESUME", control::RESUME),
            Self::Resumed(resumed) => resumed.encode("RESUMED", control::RESUMED),
            Self::Goaway(goaway) => goaway.encode(),
            Self::Error(error) => error.encode(),
        }?;
        debug_assert!(
            body.len() <= CONTROL_MESSAGE_BYTES_MAX,
            "the bounds of the fields add up to less than that of a message"
        );
        Ok(body)
    }

    /// Reads one message from its CBOR, the length prefix taken off.
    ///
    /// # Errors
    /// When `body` is not one well-formed message of version 1.
    pub fn decode_body(body: &[u8]) -> Result<Self, ControlError> {
        if body.len() > CONTROL_MESSAGE_BYTES_MAX {
            return Err(ControlError::TooLarge {
                length: body.len() as u64,
            });
        }
        let mut decoder = Decoder::new(body);
        let message = Self::read(&mut decoder)?;
        match body.len() - decoder.position() {
            0 => Ok(message),
            count => Err(ControlError::TrailingBytes {
                message: message.name(),
                count,
            }),
        }
    }

    fn read(decoder: &mut Decoder<'_>) -> Result<Self, ControlError> {
        let mut fields = cbor::Fields::open(decoder, "control message")?;
        let number = fields.required(field::TYPE, cbor::u64)?;
        match number {
            control::HELLO => Hello::decode(fields.named("HELLO")).map(Self::Hello),
            control::WELCOME => Welcome::decode(fields.named("WELCOME")).map(Self::Welcome),
            control::CONTRACT => Contract::decode(fields.named("CONTRACT")).map(Self::Contract),
            control::RECEIPT => Receipt::decode(fields.named("RECEIPT")).map(Self::Receipt),
            control::FLOW_CLOSE => {
                FlowClose::decode(fields.named("FLOW_CLOSE")).map(Self::FlowClose)
            }
            control::RESUME => Resume::decode(fields.named("RESUME")).map(Self::Resume),
            control::RESUMED => Resume::decode(fields.named("RESUMED")).map(Self::Resumed),
            control::GOAWAY => Goaway::decode(fields.named("GOAWAY")).map(Self::Goaway),
            control::ERROR => ErrorMessage::decode(fields.named("ERROR")).map(Self::Error),
            _ => Err(ControlError::UnknownMessage { number }),
        }
    }
}

#[cfg(test)]
mod tests;
