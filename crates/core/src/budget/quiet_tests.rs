//! The ceiling against a list of all that left, second by second and over two days.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const DIAL: u64 = 12_000;
const CEILING: u64 = 16_384;

fn in_force() -> (QuietCeiling, Instant) {
    let start = Instant::now();
    (
        QuietCeiling::new(QuietConfig::default(), start),
        start + 60 * S,
    )
}

//
#[test]
fn the_first_minute_is_free_and_the_next_holds_one_dial() {
    let (mut ceiling, at) = in_force();
    for second in 0..60 {
        let now = at - 60 * S + second * S;
        let dial = ceiling.may_dial(now).unwrap();
        ceiling.release(dial);
        ceiling.on_sent(100_000, now);
        assert_eq!(ceiling.room(now), None);
    }
    assert_eq!(ceiling.room(at - Duration::from_nanos(1)), None);
    assert_eq!(ceiling.room(at), Some(CEILING));
    let dial = ceiling.may_dial(at).unwrap();
    assert_eq!(ceiling.room(at), Some(CEILING - DIAL));
    ceiling.may_dial(at).unwrap_err();
    ceiling.release(dial);
    let again = ceiling.may_dial(at).unwrap();
    assert_eq!(again.left_bytes(), DIAL);
    assert_eq!(ceiling.status(at).over_bytes, 0);
}

#[test]
fn a_dial_passes_at_the_moment_that_was_told_and_not_before() {
    let (mut ceiling, at) = in_force();
    let mut dial = ceiling.may_dial(at).unwrap();
    ceiling.on_dial_sent(&mut dial, 5_000, at + 2 * S);
    ceiling.release(dial);
    let told = ceiling.may_dial(at + 3 * S).unwrap_err();
    assert_eq!(told, at + 63 * S, "a minute after its bytes left");
    ceiling
        .may_dial(told - Duration::from_nanos(1))
        .unwrap_err();
    assert!(ceiling.may_dial(told).is_ok());
}

#[test]
fn to_the_byte_what_a_minute_holds_leaves_room_for_a_dial_or_not() {
    for (sent, room) in [(CEILING - DIAL, true), (CEILING - DIAL + 1, false)] {
        let (mut ceiling, at) = in_force();
        ceiling.on_sent(sent, at);
        assert_eq!(ceiling.may_dial(at).is_ok(), room, "{sent} B");
    }
}

#[test]
fn progress_lifts_it_for_a_minute_and_a_late_report_does_not_take_that_back() {
    let (mut ceiling, at) = in_force();
    ceiling.on_sent(20_000, at);
    assert_eq!(ceiling.room(at), Some(0));
    assert_eq!(ceiling.status(at).over_bytes, 20_000 - CEILING);
    ceiling.on_progress(at + S);
    ceiling.on_progress(at);
    assert!(!ceiling.status(at + 60 * S).in_force);
    assert_eq!(ceiling.room(at + 61 * S), Some(CEILING));
}

#[test]
fn a_reservation_that_nobody_gives_back_ages_away() {
    let (mut ceiling, at) = in_force();
    drop(ceiling.may_dial(at).unwrap());
    let told = ceiling.may_dial(at + S).unwrap_err();
    assert_eq!(told, at + DIAL_TIME_MAX + 61 * S);
    assert_eq!(ceiling.room(told), Some(CEILING));
}

#[test]
fn what_a_dial_sends_beyond_its_reservation_counts_too() {
    let (mut ceiling, at) = in_force();
    let mut dial = ceiling.may_dial(at).unwrap();
    ceiling.on_dial_sent(&mut dial, 13_000, at);
    assert_eq!(
        (dial.left_bytes(), ceiling.room(at)),
        (0, Some(CEILING - 13_000))
    );
    ceiling.release(dial);
    assert_eq!(ceiling.status(at).minute_bytes, 13_000);
}

#[test]
fn extremes_saturate() {
    let (mut ceiling, at) = in_force();
    ceiling.on_sent(u64::MAX, at);
    ceiling.on_sent(u64::MAX, at - 30 * S);
    assert_eq!(ceiling.room(at), Some(0));
    assert_eq!(ceiling.may_dial(at), Err(at + 61 * S));
    let far = at + S * (1 << 31);
    assert_eq!(ceiling.room(far), Some(CEILING));
    assert!(ceiling.may_dial(far).is_ok());
}

/// A client of many timers that asks: what left, and when.
fn outage(seconds: u64, mut draw: impl FnMut(u64) -> u64) -> Vec<(Duration, u64)> {
    let (mut ceiling, at) = in_force();
    let (mut now, mut sent, mut next_dial) = (Duration::ZERO, Vec::new(), at);
    let mut dial: Option<(DialReservation, Duration)> = None;
    while now < S * u32::try_from(seconds).unwrap() {
        let moment = at + now;
        if let Some((mut held, ends)) = dial.take() {
            let bytes = (1_200 * draw(3)).min(held.left_bytes());
            ceiling.on_dial_sent(&mut held, bytes, moment);
            sent.push((now, bytes));
            if now >= ends {
                ceiling.release(held);
            } else {
                dial = Some((held, ends));
            }
        } else if moment >= next_dial {
            match ceiling.may_dial(moment) {
                Ok(held) => dial = Some((held, now + MS * (15 * draw(1_000)) as u32)),
                Err(told) => next_dial = told,
            }
        }
        let ping = 60 + draw(60);
        if ceiling.room(moment).unwrap() >= ping {
            ceiling.on_sent(ping, moment);
            sent.push((now, ping));
        }
        now += MS * (200 + draw(4_000)) as u32;
    }
    assert_eq!(ceiling.status(at + now).over_bytes, 0);
    sent
}

/// The most bytes in any minute, to the nanosecond.
fn busiest_minute(sent: &[(Duration, u64)]) -> u64 {
    let (mut first, mut sum, mut most) = (0, 0, 0);
    for (at, bytes) in sent {
        sum += bytes;
        while *at - sent[first].0 > 60 * S {
            sum -= sent[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

// R-20, case B85
#[test]
fn two_days_without_an_answer_stay_under_the_ceiling_in_every_minute() {
    let mut state = 7_u64;
    let sent = outage(48 * 3_600, |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below.max(1)
    });
    let busiest = busiest_minute(&sent);
    assert!(busiest <= CEILING, "{busiest} B in a minute");
    assert!(busiest > DIAL / 2, "dials were made: {busiest} B");
    let total: u64 = sent.iter().map(|(_, bytes)| bytes).sum();
    assert!(total <= CEILING * 48 * 60, "{total} B in two days");
}

proptest! {
    //
    #[test]
    fn no_minute_passes_the_ceiling_whatever_is_asked(draws in proptest::collection::vec(any::<u16>(), 1..300)) {
        let mut draws = draws.into_iter().cycle();
        let sent = outage(600, |below| u64::from(draws.next().unwrap()) % below.max(1));
        prop_assert!(busiest_minute(&sent) <= CEILING);
    }

    /// Any order of calls, with jumps: the sum is that of a list of all bookings.
    #[test]
    fn the_minute_is_the_sum_of_a_list(ops in proptest::collection::vec((0_u8..5, 0_u64..3_000, 0_u64..150_000), 1..200)) {
        let (mut ceiling, at) = in_force();
        let (mut list, mut now, mut dials) = (Vec::<(u64, u64)>::new(), Duration::ZERO, Vec::new());
        let mut from = 60;
        for (op, bytes, ms) in ops {
            let moment = at + now;
            let tick = 60 + now.as_secs();
            match op {
                0 => now += Duration::from_millis(ms),
                1 => { ceiling.on_sent(bytes, moment); list.push((tick, bytes)); }
                2 => if let Ok(dial) = ceiling.may_dial(moment) { list.push((tick + 60, DIAL)); dials.push((tick + 60, dial)); },
                3 => if let Some((booked, dial)) = dials.pop() {
                    if booked + 60 >= tick { list.push((booked, 0_u64.wrapping_sub(dial.left_bytes()))); }
                    ceiling.release(dial);
                },
                _ => if bytes < 300 { ceiling.on_progress(moment); from = tick + 60; },
            }
            let tick = 60 + now.as_secs();
            let counts = |(at, _): &&(u64, u64)| *at >= from && at + 60 >= tick;
            let sum = list.iter().filter(counts).fold(0_u64, |sum, (_, b)| sum.wrapping_add(*b));
            prop_assert_eq!(ceiling.status(at + now).minute_bytes, sum);
        }
    }
}
