//! The operator's verbs as a shell sees them, asked of a status that stands still.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::sync::Arc;

use quell::control::{self, Command, Handler, Server};
use quell_cli::{Exit, Streams};
use serde_json::{Value, json};

/// What a command printed, and how it ended.
fn quell(arguments: &[&str]) -> (Exit, String, String) {
    let arguments = arguments.iter().map(OsString::from);
    let arguments = std::iter::once(OsString::from("quell")).chain(arguments);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = quell_cli::run(
        arguments,
        &mut Streams {
            input: &mut &b""[..],
            out: &mut out,
            err: &mut err,
        },
    );
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (exit, text(out), text(err))
}

struct Stage {
    folder: tempfile::TempDir,
    _server: Server,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let handler: Handler = Arc::new(|request| {
            Box::pin(async move {
                let asked = request.command;
                if asked == Command::Status {
                    Ok(status())
                } else if asked == Command::Drain {
                    Ok(json!({"was_draining": false, "sessions": 1}))
                } else {
                    Err("cannot change while it runs: listen".to_owned())
                }
            })
        });
        let server = control::serve(&folder.path().join("a.sock"), handler).unwrap();
        Self {
            folder,
            _server: server,
        }
    }

    fn socket(&self) -> String {
        self.folder.path().join("a.sock").display().to_string()
    }
}

fn status() -> Value {
    json!({
        "role": "provider", "version": "0.1.0", "is_draining": false, "sessions_total": 3,
        "backend": {"reason": "none configured", "backends": []},
        "sessions": [{"client": "laptop", "state": "up", "addresses": {"ipv4": ["10.85.0.2", 16]}}],
    })
}

#[test]
fn what_runs_is_shown_in_each_form() {
    let stage = Stage::new();
    let socket = stage.socket();
    for (verb, expected) in [
        (&["metrics"][..], "quell_sessions{state=\"up\"} 1\n"),
        (&["show", "dump"], "session\tlaptop\tup\t10.85.0.2\t"),
        (
            &["top", "--once", "--interval", "100ms"],
            "quell provider 0.1.0   serving, 1 session\n",
        ),
        (&["drain"], "it drains: 1 session told to go\n"),
    ] {
        let arguments = [verb, &["--socket", &socket]].concat();
        let (exit, out, err) = quell(&arguments);
        assert_eq!(exit, Exit::Done, "{err}");
        assert!(out.contains(expected), "{out}");
    }
}

#[test]
fn a_reload_that_is_refused_fails_with_the_words() {
    let stage = Stage::new();
    let (exit, out, err) = quell(&["reload", "--socket", &stage.socket()]);
    assert_eq!((exit, out.as_str()), (Exit::Failed, ""));
    assert_eq!(
        err,
        "error: quell answered: cannot change while it runs: listen\n"
    );
}

#[test]
fn metrics_are_put_in_place_whole_and_for_all_to_read() {
    use std::os::unix::fs::MetadataExt as _;
    let stage = Stage::new();
    let file = stage.folder.path().join("quell.prom");
    std::fs::write(&file, "old").unwrap();
    let (exit, out, err) = quell(&[
        "metrics",
        "--socket",
        &stage.socket(),
        "--out",
        &file.display().to_string(),
    ]);
    assert_eq!((exit, out.as_str()), (Exit::Done, ""), "{err}");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("# HELP quell_info")
    );
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o644);
    // Nothing else is left in the folder that a collector reads.
    let names = std::fs::read_dir(stage.folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names
        .filter(|name| name.starts_with('.') && !name.contains("sock"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_file_that_is_wrong_is_the_doctors_first_problem() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client.toml");
    std::fs::write(&file, "nonsense").unwrap();
    let file = file.display().to_string();
    let (exit, out, _) = quell(&["doctor", &file, "--json"]);
    assert_eq!(exit, Exit::Failed);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["worst"], "problem");
    assert_eq!(found["findings"][0]["check"], "config");
    assert!(found["findings"][0]["todo"].is_string(), "{out}");
}

#[test]
fn the_doctor_looks_at_everything_where_no_file_is_named() {
    let (_, out, _) = quell(&["doctor", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    let checks: Vec<_> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["check"].as_str().unwrap())
        .collect();
    for check in [
        "tun", "ecn", "mtu", "clock", "ports", "ping", "family", "backend", "dns", "files", "nft",
        "folders",
    ] {
        assert!(checks.contains(&check), "no {check} in {checks:?}");
    }
}

#[test]
fn shells_and_man_know_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let (exit, out, err) = quell(&["completions", shell]);
        assert_eq!(exit, Exit::Done, "{err}");
        assert!(out.contains("bugreport"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    let (exit, _, err) = quell(&["man", "--out", &pages.display().to_string()]);
    assert_eq!(exit, Exit::Done, "{err}");
    for page in ["quell.1", "quell-up.1", "quell-show-dump.1", "quell-top.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn a_report_of_nothing_that_runs_is_one_too() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no.sock").display().to_string();
    let out = folder.path().join("report.txt").display().to_string();
    let (exit, said, err) = quell(&["bugreport", "--socket", &nowhere, "--out", &out]);
    assert_eq!(exit, Exit::Done, "{err}");
    assert!(said.contains("read it before you send it"), "{said}");
    let report = std::fs::read_to_string(&out).unwrap();
    assert!(
        report.contains("== status\nnothing answers on "),
        "{report}"
    );
    // A report that is there is not written over.
    let (exit, _, _) = quell(&["bugreport", "--socket", &nowhere, "--out", &out]);
    assert_eq!(exit, Exit::Failed);
}
