//! What is expected of the real carriage alone.

use std::time::Duration;

use bytes::Bytes;
use quell_sim::fleet::carriage::quic::{QuicCarriage, Verbatim};
use quell_sim::fleet::carriage::{Carriage as _, Side};
use quell_sim::fleet::node::Ended;

use crate::course::{self, Course, Cut, DELAY, Load};
use crate::way::{Way, run};
use crate::{real, zeros};

const SECOND: Duration = Duration::from_secs(1);

fn quiet(cut: Option<Cut>) -> Course {
    Course {
        load: Load::Nothing,
        cut,
        granted: false,
        delay: DELAY,
        until: 600 * SECOND,
    }
}

fn connected(cut: Option<Cut>) -> Way<QuicCarriage<Bytes, Verbatim>> {
    let mut way = Way::new(&mut real(7), quiet(cut));
    way.go(5 * SECOND);
    assert!(way.figures(Side::Client).connected.is_some());
    assert!(way.figures(Side::Server).connected.is_some());
    way
}

#[test]
fn a_course_repeats_though_its_bytes_do_not() {
    for course in course::all() {
        let (first, second) = (
            run(&mut real(7), &course, false),
            run(&mut real(7), &course, false),
        );
        assert_eq!(first, second, "{course}");
    }
}

#[test]
fn a_handshake_takes_a_round_trip_and_the_facts_come_with_it() {
    let mut way = Way::new(&mut real(7), quiet(None));
    way.go(2 * DELAY - Duration::from_millis(1));
    assert_eq!(way.carriage.facts(Side::Client), None);
    way.go(5 * SECOND);
    assert_eq!(way.figures(Side::Client).connected, Some(2 * DELAY));
    assert_eq!(way.figures(Side::Server).connected, Some(3 * DELAY));
    let facts = way.carriage.facts(Side::Client).unwrap();
    assert_eq!(facts.backlog_bytes, 0);
    assert!(facts.rtt >= 2 * DELAY && facts.rtt < 3 * DELAY, "{facts:?}");
    assert!(facts.datagram_len_max > 1_200 && facts.datagram_len_max < 1_452);
    assert!(facts.cwnd_bytes >= 12_000);
}

#[test]
fn control_messages_come_whole_and_in_order_through_a_cut() {
    let cut = Cut {
        from: 5 * SECOND,
        until: 10 * SECOND,
        client: true,
        server: true,
    };
    let mut way = connected(Some(cut));
    let sent = [1, 9_000, 40, 70_000].map(zeros);
    for side in [Side::Client, Side::Server] {
        for message in &sent {
            let now = way.instant();
            let len = message.len() as u32;
            way.carriage.send_control(side, message.clone(), len, now);
        }
    }
    way.go(10 * SECOND);
    assert_eq!(way.messages, [Vec::<Bytes>::new(), Vec::new()]);
    way.go(60 * SECOND);
    assert_eq!(way.messages, [sent.to_vec(), sent.to_vec()]);
}

#[test]
fn a_farewell_is_told_to_the_other_end_alone() {
    let mut way = connected(None);
    let now = way.instant();
    way.carriage.close(Side::Server, now);
    way.go(20 * SECOND);
    let told = way.figures(Side::Client).closed;
    assert_eq!(told, Some((5 * SECOND + DELAY, Ended::Closed)));
    assert_eq!(way.figures(Side::Server).closed, None);
    assert!(way.carriage.is_over());
}

#[test]
fn a_killed_provider_is_missed_after_the_idle_time_or_at_its_hosts_word() {
    let mut way = connected(None);
    way.carriage.kill(Side::Server);
    way.go(60 * SECOND);
    assert_eq!(way.figures(Side::Client).closed, None);
    way.go(90 * SECOND);
    let (at, ended) = way.figures(Side::Client).closed.unwrap();
    assert_eq!(ended, Ended::TimedOut);
    assert!(at > 75 * SECOND && at < 81 * SECOND, "{at:?}");
    assert!(way.carriage.is_over());

    let mut way = connected(None);
    way.carriage.kill(Side::Server);
    let now = way.instant();
    way.carriage.send_datagram(Side::Client, zeros(40), 40, now);
    way.go(6 * SECOND);
    assert_eq!(way.figures(Side::Client).closed, None);
    let now = way.instant();
    way.carriage.on_reset(Side::Client, now);
    way.go(7 * SECOND);
    let told = way.figures(Side::Client).closed;
    assert_eq!(told, Some((6 * SECOND, Ended::Reset)));
}

#[test]
fn an_open_window_takes_what_a_cut_has_filled_it_with() {
    let cut = Cut {
        from: 5 * SECOND,
        until: 600 * SECOND,
        client: true,
        server: true,
    };
    let sent = |granted: bool| {
        let mut way = connected(Some(cut));
        let now = way.instant();
        for _ in 0..50 {
            assert!(
                way.carriage
                    .send_datagram(Side::Client, zeros(1_200), 1_200, now)
            );
        }
        way.go(7 * SECOND);
        let before = way.carriage.facts(Side::Client).unwrap();
        assert!(before.backlog_bytes > 0);
        let now = way.instant();
        way.carriage.grant(Side::Client, granted, now);
        let facts = way.carriage.facts(Side::Client).unwrap();
        assert_eq!(facts.cwnd_bytes, before.cwnd_bytes);
        way.go(8 * SECOND);
        way.carriage.facts(Side::Client).unwrap().backlog_bytes
    };
    assert!(sent(false) > 0);
    assert_eq!(sent(true), 0);
}
