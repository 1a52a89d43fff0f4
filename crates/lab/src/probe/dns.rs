//! DNS in its smallest useful form (RFC 1035): one question, A records, UDP, 512 bytes.
//!
//! The server answers every A question with the one address it was given, and any other type with an empty answer, so that
//! a resolver that asks for AAAA as well is content. What is malformed gets no answer: it is counted. The client checks the
//! identifier and that the question came back unchanged.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{UdpService, connected};
use crate::error::{Context, LabError, Result};

const HEADER_BYTES: usize = 12;
const MESSAGE_BYTES_MAX: usize = 512;
const LABEL_BYTES_MAX: usize = 63;
/// Length bytes and the root included.
const NAME_BYTES_MAX: usize = 255;
const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;
const TTL_S: u32 = 30;
/// Points to the question's name, which always stands right after the header.
const NAME_POINTER: u16 = 0xc000 | HEADER_BYTES as u16;

static NEXT_ID: AtomicU16 = AtomicU16::new(0x5a17);

/// A running DNS server; dropping it stops it.
#[derive(Debug)]
pub struct DnsServer {
    service: UdpService,
    answered: Arc<AtomicU64>,
    malformed: Arc<AtomicU64>,
}

impl DnsServer {
    /// Answers on `address` (port 0: any), in the calling thread's network namespace, that every name has `record`.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(address: SocketAddr, record: Ipv4Addr) -> Result<Self> {
        let (answered, malformed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counters = (Arc::clone(&answered), Arc::clone(&malformed));
        let service = UdpService::start("lab-dns", address, move |query| {
            let reply = reply(query, record);
            let counter = if reply.is_some() {
                &counters.0
            } else {
                &counters.1
            };
            counter.fetch_add(1, Ordering::Relaxed);
            reply.map(Cow::Owned)
        })?;
        Ok(Self {
            service,
            answered,
            malformed,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.service.address
    }

    /// Questions answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Datagrams that were no question.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }
}

/// Asks `server` once for the IPv4 addresses of `name`.
///
/// # Errors
/// [`LabError::TimedOut`] without an answer, [`LabError::Protocol`] for one that is malformed, refuses, or answers something
/// else, [`LabError::Invalid`] for a name that has no wire form.
pub fn dns_query(server: SocketAddr, name: &str, timeout: Duration) -> Result<Vec<Ipv4Addr>> {
    let what = || format!("DNS question for {name} to {server}");
    let query = query(NEXT_ID.fetch_add(1, Ordering::Relaxed), name)?;
    let socket = connected(server)?;
    let began = Instant::now();
    socket.send(&query).context(what)?;
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(LabError::TimedOut {
                what: what(),
                within: timeout,
            });
        }
        socket.set_read_timeout(Some(left)).context(what)?;
        match socket.recv(&mut buffer) {
            Ok(len) => {
                let records = records(&buffer[..len], &query);
                return records.map_err(|why| LabError::Protocol {
                    what: what(),
                    why: why.into(),
                });
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                ) => {}
            Err(source) => {
                return Err(LabError::Io {
                    what: what(),
                    source,
                });
            }
        }
    }
}

fn query(id: u16, name: &str) -> Result<Vec<u8>> {
    let invalid = || LabError::Invalid(format!("{name:?} is not a DNS name"));
    let mut message = Vec::with_capacity(HEADER_BYTES + name.len() + 6);
    // Recursion desired; one question.
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend_from_slice(&word.to_be_bytes());
    }
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        let len = u8::try_from(label.len()).map_err(|_| invalid())?;
        if !(1..=LABEL_BYTES_MAX).contains(&label.len()) || !label.is_ascii() {
            return Err(invalid());
        }
        message.push(len);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    if message.len() - HEADER_BYTES > NAME_BYTES_MAX {
        return Err(invalid());
    }
    message.extend_from_slice(&TYPE_A.to_be_bytes());
    message.extend_from_slice(&CLASS_IN.to_be_bytes());
    Ok(message)
}

/// The 16-bit field at `at`.
fn word(message: &[u8], at: usize) -> Option<u16> {
    message
        .get(at..)?
        .first_chunk()
        .map(|bytes| u16::from_be_bytes(*bytes))
}

/// Where the name that starts at `at` ends. A pointer ends a name where it stands; it is not followed.
fn skip_name(message: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while end - at < NAME_BYTES_MAX {
        let len = usize::from(*message.get(end)?);
        match len {
            0 => return Some(end + 1),
            1..=LABEL_BYTES_MAX => end += 1 + len,
            0xc0.. => return message.get(end + 1).map(|_| end + 2),
            _ => return None,
        }
    }
    None
}

/// Where the one question ends, and its type and class; `None` for anything but a plain query with one whole question.
fn question(message: &[u8]) -> Option<(usize, u16, u16)> {
    let flags = word(message, 2)?;
    let is_plain_query = flags & 0xf800 == 0;
    if !is_plain_query || word(message, 4)? != 1 {
        return None;
    }
    let name_end = skip_name(message, HEADER_BYTES)?;
    // A pointer in the first name could only point into the header or to itself.
    if *message.get(name_end.checked_sub(1)?)? != 0 {
        return None;
    }
    Some((
        name_end + 4,
        word(message, name_end)?,
        word(message, name_end + 2)?,
    ))
}

fn reply(query: &[u8], record: Ipv4Addr) -> Option<Vec<u8>> {
    let (end, kind, class) = question(query)?;
    let has_record = kind == TYPE_A && class == CLASS_IN;
    let recursion_desired = word(query, 2)? & 0x0100;
    let mut message = Vec::with_capacity(end + 16);
    // A response, recursion available, no error.
    for word in [
        word(query, 0)?,
        0x8080 | recursion_desired,
        1,
        u16::from(has_record),
        0,
        0,
    ] {
        message.extend_from_slice(&word.to_be_bytes());
    }
    message.extend_from_slice(query.get(HEADER_BYTES..end)?);
    if has_record {
        for word in [NAME_POINTER, TYPE_A, CLASS_IN] {
            message.extend_from_slice(&word.to_be_bytes());
        }
        message.extend_from_slice(&TTL_S.to_be_bytes());
        message.extend_from_slice(&4u16.to_be_bytes());
        message.extend_from_slice(&record.octets());
    }
    Some(message)
}

/// The A records of an answer to `query`.
fn records(answer: &[u8], query: &[u8]) -> Result<Vec<Ipv4Addr>, &'static str> {
    const SHORT: &str = "the answer is cut short";
    let flags = word(answer, 2).ok_or(SHORT)?;
    if word(answer, 0) != word(query, 0) || flags & 0x8000 == 0 {
        return Err("not an answer to this question");
    }
    if flags & 0x000f != 0 {
        return Err("the server refuses");
    }
    if answer.get(HEADER_BYTES..query.len()) != query.get(HEADER_BYTES..) {
        return Err("the question came back changed");
    }
    let mut at = query.len();
    let mut found = Vec::new();
    for _ in 0..word(answer, 6).ok_or(SHORT)? {
        at = skip_name(answer, at).ok_or(SHORT)?;
        let (kind, class) = (
            word(answer, at).ok_or(SHORT)?,
            word(answer, at + 2).ok_or(SHORT)?,
        );
        let len = usize::from(word(answer, at + 8).ok_or(SHORT)?);
        let data = answer.get(at + 10..at + 10 + len).ok_or(SHORT)?;
        if kind == TYPE_A && class == CLASS_IN {
            let octets: [u8; 4] = data
                .try_into()
                .map_err(|_| "an A record is not 4 bytes long")?;
            found.push(Ipv4Addr::from(octets));
        }
        at += 10 + len;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    const RECORD: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);

    #[test]
    fn question_and_answer_have_the_wire_form_of_rfc_1035() {
        let query = query(0x1234, "a.example.").unwrap();
        let wire = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
        assert_eq!(query, wire);
        let answer = reply(&query, RECORD).unwrap();
        let mut expected = wire.to_vec();
        expected[2..4].copy_from_slice(&[0x81, 0x80]);
        expected[7] = 1;
        expected.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x1e\0\x04\xcb\0\x71\x07");
        assert_eq!(answer, expected);
        assert_eq!(records(&answer, &query), Ok(vec![RECORD]));
    }

    #[test]
    fn another_type_draws_an_empty_answer() {
        let mut query = query(7, "example").unwrap();
        let len = query.len();
        query[len - 3] = 28;
        let answer = reply(&query, RECORD).unwrap();
        assert_eq!(records(&answer, &query), Ok(vec![]));
    }

    #[test]
    fn names_and_labels_pass_at_their_bounds_and_not_beyond() {
        let label = |len| "x".repeat(len);
        assert!(query(1, &label(63)).is_ok());
        assert!(query(1, &label(64)).is_err());
        // 3 · 64 + 62 + 1 = 255 bytes.
        let name = |last| format!("{0}.{0}.{0}.{1}", label(63), label(last));
        assert!(query(1, &name(61)).is_ok());
        assert!(query(1, &name(62)).is_err());
        for bad in ["", ".", "a..b", "ü.example"] {
            assert!(query(1, bad).is_err(), "{bad}");
        }
        assert!(reply(&query(1, &name(61)).unwrap(), RECORD).is_some());
    }

    #[test]
    fn what_is_no_question_gets_no_answer_and_a_wrong_answer_is_seen() {
        let query = query(9, "example").unwrap();
        let answer = reply(&query, RECORD).unwrap();
        assert!(
            reply(&answer, RECORD).is_none(),
            "an answer is not answered"
        );
        for len in 0..query.len() {
            assert!(reply(&query[..len], RECORD).is_none(), "{len} bytes");
        }
        for len in 0..answer.len() {
            assert!(records(&answer[..len], &query).is_err(), "{len} bytes");
        }
        for at in [1, 3, 13] {
            let mut wrong = answer.clone();
            wrong[at] ^= 1;
            assert!(records(&wrong, &query).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let query = query(1, "example").unwrap();
            let _ = reply(&bytes, RECORD);
            let _ = records(&bytes, &query);
            let mut like_answer = query.clone();
            like_answer[2] |= 0x80;
            like_answer[7] = 9;
            like_answer.extend_from_slice(&bytes);
            let _ = records(&like_answer, &query);
        }
    }
}
