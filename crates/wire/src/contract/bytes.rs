//! Fields of a fixed form, one after the other, into and out of arrays of its length.
//!
//! The lengths of a form's fields are constants of its code, so a reader that ran past the end, or a writer that left
//! some of it, would be a mistake there and not something that a peer can bring about: the reader then gives zeros and
//! the writer leaves zeros, and the tests of each form, which compare every byte, would fail.

use super::{FormError, SIGNATURE_LEN, Signature};

/// The part of a form that is signed, as it grows.
pub(super) struct Writer<const N: usize> {
    out: [u8; N],
    len: usize,
}

impl<const N: usize> Writer<N> {
    pub(super) fn new(tag: [u8; 4]) -> Self {
        let mut writer = Self {
            out: [0; N],
            len: 0,
        };
        writer.put(&tag);
        writer
    }

    pub(super) fn put(&mut self, field: &[u8]) {
        let end = self.len + field.len();
        if let Some(place) = self.out.get_mut(self.len..end) {
            place.copy_from_slice(field);
        }
        self.len = end;
    }

    pub(super) fn finish(self) -> [u8; N] {
        debug_assert_eq!(self.len, N, "a form's fields fill it");
        self.out
    }
}

/// A form of `N` bytes whose length and tag are right.
pub(super) struct Reader<'a, const N: usize> {
    rest: &'a [u8],
}

impl<'a, const N: usize> Reader<'a, N> {
    pub(super) fn new(
        form: &'static str,
        tag: [u8; 4],
        bytes: &'a [u8],
    ) -> Result<Self, FormError> {
        if bytes.len() != N {
            return Err(FormError::WrongLength {
                form,
                wanted: N,
                found: bytes.len(),
            });
        }
        match bytes.strip_prefix(&tag) {
            Some(rest) => Ok(Self { rest }),
            None => Err(FormError::WrongTag { form }),
        }
    }

    pub(super) fn take<const L: usize>(&mut self) -> [u8; L] {
        match self.rest.split_first_chunk() {
            Some((field, rest)) => {
                self.rest = rest;
                *field
            }
            None => [0; L],
        }
    }
}

/// A form: what is signed, and the signature.
pub(super) fn joined<const S: usize, const N: usize>(
    signed: &[u8; S],
    signature: &Signature,
) -> [u8; N] {
    debug_assert_eq!(
        S + SIGNATURE_LEN,
        N,
        "a form is its signed part and a signature"
    );
    let mut out = [0; N];
    let parts = signed.iter().chain(&signature.0);
    out.iter_mut()
        .zip(parts)
        .for_each(|(out, byte)| *out = *byte);
    out
}
