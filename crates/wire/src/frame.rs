//! Frames: what one QUIC datagram (RFC 9221) carries, version 1.
//!
//! A datagram is one or more frames, end to end, with nothing before, between or behind them. Every frame begins with
//! its type, a varint in its shortest form (RFC 9000 §12.4); `u8` is one byte, `u64` eight in network byte order, all
//! other fields are varints:
//!
//! ```text
//! PACK   0x01  lane  number  tx  flags:u8  dep  length  bytes
//! ACK    0x02  lane  flags:u8  cumulative  largest_tx  delay_us  [dup_tx]  max_bytes  max_number
//!              range_count  (gap  length)*
//! SKIP   0x03  lane  up_to  bytes_up_to
//! DGRAM  0x04  length  bytes
//! PING   0x05  nonce:u64  lane_count  (lane  largest_number  tx)*
//! PONG   0x06  nonce:u64
//! ```
//!
//! [`Frames`] walks a datagram without copying or allocating: what it yields borrows from the datagram. It ends at the
//! first error. The caller closes the connection then, with [`FrameError::code`]; frames before the fault may have been
//! handled already, which does no harm, as the datagram might as well have ended there.
//!
//! The writers cannot fail. What a field cannot hold is brought into range by a rule that stays true on the wire, said
//! where the field stands: numbers saturate ([`crate::varint`]), a `dep` out of reach becomes "none", a range out of
//! order ends an ACK's list. The buffer's room is the caller's: `encoded_len` tells how much is needed.

mod ack;
mod error;
mod lane;
mod pack;
mod ping;

use bytes::BufMut;

pub use self::ack::{Ack, AckRange, AckRanges, AckRangesIter};
pub use self::error::FrameError;
pub use self::lane::{Credit, Lane};
pub use self::pack::{PACK_OVERHEAD_MAX, Pack, PackFlags};
pub use self::ping::{LaneProbe, LaneProbes, Ping, Pong};
use crate::registry;
use crate::varint::{self, Reader};

/// Bytes that a DGRAM adds to its packet at most, for packets up to 2³⁰ − 1 bytes: type and length.
pub const DGRAM_OVERHEAD_MAX: usize = 5;

/// Bytes of a DGRAM frame with a packet of `payload_len` bytes.
#[must_use]
pub const fn dgram_len(payload_len: usize) -> usize {
    1 + varint::len(payload_len as u64) + payload_len
}

/// Writes a DGRAM frame, [`dgram_len`] bytes.
pub fn write_dgram(buf: &mut impl BufMut, packet: &[u8]) {
    varint::write(buf, registry::frame::DGRAM);
    varint::write(buf, packet.len() as u64);
    buf.put_slice(packet);
}

/// Numbers that the sender of a lane will never send again (RFC 3758's forward TSN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The lane.
    pub lane: Lane,
    /// The highest number given up or acknowledged, with all below it: the receiver goes on at `up_to + 1`.
    pub up_to: u64,
    /// Payload bytes of all numbers from 0 to `up_to`, so that both ends count credit alike.
    pub bytes_up_to: u64,
}

impl Skip {
    /// Bytes that [`Skip::write`] writes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        2 + varint::len(self.up_to) + varint::len(self.bytes_up_to)
    }

    /// Writes the frame.
    pub fn write(&self, buf: &mut impl BufMut) {
        varint::write(buf, registry::frame::SKIP);
        self.lane.write(buf);
        varint::write(buf, self.up_to);
        varint::write(buf, self.bytes_up_to);
    }

    fn parse(fields: &mut Fields<'_, '_>) -> Result<Self, FrameError> {
        Ok(Self {
            lane: fields.lane()?,
            up_to: fields.varint("up_to")?,
            bytes_up_to: fields.varint("bytes_up_to")?,
        })
    }
}

/// One frame, borrowing its bytes from the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// One numbered unit of a lane.
    Pack(Pack<'a>),
    /// What a lane's receiver has.
    Ack(Ack<'a>),
    /// Numbers that will never be sent again.
    Skip(Skip),
    /// One IP packet, never acknowledged nor resent. Its bytes are not looked at here.
    Dgram(&'a [u8]),
    /// Asks for a PONG.
    Ping(Ping),
    /// Answers a PING.
    Pong(Pong),
}

impl Frame<'_> {
    /// The frame's name in errors, logs and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pack(_) => "PACK",
            Self::Ack(_) => "ACK",
            Self::Skip(_) => "SKIP",
            Self::Dgram(_) => "DGRAM",
            Self::Ping(_) => "PING",
            Self::Pong(_) => "PONG",
        }
    }

    /// Bytes that [`Frame::write`] writes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Pack(pack) => pack.encoded_len(),
            Self::Ack(ack) => ack.encoded_len(),
            Self::Skip(skip) => skip.encoded_len(),
            Self::Dgram(packet) => dgram_len(packet.len()),
            Self::Ping(ping) => ping.encoded_len(),
            Self::Pong(_) => Pong::ENCODED_LEN,
        }
    }

    /// Writes the frame.
    pub fn write(&self, buf: &mut impl BufMut) {
        match self {
            Self::Pack(pack) => pack.write(buf),
            Self::Ack(ack) => ack.write(buf),
            Self::Skip(skip) => skip.write(buf),
            Self::Dgram(packet) => write_dgram(buf, packet),
            Self::Ping(ping) => ping.write(buf),
            Self::Pong(pong) => pong.write(buf),
        }
    }
}

/// The frames of one datagram, in order; ends after the first error.
///
/// An empty datagram is one error: nobody has a reason to send it.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing read yet: the end here is an error.
    Start,
    /// At a frame's boundary.
    Between,
    /// After the last frame or the first error.
    Done,
}

impl<'a> Frames<'a> {
    /// Walks `datagram` from its first byte.
    #[must_use]
    pub const fn new(datagram: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(datagram),
            state: State::Start,
        }
    }

    /// Bytes that are not read yet.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    fn parse(&mut self) -> Result<Frame<'a>, FrameError> {
        let before = self.reader.remaining();
        let mut fields = Fields {
            frame: "frame",
            reader: &mut self.reader,
        };
        let number = fields.varint("type")?;
        if before - fields.reader.remaining() != varint::len(number) {
            return Err(FrameError::TypeNotShortest { number });
        }
        match number {
            registry::frame::PACK => Pack::parse(fields.of("PACK")).map(Frame::Pack),
            registry::frame::ACK => Ack::parse(fields.of("ACK")).map(Frame::Ack),
            registry::frame::SKIP => Skip::parse(fields.of("SKIP")).map(Frame::Skip),
            registry::frame::DGRAM => fields.of("DGRAM").prefixed("bytes").map(Frame::Dgram),
            registry::frame::PING => Ping::parse(fields.of("PING")).map(Frame::Ping),
            registry::frame::PONG => Pong::parse(fields.of("PONG")).map(Frame::Pong),
            _ => Err(FrameError::UnknownType { number }),
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at_end = self.reader.remaining() == 0;
        let item = match self.state {
            State::Done => return None,
            State::Between if at_end => {
                self.state = State::Done;
                return None;
            }
            State::Start if at_end => Err(FrameError::EmptyDatagram),
            State::Start | State::Between => self.parse(),
        };
        self.state = if item.is_ok() {
            State::Between
        } else {
            State::Done
        };
        Some(item)
    }
}

impl std::iter::FusedIterator for Frames<'_> {}

/// A reader that names the frame and field at which the bytes ended.
struct Fields<'r, 'a> {
    frame: &'static str,
    reader: &'r mut Reader<'a>,
}

impl<'a> Fields<'_, 'a> {
    /// The same reader within the frame that the type turned out to be.
    fn of(&mut self, frame: &'static str) -> &mut Self {
        self.frame = frame;
        self
    }

    fn truncated(&self, field: &'static str) -> FrameError {
        FrameError::Truncated {
            frame: self.frame,
            field,
        }
    }

    fn varint(&mut self, field: &'static str) -> Result<u64, FrameError> {
        self.reader.varint().ok_or_else(|| self.truncated(field))
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, FrameError> {
        self.reader.u8().ok_or_else(|| self.truncated(field))
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, FrameError> {
        self.reader.u64().ok_or_else(|| self.truncated(field))
    }

    fn prefixed(&mut self, field: &'static str) -> Result<&'a [u8], FrameError> {
        self.reader.prefixed().ok_or_else(|| self.truncated(field))
    }

    fn lane(&mut self) -> Result<Lane, FrameError> {
        let lane = self.varint("lane")?;
        Lane::from_number(lane).ok_or(FrameError::UnknownLane {
            frame: self.frame,
            lane,
        })
    }
}

#[cfg(test)]
mod tests;
