//! Scenarios: real processes, real TUNs, real QUIC, in network namespaces.
//!
//! This harness is also the program under test: started with [`ROLE`] set, it is
//! `quell` and nothing else. So what runs is always what was just built.
//!
//! A scenario that cannot run here is told as ignored, `skipped: why`; the gate
//! counts those. Loads stay between the scenario's own namespaces, which vanish
//! with it.

#![expect(
    clippy::print_stdout,
    reason = "figures are what a scenario has to say"
)]

mod backend;
mod bench;
mod carries;
mod commands;
mod cut;
mod demo;
mod drill;
mod exits;
mod failing;
mod fairness;
mod families;
mod fixture;
mod hostile;
mod killed;
mod links;
mod mtu;
mod operator;
mod overload;
mod plane;
mod policy;
mod ports;
mod proxies;
mod refused;
mod resets;
mod shares;
mod sockets;
mod stopped;
mod three;
mod whole;

use std::num::NonZero;
use std::process::ExitCode;

use libtest_mimic::Arguments;

use fixture::ROLE;

/// Scenarios that run at a time: most of them wait most of the time, some for a minute.
const SCENARIOS_PER_CORE: usize = 2;

/// Scenarios that take all of the machine for as long as they last: beside them others would time it and not quell.
const ALONE: [&str; 10] = [
    "bench::over_",
    "carries::files_of_200_mb",
    "overload::",
    "proxies::a_browser",
    "proxies::iperf3",
    "proxies::one_gibibyte",
    "shares::",
    "sockets::files_of_200_mb",
    "sockets::many::a_thousand",
    "sockets::narrow::",
];

fn main() -> ExitCode {
    if std::env::var_os(ROLE).is_some() {
        return match quell_lab::child::die_with_parent() {
            Ok(_) => quell_cli::main(),
            Err(_) => ExitCode::FAILURE,
        };
    }
    let mut arguments = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    arguments
        .test_threads
        .get_or_insert(SCENARIOS_PER_CORE * cores);
    let trials = [
        backend::trials(),
        bench::all_trials(),
        carries::trials(),
        commands::trials(),
        cut::trials(),
        failing::trials(),
        fairness::trials(),
        demo::all_trials(),
        drill::trials(),
        exits::trials(),
        families::trials(),
        hostile::trials(),
        killed::trials(),
        links::trials(),
        mtu::trials(),
        overload::trials(),
        operator::all_trials(),
        plane::all_trials(),
        policy::trials(),
        ports::trials(),
        proxies::all_trials(),
        refused::trials(),
        resets::trials(),
        shares::trials(),
        sockets::all_trials(),
        stopped::trials(),
        whole::trials(),
    ];
    let trials = trials.into_iter().flatten();
    let (alone, together): (Vec<_>, Vec<_>) =
        trials.partition(|trial| ALONE.iter().any(|name| trial.name().starts_with(name)));
    let first = libtest_mimic::run(&arguments, together);
    arguments.test_threads = Some(1);
    let second = libtest_mimic::run(&arguments, alone);
    match first.has_failed() {
        true => first.exit_code(),
        false => second.exit_code(),
    }
}
