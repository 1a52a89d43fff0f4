//! Reports of invented runs, read again.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use roxmltree::{Document, Node, ParsingOptions};

use super::html::{Section, page};
use super::*;
use crate::outcome::{ByCause, Quantiles, Rate, Series};
use crate::scenario::Bounds;

fn by_cause(first_send: u64, quic: u64) -> ByCause {
    ByCause {
        first_send,
        quic,
        total: first_send + quic,
        ..ByCause::default()
    }
}

fn policy(name: &str) -> PolicyOutcome {
    PolicyOutcome {
        policy: name.to_owned(),
        offered_items: 10,
        delivered_items: 9,
        doubled_items: 2,
        lost_items: 1,
        goodput_bytes: 1_800,
        first_sends: 9,
        copies_per_pack: 1.5,
        max_sends_of_one_pack: 12,
        max_copies_of_one_item: 2,
        udp_bytes_out: by_cause(2_000, 500),
        outage_bytes_out: by_cause(60_000_000, 2_914_560),
        udp_bytes_back: by_cause(0, 400),
        dials: Rate {
            total: 1_234,
            ..Rate::default()
        },
        backend_requests: Rate {
            total: 77,
            steady_per_s: 2.0,
            outage_peak_per_s: 9,
            heal_peak_per_s: 5,
        },
        recovery_ms: Quantiles {
            count: 2,
            p50: 250,
            p99: 1_250,
            max: 61_000,
        },
        series: Series {
            step_ms: 1_000,
            bytes_out: vec![by_cause(0, 0), by_cause(2_000, 100), by_cause(0, 400)],
            delivered: vec![0, 9, 0],
            dials: vec![1_000, 0, 234],
            backend_requests: vec![0, 77, 0],
        },
        ..PolicyOutcome::default()
    }
}

fn run(policies: Vec<PolicyOutcome>) -> Outcome {
    Outcome {
        scenario: "a".to_owned(),
        summary: "a < b & \"c\"".to_owned(),
        seed: 7,
        clients: 1,
        providers: 6,
        duration_ms: 3_000,
        faults_ms: vec![("it's <cut>".to_owned(), 1_000, 2_000)],
        not_modelled: vec!["Nothing & more.".to_owned()],
        bars: Vec::new(),
        policies,
    }
}

fn page_of(outcome: &Outcome, verdicts: &[Verdict]) -> String {
    let section = Section {
        outcome,
        verdicts,
        about: "Why & what.",
        scenario: "name = \"a\" # <x>",
    };
    page(&[section], "quell sim run a --seed 7 && <echo>")
}

/// The page's elements; that there are any says that it is well-formed.
fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap()
}

fn all<'a>(page: &'a Document<'a>, name: &str) -> Vec<Node<'a, 'a>> {
    let nodes = page.descendants();
    nodes.filter(|node| node.has_tag_name(name)).collect()
}

fn of_class<'a>(node: Node<'a, 'a>, class: &str) -> Vec<Node<'a, 'a>> {
    let nodes = node.descendants();
    nodes
        .filter(|node| node.attribute("class") == Some(class))
        .collect()
}

#[test]
fn a_page_says_what_was_simulated_and_loads_nothing() {
    let bounds = Bounds {
        max_sends_of_one_pack: Some(12),
        lost_items_max: Some(0),
        ..Bounds::default()
    };
    let outcome = run(vec![policy("quell"), policy("other")]);
    let text = page_of(&outcome, &verdicts(&outcome.policies[0], &bounds));
    let page = parsed(&text);
    for loaded in ["script", "link", "img", "iframe", "a"] {
        assert!(all(&page, loaded).is_empty(), "{loaded}");
    }
    assert!(!text.contains("url(") && !text.contains("@import"));
    assert!(!text.contains("href") && !text.contains("src=") && !text.contains("http"));
    let heading = all(&page, "h1")[0].text().unwrap();
    assert_eq!(heading, "quell sim, a: 1 of 3 bounds broke");
    let whole: String = page.descendants().filter_map(|node| node.text()).collect();
    for words in [
        "a < b & \"c\". 1 client, 6 providers, 3.00 s of virtual time, seed 7.",
        "quell sim run a --seed 7 && <echo>",
        "Nothing & more.",
        "Why & what.",
        "name = \"a\" # <x>",
    ] {
        assert!(whole.contains(words), "{words}");
    }
    let cells: Vec<_> = all(&page, "td").iter().filter_map(Node::text).collect();
    for cell in [
        "62.9 MB",
        "1.50",
        "12",
        "1,234",
        "5 (2.50×)",
        "250 ms",
        "1.25 s",
        "61.0 s",
        "1.80 kB",
        "BROKEN",
        "ok",
    ] {
        assert!(cells.contains(&cell), "{cell} in {cells:?}");
    }
}

#[test]
fn lines_are_told_apart_without_colour() {
    let names: Vec<String> = (0..plot::LINES_MAX).map(|n| format!("p{n}")).collect();
    let busy = |name: &String| {
        let mut policy = policy(name);
        policy.series.bytes_out = vec![by_cause(2_000, 100); 60];
        policy.series.delivered = vec![9; 60];
        policy.series.dials = vec![3; 60];
        policy.series.backend_requests = vec![77; 60];
        policy
    };
    let mut outcome = run(names.iter().map(busy).collect());
    outcome.duration_ms = 60_000;
    let text = page_of(&outcome, &[]);
    let page = parsed(&text);
    let plots = all(&page, "svg");
    assert_eq!(plots.len(), 4 + names.len());
    for plot in &plots {
        let lines = of_class(*plot, "drawn");
        let style = |node: &Node<'_, '_>| {
            let of = |name| node.attribute(name).unwrap().to_owned();
            (of("stroke-width"), of("stroke-dasharray"))
        };
        let styles: HashSet<_> = lines.iter().map(style).collect();
        // Each is there twice: drawn, and beside its name.
        assert_eq!(lines.len(), 2 * styles.len());
        assert_eq!(
            of_class(*plot, "letter").len(),
            2 * styles.len(),
            "letters find room"
        );
        assert_eq!(of_class(*plot, "fault").len(), 1);
    }
    let named = of_class(plots[0], "letter").len() / 2;
    assert_eq!(named, names.len());
    for name in names {
        assert!(
            all(&page, "text")
                .iter()
                .any(|node| node.text() == Some(&name))
        );
    }
    // No ink but the page's own.
    let style = all(&page, "style")[0].text().unwrap();
    let greys = style.match_indices('#').all(|(at, _)| {
        let digits: Vec<_> = style[at + 1..]
            .chars()
            .take_while(char::is_ascii_hexdigit)
            .collect();
        digits
            .chunks(digits.len() / 3)
            .all(|part| part == &digits[..digits.len() / 3])
    });
    assert!(greys, "{style}");
}

#[test]
fn where_policies_are_many_quell_is_in_each_plot() {
    let others = (0..plot::LINES_MAX + 4).map(|n| policy(&format!("p{n}")));
    let outcome = run(others.chain([policy("quell")]).collect());
    let text = page_of(&outcome, &[]);
    let page = parsed(&text);
    let plots = all(&page, "svg");
    let compared = &plots[..4 * 2];
    let mut seen = HashSet::new();
    for plot in compared {
        let texts = plot.descendants().filter(|node| node.has_tag_name("text"));
        let names: Vec<_> = texts
            .filter_map(|node| node.text())
            .filter(|text| outcome.policies.iter().any(|policy| policy.policy == *text))
            .collect();
        assert!(
            names.contains(&"quell") && names.len() <= plot::LINES_MAX,
            "{names:?}"
        );
        seen.extend(names);
    }
    assert_eq!(seen.len(), outcome.policies.len(), "nobody is left out");
}

#[test]
fn each_plot_can_be_read_without_being_seen() {
    let outcome = run(vec![policy("quell"), policy("other")]);
    let text = page_of(&outcome, &[]);
    let page = parsed(&text);
    let mut seen = HashSet::new();
    for plot in all(&page, "svg") {
        assert_eq!(plot.attribute("role"), Some("img"));
        for label in plot.attribute("aria-labelledby").unwrap().split(' ') {
            assert!(seen.insert(label), "{label} is unique");
            let node = plot
                .children()
                .find(|node| node.attribute("id") == Some(label));
            assert!(!node.unwrap().text().unwrap().is_empty());
        }
    }
    assert!(text.contains("quell: 2.10 kB at most; other: 2.10 kB at most; it&#39;s &lt;cut&gt; from 1.00 s to 2.00 s."));
}

#[test]
fn a_run_of_which_nothing_is_known_is_a_report_all_the_same() {
    let mut odd = policy("odd");
    odd.copies_per_pack = f64::NAN;
    odd.backend_requests.steady_per_s = 0.0;
    odd.recovery_ms = Quantiles::default();
    odd.series = Series {
        step_ms: u64::MAX,
        bytes_out: vec![by_cause(u64::MAX, 0)],
        dials: vec![u64::MAX; 3],
        ..Series::default()
    };
    odd.never_recovered = 3;
    let mut many = run(vec![odd]);
    many.faults_ms = (0..9).map(|n| (format!("f{n}"), n, u64::MAX)).collect();
    many.duration_ms = 0;
    for outcome in [
        run(Vec::new()),
        run(vec![PolicyOutcome::default()]),
        many,
        Outcome::default(),
    ] {
        let text = page_of(&outcome, &[]);
        let page = parsed(&text);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        for plot in all(&page, "svg") {
            let size: Vec<f64> = plot
                .attribute("viewBox")
                .unwrap()
                .split(' ')
                .map(|n| n.parse().unwrap())
                .collect();
            for node in plot.descendants() {
                for (side, most) in [
                    ("x", size[2]),
                    ("width", size[2]),
                    ("y", size[3]),
                    ("height", size[3]),
                ] {
                    let Some(value) = node.attribute(side) else {
                        continue;
                    };
                    let value: f64 = value.parse().unwrap();
                    assert!((0.0..=most).contains(&value), "{side} of {node:?}");
                }
            }
        }
        let tables = Tables {
            outcome: &outcome,
            verdicts: &[],
        }
        .to_string();
        assert!(!tables.contains("NaN"), "{tables}");
        assert!(!csv(std::slice::from_ref(&outcome)).is_empty());
        json(&outcome, &[]).unwrap();
    }
}

#[test]
fn a_long_run_is_drawn_with_few_points_and_loses_nothing() {
    let mut long = policy("quell");
    long.series.delivered = vec![1; 3_600];
    let mut outcome = run(vec![long]);
    outcome.duration_ms = 3_600_000;
    let text = page_of(&outcome, &[]);
    // 3,600 steps are 240 points of 15 steps.
    assert!(text.contains("Items that came out at the far end, each 15.0 s"));
    assert!(text.contains("a point each 15.0 s; quell: 15 at most"));
    assert!(text.contains("60 min"), "minutes, where seconds are many");
}

#[test]
fn a_table_has_a_row_a_policy() {
    let outcome = run(vec![policy("quell"), policy("a-longer-name")]);
    let verdicts = verdicts(&outcome.policies[0], &Bounds::default());
    let text = Tables {
        outcome: &outcome,
        verdicts: &verdicts,
    }
    .to_string();
    let expected = "\
a: a < b & \"c\"
1 client, 6 providers, 3.00 s of virtual time, seed 7
broken from 1.00 s to 2.00 s: it's <cut>

What it cost, and how it ended
policy         outage out  copies  most sends  dials  backend peak     p50     p99     max  caught up  fresh  lost  twice  goodput
quell             62.9 MB    1.50          12  1,234     5 (2.50×)  250 ms  1.25 s  61.0 s          -      -     1      2  1.80 kB
a-longer-name     62.9 MB    1.50          12  1,234     5 (2.50×)  250 ms  1.25 s  61.0 s          -      -     1      2  1.80 kB

UDP payload of clients in the whole run, by what it was for
policy         first send  resend  race  ack  ping  control  dial   QUIC      all   back
quell             2.00 kB     0 B   0 B  0 B   0 B      0 B   0 B  500 B  2.50 kB  400 B
a-longer-name     2.00 kB     0 B   0 B  0 B   0 B      0 B   0 B  500 B  2.50 kB  400 B

What has to hold
bound       policy  figure  at most  verdict
complaints   quell       0        0       ok

outage out: UDP payload";
    assert!(text.starts_with(expected), "{text}");
    assert!(
        text.ends_with("What was not modelled\n- Nothing & more.\n"),
        "{text}"
    );
    let mut never = policy("quell");
    never.never_recovered = 1_000;
    never.complaints = vec!["cap\u{1b}[2J".to_owned(); 5];
    let text = Tables {
        outcome: &run(vec![never]),
        verdicts: &[],
    }
    .to_string();
    assert!(text.contains(" 1,000 never "), "{text}");
    let complaints = "\nWhat checkers complained of\nquell: cap [2J\nquell: cap [2J\nquell: cap [2J\nquell: and 2 more\n";
    assert!(text.contains(complaints), "{text}");
}

#[test]
fn csv_has_every_figure_on_a_line() {
    let mut outcome = run(vec![policy("a,\"b\"")]);
    outcome.scenario = "s".to_owned();
    let text = csv(&[outcome.clone(), outcome]);
    let lines: Vec<_> = text.split_terminator("\r\n").collect();
    assert_eq!(
        lines[0],
        "scenario,seed,policy,from_ms,step_ms,figure,cause,value"
    );
    let half = (lines.len() - 1) / 2;
    assert_eq!(
        lines[1..=half],
        lines[half + 1..],
        "one head, and both outcomes"
    );
    for line in &lines[1..] {
        let rest = line.strip_prefix("s,7,\"a,\"\"b\"\"\",").unwrap();
        assert_eq!(rest.split(',').count(), 5, "{line}");
    }
    let has = |rest: &str| lines.contains(&format!("s,7,\"a,\"\"b\"\"\",{rest}").as_str());
    for rest in [
        ",,max_sends_of_one_pack,,12",
        ",,copies_per_pack,,1.5",
        ",,outage_bytes_out,total,62914560",
        ",,backend_requests_steady_per_s,,2",
        "1000,1000,udp_bytes_out,first_send,2000",
        "2000,1000,udp_bytes_out,quic,400",
        "2000,1000,dials,,234",
    ] {
        assert!(has(rest), "{rest} in {text}");
    }
}

#[test]
fn json_is_one_object_with_a_list_of_policies() {
    let outcome = run(vec![policy("quell")]);
    let bounds = Bounds {
        max_sends_of_one_pack: Some(11),
        ..Bounds::default()
    };
    let object = json(&outcome, &verdicts(&outcome.policies[0], &bounds)).unwrap();
    let first = &object["policies"][0];
    assert_eq!(first["policy"], "quell");
    assert_eq!(first["max_sends_of_one_pack"], 12);
    assert_eq!(first["copies_per_pack"], 1.5);
    assert_eq!(first["udp_bytes_out"]["first_send"], 2_000);
    assert_eq!(first["udp_bytes_out"]["total"], 2_500);
    assert_eq!(first["recovery_ms"]["p99"], 1_250);
    assert_eq!(object["ok"], false);
    let bound = serde_json::json!({
        "policy": "quell", "name": "max_sends_of_one_pack", "figure": 12, "limit": 11, "ok": false,
    });
    assert_eq!(object["bounds"][0], bound);
    assert_eq!(json(&outcome, &[]).unwrap()["ok"], true);
}

#[test]
fn a_bound_holds_at_its_limit_and_not_beyond() {
    let outcome = policy("quell");
    for (key, holds, breaks) in [
        ("max_sends_of_one_pack", "12", "11"),
        ("recovery_max_ms", "61000", "60999"),
        ("outage_bytes_max", "62914560", "62914559"),
        ("backend_peak_over_steady_max", "2.5", "2.49"),
        ("lost_items_max", "1", "0"),
    ] {
        for (value, ok) in [(holds, true), (breaks, false)] {
            let mut bounds = Bounds::default();
            bounds.set(key, value).unwrap();
            let verdicts = verdicts(&outcome, &bounds);
            let found = verdicts.iter().find(|verdict| verdict.name == key).unwrap();
            assert_eq!(found.ok, ok, "{key} = {value}: {found:?}");
        }
    }
    let bounds = Bounds {
        provider_dials_per_s_max: Some(3),
        providers_fallen_max: Some(1),
        ..Bounds::default()
    };
    let mut outcome = outcome;
    for (dials, fallen, ok) in [(3, 1, [true, true]), (4, 2, [false, false])] {
        outcome.provider_dials.heal_peak_per_s = dials;
        outcome.providers_fallen = fallen;
        let verdicts = verdicts(&outcome, &bounds);
        assert_eq!([verdicts[0].ok, verdicts[1].ok], ok);
    }
}

#[test]
fn what_never_came_breaks_its_bound() {
    let bounds = Bounds {
        recovery_max_ms: Some(u64::MAX),
        backend_peak_over_steady_max: Some(1e9),
        ..Bounds::default()
    };
    let mut outcome = policy("quell");
    assert!(verdicts(&outcome, &bounds).iter().all(|verdict| verdict.ok));
    outcome.never_recovered = 1;
    outcome.backend_requests.steady_per_s = 0.0;
    outcome.complaints.push("cap".to_owned());
    let verdicts_of = verdicts(&outcome, &bounds);
    assert_eq!(
        verdicts_of
            .iter()
            .map(|verdict| verdict.ok)
            .collect::<Vec<_>>(),
        [false; 3]
    );
    assert_eq!(verdicts_of[0].figure.to_string(), "none");
    outcome.backend_requests.heal_peak_per_s = 0;
    let verdicts = verdicts(&outcome, &bounds);
    assert!(verdicts[2].ok, "no request is no peak");
}

/// The document says what every report says, and names each kind that a scenario can have.
#[test]
fn the_document_names_what_is_not_modelled() {
    let text = include_str!("../../../../docs/simulator.md");
    for words in NOT_MODELLED {
        assert!(text.contains(&format!("\n- {words}\n")), "{words}");
    }
}
