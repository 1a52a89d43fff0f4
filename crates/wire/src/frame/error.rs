//! What can be wrong with a datagram.
//!
//! Every kind closes the connection with the same code ([`FrameError::code`]): the peer's writer is broken, and there
//! is no telling where its next frame begins. The kind and its numbers are for the log and the close reason, so that
//! the people at the other end learn what to mend. None of it carries payload bytes: a user's packet never gets into a
//! log this way.

use crate::registry::{ACK_RANGES_MAX, DEP_MAX, ErrorCode};

/// Why a datagram is not a sequence of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A datagram of no bytes.
    #[error("an empty datagram")]
    EmptyDatagram,
    /// The bytes ended inside a field, or a length pointed past their end.
    #[error("{frame}: the bytes end in `{field}`")]
    Truncated {
        /// The frame's name.
        frame: &'static str,
        /// The field's name.
        field: &'static str,
    },
    /// A frame type that version 1 does not know: also what follows when a frame has bytes behind it.
    #[error("unknown frame type {number:#x}")]
    UnknownType {
        /// The type number.
        number: u64,
    },
    /// A frame type in a longer form than needed (RFC 9000 §12.4).
    #[error("frame type {number:#x} is not in its shortest form")]
    TypeNotShortest {
        /// The type number.
        number: u64,
    },
    /// A lane that version 1 does not know.
    #[error("{frame}: unknown lane {lane}")]
    UnknownLane {
        /// The frame's name.
        frame: &'static str,
        /// The lane number.
        lane: u64,
    },
    /// Flag bits that version 1 does not know.
    #[error("{frame}: unknown flags {flags:#04x}")]
    UnknownFlags {
        /// The frame's name.
        frame: &'static str,
        /// The unknown bits alone.
        flags: u8,
    },
    /// A `dep` before number 0 or farther back than the receiver remembers.
    #[error("PACK: number {number} cannot depend on the one {dep} before it (at most {DEP_MAX})")]
    DepOutOfRange {
        /// The pack's number.
        number: u64,
        /// The distance back.
        dep: u64,
    },
    /// More ranges than an ACK may list.
    #[error("ACK: {count} ranges, at most {ACK_RANGES_MAX} are allowed")]
    TooManyRanges {
        /// The count claimed.
        count: u64,
    },
    /// A range that ends above the largest number there is.
    #[error("ACK: range {index} ends above 2^62 - 1")]
    RangeOverflow {
        /// Which range, from 0.
        index: usize,
    },
    /// More lanes in a PING than there are.
    #[error("PING: names {count} lanes, there are {max}", max = super::Lane::COUNT)]
    TooManyLanes {
        /// The count claimed.
        count: u64,
    },
    /// A lane named twice in one PING.
    #[error("PING: names lane {lane} twice")]
    DuplicateLane {
        /// The lane number.
        lane: u8,
    },
}

impl FrameError {
    /// The code with which to close the connection.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::MalformedFrame
    }
}
