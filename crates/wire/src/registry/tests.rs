//! All numbers as literals: whoever changes one changes it here too, and knows that it breaks every peer.

use std::collections::HashSet;

use super::*;

#[test]
fn frames_lanes_and_flags() {
    let frames = [
        frame::PACK,
        frame::ACK,
        frame::SKIP,
        frame::DGRAM,
        frame::PING,
        frame::PONG,
    ];
    assert_eq!(frames, [1, 2, 3, 4, 5, 6]);
    assert_eq!([lane::MESSAGE, lane::FLOW], [0, 1]);
    assert_eq!(
        [pack_flag::FIRST, pack_flag::LAST, pack_flag::UNORDERED],
        [1, 2, 4]
    );
    assert_eq!(ack_flag::DUP, 1);
}

#[test]
fn control_messages() {
    use control::*;
    let types = [
        HELLO, WELCOME, CONTRACT, RECEIPT, FLOW_CLOSE, RESUME, RESUMED, GOAWAY, ERROR,
    ];
    assert_eq!(types, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn fields() {
    let listed: Vec<String> = field::MODULES
        .iter()
        .flat_map(|(message, fields)| {
            fields
                .iter()
                .map(move |f| format!("{message} {} {}", f.key, f.name))
        })
        .collect();
    let expected = "\
        hello 1 version, hello 2 features, hello 3 agent, hello 4 limits, \
        welcome 1 version, welcome 2 features, welcome 3 session_id, welcome 4 ipv4, welcome 5 ipv6, \
        welcome 6 gateway_ipv4, welcome 7 gateway_ipv6, welcome 8 mtu, welcome 9 limits, \
        contract 1 bytes, receipt 1 bytes, \
        flow_close 1 protocol, flow_close 2 source, flow_close 3 source_port, \
        flow_close 4 destination, flow_close 5 destination_port, flow_close 6 sequence, \
        resume 1 session_id, resume 2 epoch, resume 3 lanes, \
        resume_lane 1 lane, resume_lane 2 cumulative, resume_lane 3 ranges, resume_lane 4 credit, \
        goaway 1 reason, goaway 2 drain_ms, error 1 code, error 2 words";
    assert_eq!(listed.join(", "), expected);
    assert_eq!(field::TYPE.key, 0);
    for (message, fields) in field::MODULES {
        // The readers ask in this order, and the type has key 0.
        assert!(fields.iter().all(|f| f.key > 0), "{message}");
        assert!(fields.is_sorted_by(|a, b| a.key < b.key), "{message}");
    }
}

#[test]
fn error_codes() {
    let listed: Vec<_> = ErrorCode::ALL
        .iter()
        .map(|e| (e.code(), e.name()))
        .collect();
    let expected = [
        (0x00, "no_error"),
        (0x01, "internal"),
        (0x02, "shutting_down"),
        (0x03, "idle"),
        (0x10, "malformed_frame"),
        (0x11, "malformed_control"),
        (0x12, "control_too_large"),
        (0x13, "wrong_state"),
        (0x14, "hello_timeout"),
        (0x15, "ping_flood"),
        (0x16, "credit_exceeded"),
        (0x17, "acked_unsent"),
        (0x18, "number_out_of_window"),
        (0x19, "skip_backwards"),
        (0x1a, "number_changed"),
        (0x1b, "flow_close_flood"),
        (0x20, "unsupported_version"),
        (0x21, "unknown_client"),
        (0x22, "addresses_exhausted"),
        (0x23, "too_many_sessions"),
        (0x24, "fenced"),
        (0x25, "session_gone"),
        (0x26, "resends_exhausted"),
        (0x27, "month_used_up"),
        (0x28, "contract_required"),
        (0x29, "contract_refused"),
        (0x2a, "receipt_refused"),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn every_code_is_its_own_and_comes_back() {
    let codes: HashSet<u64> = ErrorCode::ALL.iter().map(|e| e.code()).collect();
    let names: HashSet<&str> = ErrorCode::ALL.iter().map(|e| e.name()).collect();
    let words: HashSet<&str> = ErrorCode::ALL.iter().map(|e| e.words()).collect();
    let count = ErrorCode::ALL.len();
    assert_eq!([codes.len(), names.len(), words.len()], [count; 3]);
    for number in 0..0x100 {
        let known = ErrorCode::from_code(number);
        assert_eq!(
            known.map(ErrorCode::code),
            codes.contains(&number).then_some(number)
        );
    }
    assert_eq!(ErrorCode::from_code(u64::MAX), None);
    for error in ErrorCode::ALL {
        assert!(
            error
                .name()
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{error:?}"
        );
        assert!(!error.words().ends_with('.') && error.to_string() == error.words());
    }
}

#[test]
fn bounds_and_names() {
    assert_eq!((ALPN, VERSION, DEFAULT_PORT), (&b"quell/1"[..], 1, 6610));
    assert_eq!((PUBLIC_KEY_HRP, SECRET_KEY_HRP), ("quellpub", "quellsec"));
    assert_eq!((CONTROL_MESSAGE_BYTES_MAX, CBOR_DEPTH_MAX), (65_536, 16));
    assert_eq!(
        (BITMAP_NUMBERS, DEP_MAX, ACK_RANGES_MAX),
        (8_192, 8_191, 64)
    );
    assert_eq!(
        (FIRST_CREDIT_BYTES, FIRST_CREDIT_NUMBERS),
        (2_097_152, 8_192)
    );
    assert_eq!((AGENT_BYTES_MAX, WORDS_BYTES_MAX), (64, 1_024));
    assert_eq!((CONTRACT_BYTES_MAX, RECEIPT_BYTES_MAX), (4_096, 4_096));
}
