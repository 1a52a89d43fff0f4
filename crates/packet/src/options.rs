//! The option list of IPv4 and TCP headers: kind, length, data.
//!
//! Both protocols share the form (RFC 791 §3.1, RFC 9293 §3.1): kind 0 ends the list, kind 1 is a lone byte of padding,
//! every other kind is followed by a length that counts itself and the kind. A list is at most 40 bytes and every step
//! consumes at least one, so the walk is bounded by the header; a length below 2 or beyond the list ends it with an error.

use crate::PacketError;

/// Ends the list.
pub const END: u8 = 0;
/// Padding between options.
pub const NO_OPERATION: u8 = 1;

/// One option as it stands in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// The first byte.
    pub kind: u8,
    /// The whole option, kind and length included.
    pub bytes: &'a [u8],
    /// Bytes before it in the list.
    pub at: usize,
}

/// Walks over a list; ends at [`END`], at the list's end, or after one error. The end marker is not yielded.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    list: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    pub(crate) const fn new(list: &'a [u8]) -> Self {
        Self { list, at: 0 }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<RawOption<'a>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.list.get(at..)?;
        let length = match *rest {
            [] | [END, ..] => {
                self.at = self.list.len();
                return None;
            }
            [NO_OPERATION, ..] => 1,
            [_, length, ..] if length >= 2 => usize::from(length),
            [_, ..] => usize::MAX,
        };
        match rest.split_at_checked(length) {
            Some((bytes, _)) => {
                self.at = at + length;
                let kind = bytes.first().copied().unwrap_or(END);
                Some(Ok(RawOption { kind, bytes, at }))
            }
            None => {
                self.at = self.list.len();
                Some(Err(PacketError::BadOption))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(list: &[u8]) -> Vec<Result<(u8, usize, usize), PacketError>> {
        Options::new(list)
            .map(|option| option.map(|it| (it.kind, it.at, it.bytes.len())))
            .collect()
    }

    #[test]
    fn options_are_walked_to_the_end_marker() {
        assert_eq!(walk(&[]), []);
        assert_eq!(
            walk(&[1, 2, 4, 5, 0xb4, 0, 9, 9]),
            [Ok((1, 0, 1)), Ok((2, 1, 4))]
        );
        assert_eq!(walk(&[8, 2, 7, 3, 0]), [Ok((8, 0, 2)), Ok((7, 2, 3))]);
    }

    #[test]
    fn an_impossible_length_ends_the_walk() {
        for list in [&[1, 2][..], &[1, 2, 0, 0], &[1, 2, 1, 0], &[1, 2, 5, 0, 0]] {
            assert_eq!(
                walk(list),
                [Ok((1, 0, 1)), Err(PacketError::BadOption)],
                "{list:?}"
            );
        }
        assert_eq!(
            walk(&[1, 2, 4, 0, 0]),
            [Ok((1, 0, 1)), Ok((2, 1, 4))],
            "the longest that fits"
        );
    }
}
