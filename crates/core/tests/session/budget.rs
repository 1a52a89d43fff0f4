//! Resends into silences draw on one account a path and one a process, on real paths.
//!
//! Each path has sent a little and hears nothing more: what its lanes then resend
//! is bounded by what the process may spend, and without a bound would be more.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quell_core::budget::ProcessBudget;
use quell_core::config::{PathConfig, SilenceConfig};
use quell_core::health::Signal;
use quell_core::path::{CarrierFacts, Path, PathBooks, PathTerms, Role};
use quell_packet::build;
use quell_wire::frame::Credit;

const FACTS: CarrierFacts = CarrierFacts {
    datagram_len_max: 1_200,
    backlog_bytes: 0,
    cwnd_bytes: 1_000_000,
    rtt: Duration::from_millis(50),
};
const STEP: Duration = Duration::from_millis(10);

fn open(process: &ProcessBudget, seed: u64, now: Instant) -> Path {
    let terms = PathTerms {
        config: PathConfig::default(),
        role: Role::Client,
        mtu_max: 1_500,
        signal: Signal::default(),
        budget: process.clone(),
        seed,
    };
    let mut path = Path::new(terms, now);
    path.on_first_credit(Credit::FIRST);
    path.on_carrier(FACTS, now);
    path
}

/// Lets what wants to leave leave, to nowhere.
fn send_all(path: &mut Path, now: Instant) {
    while path.poll_datagram(now).is_some() {
        path.on_carrier(FACTS, now);
    }
}

/// `paths` that send a SYN and a message each into a cut: silence resends, and those denied.
fn cut(config: SilenceConfig, paths: u64, start: Instant) -> (u64, u64, ProcessBudget) {
    let process = ProcessBudget::new(config);
    let mut paths: Vec<_> = (0..paths).map(|n| open(&process, n, start)).collect();
    let (from, to): (SocketAddr, SocketAddr) =
        (([10, 0, 0, 2], 1).into(), ([192, 0, 2, 1], 443).into());
    for path in &mut paths {
        path.handle_packet(build::tcp_syn(from, to, 1_400).into(), start);
        path.send_message(&[7; 100], start).unwrap();
        send_all(path, start);
    }
    let mut now = start;
    while now < start + Duration::from_secs(9) {
        now += STEP;
        for path in &mut paths {
            path.handle_timeout(now).unwrap();
            path.on_carrier(FACTS, now);
            send_all(path, now);
        }
    }
    let (mut resent, mut denied) = (0, 0);
    for books in paths.iter().map(PathBooks::of) {
        assert_eq!(books.unaccounted(), 0);
        resent += books.message.send.silence_resends + books.flow.send.silence_resends;
        denied += books.message.send.denied + books.flow.send.denied;
    }
    (resent, denied, process)
}

// case B11
#[test]
fn a_path_alone_resends_as_if_there_were_no_budget() {
    let start = Instant::now();
    let boundless = SilenceConfig {
        path_packs_per_s: 100,
        process_packs_per_s: 10_000,
        ..SilenceConfig::default()
    };
    let (resent, denied, _) = cut(SilenceConfig::default(), 1, start);
    assert_eq!((resent, denied), (cut(boundless, 1, start).0, 0));
    assert!(resent >= 3, "both lanes asked: {resent}");
}

// case B10
#[test]
fn thirty_paths_that_fall_silent_resend_what_the_process_may_and_are_denied_the_rest() {
    let start = Instant::now();
    let tight = SilenceConfig {
        process_packs_per_s: 3,
        ..SilenceConfig::default()
    };
    let (resent, denied, process) = cut(tight, 30, start);
    let spending = process.spending(start + Duration::from_secs(9));
    assert_eq!(spending.floor_packs, 30);
    assert!(spending.share_bytes * 5 <= spending.first_bytes);
    assert_eq!(
        spending.first_bytes,
        30 * (44 + 100),
        "what was resent pays for nothing"
    );
    assert!(
        denied > 0 && spending.denied >= denied,
        "{denied}, {spending:?}"
    );
    let share_packs = spending.share_bytes / 44;
    assert!(
        resent <= 30 + share_packs,
        "{resent} of {share_packs} and 30"
    );
}

// case B10
#[test]
fn paths_of_two_processes_know_nothing_of_each_other() {
    let start = Instant::now();
    let tight = SilenceConfig {
        path_packs_per_s: 1,
        process_packs_per_s: 1,
        ..SilenceConfig::default()
    };
    let (together, denied, _) = cut(tight.clone(), 8, start);
    let apart: u64 = (0..8).map(|_| cut(tight.clone(), 1, start).0).sum();
    assert!(denied > 0 && together < apart, "{together} and {apart}");
}
