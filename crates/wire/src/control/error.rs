//! What can be wrong with a control message, or with one that is to be written.
//!
//! The kinds name message and field, so that a log line or a close reason tells the people at the other end what to
//! mend. They carry numbers and names of ours only, nothing that the peer chose to say, so that no peer writes into a
//! log. An oversize message has a code of its own: its sender is not broken, it only has too much to say.

use crate::registry::{CBOR_DEPTH_MAX, CONTROL_MESSAGE_BYTES_MAX, ErrorCode};

/// Why bytes are not a control message, or a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The length prefix claims more than a message may have; none of it was stored.
    #[error("a control message of {length} bytes, at most {CONTROL_MESSAGE_BYTES_MAX} are allowed")]
    TooLarge {
        /// The length claimed.
        length: u64,
    },
    /// A message type that version 1 does not know.
    #[error("unknown control message type {number}")]
    UnknownMessage {
        /// The type number.
        number: u64,
    },
    /// The message's bytes ended inside a value.
    #[error("{message}: the bytes end in `{field}`")]
    Truncated {
        /// The message's name.
        message: &'static str,
        /// The field's name.
        field: &'static str,
    },
    /// A value of another CBOR type, of indefinite length, or not well-formed.
    #[error("{message}: `{field}` is not {wanted}")]
    WrongType {
        /// The message's name.
        message: &'static str,
        /// The field's name.
        field: &'static str,
        /// What is wanted there.
        wanted: &'static str,
    },
    /// A mandatory field is not there.
    #[error("{message}: `{field}` is missing")]
    MissingField {
        /// The message's name.
        message: &'static str,
        /// The field's name.
        field: &'static str,
    },
    /// More bytes or entries than the field may have.
    #[error("{message}: `{field}` has {length}, at most {max} are allowed")]
    TooLong {
        /// The message's name.
        message: &'static str,
        /// The field's name.
        field: &'static str,
        /// Bytes or entries there are.
        length: u64,
        /// Bytes or entries allowed.
        max: usize,
    },
    /// A value of the right type that makes no sense.
    #[error("{message}: `{field}` {why}")]
    Invalid {
        /// The message's name.
        message: &'static str,
        /// The field's name.
        field: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// Keys do not ascend: one came twice, or too late.
    #[error("{message}: key {key} comes after key {after}, keys must ascend")]
    KeyOrder {
        /// The message's name.
        message: &'static str,
        /// The key at fault.
        key: u64,
        /// The key before it.
        after: u64,
    },
    /// An unknown field that nests deeper than a reader follows.
    #[error("{message}: an unknown field nests deeper than {CBOR_DEPTH_MAX}")]
    TooDeep {
        /// The message's name.
        message: &'static str,
    },
    /// Bytes after the message's map.
    #[error("{message}: {count} bytes follow the message")]
    TrailingBytes {
        /// The message's name.
        message: &'static str,
        /// How many.
        count: usize,
    },
}

impl ControlError {
    /// The code with which to close the connection.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge { .. } => ErrorCode::ControlTooLarge,
            Self::UnknownMessage { .. }
            | Self::Truncated { .. }
            | Self::WrongType { .. }
            | Self::MissingField { .. }
            | Self::TooLong { .. }
            | Self::Invalid { .. }
            | Self::KeyOrder { .. }
            | Self::TooDeep { .. }
            | Self::TrailingBytes { .. } => ErrorCode::MalformedControl,
        }
    }
}
