//! One end against acknowledgements made by hand; whole courses are held against a real QUIC by the driver's tests.
#![allow(clippy::unwrap_used)]

use super::super::{Body, CWND_MIN};
use super::*;

const MS: u64 = 1_000_000;
const RTT: u64 = 50 * MS;

/// An end that stands and has found the size of its path; the time by then.
fn standing() -> (End<u32>, u64) {
    let mut end = End::<u32>::client();
    let mut now = 0;
    while end.poll_udp(now).is_some() {}
    now += RTT;
    for part in [2, 1, 0] {
        end.handle(of_flight(Flight::S1, part), now);
    }
    assert_eq!(end.events.pop_front(), Some(CarriageEvent::Connected));
    (end, now)
}

fn sent(end: &mut End<u32>, now_ns: u64) -> Vec<Udp<u32>> {
    std::iter::from_fn(|| end.poll_udp(now_ns)).collect()
}

/// An acknowledgement of `largest` and of nothing else, in a packet of this number.
fn answer(number: u32, largest: u32) -> Udp<u32> {
    Udp {
        len_bytes: 36,
        number,
        ack: Some(Ack {
            largest,
            before: 0,
            delay_us: 0,
        }),
        urgent: false,
        body: Body::None,
    }
}

/// The same after the search for the size.
fn searched() -> (End<u32>, u64) {
    let (mut end, mut now) = standing();
    for number in 0..4 {
        let probe = sent(&mut end, now).pop().unwrap();
        now += RTT;
        end.handle(answer(number, probe.number), now);
    }
    assert!(sent(&mut end, now).is_empty());
    (end, now)
}

#[test]
fn the_size_is_searched_for_a_probe_a_round_trip() {
    let (mut end, mut now) = standing();
    let mut lens = Vec::new();
    assert_eq!(end.datagram_len_max(), 1_162);
    for number in 0..5 {
        let out = sent(&mut end, now);
        let Some(probe) = out.last().filter(|udp| matches!(udp.body, Body::Ping)) else {
            break;
        };
        assert!(probe.urgent);
        lens.push(probe.len_bytes);
        now += RTT;
        end.handle(answer(number, probe.number), now);
    }
    assert_eq!(lens, [1_326, 1_389, 1_420, 1_452]);
    assert_eq!(end.datagram_len_max(), 1_414);
}

#[test]
fn a_size_that_is_lost_three_times_is_given_up_and_costs_no_window() {
    let (mut end, mut now) = standing();
    let mut probes = 0;
    for number in 0..10 {
        let out = sent(&mut end, now);
        probes += out.iter().filter(|udp| udp.len_bytes == 1_326).count();
        end.queue_datagram(number, 40);
        let small = sent(&mut end, now).pop().unwrap();
        now += RTT;
        end.handle(answer(number, small.number), now);
        // What is left of it is late by the next answer.
        now += RTT;
    }
    assert_eq!(probes, 3);
    assert_eq!((end.datagram_len_max(), end.cwnd()), (1_162, INITIAL_CWND));
}

#[test]
fn a_packet_leaves_while_a_whole_one_more_would_fit_and_probes_carry_what_waits() {
    let (mut end, now) = searched();
    for number in 0..60 {
        end.queue_datagram(number, 230);
        // One at a time: each goes alone.
        let last = u64::from(end.in_flight) + 1_452;
        assert_eq!(sent(&mut end, now).len(), usize::from(last < 12_000));
    }
    let waiting = end.backlog_bytes();
    assert!(waiting > 0);
    let at = end.poll_timeout().unwrap();
    end.handle_timeout(at);
    let probes = sent(&mut end, at);
    assert_eq!(probes.len(), 2);
    for probe in &probes {
        assert!(probe.urgent && probe.len_bytes <= SIZES[0].into());
        assert!(matches!(&probe.body, Body::Datagrams(units) if units.len() == 4));
    }
    assert_eq!(end.backlog_bytes(), waiting - 8 * 230);
    let again = end.poll_timeout().unwrap();
    assert!(
        (again - at).abs_diff(2 * (at - now)) < MS,
        "the backoff doubles"
    );
    end.granted = true;
    sent(&mut end, at);
    assert_eq!(end.backlog_bytes(), 0);
}

#[test]
fn a_control_message_is_repeated_when_it_is_lost_and_not_before() {
    let (mut end, now) = searched();
    end.queue_control(7, 300);
    let first = sent(&mut end, now).pop().unwrap();
    let at = end.poll_timeout().unwrap();
    end.handle_timeout(at);
    let probes = sent(&mut end, at);
    assert!(probes.iter().all(|udp| matches!(udp.body, Body::Ping)));
    end.handle(answer(9, probes[0].number), at + RTT);
    let again = sent(&mut end, at + RTT).pop().unwrap();
    assert!(matches!(&again.body, Body::Control(_, unit) if **unit == 7));
    assert!(again.number > first.number);
}

#[test]
fn a_loss_takes_three_tenths_of_the_window_and_a_long_one_all_but_two_datagrams() {
    for (pause, cwnd) in [(MS, 8_400), (10 * RTT, CWND_MIN)] {
        let (mut end, now) = searched();
        let mut at = now;
        for number in 0..3 {
            end.queue_datagram(number, 1_000);
            sent(&mut end, at);
            at += pause;
        }
        end.queue_datagram(3, 40);
        let last = sent(&mut end, at).pop().unwrap();
        end.handle(answer(9, last.number), at + RTT);
        assert_eq!(end.cwnd(), cwnd);
    }
}
