//! Heads of requests and answers, read within bounds.
//!
//! A head is read byte by byte from a buffered stream until its empty line, 16 KiB at most, before anything of it is looked
//! at. Of the fields only `Content-Length` and `Expect` mean something here; a body of any other framing is refused, not
//! guessed at.

use std::io::{self, BufRead};

/// Bound of a head in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A parsed head: its first line and the fields that matter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The request line or the status line, as it came.
    pub(super) first_line: String,
    pub(super) content_length: Option<u64>,
    /// The client waits for `100 Continue` before it sends the body.
    pub(super) expects_continue: bool,
    /// A body framed otherwise than by its length.
    pub(super) has_transfer_encoding: bool,
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads one head. `None`: the stream ended before its first byte.
///
/// # Errors
/// `InvalidData` for a head that is too long or malformed, `UnexpectedEof` for one cut short, else what the stream says.
pub(super) fn read_head(stream: &mut impl BufRead) -> io::Result<Option<Head>> {
    let mut text = Vec::new();
    loop {
        let available = stream.fill_buf()?;
        if available.is_empty() {
            return if text.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        let line_end = available.iter().position(|byte| *byte == b'\n');
        let taken = line_end.map_or(available.len(), |at| at + 1);
        text.extend_from_slice(&available[..taken]);
        stream.consume(taken);
        if text.len() > HEAD_BYTES_MAX {
            return Err(invalid("head too long"));
        }
        if line_end.is_some() && (text.ends_with(b"\r\n\r\n") || text.ends_with(b"\n\n")) {
            return parse(&text).map(Some);
        }
    }
}

fn parse(text: &[u8]) -> io::Result<Head> {
    let text = std::str::from_utf8(text).map_err(|_| invalid("head is not text"))?;
    let mut lines = text.lines();
    let mut head = Head {
        first_line: lines.next().unwrap_or_default().trim().to_owned(),
        ..Head::default()
    };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| invalid("field without a colon"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length = value
                .parse()
                .map_err(|_| invalid("content-length is not a number"))?;
            // RFC 9112 §6.3: differing lengths are an attack, not an accident.
            if head.content_length.is_some_and(|earlier| earlier != length) {
                return Err(invalid("two content-lengths"));
            }
            head.content_length = Some(length);
        } else if name.eq_ignore_ascii_case("expect") {
            head.expects_continue = value.eq_ignore_ascii_case("100-continue");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            head.has_transfer_encoding = true;
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> io::Result<Option<Head>> {
        read_head(&mut io::BufReader::with_capacity(7, bytes))
    }

    #[test]
    fn a_head_is_read_and_the_body_left() {
        let mut stream: &[u8] = b"PUT /upload HTTP/1.1\r\nhost: x\r\nCONTENT-length: 5\r\nExpect: 100-continue\r\n\r\nhello";
        let head = read_head(&mut stream).unwrap().unwrap();
        assert_eq!(head.first_line, "PUT /upload HTTP/1.1");
        assert_eq!(
            (
                head.content_length,
                head.expects_continue,
                head.has_transfer_encoding
            ),
            (Some(5), true, false)
        );
        assert_eq!(stream, b"hello");
    }

    #[test]
    fn malformed_heads_are_refused() {
        assert!(read(b"").unwrap().is_none());
        for bad in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            b"\xff\xfe\r\n\r\n",
        ] {
            assert!(read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_head_of_the_bound_passes_and_one_byte_more_does_not() {
        let head = |len: usize| {
            let frame = "GET / HTTP/1.1\r\na: \r\n\r\n";
            frame
                .replace("a: ", &format!("a: {}", "x".repeat(len - frame.len())))
                .into_bytes()
        };
        assert_eq!(head(HEAD_BYTES_MAX).len(), HEAD_BYTES_MAX);
        assert!(read(&head(HEAD_BYTES_MAX)).is_ok());
        assert!(read(&head(HEAD_BYTES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
