//! A peer that lies: each lie that can be known for one has a name, and those that cannot move nothing that matters.
//!
//! The timelines of each end (`send::tests`, `recv::tests`) hold the lies one by one; here each is told ten thousand times,
//! and memory, books and the honest rest must be what they were.

use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::config::LaneConfig;
use quell_core::config::receive::ReceiveConfig;
use quell_core::recv::ReceiveSequence;
use quell_core::send::{AlwaysHealthy, Backpressure, Delivery, SendSequence, Unlimited};
use quell_wire::frame::{Ack, AckRange, AckRanges, Credit, Lane, LaneProbe, Pack, PackFlags, Skip};
use quell_wire::registry::ErrorCode;
use quell_wire::varint;

use crate::pair::{MS, S};

const TIMES: u32 = 10_000;

type Sender = SendSequence<Unlimited, AlwaysHealthy>;

const TRUTH: Ack<'static> = Ack {
    lane: Lane::FLOW,
    cumulative: 0,
    ranges: AckRanges::EMPTY,
    largest_tx: 0,
    delay_us: 0,
    dup_tx: None,
    credit: Credit::FIRST,
};

/// A sender with numbers 0 to 9 on their way, `tx` 1 to 10, then a PING with `tx` 11, and number 10 that waits.
fn sender(now: Instant) -> Sender {
    let config = LaneConfig::default().try_new().unwrap();
    let shared = (Unlimited, AlwaysHealthy);
    let mut sender = Sender::new(
        Lane::FLOW,
        Delivery::Skipping,
        config,
        Credit::FIRST,
        shared,
        1,
    );
    for _ in 0..10 {
        sender.accept(PackFlags::WHOLE, 0, &[7; 500], now).unwrap();
        let tx = sender.poll_transmit(1_200, now).unwrap().pack.tx;
        sender.on_departed(tx, now);
    }
    assert_eq!(sender.probe().unwrap().tx, 11);
    sender.accept(PackFlags::WHOLE, 0, &[7; 500], now).unwrap();
    sender
}

#[test]
fn an_ack_of_what_was_never_sent_is_named_and_leaves_no_trace() {
    let now = Instant::now();
    let mut sender = sender(now);
    let (counters, rings) = (sender.counters(), sender.allocated_bytes());
    let waiting = [AckRange { first: 5, last: 10 }];
    let far = [AckRange {
        first: 2,
        last: varint::MAX,
    }];
    let lies = [
        Ack {
            cumulative: 11,
            ..TRUTH
        },
        Ack {
            cumulative: varint::MAX,
            ..TRUTH
        },
        Ack {
            ranges: AckRanges::new(&waiting),
            ..TRUTH
        },
        Ack {
            ranges: AckRanges::new(&far),
            ..TRUTH
        },
        Ack {
            largest_tx: 12,
            ..TRUTH
        },
        Ack {
            largest_tx: varint::MAX,
            ..TRUTH
        },
        Ack {
            dup_tx: Some(0),
            ..TRUTH
        },
        Ack {
            dup_tx: Some(12),
            ..TRUTH
        },
        // A PING has no number that could have come twice.
        Ack {
            dup_tx: Some(11),
            ..TRUTH
        },
    ];
    for lie in lies {
        for _ in 0..TIMES {
            let violation = sender.handle_ack(&lie, now + 50 * MS).unwrap_err();
            assert_eq!(violation.code, ErrorCode::AckedUnsent, "{lie:?}");
        }
    }
    assert_eq!(
        (sender.counters(), sender.allocated_bytes()),
        (counters, rings)
    );
    assert_eq!(sender.rtt(), None);
    let acked = sender.handle_ack(
        &Ack {
            cumulative: 10,
            largest_tx: 11,
            ..TRUTH
        },
        now + 50 * MS,
    );
    assert_eq!(acked.unwrap().packs, 10);
}

#[test]
fn lies_that_nobody_can_know_change_nothing_that_matters() {
    let start = Instant::now();
    let mut now = start + 50 * MS;
    let mut sender = sender(start);
    // Credit without an end: our own window and the peer's bitmap stand.
    let generous = Credit {
        max_bytes: varint::MAX,
        max_number: varint::MAX,
    };
    // A delay of 49 ms in an answer that took 50 ms, and copies of one pack without an end.
    let lie = Ack {
        cumulative: 9,
        largest_tx: 8,
        delay_us: 49_000,
        dup_tx: Some(1),
        credit: generous,
        ..TRUTH
    };
    for _ in 0..TIMES {
        sender.handle_ack(&lie, now).unwrap();
    }
    // A delay of an hour makes no sample.
    let late = Ack {
        largest_tx: 9,
        delay_us: 3_600_000_000,
        ..lie
    };
    sender.handle_ack(&late, now + 20 * MS).unwrap();
    assert_eq!(
        sender.rtt(),
        Some(50 * MS),
        "never below the shortest that was seen"
    );
    assert!(sender.pto() >= 50 * MS);
    while sender.accept(PackFlags::WHOLE, 0, &[1; 10], now).is_ok() {}
    assert_eq!(sender.next_number(), 9 + 8_192);
    assert_eq!(sender.admits(1, 0), Err(Backpressure::Count));
    // Copies claimed in each round trip widen the reorder window up to an RTT and no further: a loss is still found.
    let before = sender.counters().evidence_resends;
    for _ in 0..20 {
        let tx = sender.poll_transmit(1_200, now).unwrap().pack.tx;
        sender.on_departed(tx, now);
        now += 50 * MS;
        let lie = Ack {
            cumulative: 9,
            largest_tx: tx,
            dup_tx: Some(tx),
            ..TRUTH
        };
        sender.handle_ack(&lie, now).unwrap();
    }
    // None of the twenty was acknowledged, and all that left two round trips ago are known to be lost.
    now += 60 * MS;
    sender.handle_timeout(now);
    while let Some(transmit) = sender.poll_transmit(1_200, now) {
        let tx = transmit.pack.tx;
        sender.on_departed(tx, now);
    }
    let losses = sender.counters().evidence_resends - before;
    assert!(losses >= 10, "{losses}");
}

fn receiver(now: Instant) -> ReceiveSequence {
    let config = ReceiveConfig {
        window_bytes: 64 * 1024,
        window_numbers: 64,
        ..ReceiveConfig::default()
    };
    let mut receiver = ReceiveSequence::new(Lane::FLOW, config.try_new().unwrap(), now);
    for number in [0, 1, 2, 4] {
        send(&mut receiver, number, &[7; 500], now).unwrap();
    }
    while receiver.poll_deliver().is_some() {}
    receiver
}

fn send(
    receiver: &mut ReceiveSequence,
    number: u64,
    data: &[u8],
    now: Instant,
) -> Result<(), ErrorCode> {
    let pack = Pack {
        lane: Lane::FLOW,
        number,
        tx: number + 1,
        flags: PackFlags::WHOLE,
        dep: 0,
        data,
    };
    let result = receiver.handle_pack(&pack, Bytes::copy_from_slice(data), now);
    result.map_err(|violation| violation.code)
}

#[test]
fn packs_skips_and_pings_that_cannot_be_are_named_and_leave_no_trace() {
    let now = Instant::now();
    let mut receiver = receiver(now);
    let before = receiver.counters();
    let skip = |up_to, bytes_up_to| Skip {
        lane: Lane::FLOW,
        up_to,
        bytes_up_to,
    };
    let big = vec![7; 63_537];
    for _ in 0..TIMES / 10 {
        // Past the credit, in numbers and in bytes, and past the bitmap.
        assert_eq!(
            send(&mut receiver, 64, b"", now),
            Err(ErrorCode::CreditExceeded)
        );
        assert_eq!(
            send(&mut receiver, 5, &big, now),
            Err(ErrorCode::CreditExceeded)
        );
        assert_eq!(
            send(&mut receiver, 3 + 8_192, b"", now),
            Err(ErrorCode::NumberOutOfWindow)
        );
        assert_eq!(
            send(&mut receiver, varint::MAX, b"", now),
            Err(ErrorCode::NumberOutOfWindow)
        );
        // A number that was delivered, and comes with other bytes.
        assert_eq!(
            send(&mut receiver, 1, &[8; 500], now),
            Err(ErrorCode::NumberChanged)
        );
        assert_eq!(
            send(&mut receiver, 4, &[7; 499], now),
            Err(ErrorCode::NumberChanged)
        );
        // Fewer bytes than came, more than came where nothing is missing, and farther than a pack may go.
        let lies = [
            (skip(2, 1_499), ErrorCode::SkipBackwards),
            (skip(2, 1_501), ErrorCode::SkipBackwards),
            (skip(4, 1_999), ErrorCode::SkipBackwards),
            (skip(64, 2_000), ErrorCode::CreditExceeded),
            (skip(4, 100_000), ErrorCode::CreditExceeded),
            (skip(varint::MAX, 0), ErrorCode::NumberOutOfWindow),
        ];
        for (lie, code) in lies {
            // Each as if it were the first: a SKIP that is believed binds those that follow.
            let violation = self::receiver(now).handle_skip(&lie, now).unwrap_err();
            assert_eq!(violation.code, code, "{lie:?}");
        }
        let probe = LaneProbe {
            lane: Lane::FLOW,
            largest_number: 64,
            tx: 9,
        };
        assert_eq!(
            receiver.on_ping(probe, now).unwrap_err().code,
            ErrorCode::CreditExceeded
        );
    }
    assert_eq!(receiver.counters(), before);
    // The honest rest is taken as ever.
    send(&mut receiver, 3, &[7; 500], now).unwrap();
    assert_eq!(receiver.poll_deliver().unwrap().number, 3);
    assert_eq!(receiver.cumulative(), 5);
}

#[test]
fn whoever_fills_the_window_with_what_waits_for_ever_gets_its_window_and_no_more() {
    // Every pack waits for number 0, which never comes; holds end, and credit is given for nothing but what went out.
    let start = Instant::now();
    let config = ReceiveConfig::default().try_new().unwrap();
    let mut receiver = ReceiveSequence::new(Lane::MESSAGE, config, start);
    let mut taken = 0_u64;
    for number in 1..100_000_u64 {
        let data = [number as u8; 300];
        let pack = Pack {
            lane: Lane::MESSAGE,
            number,
            tx: number,
            flags: PackFlags::WHOLE,
            dep: 0,
            data: &data,
        };
        let now = start + Duration::from_micros(number);
        let result = receiver.handle_pack(&pack, Bytes::copy_from_slice(&data), now);
        taken += u64::from(result.is_ok());
        let ack = receiver.poll_ack(1_200, now + S);
        assert!(ack.is_none_or(|ack| ack.ack().credit == Credit::FIRST));
    }
    let bytes = 2 * 1024 * 1024 / 300;
    assert_eq!((taken, receiver.counters().held), (bytes, bytes));
    assert!(receiver.poll_deliver().is_none());
}
