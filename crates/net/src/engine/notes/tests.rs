//! An hour of outage in virtual time: every notice of the core, few lines.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use quell_core::config::{ClientConfig, DialGateConfig};
use quell_core::multi::{Client, Output};

use super::*;
use crate::counting::Lines;

/// Each line with the minute it was written in, of a client whose dials all fail at once.
fn lines_of_an_hour() -> (Vec<String>, usize, u64) {
    let start = Instant::now();
    let end = start + Duration::from_secs(3_600);
    let mut now = start;
    let config = ClientConfig {
        // As often as a file may ask for.
        reconnect_base: Duration::from_millis(100),
        reconnect_max: Duration::from_secs(1),
        dial_gate: DialGateConfig {
            failure_threshold: 0,
            ..DialGateConfig::default()
        },
        ..ClientConfig::default()
    };
    let mut client = Client::new(config, "test", 1_500, 1, now);
    let (mut notes, lines, mut notices) = (Notes::default(), Lines::default(), 0);
    let mut per_minute = std::collections::BTreeMap::<_, u64>::new();
    let _guard = lines.watch();
    while now < end {
        while let Some(output) = client.poll_output(now) {
            if let Output::Notice { notice, .. } = &output {
                notices += 1;
                let kind = Kind::of(notice);
                if let Some(suppressed) = notes.admit(kind, now) {
                    log(notice, "exit:1", suppressed);
                    let minute = (now - start).as_secs() / 60;
                    *per_minute.entry((kind, minute)).or_default() += 1;
                }
            }
            if let Output::Dial { exit, attempt } = output {
                client.on_closed(exit, attempt, "refused".to_owned(), now);
            }
        }
        now = match client.poll_timeout() {
            Some((at, _)) => at.max(now + Duration::from_millis(1)),
            None => end,
        };
        client.handle_timeout(now);
    }
    let most = per_minute.into_values().max().unwrap_or(0);
    (lines.take(), notices, most)
}

// case B84
#[test]
fn an_hour_of_failed_dials_is_one_line_a_minute_that_counts_the_rest() {
    let (lines, notices, most_a_minute) = lines_of_an_hour();
    // A dial in five seconds: more the budget of dials does not allow.
    assert!(notices > 700, "{notices} notices");
    assert_eq!(most_a_minute, 1);
    assert!((55..=60).contains(&lines.len()), "{} lines", lines.len());
    let suppressed: usize = lines
        .iter()
        .map(|line| {
            line.split_once("suppressed=")
                .unwrap()
                .1
                .parse::<usize>()
                .unwrap()
        })
        .sum();
    // What the last minute held back is the next line's.
    let told = lines.len() + suppressed;
    assert!(notices - told < 100, "{told} of {notices} told");
    assert!(
        lines[0].starts_with("cannot connect: refused"),
        "{}",
        lines[0]
    );
}

#[test]
fn classes_do_not_hold_each_other_back() {
    let now = Instant::now();
    let mut notes = Notes::default();
    for news in [
        News::Refused,
        News::Closed,
        News::SuspendedEnded,
        News::MessagesEnded,
        News::MonthAhead,
    ] {
        assert_eq!(notes.admit(news, now), Some(0));
        assert_eq!(notes.admit(news, now), None);
    }
    let later = now + quell_tun::log_gate::LINE_INTERVAL;
    assert_eq!(notes.admit(News::Closed, later), Some(1));
}
