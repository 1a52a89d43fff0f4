//! `quell sim` as a shell sees it: arguments in, exit code and two streams out.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use quell_cli::{Exit, Streams};
use roxmltree::{Document, ParsingOptions};
use serde_json::Value;

struct Said {
    exit: Exit,
    out: String,
    err: String,
}

fn sim(args: &[&str]) -> Said {
    let args = ["quell", "sim"].iter().chain(args).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = quell_cli::run(
        args,
        &mut Streams {
            input: &mut std::io::empty(),
            out: &mut out,
            err: &mut err,
        },
    );
    Said {
        exit,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// What is asked wrongly: 2, one line, and no result.
fn refused(args: &[&str]) -> String {
    let said = sim(args);
    assert_eq!(said.exit, Exit::Usage, "{args:?}: {}{}", said.out, said.err);
    assert_eq!(said.out, "");
    said.err
}

fn object(args: &[&str]) -> Value {
    let said = sim(args);
    assert_eq!(said.exit, Exit::Done, "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

fn policy<'a>(object: &'a Value, name: &str) -> &'a Value {
    let policies = object["policies"].as_array().unwrap();
    policies
        .iter()
        .find(|policy| policy["policy"] == name)
        .unwrap()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_there_is_can_be_listed_and_read() {
    let said = sim(&["list"]);
    assert_eq!(said.exit, Exit::Done);
    for words in [
        "ack-blackout ",
        "fleet-outage ",
        "quell ",
        "upstream-2026-08 ",
        "report-claim ",
    ] {
        assert!(
            said.out.contains(&format!("  {words}")),
            "{words} in {}",
            said.out
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let text = sim(&["list", "ack-blackout-one"]).out;
    let own = write(folder.path(), "own.toml", &text);
    let (named, own) = (
        sim(&["run", "ack-blackout-one", "--json"]),
        sim(&["run", &own, "--json"]),
    );
    assert_eq!(named.exit, Exit::Done, "{}", named.err);
    assert_eq!(
        named.out, own.out,
        "a text that is printed is the one that is run"
    );
    assert!(refused(&["list", "no-such"]).contains("no-such"));
}

#[test]
fn one_object_has_a_list_of_policies() {
    let object = object(&["compare", "ack-blackout-one", "--policy", "all", "--json"]);
    assert_eq!(object["scenario"], "ack-blackout-one");
    assert_eq!(object["ok"], true);
    for policy in object["policies"].as_array().unwrap() {
        assert!(policy["policy"].is_string());
        assert!(policy["max_sends_of_one_pack"].is_u64());
        assert!(policy["copies_per_pack"].is_number());
        let bytes = policy["udp_bytes_out"].as_object().unwrap();
        let total = bytes["total"].as_u64().unwrap();
        let parts = bytes.iter().filter(|(name, _)| *name != "total");
        assert_eq!(
            parts.map(|(_, value)| value.as_u64().unwrap()).sum::<u64>(),
            total
        );
        assert!(total > 0);
        for quantile in ["p50", "p99", "max"] {
            assert!(policy["recovery_ms"][quantile].is_u64());
        }
    }
}

// the counts of the reference: a pack whose acknowledgements are lost for 91 s.
#[test]
fn the_counts_of_the_reference_come_out() {
    let all = object(&["compare", "ack-blackout-one", "--json"]);
    for (name, sends) in [
        ("upstream-2026-05", 30),
        ("upstream-2026-08", 12),
        ("upstream-2026-08-unreliable", 47),
        ("report-claim", 600),
        ("report-fix", 17),
    ] {
        assert_eq!(policy(&all, name)["max_sends_of_one_pack"], sends, "{name}");
    }
    assert!(
        policy(&all, "quell")["max_sends_of_one_pack"]
            .as_u64()
            .unwrap()
            <= 17
    );
    let cold = object(&[
        "run",
        "ack-blackout-cold",
        "--policy",
        "upstream-2026-08",
        "--json",
    ]);
    assert_eq!(
        policy(&cold, "upstream-2026-08")["max_sends_of_one_pack"],
        9
    );
    let raced = object(&[
        "run",
        "ack-blackout",
        "--policy",
        "upstream-2026-05,upstream-2026-08",
        "--json",
    ]);
    assert_eq!(
        policy(&raced, "upstream-2026-05")["max_sends_of_one_pack"],
        15
    );
    assert_eq!(
        policy(&raced, "upstream-2026-08")["max_sends_of_one_pack"],
        8
    );
}

#[test]
fn the_same_seed_is_the_same_bytes_whatever_the_threads() {
    let run = |seed: &str, threads: &str| {
        let args = [
            "compare",
            "asymmetric-down",
            "provider-death",
            "--policy",
            "quell,upstream-2026-08",
        ];
        let rest = [
            "--clients",
            "12",
            "--json",
            "--seed",
            seed,
            "--threads",
            threads,
        ];
        let said = sim(&[args.as_slice(), &rest].concat());
        assert_eq!(said.exit, Exit::Done, "{}", said.err);
        said.out
    };
    let one = run("7", "1");
    assert_eq!(one, run("7", "1"));
    assert_eq!(one, run("7", "3"));
    assert_ne!(one, run("8", "1"));
    let object: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(object["scenarios"].as_array().unwrap().len(), 2);
}

#[test]
fn a_broken_bound_ends_with_1_after_all_is_written() {
    let run = |bound: &str| sim(&["run", "ack-blackout-one", "--bound", bound, "--json"]);
    let sends =
        object(&["run", "ack-blackout-one", "--json"])["policies"][0]["max_sends_of_one_pack"]
            .as_u64()
            .unwrap();
    let holds = run(&format!("max_sends_of_one_pack={sends}"));
    assert_eq!((holds.exit, holds.err.as_str()), (Exit::Done, ""));
    let broken = run("outage_bytes_max=1");
    assert_eq!(broken.exit, Exit::Failed);
    assert_eq!(
        broken.err,
        "error: out of bounds: outage_bytes_max of quell in ack-blackout-one\n"
    );
    let object: Value = serde_json::from_str(&broken.out).unwrap();
    assert_eq!(object["ok"], false);
}

#[test]
fn bounds_are_quells_and_of_others_where_quell_is_not() {
    let run = |policies: &str, bounds: &[&str]| {
        let mut args = vec!["run", "ack-blackout-one", "--policy", policies];
        for bound in bounds {
            args.extend(["--bound", bound]);
        }
        sim(&args).exit
    };
    // Its own bound of 17 sends is not the claim's.
    assert_eq!(run("report-claim", &[]), Exit::Done);
    assert_eq!(
        run("report-claim", &["max_sends_of_one_pack=600"]),
        Exit::Done
    );
    assert_eq!(
        run("report-claim", &["max_sends_of_one_pack=599"]),
        Exit::Failed
    );
    assert_eq!(
        run("quell,report-claim", &["max_sends_of_one_pack=599"]),
        Exit::Done
    );
}

#[test]
fn a_page_is_written_and_says_how_to_make_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it's a page.html");
    let args = [
        "compare",
        "ack-blackout-one",
        "ack-blackout-cold",
        "--policy",
        "quell,report-fix",
        "--html",
    ];
    let said = sim(&[args.as_slice(), &[path.to_str().unwrap()]].concat());
    assert_eq!(said.exit, Exit::Done, "{}", said.err);
    assert!(said.err.contains("it's a page.html"));
    let again =
        "quell sim compare ack-blackout-one ack-blackout-cold --policy quell,report-fix --seed 1";
    assert!(
        said.out.ends_with(&format!("again: {again}\n")),
        "{}",
        said.out
    );
    let text = fs::read_to_string(&path).unwrap();
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let page = Document::parse_with_options(&text, options).unwrap();
    let is = |name: &'static str| {
        page.descendants()
            .filter(move |node| node.has_tag_name(name))
    };
    assert!(is("pre").any(|node| node.text() == Some(again)));
    assert_eq!(is("svg").count(), 2 * (4 + 2));
    let refused = sim(&[
        "run",
        "quiet",
        "--html",
        folder.path().join("no/page").to_str().unwrap(),
    ]);
    assert_eq!(refused.exit, Exit::Failed);
    assert!(
        refused.err.contains("--html FILE") && refused.out.is_empty(),
        "{}",
        refused.err
    );
}

// what the README shows of the simulator is what a newcomer gets.
#[test]
fn the_commands_of_the_readme_run() {
    let readme = include_str!("../../../README.md");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("outage.html");
    let commands: Vec<_> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("    quell sim "))
        .collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let args = command.replace("outage.html", page.to_str().unwrap());
        let args: Vec<_> = args.split_whitespace().collect();
        let said = sim(&args);
        assert_eq!(said.exit, Exit::Done, "{command}: {}{}", said.out, said.err);
    }
    assert!(page.exists());
}

#[test]
fn csv_has_eight_columns() {
    let said = sim(&["run", "ack-blackout-one", "--csv"]);
    assert_eq!(said.exit, Exit::Done);
    assert!(said.out.lines().count() > 100);
    assert!(said.out.lines().all(|line| line.split(',').count() == 8));
    assert!(refused(&["run", "quiet", "--csv", "--json"]).contains("--csv"));
}

#[test]
fn what_is_asked_wrongly_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = |text: &str| write(folder.path(), "own.toml", text);
    assert!(
        refused(&["run", "no-such"]).contains("ack-blackout-one"),
        "says what there is"
    );
    assert!(refused(&["run", "quiet", "--policy", "no-such"]).contains("upstream-2026-08"));
    assert!(refused(&["run", "quiet", "--policy", ""]).contains("no policy"));
    assert!(
        refused(&["run", "quiet", "--clients", "0"])
            .contains("fleet.clients = 0: allowed is 1 to 1000000")
    );
    assert!(refused(&["run", "quiet", "--providers", "10001"]).contains("fleet.providers"));
    assert!(
        refused(&["run", "cascade", "--providers", "1"])
            .contains("fault[0].whom = 1: allowed is 0 to 0")
    );
    assert!(refused(&["run", "quiet", "--threads", "0"]).contains("--threads"));
    assert!(refused(&["run", "quiet", "--bound", "lost_items_max"]).contains("KEY=VALUE"));
    assert!(refused(&["run", "quiet", "--bound", "losses=1"]).contains("lost_items_max"));
    assert!(refused(&["run"]).contains("SCENARIO"));
    assert!(refused(&["compare"]).contains("SCENARIO"));
    let own = scenario("name = \"a\"\nsummary = \"b\"\nduration = \"8d\"\n");
    let error = refused(&["run", &own]);
    assert!(
        error.contains("own.toml: duration = 691200s") && error.lines().count() == 1,
        "{error}"
    );
    let own = scenario("name = \n");
    assert!(refused(&["run", &own]).contains("line 1"));
    let bytes = folder.path().join("bytes");
    fs::write(&bytes, [0xff, 0xfe]).unwrap();
    assert!(refused(&["run", bytes.to_str().unwrap()]).contains("utf-8"));
    let folder = folder.path().to_str().unwrap();
    assert_eq!(refused(&["run", folder]).lines().count(), 1);
}

fn keyed(folder: &Path, example: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = fs::read_to_string(examples.join(example)).unwrap();
    let key = folder.join("own.key");
    if !key.exists() {
        let args = ["quell", "keygen", "--out", key.to_str().unwrap()].map(OsString::from);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let streams = &mut Streams {
            input: &mut std::io::empty(),
            out: &mut out,
            err: &mut err,
        };
        assert_eq!(quell_cli::run(args, streams), Exit::Done);
    }
    let lines = text
        .lines()
        .map(|line| match line.starts_with("private_key_file") {
            true => "private_key_file = \"own.key\"",
            false => line,
        });
    let path = folder.join(example);
    fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
    path
}

#[test]
fn a_real_configuration_is_quells() {
    let folder = tempfile::tempdir().unwrap();
    let client = keyed(folder.path(), "client.toml");
    let provider = keyed(folder.path(), "provider.toml");
    let (client, provider) = (client.to_str().unwrap(), provider.to_str().unwrap());
    let run = |args: &[&str]| object(&[&["run", "quiet", "--json"], args].concat());
    let usual = run(&[]);
    let text = fs::read_to_string(client).unwrap();
    let changed = text.replace(
        "keepalive_interval = \"20s\"",
        "keepalive_interval = \"10s\"",
    );
    assert_ne!(changed, text);
    let busy = write(folder.path(), "busy.toml", &changed);
    let pings = |object: &Value| {
        object["policies"][0]["udp_bytes_out"]["ping"]
            .as_u64()
            .unwrap()
    };
    let twice = run(&["--config", &busy, "--config", provider]);
    assert!(
        pings(&twice) > pings(&usual),
        "{} {}",
        pings(&twice),
        pings(&usual)
    );
    let twice = refused(&["run", "quiet", "--config", client, "--config", client]);
    assert!(twice.contains("one client's and one provider's"), "{twice}");
    let unused = ["run", "quiet", "--policy", "report-fix", "--config", client];
    assert!(refused(&unused).contains("--config is for quell"));
    let none = folder.path().join("none.toml");
    assert!(refused(&["run", "quiet", "--config", none.to_str().unwrap()]).contains("none.toml"));
}
