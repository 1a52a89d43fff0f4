//! How long a fleet takes to simulate, and in how much memory.
//!
//! `cargo run --release -p quell-sim --example fleet -- POLICY CLIENTS PROVIDERS MINUTES`: one message of 200 bytes each 30 s
//! and client, and no backend in the second third of the time. Prints what came of it as JSON.

use std::time::{Duration, Instant};

use quell_sim::fleet::{self, Options};
use quell_sim::scenario::{Fault, FaultKind, Fleet, Scenario, Whom, Work};

fn number(place: usize, otherwise: u64) -> u64 {
    let text = std::env::args().nth(place);
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn scenario() -> Scenario {
    let time = Duration::from_secs(60 * number(4, 60));
    Scenario {
        name: "fleet".to_owned(),
        summary: "a fleet without a backend for a while".to_owned(),
        duration: time,
        fleet: Fleet {
            clients: u32::try_from(number(2, 1_000)).unwrap_or(1_000),
            providers: u16::try_from(number(3, 20)).unwrap_or(20),
            start_over: Duration::from_secs(60),
            ..Fleet::default()
        },
        path: Default::default(),
        backend: Default::default(),
        work: vec![Work::Messages {
            every: Duration::from_secs(30),
            len_bytes: 200,
            answer_bytes: 0,
        }],
        fault: vec![Fault {
            kind: FaultKind::BackendSilent,
            at: time / 3,
            until: time * 2 / 3,
            whom: Whom::default(),
            flap: None,
        }],
        bounds: Default::default(),
        bars: Default::default(),
    }
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    peak.unwrap_or("unknown").to_owned()
}

#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example speaks"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "quell".to_owned());
    let begun = Instant::now();
    let mut next = Duration::ZERO;
    let mut outcome = fleet::run(&scenario(), &policy, &Options::default(), &mut |at| {
        if at >= next {
            eprintln!("{at:?} after {:?}, {}", begun.elapsed(), memory());
            next = at + Duration::from_secs(60);
        }
    })?;
    outcome.series = Default::default();
    println!("{}", serde_json::to_string_pretty(&outcome)?);
    println!("{:?}, {}", begun.elapsed(), memory());
    Ok(())
}
