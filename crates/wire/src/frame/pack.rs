//! PACK: one numbered unit of a lane.
//!
//! `number` is the pack's own for good; `tx` counts the transmissions of the lane, so that two sends of one pack tell
//! apart which of them was acknowledged (RFC 8985). Senders count `tx` from 1: an ACK says 0 for "none seen". A resend
//! differs from the first send in `tx` alone.
//!
//! `dep` is the distance back to the last pack of the previous packet of the same flow: a receiver holds this pack
//! until that one is there. 0 is "none", which is also the answer for a distance above [`DEP_MAX`] or before number 0;
//! the writer makes it so, and a reader refuses anything else as malformed.

use bytes::BufMut;

use super::{Fields, FrameError, Lane};
use crate::registry::{self, DEP_MAX, pack_flag};
use crate::varint;

/// Bytes that a PACK adds to its data at most, for data up to 2³⁰ − 1 bytes: type, lane, number (8), `tx` (8), flags,
/// `dep` (2), length (4).
pub const PACK_OVERHEAD_MAX: usize = 1 + 1 + 8 + 8 + 1 + 2 + 4;

/// Where a pack stands within its packet or message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackFlags {
    /// It begins its packet or message.
    pub first: bool,
    /// It ends its packet or message.
    pub last: bool,
    /// It waits for no other.
    pub unordered: bool,
}

impl PackFlags {
    /// A whole packet or message in one pack.
    pub const WHOLE: Self = Self {
        first: true,
        last: true,
        unordered: false,
    };

    /// The flags as bits of [`pack_flag`].
    #[must_use]
    pub const fn bits(self) -> u8 {
        (if self.first { pack_flag::FIRST } else { 0 })
            | (if self.last { pack_flag::LAST } else { 0 })
            | (if self.unordered {
                pack_flag::UNORDERED
            } else {
                0
            })
    }

    /// The flags of a byte; the error is the bits that version 1 does not know.
    ///
    /// # Errors
    /// The unknown bits, when there are any.
    pub const fn from_bits(bits: u8) -> Result<Self, u8> {
        let unknown = bits & !(pack_flag::FIRST | pack_flag::LAST | pack_flag::UNORDERED);
        if unknown != 0 {
            return Err(unknown);
        }
        Ok(Self {
            first: bits & pack_flag::FIRST != 0,
            last: bits & pack_flag::LAST != 0,
            unordered: bits & pack_flag::UNORDERED != 0,
        })
    }
}

/// One numbered unit of a lane: a packet or message, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack<'a> {
    /// The lane.
    pub lane: Lane,
    /// The pack's number in its lane, from 0; at most [`varint::MAX`].
    pub number: u64,
    /// The lane's transmission counter at this send, from 1; at most [`varint::MAX`].
    pub tx: u64,
    /// Its place within its packet or message.
    pub flags: PackFlags,
    /// Distance back to the pack this one waits for, 0 for none; written as 0 when above [`DEP_MAX`] or `number`.
    pub dep: u64,
    /// The payload, which counts against the lane's credit.
    pub data: &'a [u8],
}

impl<'a> Pack<'a> {
    /// Bytes that [`Pack::write`] writes before the data.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        3 + varint::len(self.number)
            + varint::len(self.tx)
            + varint::len(self.dep_on_wire())
            + varint::len(self.data.len() as u64)
    }

    /// Bytes that [`Pack::write`] writes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        self.header_len() + self.data.len()
    }

    /// Writes the frame.
    #[inline]
    pub fn write(&self, buf: &mut impl BufMut) {
        // On the stack first: a buffer that can grow asks with each field whether it has to. A length of 8 bytes is none
        // that a sender has, and must not fail all the same.
        let mut header = [0; PACK_OVERHEAD_MAX + 4];
        let whole = header.len();
        let mut rest = header.as_mut_slice();
        varint::write(&mut rest, registry::frame::PACK);
        self.lane.write(&mut rest);
        varint::write(&mut rest, self.number);
        varint::write(&mut rest, self.tx);
        rest.put_u8(self.flags.bits());
        varint::write(&mut rest, self.dep_on_wire());
        varint::write(&mut rest, self.data.len() as u64);
        let left = rest.len();
        buf.put_slice(&header[..whole - left]);
        buf.put_slice(self.data);
    }

    const fn dep_on_wire(&self) -> u64 {
        if self.dep > DEP_MAX || self.dep > self.number {
            0
        } else {
            self.dep
        }
    }

    #[inline]
    pub(super) fn parse(fields: &mut Fields<'_, 'a>) -> Result<Self, FrameError> {
        let lane = fields.lane()?;
        let number = fields.varint("number")?;
        let tx = fields.varint("tx")?;
        let flags = PackFlags::from_bits(fields.u8("flags")?).map_err(|flags| {
            FrameError::UnknownFlags {
                frame: "PACK",
                flags,
            }
        })?;
        let dep = fields.varint("dep")?;
        if dep > DEP_MAX || dep > number {
            return Err(FrameError::DepOutOfRange { number, dep });
        }
        let data = fields.prefixed("bytes")?;
        Ok(Self {
            lane,
            number,
            tx,
            flags,
            dep,
            data,
        })
    }
}
