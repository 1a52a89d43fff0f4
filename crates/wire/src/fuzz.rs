//! Bodies of the fuzz targets, as plain functions.
//!
//! `fuzz/fuzz_targets/` calls them with what libFuzzer makes up, `tests/corpus.rs` with every file of the committed
//! corpora, on the stable toolchain. They take any bytes and panic where something does not hold:
//!
//! - the parser ends, yields no more than the bytes can hold, and says nothing after an error;
//! - what it yields is within the bounds of the registry and lies inside the input;
//! - write what was parsed: the writer fills exactly `encoded_len` bytes, never more than were read, and parsing them
//!   gives the same value again;
//! - a signed form is read from one sequence of bytes alone, and by one reader;
//! - for control messages: however the stream is cut into pieces, the same messages and the same error come out.

use bytes::BytesMut;

use crate::contract::{FormError, SignedBinding, SignedContract, SignedReceipt};
use crate::control::{Control, ControlDecoder, ControlError};
use crate::frame::{Ack, Frame, FrameError, Frames, Ping};
use crate::registry::{ACK_RANGES_MAX, CONTROL_MESSAGE_BYTES_MAX, DEP_MAX};
use crate::varint;

/// Takes `data` for a datagram.
///
/// # Panics
/// When an invariant of [`crate::frame`] does not hold.
pub fn frames(data: &[u8]) {
    let mut walk = Frames::new(data);
    let mut written = Vec::new();
    let mut count = 0;
    let mut fault = None;
    for item in walk.by_ref() {
        match item {
            Ok(frame) => {
                count += 1;
                check_frame(&frame, data);
                let before = written.len();
                frame.write(&mut written);
                assert_eq!(
                    written.len() - before,
                    frame.encoded_len(),
                    "encoded_len of {frame:?}"
                );
                assert_eq!(
                    parse_one(&written[before..]),
                    Ok(frame),
                    "write, then parse"
                );
            }
            Err(error) => fault = Some(error),
        }
    }
    assert!(walk.next().is_none(), "something after the end");
    // The shortest frame, an empty DGRAM, has two bytes.
    assert!(
        2 * count <= data.len(),
        "{count} frames out of {} bytes",
        data.len()
    );
    assert!(
        written.len() <= data.len(),
        "the shortest form is longer than what was read"
    );
    assert_eq!(fault == Some(FrameError::EmptyDatagram), data.is_empty());
    if fault.is_none() {
        let again: Vec<_> = Frames::new(&written).collect();
        assert!(
            again.iter().copied().eq(Frames::new(data)),
            "the datagram written anew says something else"
        );
    }
}

fn parse_one(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let mut walk = Frames::new(bytes);
    let frame = walk.next().unwrap_or(Err(FrameError::EmptyDatagram));
    assert!(
        walk.next().is_none(),
        "one frame was written, two were read"
    );
    frame
}

fn check_frame(frame: &Frame<'_>, datagram: &[u8]) {
    let inside = |part: &[u8]| {
        let (outer, inner) = (datagram.as_ptr_range(), part.as_ptr_range());
        assert!(
            outer.start <= inner.start && inner.end <= outer.end,
            "bytes from outside the datagram"
        );
    };
    match frame {
        Frame::Pack(pack) => {
            inside(pack.data);
            assert!(pack.number <= varint::MAX && pack.tx <= varint::MAX);
            assert!(pack.dep <= DEP_MAX && pack.dep <= pack.number);
            assert_eq!(pack.header_len() + pack.data.len(), pack.encoded_len());
        }
        Frame::Dgram(packet) => inside(packet),
        Frame::Ack(ack) => check_ack(ack),
        Frame::Skip(skip) => assert!(skip.up_to <= varint::MAX && skip.bytes_up_to <= varint::MAX),
        Frame::Ping(ping) => assert!(ping.encoded_len() <= Ping::ENCODED_LEN_MAX),
        Frame::Pong(_) => {}
    }
}

fn check_ack(ack: &Ack<'_>) {
    assert!(ack.ranges.len() <= ACK_RANGES_MAX);
    let mut next = ack.cumulative;
    for range in ack.ranges {
        assert!(
            range.first > next && range.first <= range.last && range.last <= varint::MAX,
            "{range:?} over {next}"
        );
        next = range.last + 1;
    }
    let full = ack.encoded_len();
    assert!(full <= Ack::ENCODED_LEN_MAX);
    assert_eq!(ack.fitting(full), Some(*ack), "what fits is left alone");
    for room in [0, full / 2, full - 1] {
        if let Some(cut) = ack.fitting(room) {
            assert!(cut.encoded_len() <= room && cut.ranges.len() < ack.ranges.len());
            assert!(
                cut.ranges
                    .iter()
                    .eq(ack.ranges.iter().take(cut.ranges.len())),
                "not the lowest ranges"
            );
        }
    }
}

/// Takes `data` for each of the signed forms.
///
/// # Panics
/// When an invariant of [`crate::contract`] does not hold.
pub fn contracts(data: &[u8]) {
    let same = |written: &[u8]| assert_eq!(written, data, "two encodings of one form");
    let contract = SignedContract::decode(data).inspect(|form| {
        same(&form.encode());
        assert_eq!(form.terms.check(), Ok(()), "read, but never signed");
    });
    let receipt = SignedReceipt::decode(data).inspect(|form| same(&form.encode()));
    let binding = SignedBinding::decode(data).inspect(|form| same(&form.encode()));
    let read = [contract.is_ok(), receipt.is_ok(), binding.is_ok()];
    let count = read.into_iter().filter(|read| *read).count();
    assert!(count <= 1, "one form stands for another");
    if let Err(FormError::WrongLength { found, .. }) = contract {
        assert_eq!(found, data.len());
    }
}

/// Takes the first byte of `data` for the size of pieces and the rest for the bytes of a control stream; and the rest
/// for the body of one message too, so that the fuzzer need not find a length that fits.
///
/// # Panics
/// When an invariant of [`crate::control`] does not hold.
pub fn control(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else {
        return;
    };
    if let Ok(message) = Control::decode_body(stream) {
        check_message(&message, stream.len());
    }
    let (messages, end) = read_stream(stream, stream.len().max(1));
    for message in &messages {
        check_message(message, stream.len());
    }
    // The shortest message, an empty receipt, has a prefix and five bytes.
    assert!(6 * messages.len() <= stream.len());
    assert_eq!(
        read_stream(stream, usize::from(piece) + 1),
        (messages, end),
        "the pieces make a difference"
    );
}

fn read_stream(stream: &[u8], piece: usize) -> (Vec<Control>, Result<(), ControlError>) {
    let mut decoder = ControlDecoder::new();
    let mut messages = Vec::new();
    for bytes in stream.chunks(piece) {
        let before = decoder.buffered_bytes();
        decoder.push(bytes);
        assert!(
            decoder.buffered_bytes() <= before + bytes.len(),
            "more stored than came"
        );
        loop {
            match decoder.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    decoder.push(stream);
                    assert_eq!(decoder.next(), Err(error.clone()), "an error was forgotten");
                    assert_eq!(decoder.buffered_bytes(), 0, "bytes kept after an error");
                    return (messages, Err(error));
                }
            }
        }
        assert!(
            decoder.buffered_bytes() < CONTROL_MESSAGE_BYTES_MAX + 8,
            "more than one message held back"
        );
    }
    (messages, Ok(()))
}

fn check_message(message: &Control, bytes_read: usize) {
    let mut written = BytesMut::new();
    assert_eq!(
        message.encode(&mut written),
        Ok(()),
        "what was read can be written"
    );
    let body = message.encode_body().unwrap_or_default();
    assert!(
        body.len() <= bytes_read,
        "the canonical form is longer than what was read"
    );
    assert_eq!(
        Control::decode_body(&body).as_ref(),
        Ok(message),
        "write, then parse"
    );
    let (again, end) = read_stream(&written, usize::MAX);
    assert_eq!(
        (again.as_slice(), end),
        (std::slice::from_ref(message), Ok(()))
    );
}
