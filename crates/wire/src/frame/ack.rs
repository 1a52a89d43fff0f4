//! ACK: what a lane's receiver has, when it got it, and what it will take.
//!
//! `cumulative` is the next number expected: every number below it was received (or skipped), and it itself was not.
//! The ranges are islands above it, lowest first, so that a list cut short is still true. They are written as in RFC
//! 9000 §19.3.1, upwards: `gap` is the count of missing numbers before the range less one, `length` the range's size
//! less one.
//!
//! ```text
//! cumulative = 10, ranges 12..=14 and 17..=17:   gap 1, length 2;  gap 1, length 0
//!   ... 9 | 10 11 (12 13 14) 15 16 (17)          10, 11 missing; 15, 16 missing
//! ```
//!
//! So written, ranges that overlap, touch, descend or lie below `cumulative` do not exist; what is left to check is
//! that none ends above 2⁶² − 1. A parsed list stays in its datagram: [`AckRanges`] walks the bytes, checked once.
//!
//! For the writer, [`AckRanges`] borrows a slice instead. Where the slice breaks the order, or has more than
//! [`ACK_RANGES_MAX`] entries, the list ends: an ACK that says less than it could is true, and costs a resend at most.

use bytes::BufMut;

use super::{Credit, Fields, FrameError, Lane};
use crate::registry::{self, ACK_RANGES_MAX, ack_flag};
use crate::varint::{self, Reader};

/// Bytes of the longest ACK before its count of ranges.
const HEADER_BYTES_MAX: usize = 3 + 6 * 8;

/// Numbers received without a gap; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AckRange {
    /// The lowest.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

impl AckRange {
    /// `gap` and `length` of this range where `next` is the first number above the previous range (or the cumulative);
    /// `None` if it does not lie wholly above `next`, or ends above the largest number.
    fn steps_above(self, next: u64) -> Option<(u64, u64)> {
        let gap = self.first.checked_sub(next)?.checked_sub(1)?;
        let length = self.last.checked_sub(self.first)?;
        (self.last <= varint::MAX).then_some((gap, length))
    }
}

/// The ranges of an ACK, lowest first.
#[derive(Clone, Copy, Debug)]
pub struct AckRanges<'a> {
    source: Source<'a>,
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// Checked `(gap, length)` pairs above `next`, as they stand in the datagram.
    Wire { pairs: &'a [u8], next: u64 },
    /// The writer's own.
    Slice(&'a [AckRange]),
}

impl<'a> AckRanges<'a> {
    /// No range: nothing is known above the cumulative.
    pub const EMPTY: Self = Self::new(&[]);

    /// Ranges to write: ascending, apart from each other by at least one number and above the ACK's `cumulative`.
    /// From the first that is not so, and after [`ACK_RANGES_MAX`], they are left out.
    #[must_use]
    pub const fn new(ranges: &'a [AckRange]) -> Self {
        Self {
            source: Source::Slice(ranges),
            limit: ACK_RANGES_MAX,
        }
    }

    /// Walks the ranges.
    #[must_use]
    pub const fn iter(&self) -> AckRangesIter<'a> {
        let source = match self.source {
            Source::Wire { pairs, next } => IterSource::Wire {
                pairs: Reader::new(pairs),
                next,
            },
            Source::Slice(ranges) => IterSource::Slice(ranges),
        };
        AckRangesIter {
            source,
            left: self.limit,
        }
    }

    /// How many ranges there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// `(gap, length)` of each range that can be written above `cumulative`.
    fn steps(&self, cumulative: u64) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        self.iter().scan(cumulative, |next, range| {
            let steps = range.steps_above(*next)?;
            *next = range.last + 1;
            Some(steps)
        })
    }
}

impl PartialEq for AckRanges<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for AckRanges<'_> {}

impl<'a> From<&'a [AckRange]> for AckRanges<'a> {
    fn from(ranges: &'a [AckRange]) -> Self {
        Self::new(ranges)
    }
}

impl<'a> IntoIterator for AckRanges<'a> {
    type Item = AckRange;
    type IntoIter = AckRangesIter<'a>;

    fn into_iter(self) -> AckRangesIter<'a> {
        self.iter()
    }
}

/// Walks an [`AckRanges`].
#[derive(Clone, Debug)]
pub struct AckRangesIter<'a> {
    source: IterSource<'a>,
    left: usize,
}

#[derive(Clone, Debug)]
enum IterSource<'a> {
    Wire { pairs: Reader<'a>, next: u64 },
    Slice(&'a [AckRange]),
}

impl Iterator for AckRangesIter<'_> {
    type Item = AckRange;

    fn next(&mut self) -> Option<AckRange> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            IterSource::Wire { pairs, next } => {
                let range = range_above(*next, pairs.varint()?, pairs.varint()?)?;
                *next = range.last + 1;
                Some(range)
            }
            IterSource::Slice(ranges) => {
                let (&first, rest) = ranges.split_first()?;
                *ranges = rest;
                Some(first)
            }
        }
    }
}

/// The range that `gap` and `length` mean above `next`; `None` if it ends above [`varint::MAX`].
fn range_above(next: u64, gap: u64, length: u64) -> Option<AckRange> {
    let first = next.checked_add(1)?.checked_add(gap)?;
    let last = first.checked_add(length)?;
    (last <= varint::MAX).then_some(AckRange { first, last })
}

/// What a lane's receiver has, and what it will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The lane.
    pub lane: Lane,
    /// The next number expected: all below it were received or skipped.
    pub cumulative: u64,
    /// Received above `cumulative`, lowest first, at most [`ACK_RANGES_MAX`].
    pub ranges: AckRanges<'a>,
    /// The largest `tx` seen on the lane, 0 for none: a SKIP can be the first that arrives, and it has no `tx`.
    pub largest_tx: u64,
    /// Microseconds from the arrival of `largest_tx` to this ACK.
    pub delay_us: u64,
    /// The `tx` of a pack that had been received before (RFC 2883): its resend was not needed.
    pub dup_tx: Option<u64>,
    /// What the lane's sender may send, absolute.
    pub credit: Credit,
}

impl<'a> Ack<'a> {
    /// Bytes of the longest ACK.
    pub const ENCODED_LEN_MAX: usize = HEADER_BYTES_MAX + 2 + ACK_RANGES_MAX * 16;

    fn len_without_ranges(&self) -> usize {
        3 + varint::len(self.cumulative)
            + varint::len(self.largest_tx)
            + varint::len(self.delay_us)
            + self.dup_tx.map_or(0, varint::len)
            + varint::len(self.credit.max_bytes)
            + varint::len(self.credit.max_number)
    }

    /// Bytes that [`Ack::write`] writes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let (count, bytes) =
            self.ranges
                .steps(self.cumulative)
                .fold((0_u64, 0), |(count, bytes), (gap, length)| {
                    (count + 1, bytes + varint::len(gap) + varint::len(length))
                });
        self.len_without_ranges() + varint::len(count) + bytes
    }

    /// This ACK with as many of the lowest ranges as go into `room` bytes; `None` if it does not go in with none.
    #[must_use]
    pub fn fitting(mut self, room: usize) -> Option<Self> {
        let base = self.len_without_ranges();
        if base + 1 > room {
            return None;
        }
        let (mut count, mut bytes) = (0, 0);
        for (gap, length) in self.ranges.steps(self.cumulative) {
            bytes += varint::len(gap) + varint::len(length);
            if base + varint::len(count as u64 + 1) + bytes > room {
                break;
            }
            count += 1;
        }
        self.ranges.limit = count;
        Some(self)
    }

    /// Writes the frame.
    pub fn write(&self, buf: &mut impl BufMut) {
        // On the stack first, as in a PACK.
        let mut header = [0; HEADER_BYTES_MAX];
        let mut rest = header.as_mut_slice();
        varint::write(&mut rest, registry::frame::ACK);
        self.lane.write(&mut rest);
        rest.put_u8(if self.dup_tx.is_some() {
            ack_flag::DUP
        } else {
            0
        });
        varint::write(&mut rest, self.cumulative);
        varint::write(&mut rest, self.largest_tx);
        varint::write(&mut rest, self.delay_us);
        if let Some(dup_tx) = self.dup_tx {
            varint::write(&mut rest, dup_tx);
        }
        varint::write(&mut rest, self.credit.max_bytes);
        varint::write(&mut rest, self.credit.max_number);
        let left = rest.len();
        buf.put_slice(&header[..HEADER_BYTES_MAX - left]);
        varint::write(buf, self.ranges.steps(self.cumulative).count() as u64);
        for (gap, length) in self.ranges.steps(self.cumulative) {
            varint::write(buf, gap);
            varint::write(buf, length);
        }
    }

    pub(super) fn parse(fields: &mut Fields<'_, 'a>) -> Result<Self, FrameError> {
        let lane = fields.lane()?;
        let flags = fields.u8("flags")?;
        if flags & !ack_flag::DUP != 0 {
            return Err(FrameError::UnknownFlags {
                frame: "ACK",
                flags: flags & !ack_flag::DUP,
            });
        }
        let cumulative = fields.varint("cumulative")?;
        let largest_tx = fields.varint("largest_tx")?;
        let delay_us = fields.varint("delay_us")?;
        let dup_tx = if flags & ack_flag::DUP != 0 {
            Some(fields.varint("dup_tx")?)
        } else {
            None
        };
        let credit = Credit {
            max_bytes: fields.varint("max_bytes")?,
            max_number: fields.varint("max_number")?,
        };
        let ranges = parse_ranges(fields, cumulative)?;
        Ok(Self {
            lane,
            cumulative,
            ranges,
            largest_tx,
            delay_us,
            dup_tx,
            credit,
        })
    }
}

/// Checks the list once; after that it is walked without a fault.
fn parse_ranges<'a>(
    fields: &mut Fields<'_, 'a>,
    cumulative: u64,
) -> Result<AckRanges<'a>, FrameError> {
    let count = fields.varint("range_count")?;
    let limit = usize::try_from(count)
        .ok()
        .filter(|&count| count <= ACK_RANGES_MAX);
    let limit = limit.ok_or(FrameError::TooManyRanges { count })?;
    let list = fields.reader.rest();
    let mut next = cumulative;
    for index in 0..limit {
        let (gap, length) = (fields.varint("ranges")?, fields.varint("ranges")?);
        let range = range_above(next, gap, length).ok_or(FrameError::RangeOverflow { index })?;
        next = range.last + 1;
    }
    let pairs = &list[..list.len() - fields.reader.remaining()];
    Ok(AckRanges {
        source: Source::Wire {
            pairs,
            next: cumulative,
        },
        limit,
    })
}
