//! QUIC's variable-length integers (RFC 9000 §16) and a bounded reader over a byte slice.
//!
//! The two highest bits of the first byte tell the length (1, 2, 4 or 8 bytes), the rest is the value in network byte
//! order: 0 to 2⁶² − 1.
//!
//! *Reading.* RFC 9000 lets a value be written longer than needed, so [`Reader::varint`] takes every length. Frame type
//! numbers are the exception (RFC 9000 §12.4: as short as possible); [`crate::frame::Frames`] checks that itself.
//!
//! *Writing.* [`write()`] always takes the shortest form. A value above [`MAX`] is written as [`MAX`]: the counters of a
//! lane cannot come near it (146 years at 10⁹ a second), and where a bug of ours brings one there, a saturated number
//! is refused by the peer, whereas a truncated one would be a wrong number that looks right.

use bytes::BufMut;

/// The largest value, 2⁶² − 1.
pub const MAX: u64 = (1 << 62) - 1;

/// Length in bytes of the shortest form of `v`: 1, 2, 4 or 8.
#[must_use]
#[inline]
pub const fn len(v: u64) -> usize {
    match v {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        0x4000_0000.. => 8,
    }
}

/// Writes `v` in its shortest form, [`len`]`(v)` bytes; a value above [`MAX`] as [`MAX`].
///
/// As everywhere in [`BufMut`], the caller provides the room: a buffer that cannot grow has at least `len(v)` bytes
/// left.
#[inline]
pub fn write(buf: &mut impl BufMut, v: u64) {
    let v = v.min(MAX);
    match len(v) {
        1 => buf.put_u8(v as u8),
        2 => buf.put_u16(v as u16 | 0b01 << 14),
        4 => buf.put_u32(v as u32 | 0b10 << 30),
        _ => buf.put_u64(v | 0b11 << 62),
    }
}

/// Reads from the front of a slice; `None` means that the bytes ended, and nothing was taken.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    #[must_use]
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// What is left, without taking it.
    #[must_use]
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes one byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Takes 8 bytes in network byte order.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_be_bytes)
    }

    /// Takes `n` bytes, borrowed from the input.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    /// Takes as many bytes as a preceding varint says, borrowed from the input.
    #[inline]
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let n = usize::try_from(ahead.varint()?).ok()?;
        let bytes = ahead.bytes(n)?;
        *self = ahead;
        Some(bytes)
    }

    /// Takes one varint of any length that RFC 9000 allows, the longer than needed included.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = *self.rest.first()?;
        // A length for each branch: the compiler reads a word where a loop would read bytes.
        match first >> 6 {
            0 => {
                self.rest = self.rest.get(1..)?;
                Some(u64::from(first))
            }
            1 => self
                .chunk()
                .map(|head| u64::from(u16::from_be_bytes(head) & u16::MAX >> 2)),
            2 => self
                .chunk()
                .map(|head| u64::from(u32::from_be_bytes(head) & u32::MAX >> 2)),
            _ => self
                .chunk()
                .map(|head| u64::from_be_bytes(head) & u64::MAX >> 2),
        }
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn written(v: u64) -> Vec<u8> {
        let mut buf = Vec::new();
        write(&mut buf, v);
        buf
    }

    #[test]
    fn samples_of_rfc_9000_a_1() {
        let samples: [(&[u8], u64); 4] = [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (bytes, value) in samples {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.varint(), Some(value));
            assert_eq!(reader.remaining(), 0);
            assert_eq!(written(value), bytes);
        }
    }

    #[test]
    fn a_longer_form_than_needed_is_read() {
        // RFC 9000 A.1: the two-byte sequence 0x4025 also decodes to 37.
        assert_eq!(Reader::new(&[0x40, 0x25]).varint(), Some(37));
        assert_eq!(Reader::new(&[0xc0, 0, 0, 0, 0, 0, 0, 0]).varint(), Some(0));
    }

    #[test]
    fn each_length_begins_and_ends_where_it_should() {
        let steps = [
            (0, 1),
            (0x3f, 1),
            (0x40, 2),
            (0x3fff, 2),
            (0x4000, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
        ];
        for (value, bytes) in steps.into_iter().chain([(MAX, 8)]) {
            assert_eq!(len(value), bytes, "{value:#x}");
            assert_eq!(written(value).len(), bytes, "{value:#x}");
        }
    }

    #[test]
    fn above_the_maximum_saturates() {
        assert_eq!(written(MAX + 1), written(MAX));
        assert_eq!(written(u64::MAX), [0xff; 8]);
        assert_eq!(len(u64::MAX), 8);
    }

    #[test]
    fn a_reader_takes_nothing_when_the_bytes_end() {
        let mut reader = Reader::new(&[0xc0, 1, 2]);
        assert_eq!(reader.varint(), None);
        assert_eq!(reader.u64(), None);
        assert_eq!(reader.bytes(4), None);
        assert_eq!(reader.remaining(), 3);
        let mut prefixed = Reader::new(&[3, 1, 2]);
        assert_eq!(prefixed.prefixed(), None);
        assert_eq!(prefixed.remaining(), 3);
        assert_eq!(Reader::new(&[2, 1, 2]).prefixed(), Some(&[1, 2][..]));
        assert_eq!(Reader::new(&[]).u8(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(v in 0..=MAX) {
            let bytes = written(v);
            prop_assert_eq!(bytes.len(), len(v));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Some(v));
            prop_assert_eq!(reader.remaining(), 0);
            for cut in 0..bytes.len() {
                prop_assert_eq!(Reader::new(&bytes[..cut]).varint(), None);
            }
        }
    }
}
