//! What simulating an outage costs: whole worlds through the library's scenarios, per virtual client and second.
//!
//! Two things are watched here. A simulator that an engineer asks between two thoughts answers in seconds, so a client's
//! second has to cost microseconds; and each of them runs the core's own code, so what makes a world slower mostly makes
//! production slower, too. `quell` beside a model of another system says how much of it is the core's.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quell_sim::fleet::{self, Options};
use quell_sim::scenario::{self, Scenario};

/// Scenarios, and the clients that they are given here.
const WORLDS: [(&str, u32); 3] = [
    ("quiet", 50),
    ("full-blackout", 1),
    ("backend-blackout", 50),
];
const POLICIES: [&str; 2] = ["quell", "upstream-2026-08"];

fn world(name: &str, clients: u32) -> Option<Scenario> {
    let mut scenario = Scenario::from_toml(scenario::named(name)?.text).ok()?;
    scenario.fleet.clients = clients;
    Some(scenario)
}

fn outages(c: &mut Criterion) {
    for (name, clients) in WORLDS {
        let Some(scenario) = world(name, clients) else {
            continue;
        };
        let mut group = c.benchmark_group(format!("outage/{name}"));
        group.throughput(Throughput::Elements(
            u64::from(clients) * scenario.duration.as_secs(),
        ));
        for policy in POLICIES {
            group.bench_function(BenchmarkId::from_parameter(policy), |b| {
                let options = Options {
                    seed: 1,
                    ..Options::default()
                };
                b.iter(|| fleet::run(&scenario, policy, &options, &mut |_| {}));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = outages
}
criterion_main!(benches);
