//! The bench, run as the README shows it: over TUNs, over the loopback, and between two machines, which here are two
//! processes. Figures are printed and held to nothing: a test tells whether it measures, the bench itself what.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use libtest_mimic::{Failed, Trial};
use quell_lab::child::{Child, Signal};
use serde_json::Value;

use crate::commands::quell;
use crate::fixture::{Outcome, folder, trials, unless_missing};

trials![
    over_tuns_each_row_has_a_figure,
    over_the_loopback_streams_have_figures,
    between_two_machines_one_serves_and_one_asks,
    a_rival_that_is_not_known_is_refused_by_name,
];

/// These trials, and the one that needs another tunnel.
pub(crate) fn all_trials() -> Vec<Trial> {
    let rival = Trial::ignorable_test("bench::over_tuns_a_rival_runs_in_the_same_runs", || {
        unless_missing("wireguard-go", over_tuns_a_rival_runs_in_the_same_runs)
    });
    trials().into_iter().chain([rival]).collect()
}

/// What a program prints as its one object; and that it leaves nothing in its folder.
fn object(command: &mut Command) -> Result<Value, Failed> {
    let folder = folder()?;
    let output = command.env("TMPDIR", folder.path()).output()?;
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    let said: Value = serde_json::from_slice(&output.stdout)?;
    println!("    {said}");
    Ok(said)
}

/// The figures of a subject, all of which are above 0.
fn figures<'a>(said: &'a Value, subject: usize, keys: &[&str]) -> &'a Value {
    let subject = &said["subjects"][subject];
    for key in keys {
        let figure = subject["median"][key].as_f64();
        assert!(figure > Some(0.0), "{key}: {figure:?} of {said}");
    }
    subject
}

const STREAMS: [&str; 3] = ["tcp_one_mbit_s", "tcp_four_mbit_s", "tcp_back_mbit_s"];

fn over_tuns_each_row_has_a_figure() -> Outcome {
    let said = object(quell()?.args(["bench", "--runs", "1", "--seconds", "1", "--json"]))?;
    for subject in [0, 1] {
        figures(&said, subject, &STREAMS);
        let others = [
            "udp_1200_paced_mbit_s",
            "udp_64_paced_packets_s",
            "udp_1200_flooded_mbit_s",
            "udp_64_flooded_packets_s",
            "ping_idle_mean_ms",
            "ping_tcp_p99_ms",
        ];
        figures(&said, subject, &others);
    }
    let quell = figures(&said, 1, &["cpu_s_per_gb", "memory_peak_mb"]);
    assert_eq!(quell["name"], "quell");
    assert_eq!(
        said["quell_over_best"],
        serde_json::json!({}),
        "no rival ran"
    );
    Ok(())
}

fn over_tuns_a_rival_runs_in_the_same_runs() -> Outcome {
    let how = ["--runs", "2", "--seconds", "1", "--rows", "tcp", "--json"];
    let said = object(
        quell()?
            .args(["bench", "--beside", "wireguard-go"])
            .args(how),
    )?;
    let rival = figures(&said, 1, &STREAMS);
    assert_eq!(rival["name"], "wireguard-go");
    assert_eq!(rival["runs"].as_array().map(Vec::len), Some(2));
    let ratios = &said["quell_over_best"];
    for key in STREAMS.into_iter().chain(["cpu_s_per_gb"]) {
        assert!(ratios[key].as_f64() > Some(0.0), "{key} of {ratios}");
    }
    Ok(())
}

fn over_the_loopback_streams_have_figures() -> Outcome {
    let said = object(quell()?.args([
        "bench",
        "--loopback",
        "--runs",
        "1",
        "--seconds",
        "1",
        "--json",
    ]))?;
    figures(&said, 0, &STREAMS);
    figures(&said, 1, &STREAMS);
    figures(&said, 1, &["cpu_s_per_gb", "memory_peak_mb"]);
    assert_eq!(
        said["subjects"][1]["median"]["ping_idle_mean_ms"],
        Value::Null
    );
    Ok(())
}

fn between_two_machines_one_serves_and_one_asks() -> Outcome {
    let mut serve = quell()?;
    serve
        .args(["bench", "serve", "127.0.0.1:0"])
        .stdout(Stdio::piped());
    let mut server = Child::start(serve)?;
    let mut said = String::new();
    let out = server.take_stdout().ok_or("its output is piped")?;
    BufReader::new(out).read_line(&mut said)?;
    let address = said.split([' ', ';']).find(|word| word.contains(':'));
    let address = address.ok_or_else(|| format!("no address in {said:?}"))?;
    let how = [
        "--runs",
        "1",
        "--seconds",
        "1",
        "--rows",
        "tcp,ping",
        "--json",
    ];
    let found = object(quell()?.args(["bench", "to", address]).args(how))?;
    figures(&found, 0, &STREAMS);
    figures(&found, 0, &["ping_idle_mean_ms", "ping_tcp_mean_ms"]);
    server.signal(Signal::SIGINT)?;
    assert!(server.wait(std::time::Duration::from_secs(5))?.success());
    let gone = quell()?.args(["bench", "to", address]).args(how).output()?;
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(
        said.contains(&format!("error: measuring {address}")),
        "{said}"
    );
    Ok(())
}

fn a_rival_that_is_not_known_is_refused_by_name() -> Outcome {
    let refused = quell()?.args(["bench", "--beside", "openvpn"]).output()?;
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("--beside openvpn") && said.contains("wireguard-go"),
        "{said}"
    );
    Ok(())
}
