//! quell's wire format: frames and control messages, parsed and written, nothing else.
//!
//! Two things travel between a client and a provider. *Frames* ([`frame`]) ride QUIC datagrams (RFC 9221) and carry
//! packets and their acknowledgements; they are parsed in place, without an allocation. *Control messages*
//! ([`control`]) ride one bidirectional stream: length-prefixed CBOR with numbered fields, at most 64 KiB each. Beside
//! them stand the text form of keys ([`key`]) and every number of the protocol ([`registry`]).
//!
//! This crate judges *form* only: that bytes are well-formed, bounded and unambiguous. Whether a well-formed frame is
//! allowed (credit, what was sent, the state of a session) is the core's question, because only the core knows.
//!
//! What holds for everything here:
//! - No input panics. A parser answers with an error that names what was wrong, and the error names the code with
//!   which the connection is closed.
//! - Nothing is allocated by a length or a count that the peer claims, only for bytes that came, under a fixed cap.
//! - A value has one canonical encoding, which the writers produce; parse, write, parse is the identity. The fuzz
//!   bodies ([`fuzz`]) hold this for any input.
//!
//! Each parser has its own error type ([`frame::FrameError`], [`control::ControlError`], [`key::KeyError`]): they
//! arise in different places (a datagram, a stream, a file of the user), and no caller meets two of them at once.
//!
//! `golden/` holds vectors in hex for people who write another implementation.

#![warn(missing_docs)]

pub mod contract;
pub mod control;
pub mod frame;
pub mod fuzz;
pub mod key;
pub mod registry;
pub mod varint;
