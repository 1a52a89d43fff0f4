//! Both sides of each range, what belongs to which kind, and that any text is a scenario or an error.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);

/// A scenario of 100 s with these tables, and these keys at the top.
fn text(top: &str, tables: &str) -> String {
    let has = |key: &str| top.contains(key);
    let mut text = String::new();
    for (key, line) in [
        ("name", "name = \"a\"\n"),
        ("summary", "summary = \"b\"\n"),
        ("duration", "duration = \"100s\"\n"),
    ] {
        if !has(key) {
            text += line;
        }
    }
    format!("{text}{top}\n{tables}")
}

fn read(top: &str, tables: &str) -> Result<Scenario, ScenarioError> {
    Scenario::from_toml(&text(top, tables))
}

fn error(tables: &str) -> String {
    read("", tables).unwrap_err().to_string()
}

fn fault(rest: &str) -> String {
    format!("[[fault]]\nat = \"10s\"\nuntil = \"20s\"\n{rest}\n")
}

/// Each holds with the first value, and not with the second; the error names the key.
fn both_sides(before: &str, key: &str, pairs: &[(&str, &str)]) {
    for (good, bad) in pairs {
        let with = |value: &str| read("", &format!("{before}\n{key} = {value}\n"));
        assert!(with(good).is_ok(), "{key} = {good}: {:?}", with(good));
        let error = with(bad).expect_err(&format!("{key} = {bad}")).to_string();
        assert!(error.contains(key), "{key} in {error}");
        assert!(error.contains("allowed is"), "{error}");
    }
}

#[test]
fn the_library_is_read_and_each_says_what_it_shows() {
    for Named { name, text } in library() {
        let scenario = Scenario::from_toml(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&scenario.name, name);
        assert!(about(text).len() > 80, "{name} says what it shows");
        assert!(
            scenario.fault.is_empty() || scenario.healed_at() < scenario.duration,
            "{name} sees to what recovers"
        );
    }
    let mut names: Vec<_> = library().iter().map(|named| named.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), library().len());
    assert_eq!(named("quiet").map(|named| named.name), Some("quiet"));
    assert_eq!(named("no-such"), None);
}

#[test]
fn a_text_says_what_it_is_about_before_its_first_key() {
    assert_eq!(about("# a  b\n#\n#c\nx = 1\n# d"), "a b c");
    assert_eq!(about("x = 1\n# d"), "");
}

#[test]
fn the_field_scenario_is_of_the_size_that_was_reported() {
    let scenario = Scenario::from_toml(named("fleet-outage").unwrap().text).unwrap();
    assert_eq!(
        (scenario.fleet.clients, scenario.fleet.providers),
        (100_000, 500)
    );
    assert_eq!(scenario.duration, 3_600 * S);
    assert_eq!(
        scenario.healed_at() - scenario.breaks_at().unwrap(),
        1_200 * S
    );
}

#[test]
fn what_is_written_is_read_again() {
    for Named { name, text } in library() {
        let scenario = Scenario::from_toml(text).unwrap();
        let written = scenario.to_toml().unwrap();
        assert_eq!(
            Scenario::from_toml(&written).unwrap(),
            scenario,
            "{name}:\n{written}"
        );
    }
    let all = check::kinds::FAULT.iter().map(|kind| {
        let own = match *kind {
            "rolling-restart" => "away = \"5s\"",
            "backend-slow" => "answer_time = \"14s\"",
            "backend-unavailable" => "retry_after = \"30s\"\nflap = \"2s\"",
            "backend-fails" => "part = 0.5",
            "backend-fails-one" => "work = \"contract\"",
            "clock-off" => "seconds = -3600\nwhom = [0]",
            _ => "whom = \"50%\"",
        };
        fault(&format!("kind = \"{kind}\"\n{own}"))
    });
    let scenario = read("", &all.collect::<String>()).unwrap();
    let names: Vec<_> = scenario
        .fault
        .iter()
        .map(|fault| fault.kind.name())
        .collect();
    assert_eq!(names, check::kinds::FAULT);
    assert_eq!(
        Scenario::from_toml(&scenario.to_toml().unwrap()).unwrap(),
        scenario
    );
}

#[test]
fn the_least_that_is_a_scenario() {
    let scenario = read("", "").unwrap();
    assert_eq!(scenario.fleet, Fleet::default());
    assert_eq!(scenario.path, PathModel::default());
    assert_eq!(scenario.backend, BackendModel::default());
    assert_eq!(scenario.bounds, Bounds::default());
    for key in ["name", "summary", "duration"] {
        let text: String = text("", "")
            .lines()
            .filter(|line| !line.starts_with(key))
            .collect::<Vec<_>>()
            .join("\n");
        let error = Scenario::from_toml(&text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{key} = (not there): allowed is ")),
            "{error}"
        );
    }
}

#[test]
fn an_error_names_key_value_and_range() {
    assert_eq!(
        error("[fleet]\nclients = 0"),
        "fleet.clients = 0: allowed is 1 to 1000000"
    );
    assert_eq!(
        error("[fleet]\nclients = \"many\""),
        "fleet.clients = \"many\": allowed is 1 to 1000000"
    );
    assert_eq!(
        error(
            &(fault("kind = \"acks-lost\"") + &fault("kind = \"acks-lost\"\ndirection = \"up\""))
        ),
        "fault[1].direction = \"up\": allowed is no such key here, but kind, at, until, whom, flap"
    );
    assert_eq!(
        error("[fleet]\nclient = 1"),
        "fleet.client = 1: allowed is no such key here, but clients, providers, catalog, backends, start_over, \
         provider_handshakes_per_s, provider_dials_per_s_max, provider_sessions_max, provider_restart"
    );
    assert_eq!(
        error("[[work]]\nkind = \"burst\"\nat = \"1s\"\nlen_bytes = 40"),
        "work[0].packets = (not there): allowed is 1 to 100000"
    );
    assert_eq!(
        error("[[work]]\nkind = \"poem\""),
        "work[0].kind = poem: allowed is messages, burst, stream"
    );
    assert_eq!(
        error("work = 3"),
        "work = 3: allowed is tables, each begun by [[work]]"
    );
    let error = Scenario::from_toml("name = \"a\"\nsummary = \n").unwrap_err();
    assert!(
        matches!(error, ScenarioError::Syntax { line: 2, .. }),
        "{error}"
    );
}

#[test]
fn no_error_is_longer_than_a_line_or_gives_a_terminal_orders() {
    for value in [
        format!("\"{}\"", "x".repeat(5_000)),
        "\"\\u001b[2J\\n\"".to_owned(),
    ] {
        for key in ["kind", "whom", "direction", "at"] {
            let fault = format!("[[fault]]\n{key} = {value}\n");
            let kind = if key == "kind" {
                ""
            } else {
                "kind = \"blackhole\"\n"
            };
            let at = if key == "at" { "" } else { "at = \"1s\"\n" };
            let error = error(&format!("{fault}{kind}{at}until = \"2s\""));
            assert!(error.chars().count() < 400, "{error}");
            assert!(!error.chars().any(char::is_control), "{error:?}");
        }
    }
}

#[test]
fn a_text_has_a_longest_length() {
    let least = text("", "");
    let padded = |len: usize| format!("{least}#{}", " ".repeat(len - least.len() - 1));
    assert!(Scenario::from_toml(&padded(TEXT_BYTES_MAX)).is_ok());
    let error = Scenario::from_toml(&padded(TEXT_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(
        error,
        ScenarioError::TooLong {
            bytes: TEXT_BYTES_MAX + 1
        }
    );
}

#[test]
fn names_summaries_and_durations() {
    let long = |len: usize| format!("\"{}\"", "a".repeat(len));
    let top = |key: &str, value: &str| read(&format!("{key} = {value}"), "");
    for (key, good, bad) in [
        ("name", long(64), long(65)),
        ("name", "\"a-9\"".to_owned(), "\"a_9\"".to_owned()),
        ("name", "\"a\"".to_owned(), "\"\"".to_owned()),
        ("name", "\"a\"".to_owned(), "\"A\"".to_owned()),
        ("summary", long(200), long(201)),
        ("summary", "\"ä\"".to_owned(), "\"a\\nb\"".to_owned()),
        ("duration", "\"1s\"".to_owned(), "\"999ms\"".to_owned()),
        ("duration", "\"7d\"".to_owned(), "\"7d 1ms\"".to_owned()),
        ("duration", "\"5m\"".to_owned(), "300".to_owned()),
    ] {
        assert!(top(key, &good).is_ok(), "{key} = {good}");
        assert!(top(key, &bad).is_err(), "{key} = {bad}");
    }
}

/// What the document's tables name is what a scenario may hold, and the other way around.
#[test]
fn the_document_names_every_key() {
    let document = include_str!("../../../../docs/simulator.md");
    for kind in check::kinds::WORK.iter().chain(check::kinds::FAULT) {
        assert!(document.contains(&format!("\n| `{kind}` |")), "{kind}");
    }
    for (table, prefix) in [
        ("fleet", "fleet."),
        ("path", "path."),
        ("backend", "backend."),
        ("bounds", ""),
        ("bars", "bars."),
    ] {
        // The error about a key that nobody knows lists those that somebody does.
        let error = error(&format!("[{table}]\nno_such_key = 1"));
        let (_, keys) = error.split_once("but ").unwrap();
        for key in keys.split(", ") {
            assert!(
                document.contains(&format!("\n| `{prefix}{key}` |")),
                "{prefix}{key}"
            );
        }
    }
}

#[test]
fn ranges_of_the_fleet() {
    both_sides(
        "[fleet]",
        "clients",
        &[("1", "0"), ("1_000_000", "1_000_001"), ("2", "-2")],
    );
    both_sides(
        "[fleet]",
        "providers",
        &[("1", "0"), ("10_000", "10_001"), ("3", "70_000")],
    );
    both_sides("[fleet]", "catalog", &[("1", "0"), ("32", "33")]);
    both_sides("[fleet]", "backends", &[("0", "-1"), ("4", "5")]);
    both_sides(
        "[fleet]",
        "start_over",
        &[("\"0s\"", "\"-1s\""), ("\"100s\"", "\"101s\"")],
    );
    both_sides(
        "[fleet]",
        "provider_handshakes_per_s",
        &[("1", "0"), ("10_000_000", "10_000_001")],
    );
    both_sides(
        "[fleet]",
        "provider_dials_per_s_max",
        &[("1", "0"), ("10_000_000", "10_000_001")],
    );
    both_sides(
        "[fleet]",
        "provider_sessions_max",
        &[("1", "0"), ("1_000_000", "1_000_001")],
    );
    both_sides(
        "[fleet]",
        "provider_restart",
        &[("\"1ms\"", "\"0s\""), ("\"1d\"", "\"1d 1s\"")],
    );
}

#[test]
fn ranges_of_path_and_backend() {
    both_sides(
        "[path]",
        "rtt",
        &[("\"0s\"", "0"), ("\"10s\"", "\"10001ms\"")],
    );
    both_sides(
        "[path]\nrtt = \"50ms\"",
        "jitter",
        &[("\"25ms\"", "\"26ms\"")],
    );
    both_sides(
        "[path]",
        "loss",
        &[("0", "-0.1"), ("1.0", "1.1"), ("0.5", "nan"), ("1", "inf")],
    );
    both_sides(
        "[path]",
        "rate_bits_per_s",
        &[("1_000", "999"), ("100_000_000_000", "100_000_000_001")],
    );
    both_sides("[path]", "queue", &[("\"10s\"", "\"10001ms\"")]);
    both_sides(
        "[backend]",
        "answer_time",
        &[("\"0s\"", "true"), ("\"10m\"", "\"601s\"")],
    );
    both_sides(
        "[backend]",
        "requests_per_s_max",
        &[("1", "0"), ("10_000_000", "10_000_001")],
    );
    both_sides(
        "[backend]",
        "demand_interval",
        &[("\"1s\"", "\"999ms\""), ("\"1d\"", "\"1d 1s\"")],
    );
}

#[test]
fn ranges_of_works() {
    let messages = "[[work]]\nkind = \"messages\"\nlen_bytes = 40";
    both_sides(
        messages,
        "every",
        &[("\"1ms\"", "\"999us\""), ("\"1d\"", "\"1d 1s\"")],
    );
    let messages = "[[work]]\nkind = \"messages\"\nevery = \"1s\"";
    both_sides(messages, "len_bytes", &[("40", "39"), ("1_400", "1_401")]);
    let messages = format!("{messages}\nlen_bytes = 40");
    both_sides(
        &messages,
        "answer_bytes",
        &[("0", "1"), ("40", "39"), ("1_400", "1_401")],
    );
    let burst = "[[work]]\nkind = \"burst\"\nlen_bytes = 40";
    both_sides(
        &format!("{burst}\nat = \"1s\""),
        "packets",
        &[("1", "0"), ("100_000", "100_001")],
    );
    both_sides(
        &format!("{burst}\npackets = 1"),
        "at",
        &[("\"100s\"", "\"100001ms\"")],
    );
    let stream = "[[work]]\nkind = \"stream\"\nlen_bytes = 40\nat = \"10s\"";
    both_sides(
        &format!("{stream}\nbits_per_s = 8_000"),
        "until",
        &[("\"10001ms\"", "\"10s\""), ("\"100s\"", "\"100001ms\"")],
    );
    both_sides(
        &format!("{stream}\nuntil = \"11s\""),
        "bits_per_s",
        &[("1_000", "999"), ("10_000_000_000", "100_000_000_001")],
    );
}

#[test]
fn how_many_works_faults_and_packets_there_may_be() {
    let many = |count: usize, what: &str| read("", &what.repeat(count));
    let work = "[[work]]\nkind = \"burst\"\nat = \"1s\"\npackets = 1\nlen_bytes = 40\n";
    assert!(many(16, work).is_ok() && many(17, work).is_err());
    let acks = fault("kind = \"acks-lost\"");
    assert!(many(256, &acks).is_ok() && many(257, &acks).is_err());
    // 90 s at 32 bits a packet of 40 bytes: 320 bits.
    let stream = |bits: u64| {
        let stream = "[[work]]\nkind = \"stream\"\nlen_bytes = 40\nat = \"0s\"\nuntil = \"100s\"";
        read("", &format!("{stream}\nbits_per_s = {bits}"))
    };
    assert!(stream(319_999_999).is_ok());
    let error = stream(320_000_000).unwrap_err().to_string();
    assert_eq!(
        error,
        "work = 100000001 packets of each client: allowed is at most 100000000"
    );
}

#[test]
fn ranges_of_faults() {
    let kind = |kind: &str| fault(&format!("kind = \"{kind}\""));
    both_sides(&kind("rolling-restart"), "away", &[("\"1ms\"", "\"0s\"")]);
    let away = |away: &str| {
        read(
            "",
            &(kind("rolling-restart") + &format!("away = \"{away}\"")),
        )
    };
    assert!(away("80s").is_ok());
    let error = away("80001ms").unwrap_err().to_string();
    assert!(
        error.starts_with("fault[0].until = 20s, over at 100.001s"),
        "{error}"
    );
    both_sides(
        &kind("backend-slow"),
        "answer_time",
        &[("\"0s\"", "1"), ("\"10m\"", "\"601s\"")],
    );
    both_sides(
        &kind("backend-unavailable"),
        "retry_after",
        &[("\"1d\"", "\"1d 1s\"")],
    );
    both_sides(
        &kind("backend-fails"),
        "part",
        &[("0", "-0.01"), ("1", "1.01"), ("0.5", "nan")],
    );
    both_sides(
        &kind("backend-fails-one"),
        "work",
        &[("\"auth\"", "\"probe\""), ("\"catalog\"", "\"\"")],
    );
    both_sides(
        &kind("clock-off"),
        "seconds",
        &[("-86_400", "-86_401"), ("86_400", "86_401")],
    );
    both_sides(
        &kind("blackhole"),
        "direction",
        &[
            ("\"both\"", "\"left\""),
            ("\"up\"", "1"),
            ("\"down\"", "\"\""),
        ],
    );
    both_sides(
        &kind("acks-lost"),
        "flap",
        &[("\"100ms\"", "\"99ms\""), ("\"10s\"", "\"10001ms\"")],
    );
    assert!(
        self::error(&(kind("rolling-restart") + "away = \"1s\"\nflap = \"1s\""))
            .starts_with("fault[0].flap = 1s")
    );
    let times = |at: &str, until: &str| {
        read(
            "",
            &format!("[[fault]]\nkind = \"acks-lost\"\nat = \"{at}\"\nuntil = \"{until}\""),
        )
    };
    assert!(times("99s", "100s").is_ok());
    assert!(times("99s", "100001ms").is_err(), "is over in the run");
    assert!(times("99s", "99s").is_err() && times("99s", "98s").is_err());
}

#[test]
fn whom_a_fault_befalls_exists() {
    let whom = |kind: &str, whom: &str| {
        let fleet = "[fleet]\nclients = 5\nproviders = 3\nbackends = 2\n";
        read(
            "",
            &format!(
                "{fleet}{}",
                fault(&format!("kind = \"{kind}\"\nwhom = {whom}"))
            ),
        )
    };
    for (kind, last) in [("blackhole", 2), ("suspend", 4), ("backend-silent", 1)] {
        assert!(whom(kind, &format!("[0, {last}]")).is_ok(), "{kind}");
        let error = whom(kind, &format!("[{}]", last + 1))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!("fault[0].whom = {}: allowed is 0 to {last}", last + 1)
        );
    }
    for (good, bad) in [
        ("\"all\"", "\"some\""),
        ("\"1%\"", "\"0%\""),
        ("\"100%\"", "\"101%\""),
        ("\"50%\"", "\"+50%\""),
        ("\"50%\"", "\"50\""),
        ("\"50%\"", "\"%\""),
        ("[0]", "[]"),
        ("[0]", "[-1]"),
        ("[0]", "[\"0\"]"),
        ("[0]", "0"),
    ] {
        assert!(whom("suspend", good).is_ok(), "{good}");
        let error = whom("suspend", bad).expect_err(bad).to_string();
        assert!(error.starts_with("fault[0].whom = "), "{error}");
    }
    let error = error(&format!(
        "[fleet]\nbackends = 0\n{}",
        fault("kind = \"backend-silent\"")
    ));
    assert!(
        error.starts_with("fault[0].kind = backend-silent: allowed is a kind that"),
        "{error}"
    );
}

#[test]
fn a_part_is_the_first_ones_rounded_up() {
    let part = |text: &str, of: u32| {
        let members = Whom::Part(text.to_owned()).members(of);
        let listed: Vec<_> = members.iter().collect();
        assert!((0..of + 2).all(|n| members.contains(n) == listed.contains(&n)));
        listed
    };
    assert_eq!(part("all", 3), [0, 1, 2]);
    assert_eq!(part("50%", 5), [0, 1, 2]);
    assert_eq!(part("50%", 4), [0, 1]);
    assert_eq!(part("1%", 4), [0]);
    assert_eq!(part("100%", 2), [0, 1]);
    let these = Whom::These(vec![3, 0, 3, 9]).members(4);
    assert_eq!(these.iter().collect::<Vec<_>>(), [0, 3]);
    assert!(these.contains(3) && !these.contains(1) && !these.contains(9));
}

#[test]
fn a_fault_acts_from_at_until_before_until() {
    let scenario = read("", &fault("kind = \"acks-lost\"")).unwrap();
    let fault = &scenario.fault[0];
    let times = [9_999, 10_000, 19_999, 20_000].map(Duration::from_millis);
    assert_eq!(times.map(|t| fault.acts_at(t)), [false, true, true, false]);
    assert_eq!(
        times.map(|t| scenario.broken_at(t)),
        [false, true, true, false]
    );
    assert_eq!(
        (scenario.breaks_at(), scenario.healed_at()),
        (Some(10 * S), 20 * S)
    );
    let changes = [0, 10, 20].map(|s| scenario.next_change_after(s * S));
    assert_eq!(changes, [Some(10 * S), Some(20 * S), None]);
}

#[test]
fn what_flaps_acts_in_the_first_half_of_each_period_and_is_broken_all_the_time() {
    let scenario = read("", &fault("kind = \"acks-lost\"\nflap = \"4s\"")).unwrap();
    let acts: Vec<_> = (9..21).map(|s| scenario.fault[0].acts_at(s * S)).collect();
    let [o, x] = [false, true];
    assert_eq!(acts, [o, x, x, o, o, x, x, o, o, x, x, o]);
    assert!((10..20).all(|s| scenario.broken_at(s * S)) && !scenario.broken_at(20 * S));
    let mut changes = vec![Duration::ZERO];
    while let Some(next) = scenario.next_change_after(changes[changes.len() - 1]) {
        changes.push(next);
    }
    assert_eq!(changes, [0, 10, 12, 14, 16, 18, 20].map(|s| s * S));
}

#[test]
fn a_rolling_restart_is_over_when_the_last_is_back() {
    let scenario = read("", &fault("kind = \"rolling-restart\"\naway = \"5s\"")).unwrap();
    assert_eq!(scenario.healed_at(), 25 * S);
    assert!(scenario.broken_at(24 * S) && !scenario.broken_at(25 * S));
    assert_eq!(scenario.next_change_after(20 * S), Some(25 * S));
    assert_eq!(
        scenario.faults_ms(),
        [("rolling-restart".to_owned(), 10_000, 25_000)]
    );
}

#[test]
fn a_shared_address_is_no_outage() {
    let scenario = read("", &fault("kind = \"shared-nat\"")).unwrap();
    assert_eq!(
        (scenario.breaks_at(), scenario.healed_at()),
        (None, Duration::ZERO)
    );
    assert!(!scenario.broken_at(15 * S) && scenario.fault[0].acts_at(15 * S));
}

#[test]
fn a_bound_is_set_by_its_key() {
    let mut bounds = Bounds::default();
    bounds.set("max_sends_of_one_pack", "17").unwrap();
    bounds.set("backend_peak_over_steady_max", "2.5").unwrap();
    bounds.set("lost_items_max", "0").unwrap();
    bounds.set("max_sends_of_one_pack", "16").unwrap();
    let expected = Bounds {
        max_sends_of_one_pack: Some(16),
        backend_peak_over_steady_max: Some(2.5),
        lost_items_max: Some(0),
        ..Bounds::default()
    };
    assert_eq!(bounds, expected);
    for (key, value) in [
        ("max_sends", "1"),
        ("max_sends_of_one_pack", "0"),
        ("max_sends_of_one_pack", "few"),
        ("backend_peak_over_steady_max", "nan"),
        ("backend_peak_over_steady_max", "-1"),
        ("lost_items_max", ""),
        ("lost_items_max", "1\nx = 2"),
    ] {
        let error = bounds.set(key, value).expect_err(value).to_string();
        assert!(error.starts_with(key), "{error}");
    }
    assert_eq!(bounds, expected, "a mistake changes nothing");
}

/// What a scenario is asked, whatever it is.
fn ask(text: &str) {
    let Ok(scenario) = Scenario::from_toml(text) else {
        return;
    };
    let mut t = Duration::ZERO;
    for _ in 0..100 {
        for fault in &scenario.fault {
            assert!(
                !fault.acts_at(t) || scenario.broken_at(t) || fault.kind == FaultKind::SharedNat
            );
            let of = fault.kind.count(&scenario.fleet);
            assert!(fault.whom.members(of).contains(0) || matches!(fault.whom, Whom::These(_)));
        }
        match scenario.next_change_after(t) {
            Some(next) => {
                assert!(next > t);
                t = next;
            }
            None => break,
        }
    }
    assert_eq!(scenario.faults_ms().len(), scenario.fault.len());
    assert!(scenario.healed_at() <= scenario.duration);
    if let Ok(written) = scenario.to_toml() {
        assert_eq!(Scenario::from_toml(&written), Ok(scenario));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_scenario_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        ask(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_scenario_with_anything_changed_is_one_or_an_error(
        which in 0..library().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..4),
    ) {
        let mut bytes = library()[which].text.as_bytes().to_vec();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte % 95 + 32),
                _ => drop(bytes.remove(at)),
            }
        }
        ask(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_line_of_one_value_in_the_place_of_another_is_one_or_an_error(
        which in 0..library().len(),
        line in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![
            "0", "-1", "9223372036854775807", "1e308", "nan", "-inf", "true", "[]", "{}", "\"\"", "\"all\"",
            "\"18446744073709551615s\"", "\"584542046090y\"", "\"1ns\"", "1979-05-27", "[[1]]", "\"50%\"",
        ]),
    ) {
        let mut lines: Vec<String> = library()[which].text.lines().map(str::to_owned).collect();
        let at = line.index(lines.len());
        if let Some((key, _)) = lines[at].clone().split_once(" = ") {
            lines[at] = format!("{key} = {value}");
        }
        ask(&lines.join("\n"));
    }
}
