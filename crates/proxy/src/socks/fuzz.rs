//! The body of the fuzz target: bytes of an application, to every parser.
//!
//! Holds that no parser says it took more than it was given, that what parsed still parses the same with more behind it,
//! and that what is refused is refused whatever follows.

use super::wire;

/// Feeds all parsers.
///
/// # Panics
/// One of them broke its word: a bug.
pub fn messages(data: &[u8]) {
    check(data, wire::greeting);
    check(data, wire::password);
    check(data, wire::request);
    check(data, wire::datagram);
}

fn check<T: std::fmt::Debug + PartialEq>(
    data: &[u8],
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, wire::Malformed>,
) {
    let whole = parse(data);
    let cut = data.len() / 2;
    let half = data.get(..cut).unwrap_or_default();
    match parse(half) {
        Ok(Some((message, len))) => {
            assert!(len <= half.len(), "it took more than there was");
            assert_eq!(whole, Ok(Some((message, len))), "what follows changed it");
        }
        Err(why) => assert_eq!(whole, Err(why), "what follows mended it"),
        Ok(None) => {}
    }
    if let Ok(Some((_, len))) = whole {
        assert!(len <= data.len(), "it took more than there was");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn short_inputs_of_every_byte_hold() {
        for first in 0..=255 {
            for second in 0..=255 {
                super::messages(&[first, second, 0, 3, 1, b'a', 0, 80, 0, 0]);
                super::messages(&[5, 1, first, second]);
            }
        }
    }
}
