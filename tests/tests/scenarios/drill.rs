//! Scenarios of the simulator with real processes, and both sides agree. Needs no privileges.

use serde_json::Value;

use crate::commands::quell;
use crate::fixture::{Outcome, folder, trials};

trials![
    a_blackout_of_thirty_seconds_costs_what_the_simulator_says,
    a_provider_that_dies_and_comes_back_costs_what_the_simulator_says,
    a_silent_backend_costs_what_the_simulator_says,
];

/// Drills `scenario`; the object, and that nothing is left behind.
fn drill(scenario: &str) -> Result<Value, libtest_mimic::Failed> {
    let folder = folder()?;
    let output = quell()?
        .args(["drill", scenario, "--json"])
        .env("TMPDIR", folder.path())
        .output()?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    let said: Value = serde_json::from_str(&out)?;
    println!("    {scenario}: {}", said["rows"]);
    assert_eq!(said["ok"], true, "{said}");
    assert_eq!(said["complaints"], serde_json::json!([]), "{said}");
    Ok(said)
}

fn a_blackout_of_thirty_seconds_costs_what_the_simulator_says() -> Outcome {
    let said = drill("drill-blackout")?;
    let drill = &said["drill"];
    assert_eq!(drill["connections_broken"], 0, "{said}");
    assert_eq!(drill["stream_bytes_sent"], drill["stream_bytes_arrived"]);
    assert!(
        drill["stream_bytes_sent"].as_u64() > Some(500_000),
        "{said}"
    );
    assert!(
        drill["outage"]["bytes_out"].as_u64() < Some(49_152),
        "{said}"
    );
    Ok(())
}

fn a_provider_that_dies_and_comes_back_costs_what_the_simulator_says() -> Outcome {
    let said = drill("drill-death")?;
    assert!(
        said["drill"]["after"]["dials"].as_u64() >= Some(1),
        "{said}"
    );
    Ok(())
}

fn a_silent_backend_costs_what_the_simulator_says() -> Outcome {
    let said = drill("drill-backend")?;
    let drill = &said["drill"];
    // The path is well: nothing breaks, and the backend is asked ever more rarely.
    assert_eq!(drill["connections_broken"], 0, "{said}");
    assert!(
        drill["outage"]["backend_requests"].as_u64() >= Some(2),
        "{said}"
    );
    Ok(())
}
