//! Whole worlds over either carriage: what the simulator's figures are worth once the core decides.
//!
//! A carriage that is a little off makes a core that decides at another time, and that may make much of it. So the same
//! scenarios run with quell over the model and over the real one, and what an engineer would read is laid side by side.
#![expect(clippy::print_stdout, reason = "the figures are what this has to say")]

use std::fmt::Write as _;
use std::time::Duration;

use quell_sim::fleet::carriage::model::Models;
use quell_sim::fleet::{Options, run_over};
use quell_sim::outcome::PolicyOutcome;
use quell_sim::policy::quell::{Ablation, Quell};
use quell_sim::scenario::{
    BackendModel, Bars, Bounds, Direction, Fault, FaultKind, Fleet, PathModel, Scenario, Whom, Work,
};

use crate::real;

/// Bytes of all clients, and of all providers. 10: what remains of the courses' difference of 8 a packet.
const BYTES_PERCENT: u64 = 10;
/// Dials, hand-overs of one pack, items that came out: none. The core decides them, and it decides alike.
const COUNTS_SLACK: u64 = 0;
/// The slowest recovery, in percent.
const RECOVERY_PERCENT: u64 = 10;
/// Least difference of a recovery that counts: a round trip of the way.
const RECOVERY_SLACK_MS: u64 = 50;

const SECOND: Duration = Duration::from_secs(1);

fn scenario(name: &str, work: Vec<Work>, kind: FaultKind, secs: u32) -> Scenario {
    Scenario {
        name: name.to_owned(),
        summary: String::new(),
        duration: 150 * SECOND + secs * SECOND,
        fleet: Fleet {
            clients: 2,
            providers: 6,
            ..Fleet::default()
        },
        path: PathModel::default(),
        backend: BackendModel::default(),
        work,
        fault: vec![Fault {
            kind,
            at: 60 * SECOND,
            until: (60 + secs) * SECOND,
            whom: Whom::default(),
            flap: None,
        }],
        bars: Bars::default(),
        bounds: Bounds::default(),
    }
}

fn scenarios() -> Vec<Scenario> {
    let messages = || {
        vec![Work::Messages {
            every: 5 * SECOND,
            len_bytes: 200,
            answer_bytes: 200,
        }]
    };
    let burst = || {
        vec![Work::Burst {
            at: 62 * SECOND,
            packets: 50,
            len_bytes: 1_200,
        }]
    };
    let black = |direction| FaultKind::Blackhole { direction };
    vec![
        scenario("messages", messages(), black(Direction::Both), 0),
        scenario("messages cut", messages(), black(Direction::Both), 60),
        scenario("messages up", messages(), black(Direction::Up), 60),
        scenario("messages down", messages(), black(Direction::Down), 60),
        scenario("burst cut", burst(), black(Direction::Both), 60),
        scenario("burst acks lost", burst(), FaultKind::AcksLost, 60),
        scenario("deaths", messages(), FaultKind::ProviderDeath, 60),
        scenario("long cut", messages(), black(Direction::Both), 300),
    ]
}

fn outcome(scenario: &Scenario, is_real: bool) -> PolicyOutcome {
    let options = Options {
        seed: 7,
        ..Options::default()
    };
    let quell = Quell::new(scenario, &options, Ablation::None);
    let policy = ("quell", &quell);
    let mut progress = |_| {};
    let ran = match is_real {
        true => run_over(scenario, policy, real(7), &options, &mut progress),
        false => run_over(scenario, policy, Models, &options, &mut progress),
    };
    ran.unwrap()
}

/// What is compared: a name, the real figure, the model's, and by how much they may differ.
fn figures(real: &PolicyOutcome, model: &PolicyOutcome) -> Vec<(&'static str, u64, u64, u64)> {
    let bytes = |name, of: fn(&PolicyOutcome) -> u64| {
        (name, of(real), of(model), of(real) * BYTES_PERCENT / 100)
    };
    let count = |name, of: fn(&PolicyOutcome) -> u64| (name, of(real), of(model), COUNTS_SLACK);
    let recovery = real.recovery_ms.max;
    let recovery_slack = RECOVERY_SLACK_MS.max(recovery * RECOVERY_PERCENT / 100);
    vec![
        bytes("bytes out", |o| o.udp_bytes_out.total),
        bytes("bytes back", |o| o.udp_bytes_back.total),
        bytes("in the outage", |o| o.outage_bytes_out.total),
        count("dials", |o| o.dials.total),
        count("delivered", |o| o.delivered_items),
        count("sends of one", |o| o.max_sends_of_one_pack.into()),
        count("sessions lost", |o| o.sessions_lost),
        (
            "recovery ms",
            recovery,
            model.recovery_ms.max,
            recovery_slack,
        ),
    ]
}

#[test]
fn the_core_decides_alike_over_either() {
    let mut text = String::from("scenario: figure real, model\n");
    let mut wrong = 0;
    for scenario in scenarios() {
        let (real, model) = (outcome(&scenario, true), outcome(&scenario, false));
        let _ = write!(text, "{:<16}", scenario.name);
        for (name, real, model, slack) in figures(&real, &model) {
            let is_near = real.abs_diff(model) <= slack;
            wrong += usize::from(!is_near);
            let mark = if is_near { "" } else { " !" };
            let _ = write!(text, " | {name} {real} {model}{mark}");
        }
        text.push('\n');
    }
    println!("{text}");
    assert_eq!(wrong, 0, "the model is off\n{text}");
}
