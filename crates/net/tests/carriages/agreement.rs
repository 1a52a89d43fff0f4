//! The model beside the real one, course by course.
//!
//! The table that this prints is what the simulator's figures of fleets are worth. Where the model leaves a tolerance it is
//! the model that is to change.
#![expect(clippy::print_stdout, reason = "the figures are what this has to say")]

use std::fmt::Write as _;
use std::time::Duration;

use quell_sim::fleet::carriage::Side;
use quell_sim::fleet::carriage::model::Models;

use crate::course::{self, Course};
use crate::real;
use crate::way::{Figures, run};

/// Bytes of one side, in percent of the real one's. 10: packet numbers, ranges of acknowledgements and padding differ by
/// a few bytes a packet, and a packet of a quiet session has some forty.
const BYTES_PERCENT: u64 = 10;
/// Datagrams of one side. 20: an acknowledgement that waits for company and finds none is a datagram more.
const DATAGRAMS_PERCENT: u64 = 20;
/// Under this a difference is a probe timeout's pair with what goes along: no share of anything.
const BYTES_SLACK: u64 = 300;
const DATAGRAMS_SLACK: u64 = 3;
/// Times, in percent; never less than a round trip. 10: probes' times double from a first one that the variance of a
/// handful of round trips decides.
const TIME_PERCENT: u32 = 10;
/// Datagrams of the load that arrived, in percent.
const ARRIVED_PERCENT: u64 = 5;
const ARRIVED_SLACK: u64 = 2;

fn near(real: u64, model: u64, percent: u64, slack: u64) -> bool {
    real.abs_diff(model) <= slack.max(real * percent / 100)
}

fn near_time(real: Option<Duration>, model: Option<Duration>, rtt: Duration) -> bool {
    match (real, model) {
        (Some(real), Some(model)) => real.abs_diff(model) <= rtt.max(real * TIME_PERCENT / 100),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// What the model got wrong, by name.
fn differences(real: &Figures, model: &Figures, rtt: Duration) -> Vec<&'static str> {
    let checks = [
        (
            "bytes",
            near(real.bytes, model.bytes, BYTES_PERCENT, BYTES_SLACK),
        ),
        (
            "datagrams",
            near(
                real.datagrams,
                model.datagrams,
                DATAGRAMS_PERCENT,
                DATAGRAMS_SLACK,
            ),
        ),
        (
            "arrived",
            near(real.arrived, model.arrived, ARRIVED_PERCENT, ARRIVED_SLACK),
        ),
        ("connected", near_time(real.connected, model.connected, rtt)),
        ("healed", near_time(real.healed, model.healed, rtt)),
        (
            "closed",
            near_time(real.closed.map(|c| c.0), model.closed.map(|c| c.0), rtt)
                && real.closed.map(|c| c.1) == model.closed.map(|c| c.1),
        ),
    ];
    let wrong = checks.into_iter().filter(|(_, near)| !near);
    wrong.map(|(name, _)| name).collect()
}

fn time(of: Option<Duration>) -> String {
    of.map_or_else(|| "-".to_owned(), |at| format!("{:.3}", at.as_secs_f64()))
}

fn row(text: &mut String, course: &Course, side: Side, real: &Figures, model: &Figures) {
    let wrong = differences(real, model, 2 * course.delay).join(", ");
    let pair = |a: String, b: String| format!("{a:>9} {b:>9}");
    let closed = |f: &Figures| {
        f.closed.map_or_else(
            || "-".to_owned(),
            |(at, how)| format!("{:.1} {how:?}", at.as_secs_f64()),
        )
    };
    let _ = writeln!(
        text,
        "{:<28} {side:?} | {} | {} | {} | {} | {} | {} {} | {wrong}",
        course.to_string(),
        pair(real.bytes.to_string(), model.bytes.to_string()),
        pair(real.datagrams.to_string(), model.datagrams.to_string()),
        pair(real.arrived.to_string(), model.arrived.to_string()),
        pair(time(real.connected), time(model.connected)),
        pair(time(real.healed), time(model.healed)),
        closed(real),
        closed(model),
    );
}

#[test]
fn the_model_does_what_quic_does() {
    let mut text = String::from(
        "course, side | bytes real, model | datagrams | arrived | connected, s | healed after, s | closed | wrong\n",
    );
    let mut wrong = 0;
    for course in course::all() {
        let (real, model) = (
            run(&mut real(7), &course, false),
            run(&mut Models, &course, true),
        );
        for (index, side) in [Side::Client, Side::Server].into_iter().enumerate() {
            row(&mut text, &course, side, &real[index], &model[index]);
            wrong += differences(&real[index], &model[index], 2 * course.delay).len();
        }
    }
    println!("{text}");
    assert_eq!(wrong, 0, "the model is off\n{text}");
}

#[test]
fn what_is_off_is_seen() {
    let rtt = Duration::from_millis(50);
    let real = Figures {
        bytes: 100_000,
        datagrams: 1_000,
        arrived: 100,
        connected: Some(Duration::from_secs(1)),
        ..Figures::default()
    };
    assert!(differences(&real, &real, rtt).is_empty());
    let within = Figures {
        bytes: 110_000,
        datagrams: 800,
        arrived: 95,
        connected: Some(Duration::from_millis(1_100)),
        ..real
    };
    assert!(differences(&real, &within, rtt).is_empty());
    let beyond = Figures {
        bytes: 110_001,
        datagrams: 799,
        arrived: 94,
        connected: Some(Duration::from_millis(1_101)),
        healed: Some(Duration::ZERO),
        closed: Some((Duration::ZERO, quell_sim::fleet::node::Ended::Closed)),
    };
    let all = [
        "bytes",
        "datagrams",
        "arrived",
        "connected",
        "healed",
        "closed",
    ];
    assert_eq!(differences(&real, &beyond, rtt), all);
}
