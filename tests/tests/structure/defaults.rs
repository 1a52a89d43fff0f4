//! The page of all defaults (`docs/defaults.md`), made of the configuration structs and held against them.
//!
//! A constant stands once, in its struct, with a doc that says what it is, and in a second paragraph its default, why it is
//! that, and its range. The page is those docs as a table. Two things are checked: the page is what the structs say, and the
//! number that opens a doc's second paragraph is the number in `Default`. `QUELL_WRITE_DEFAULTS=1` writes the page anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::source::{read, root};

const PAGE: &str = "docs/defaults.md";

/// The structs of settings, in the order of the page: heading, file, struct.
pub(super) const STRUCTS: [(&str, &str, &str); 30] = [
    (
        "How a path carries packets",
        "crates/core/src/config.rs",
        "PathConfig",
    ),
    (
        "Which lane carries what",
        "crates/core/src/config/carriage.rs",
        "LanesConfig",
    ),
    (
        "The sending end of a lane",
        "crates/core/src/config/lanes.rs",
        "LaneConfig",
    ),
    (
        "The receiving end of a lane",
        "crates/core/src/config/receive.rs",
        "ReceiveConfig",
    ),
    (
        "When a path is hushed, stalled, dead",
        "crates/core/src/config/path_health.rs",
        "PathHealthConfig",
    ),
    (
        "A client's dials",
        "crates/core/src/config.rs",
        "ClientConfig",
    ),
    (
        "Which exits are kept",
        "crates/core/src/config/window.rs",
        "WindowConfig",
    ),
    (
        "What is sent over two exits",
        "crates/core/src/config/racer.rs",
        "RacerConfig",
    ),
    (
        "What a provider allows",
        "crates/core/src/config.rs",
        "ProviderConfig",
    ),
    (
        "Who may start a handshake",
        "crates/core/src/config/doorman.rs",
        "DoormanConfig",
    ),
    (
        "What a provider without privileges holds",
        "crates/egress/src/userspace/config.rs",
        "UserspaceConfig",
    ),
    (
        "Whom clients may speak to",
        "crates/core/src/config/egress_rules.rs",
        "EgressRulesConfig",
    ),
    (
        "What a client's proxy holds",
        "crates/proxy/src/config.rs",
        "ProxyLimits",
    ),
    (
        "Flows that a client gave up",
        "crates/core/src/config/closed_flows.rs",
        "ClosedFlowsConfig",
    ),
    (
        "What one client may take",
        "crates/core/src/config/client_limits.rs",
        "ClientLimitsConfig",
    ),
    (
        "How clients share the egress",
        "crates/core/src/config/client_limits.rs",
        "ShareConfig",
    ),
    (
        "What may be resent into silences",
        "crates/core/src/config/budget.rs",
        "SilenceConfig",
    ),
    (
        "What may be sent twice to win a race",
        "crates/core/src/config/budget.rs",
        "RaceConfig",
    ),
    (
        "What may leave while nothing makes progress",
        "crates/core/src/config/budget.rs",
        "QuietConfig",
    ),
    (
        "How often a process may dial",
        "crates/core/src/config/budget.rs",
        "DialBudgetConfig",
    ),
    (
        "How often hosts may go down",
        "crates/core/src/config/flap.rs",
        "FlapConfig",
    ),
    (
        "Connections that do not live",
        "crates/core/src/config/flap.rs",
        "UptimeConfig",
    ),
    (
        "When the backend is degraded",
        "crates/core/src/config/backend_health.rs",
        "BackendHealthConfig",
    ),
    (
        "When a server is dialled",
        "crates/core/src/config/dial_gate.rs",
        "DialGateConfig",
    ),
    (
        "When a health probe counts",
        "crates/core/src/config/probe_latch.rs",
        "ProbeLatchConfig",
    ),
    (
        "When the uplink is in doubt",
        "crates/core/src/config/uplink_doubt.rs",
        "UplinkDoubtConfig",
    ),
    (
        "How long flows are remembered",
        "crates/core/src/config/flows.rs",
        "FlowsConfig",
    ),
    (
        "What a provider does with contracts",
        "crates/core/src/config/contracts.rs",
        "ContractsConfig",
    ),
    (
        "When a client asks for contracts and signs",
        "crates/core/src/config/contracts.rs",
        "WalletConfig",
    ),
    (
        "QUIC beneath",
        "crates/net/src/transport.rs",
        "TransportSettings",
    ),
];

/// Constants that defaults refer to, by name.
const NAMED: [(&str, f64); 4] = [
    ("BITMAP_NUMBERS as usize", 8_192.0),
    ("BITMAP_NUMBERS", 8_192.0),
    ("FIRST_CREDIT_BYTES", 2_097_152.0),
    ("IDLE_TIMEOUT_MIN", 75.0),
];

/// One setting: its doc's paragraphs, and its value in `Default`.
#[derive(Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) value: String,
}

/// The text of the block that `head` opens, without its braces.
fn block<'t>(text: &'t str, head: &str) -> Option<&'t str> {
    let opens = text.find(head)? + head.len();
    let mut depth = 1_usize;
    for (offset, byte) in text[opens..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[opens..opens + offset]);
        }
    }
    None
}

/// The fields of a struct that are settings of its own, in their order.
pub(super) fn settings(text: &str, name: &str) -> Vec<Setting> {
    let fields = block(text, &format!("pub struct {name} {{")).unwrap_or_default();
    let defaults = block(text, &format!("impl Default for {name} {{")).unwrap_or_default();
    let values = values(defaults);
    let (mut doc, mut found) = (Vec::new(), Vec::new());
    for line in fields.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            doc.push(words.trim().to_owned());
        } else if let Some((name, _)) = line.strip_prefix("pub ").and_then(|l| l.split_once(':')) {
            let mut paragraphs = doc.split(String::is_empty).map(|lines| lines.join(" "));
            let what = paragraphs.next().unwrap_or_default();
            let why = paragraphs.collect::<Vec<_>>().join(" ");
            let value = values.get(name).cloned().unwrap_or_default();
            // A struct within is a table of its own.
            if !value.ends_with("::default()") || !why.is_empty() {
                found.push(Setting {
                    name: name.to_owned(),
                    what,
                    why,
                    value,
                });
            }
            doc.clear();
        }
    }
    found
}

/// What stands behind each field in the body of `Default`.
fn values(body: &str) -> BTreeMap<String, String> {
    let entries = body.lines().map(str::trim).filter_map(|line| {
        let (name, value) = line.strip_suffix(',')?.split_once(": ")?;
        Some((name.to_owned(), value.to_owned()))
    });
    entries.collect()
}

/// A value of Rust as a number, durations in seconds.
fn in_code(value: &str) -> Option<f64> {
    let named = NAMED.iter().find(|(name, _)| *name == value);
    if let Some((_, number)) = named {
        return Some(*number);
    }
    for (unit, seconds) in [("secs", 1.0), ("millis", 1e-3), ("micros", 1e-6)] {
        let inner = value.strip_prefix(&format!("Duration::from_{unit}("));
        if let Some(inner) = inner.and_then(|inner| inner.strip_suffix(')')) {
            return Some(in_code(inner)? * seconds);
        }
    }
    if let Some((number, bits)) = value.split_once(" << ") {
        let factor = 2_f64.powi(bits.parse().ok()?);
        return Some(in_code(number)? * factor);
    }
    value
        .split('*')
        .map(|factor| factor.trim().replace('_', "").parse::<f64>().ok())
        .product()
}

/// The number that opens a text, with its unit.
fn in_words(text: &str) -> Option<f64> {
    let mut words = text
        .split([' ', ':', '.', ';'])
        .filter(|word| !word.is_empty());
    let number = text
        .split([' ', ':', ';'])
        .next()?
        .trim_end_matches('.')
        .replace(',', "");
    let number = number.parse::<f64>().ok()?;
    // A decimal number is two words to the split above.
    let unit = if number.fract() == 0.0 {
        words.nth(1)
    } else {
        words.nth(2)
    };
    let factor = match unit.unwrap_or_default() {
        "µs" => 1e-6,
        "ms" => 1e-3,
        "min" => 60.0,
        "h" => 3_600.0,
        "KiB" => 1_024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => 1.0,
    };
    Some(number * factor)
}

/// Why a setting's words and its value do not agree.
fn complaint(setting: &Setting) -> Option<String> {
    let (Some(code), Some(words)) = (in_code(&setting.value), in_words(&setting.why)) else {
        let named = setting.why.starts_with('`') && setting.value.ends_with("::default()")
            || setting.why.starts_with("None:") && setting.value == "None";
        return (!named).then(|| format!("{}: no default to be read in {setting:?}", setting.name));
    };
    ((code - words).abs() > 1e-9 * code.abs())
        .then(|| format!("{}: the doc says {words}, the code {code}", setting.name))
}

fn page() -> String {
    let mut page = String::from(
        "# Defaults\n\nEvery constant of the core and of QUIC beneath, with its reason. Made of the docs in the code by the \
         structure test,\nwhich fails where this page is not what they say; `QUELL_WRITE_DEFAULTS=1 cargo test -p quell-tests \
         --test structure` writes it anew.\n",
    );
    for (heading, file, name) in STRUCTS {
        let text = read(file);
        writeln!(
            page,
            "\n## {heading}\n\n| setting | what it is | default, why, range |\n|---|---|---|"
        )
        .unwrap();
        for setting in settings(&text, name) {
            let cell = |text: &str| {
                text.replace('|', "\\|")
                    .replace("[`", "`")
                    .replace("`]", "`")
            };
            let (what, why) = (cell(&setting.what), cell(&setting.why));
            writeln!(page, "| `{}` | {what} | {why} |", setting.name).unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_defaults_is_what_the_code_says() {
    if std::env::var_os("QUELL_WRITE_DEFAULTS").is_some() {
        std::fs::write(root().join(PAGE), page()).unwrap();
    }
    assert_eq!(read(PAGE), page(), "QUELL_WRITE_DEFAULTS=1 writes it anew");
}

#[test]
fn each_doc_opens_its_reason_with_the_default_that_the_code_has() {
    let of_struct = |(_, file, name): &(&str, &str, &str)| settings(&read(file), name);
    let all: Vec<_> = STRUCTS.iter().flat_map(of_struct).collect();
    assert!(all.len() > 40, "{} settings", all.len());
    let complaints: Vec<_> = all.iter().filter_map(complaint).collect();
    assert_eq!(complaints, [""; 0]);
}

#[test]
fn a_default_that_is_not_what_its_doc_says_is_found() {
    let text = "pub struct A {\n    /// What.\n    ///\n    /// 5 s: why. Range 1 s to 9 s.\n    pub wait: Duration,\n}\n\
                impl Default for A {\n    fn default() -> Self {\n        Self {\n            wait: Duration::from_secs(6),\n        }\n    }\n}\n";
    let found = settings(text, "A");
    assert_eq!(found.len(), 1);
    assert_eq!(
        complaint(&found[0]).unwrap(),
        "wait: the doc says 5, the code 6"
    );
    let right = text.replace("from_secs(6)", "from_millis(5_000)");
    assert_eq!(complaint(&settings(&right, "A")[0]), None);
    let silent = text.replace("5 s: why.", "Why.");
    assert!(complaint(&settings(&silent, "A")[0]).is_some());
}

#[test]
fn numbers_are_read_in_both_tongues() {
    for (code, words) in [
        ("Duration::from_millis(250)", "250 ms (DESIGN): why"),
        ("512 * 1024", "512 KiB: why"),
        ("2 * 1024 * 1024", "2 MiB: why"),
        ("0.75", "0.75 (DESIGN §4)."),
        ("4_096", "4,096: why"),
        ("Duration::from_secs(120)", "2 min (DESIGN §4): why"),
        ("BITMAP_NUMBERS as usize", "8,192: the bitmap"),
    ] {
        assert_eq!(in_code(code), in_words(words), "{code}, {words}");
        assert!(in_code(code).is_some(), "{code}");
    }
}
