//! The little of CBOR (RFC 8949) that control messages use, over minicbor.
//!
//! Reading: [`Fields`] walks one map. Because keys ascend, a message's fields are asked for in the order of their keys,
//! each once; what lies between is unknown and skipped, what is asked for and already passed is missing. There is no
//! table of seen keys and no second pass.
//!
//! Skipping is iterative with a fixed stack: neither the peer's nesting nor its claimed lengths cost memory, and the
//! time is that of the bytes that are really there. minicbor's own `skip` would take indefinite lengths too and keeps
//! a growing list for them; it is used for single values only.
//!
//! Writing: [`Body`] counts nothing and checks nothing; the messages say how many fields they write, and check their
//! bounds first. A `Vec` never refuses bytes, so that the encoder's `Result` has no error to report.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr};

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::{Decoder, Encoder};

use super::ControlError;
use crate::frame::Credit;
use crate::registry::{CBOR_DEPTH_MAX, Field, field};

/// Where a value stands, for the error.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) message: &'static str,
    pub(super) field: &'static str,
}

impl At {
    fn fault(self, error: &DecodeError, wanted: &'static str) -> ControlError {
        let Self { message, field } = self;
        if error.is_end_of_input() {
            ControlError::Truncated { message, field }
        } else {
            ControlError::WrongType {
                message,
                field,
                wanted,
            }
        }
    }

    fn wrong_type(self, wanted: &'static str) -> ControlError {
        ControlError::WrongType {
            message: self.message,
            field: self.field,
            wanted,
        }
    }

    pub(super) fn invalid(self, why: &'static str) -> ControlError {
        ControlError::Invalid {
            message: self.message,
            field: self.field,
            why,
        }
    }

    /// `length`, unless it is above `max`.
    pub(super) fn at_most(self, length: u64, max: usize) -> Result<usize, ControlError> {
        let Self { message, field } = self;
        let fits = usize::try_from(length).ok().filter(|&length| length <= max);
        fits.ok_or(ControlError::TooLong {
            message,
            field,
            length,
            max,
        })
    }
}

/// One map with ascending unsigned keys, read from front to back.
pub(super) struct Fields<'d, 'b> {
    decoder: &'d mut Decoder<'b>,
    message: &'static str,
    /// Entries whose key was not read yet.
    left: u64,
    /// The last key read, and whether its value still waits.
    last: Option<u64>,
    waiting: bool,
}

impl<'d, 'b> Fields<'d, 'b> {
    pub(super) fn open(
        decoder: &'d mut Decoder<'b>,
        message: &'static str,
    ) -> Result<Self, ControlError> {
        const WANTED: &str = "a map of definite length";
        let at = At {
            message,
            field: "map",
        };
        let left = decoder
            .map()
            .map_err(|e| at.fault(&e, WANTED))?
            .ok_or_else(|| at.wrong_type(WANTED))?;
        Ok(Self {
            decoder,
            message,
            left,
            last: None,
            waiting: false,
        })
    }

    /// The same map under the name of the message that it turned out to be.
    pub(super) fn named(self, message: &'static str) -> Self {
        Self { message, ..self }
    }

    /// Goes to the value of `key`; false if the map has no such key.
    fn seek(&mut self, key: u64) -> Result<bool, ControlError> {
        loop {
            if self.waiting {
                match self.last {
                    Some(last) if last == key => {
                        self.waiting = false;
                        return Ok(true);
                    }
                    Some(last) if last > key => return Ok(false),
                    Some(_) | None => {
                        self.waiting = false;
                        skip(self.decoder, self.message)?;
                    }
                }
            }
            if self.left == 0 {
                return Ok(false);
            }
            self.left -= 1;
            self.next_key()?;
        }
    }

    fn next_key(&mut self) -> Result<(), ControlError> {
        let at = At {
            message: self.message,
            field: "key",
        };
        let key = self
            .decoder
            .u64()
            .map_err(|e| at.fault(&e, "an unsigned integer"))?;
        if let Some(after) = self.last.filter(|&last| last >= key) {
            return Err(ControlError::KeyOrder {
                message: self.message,
                key,
                after,
            });
        }
        self.last = Some(key);
        self.waiting = true;
        Ok(())
    }

    pub(super) fn optional<T>(
        &mut self,
        field: Field,
        read: impl FnOnce(&mut Decoder<'b>, At) -> Result<T, ControlError>,
    ) -> Result<Option<T>, ControlError> {
        if !self.seek(field.key)? {
            return Ok(None);
        }
        read(
            self.decoder,
            At {
                message: self.message,
                field: field.name,
            },
        )
        .map(Some)
    }

    pub(super) fn required<T>(
        &mut self,
        field: Field,
        read: impl FnOnce(&mut Decoder<'b>, At) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let missing = ControlError::MissingField {
            message: self.message,
            field: field.name,
        };
        self.optional(field, read)?.ok_or(missing)
    }

    /// Skips what is left, and so checks its form.
    pub(super) fn finish(mut self) -> Result<(), ControlError> {
        if self.seek(u64::MAX)? {
            skip(self.decoder, self.message)
        } else {
            Ok(())
        }
    }
}

/// Skips one value of any kind.
fn skip(decoder: &mut Decoder<'_>, message: &'static str) -> Result<(), ControlError> {
    const WANTED: &str = "well-formed CBOR of definite length";
    let at = At {
        message,
        field: "unknown field",
    };
    let fault = |e: DecodeError| at.fault(&e, WANTED);
    // What each open array, map or tag still wants; the value itself is the one item of level 0.
    let mut wanted = [0_u64; CBOR_DEPTH_MAX + 1];
    wanted[0] = 1;
    let mut depth = 0;
    loop {
        while wanted[depth] == 0 {
            if depth == 0 {
                return Ok(());
            }
            depth -= 1;
        }
        wanted[depth] -= 1;
        let kind = decoder.datatype().map_err(fault)?;
        let items = if kind == Type::Array {
            decoder.array().map_err(fault)?
        } else if kind == Type::Map {
            // A map of 2^63 entries has no bytes to hold them: the first missing one is the end of the input.
            decoder
                .map()
                .map_err(fault)?
                .map(|entries| entries.saturating_mul(2))
        } else if kind == Type::Tag {
            decoder.tag().map_err(fault)?;
            Some(1)
        } else if is_single(kind) {
            decoder.skip().map_err(fault)?;
            continue;
        } else {
            None
        };
        let items = items.ok_or_else(|| at.wrong_type(WANTED))?;
        depth += 1;
        *wanted
            .get_mut(depth)
            .ok_or(ControlError::TooDeep { message })? = items;
    }
}

/// Whether a value of this kind holds no other and has its length in front. What is not listed is refused.
const fn is_single(kind: Type) -> bool {
    matches!(
        kind,
        Type::Bool
            | Type::Null
            | Type::Undefined
            | Type::U8
            | Type::U16
            | Type::U32
            | Type::U64
            | Type::I8
            | Type::I16
            | Type::I32
            | Type::I64
            | Type::Int
            | Type::F16
            | Type::F32
            | Type::F64
            | Type::Simple
            | Type::Bytes
            | Type::String
    )
}

pub(super) fn u64(decoder: &mut Decoder<'_>, at: At) -> Result<u64, ControlError> {
    decoder
        .u64()
        .map_err(|e| at.fault(&e, "an unsigned integer"))
}

/// A number that QUIC's varints hold too: the numbers of lanes.
pub(super) fn varint(decoder: &mut Decoder<'_>, at: At) -> Result<u64, ControlError> {
    let number = u64(decoder, at)?;
    if number > crate::varint::MAX {
        Err(at.invalid("is above 2^62 - 1"))
    } else {
        Ok(number)
    }
}

pub(super) fn u32(decoder: &mut Decoder<'_>, at: At) -> Result<u32, ControlError> {
    u32::try_from(u64(decoder, at)?).map_err(|_| at.invalid("is above 4,294,967,295"))
}

pub(super) fn u16(decoder: &mut Decoder<'_>, at: At) -> Result<u16, ControlError> {
    u16::try_from(u64(decoder, at)?).map_err(|_| at.invalid("is above 65,535"))
}

pub(super) fn u8(decoder: &mut Decoder<'_>, at: At) -> Result<u8, ControlError> {
    u8::try_from(u64(decoder, at)?).map_err(|_| at.invalid("is above 255"))
}

pub(super) fn bytes<'b>(decoder: &mut Decoder<'b>, at: At) -> Result<&'b [u8], ControlError> {
    decoder
        .bytes()
        .map_err(|e| at.fault(&e, "a byte string of definite length"))
}

pub(super) fn byte_array<const N: usize>(
    decoder: &mut Decoder<'_>,
    at: At,
) -> Result<[u8; N], ControlError> {
    bytes(decoder, at)?
        .try_into()
        .map_err(|_| at.invalid("has another length than it must have"))
}

pub(super) fn ipv4(decoder: &mut Decoder<'_>, at: At) -> Result<Ipv4Addr, ControlError> {
    byte_array::<4>(decoder, at).map(Ipv4Addr::from)
}

pub(super) fn ipv6(decoder: &mut Decoder<'_>, at: At) -> Result<Ipv6Addr, ControlError> {
    byte_array::<16>(decoder, at).map(Ipv6Addr::from)
}

/// A copy of a text of at most `max` bytes; the bound is checked before the copy is made.
pub(super) fn text(decoder: &mut Decoder<'_>, at: At, max: usize) -> Result<String, ControlError> {
    let text = decoder
        .str()
        .map_err(|e| at.fault(&e, "UTF-8 text of definite length"))?;
    at.at_most(text.len() as u64, max)?;
    Ok(text.to_owned())
}

/// Opens an array of at most `max` entries.
pub(super) fn array(decoder: &mut Decoder<'_>, at: At, max: usize) -> Result<usize, ControlError> {
    const WANTED: &str = "an array of definite length";
    let length = decoder
        .array()
        .map_err(|e| at.fault(&e, WANTED))?
        .ok_or_else(|| at.wrong_type(WANTED))?;
    at.at_most(length, max)
}

/// Opens an array of exactly two entries.
pub(super) fn pair(decoder: &mut Decoder<'_>, at: At) -> Result<(), ControlError> {
    if array(decoder, at, 2)? == 2 {
        Ok(())
    } else {
        Err(at.invalid("has another length than 2"))
    }
}

pub(super) fn credit(decoder: &mut Decoder<'_>, at: At) -> Result<Credit, ControlError> {
    pair(decoder, at)?;
    Ok(Credit {
        max_bytes: varint(decoder, at)?,
        max_number: varint(decoder, at)?,
    })
}

/// What an encoder over a `Vec` answers; it has no error to report.
pub(super) type Written<T = ()> = Result<T, minicbor::encode::Error<Infallible>>;

/// A message's bytes in the making.
pub(super) struct Body(Encoder<Vec<u8>>);

impl Body {
    /// A message of type `number` with `fields` fields besides the type.
    pub(super) fn message(number: u64, fields: usize) -> Written<Self> {
        let mut body = Self(Encoder::new(Vec::new()));
        body.map(fields + 1)?;
        body.field(field::TYPE, number)?;
        Ok(body)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_writer()
    }

    pub(super) fn map(&mut self, entries: usize) -> Written {
        self.0.map(entries as u64)?.ok()
    }

    pub(super) fn array(&mut self, entries: usize) -> Written {
        self.0.array(entries as u64)?.ok()
    }

    pub(super) fn key(&mut self, field: Field) -> Written {
        self.0.u64(field.key)?.ok()
    }

    pub(super) fn u64(&mut self, value: u64) -> Written {
        self.0.u64(value)?.ok()
    }

    pub(super) fn bytes(&mut self, value: &[u8]) -> Written {
        self.0.bytes(value)?.ok()
    }

    /// A field that holds an unsigned integer.
    pub(super) fn field(&mut self, field: Field, value: impl Into<u64>) -> Written {
        self.key(field)?;
        self.u64(value.into())
    }

    pub(super) fn bytes_field(&mut self, field: Field, value: &[u8]) -> Written {
        self.key(field)?;
        self.bytes(value)
    }

    pub(super) fn text_field(&mut self, field: Field, value: &str) -> Written {
        self.key(field)?;
        self.0.str(value)?.ok()
    }

    pub(super) fn credit_field(&mut self, field: Field, credit: Credit) -> Written {
        self.key(field)?;
        self.array(2)?;
        self.u64(credit.max_bytes)?;
        self.u64(credit.max_number)
    }
}
