//! Bytes that both ends of a transfer know without sending them first.
//!
//! The content is one endless stream of pseudo-random bytes, the same for ever: 8-byte little-endian words, the n-th being
//! SplitMix64 of n. It does not compress, no two aligned blocks of it are alike (so bytes that are swapped, repeated or
//! shifted change the digest), and any part of it can be made without what lies before it, so that echo payloads can carry a
//! part of it each.

use std::io;

use sha2::{Digest, Sha256};

/// How much is made at a time: enough to keep system calls rare, little enough to stay in the cache.
const BLOCK_BYTES: usize = 64 * 1024;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's output for the `index`-th step.
fn word(index: u64) -> [u8; 8] {
    let mut z = index.wrapping_add(1).wrapping_mul(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Fills `out` with the content from byte `offset` on.
pub fn fill(offset: u64, out: &mut [u8]) {
    let (mut index, skip) = (offset / 8, (offset % 8) as usize);
    let (head, rest) = out.split_at_mut(((8 - skip) % 8).min(out.len()));
    if !head.is_empty() {
        head.copy_from_slice(&word(index)[skip..skip + head.len()]);
        index += 1;
    }
    for chunk in rest.chunks_mut(8) {
        chunk.copy_from_slice(&word(index)[..chunk.len()]);
        index = index.wrapping_add(1);
    }
}

/// The content's first `len` bytes, block by block, until `each` fails.
pub fn blocks<E>(len: u64, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    while offset < len {
        let now = BLOCK_BYTES.min(usize::try_from(len - offset).unwrap_or(usize::MAX));
        fill(offset, &mut block[..now]);
        each(&block[..now])?;
        offset += now as u64;
    }
    Ok(())
}

/// SHA-256 of the content's first `len` bytes, in lower-case hex.
#[must_use]
pub fn sha256(len: u64) -> String {
    let mut hash = Sha256::new();
    let Ok(()) = blocks(len, |block| {
        hash.update(block);
        Ok::<_, std::convert::Infallible>(())
    });
    hex(hash)
}

/// SHA-256 of all that `from` gives, in lower-case hex.
///
/// # Errors
/// What reading fails with.
pub fn sha256_of(mut from: impl io::Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(hex(hash)),
            Ok(read) => hash.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A finished digest in lower-case hex.
pub(crate) fn hex(hash: Sha256) -> String {
    use std::fmt::Write as _;
    hash.finalize()
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_pinned() {
        assert_eq!(
            sha256(0),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        // SplitMix64 from seed 0: the first outputs of its reference implementation.
        let mut first = [0; 16];
        fill(0, &mut first);
        assert_eq!(first[..8], 0xE220_A839_7B1D_CDAF_u64.to_le_bytes());
        assert_eq!(first[8..], 0x6E78_9E6A_A1B9_65F4_u64.to_le_bytes());
    }

    #[test]
    fn any_part_is_the_same_as_in_the_whole() {
        let mut whole = vec![0; 200];
        fill(0, &mut whole);
        for start in 0..40 {
            for len in 0..40 {
                let mut part = vec![0; len];
                fill(start as u64, &mut part);
                assert_eq!(part, whole[start..start + len], "{len} bytes from {start}");
            }
        }
    }

    #[test]
    fn blocks_join_seamlessly() {
        let len = BLOCK_BYTES as u64 * 2 + 3;
        let (mut joined, mut whole) = (Vec::new(), vec![0; BLOCK_BYTES * 2 + 3]);
        let Ok(()) = blocks(len, |block| {
            joined.extend_from_slice(block);
            Ok::<_, std::convert::Infallible>(())
        });
        fill(0, &mut whole);
        assert!(joined == whole);
        assert_ne!(sha256(len), sha256(len - 1));
    }
}
