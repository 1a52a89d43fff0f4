//! Control messages out of a stream that arrives in pieces.
//!
//! ```text
//!   Prefix ──complete, ≤ 64 KiB──▶ Body{missing} ──missing = 0──▶ Prefix
//!     └────complete, larger──▶ Refused        (what is pushed from here on is not stored)
//! ```
//!
//! `push` follows the boundaries of messages as bytes come in, so that an oversize message is refused by its prefix,
//! before a byte of its body is stored; messages that were complete before it are still handed out. Memory is what was
//! pushed and not yet taken: a caller that takes messages until there are none after each piece holds one incomplete
//! message and one piece. Nothing is reserved by a length that the peer claims.
//!
//! After an error `next` says the same error again and nothing is stored: a stream that lost its boundaries has no
//! next message, and a decoder that said "none yet" would let its caller wait for ever.

use bytes::{Buf, BytesMut};

use super::{Control, ControlError};
use crate::registry::CONTROL_MESSAGE_BYTES_MAX;
use crate::varint::Reader;

/// Takes the bytes of one direction of the control stream and hands out messages.
#[derive(Debug, Default)]
pub struct ControlDecoder {
    /// Whole messages with their prefixes, then at most one incomplete.
    buffer: BytesMut,
    tail: Tail,
    failed: Option<ControlError>,
}

/// What the end of the buffer is.
#[derive(Debug)]
enum Tail {
    /// A length prefix, of which so many bytes are there.
    Prefix { have: usize },
    /// A body, of which so many bytes are not there yet.
    Body { missing: usize },
    /// A prefix that claimed too much was here, and was taken out again.
    Refused { length: u64 },
}

impl Default for Tail {
    fn default() -> Self {
        Self::Prefix { have: 0 }
    }
}

impl ControlDecoder {
    /// A decoder at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        while let Some(&first) = bytes.first() {
            match self.tail {
                Tail::Prefix { have } => {
                    self.buffer.extend_from_slice(&[first]);
                    bytes = &bytes[1..];
                    self.tail = self.after_prefix_byte(have + 1);
                }
                Tail::Body { missing } => {
                    let (body, rest) = bytes.split_at(missing.min(bytes.len()));
                    self.buffer.extend_from_slice(body);
                    bytes = rest;
                    self.tail = Tail::after_body_bytes(missing - body.len());
                }
                Tail::Refused { .. } => return,
            }
        }
    }

    fn after_prefix_byte(&mut self, have: usize) -> Tail {
        let start = self.buffer.len() - have;
        let Some(length) = Reader::new(&self.buffer[start..]).varint() else {
            return Tail::Prefix { have };
        };
        match usize::try_from(length) {
            Ok(missing) if missing <= CONTROL_MESSAGE_BYTES_MAX => Tail::after_body_bytes(missing),
            Ok(_) | Err(_) => {
                self.buffer.truncate(start);
                Tail::Refused { length }
            }
        }
    }

    /// The next complete message; `None` until more bytes come.
    ///
    /// # Errors
    /// When the stream cannot be read on. The same error comes back from each call after that.
    #[expect(
        clippy::should_implement_trait,
        reason = "`None` means not yet, where an iterator's means never again"
    )]
    pub fn next(&mut self) -> Result<Option<Control>, ControlError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.take().inspect_err(|error| {
            self.failed = Some(error.clone());
            self.buffer = BytesMut::new();
        })
    }

    fn take(&mut self) -> Result<Option<Control>, ControlError> {
        let mut reader = Reader::new(&self.buffer);
        if let Some(body) = reader.prefixed() {
            let message = Control::decode_body(body)?;
            let taken = self.buffer.len() - reader.remaining();
            self.buffer.advance(taken);
            return Ok(Some(message));
        }
        match self.tail {
            Tail::Refused { length } => Err(ControlError::TooLarge { length }),
            Tail::Prefix { .. } | Tail::Body { .. } => Ok(None),
        }
    }

    /// Bytes pushed and not yet handed out. Not 0 at the stream's end: it ended inside a message.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }
}

impl Tail {
    fn after_body_bytes(missing: usize) -> Self {
        if missing == 0 {
            Self::default()
        } else {
            Self::Body { missing }
        }
    }
}
