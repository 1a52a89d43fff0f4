//! The page "Who probes whom, how often, and what each timer is for" (`docs/probes.md`), made of the code's defaults.
//!
//! Two tables. *Who asks whom* is written here, a row a question that crosses a wire, and each number in it is a setting's
//! default, named by struct and field: a setting that is renamed or gone fails the test, one that has another default changes
//! the page. *Timers* is every duration among the settings, whoever they are of. `QUELL_WRITE_DEFAULTS=1` writes the page anew.

use std::fmt::Write as _;

use super::defaults::{STRUCTS, Setting, settings};
use super::source::{read, root};

const PAGE: &str = "docs/probes.md";

/// Structs of the control plane's server, whose timers are on this page too.
const OF_SERVER: [(&str, &str, &str); 2] = [
    (
        "The reference backend: the catalog",
        "crates/backend/src/catalog/config.rs",
        "CatalogConfig",
    ),
    (
        "The reference backend: the prober",
        "crates/backend/src/probe/config.rs",
        "ProbeConfig",
    ),
];

/// Who asks, whom, with what, how often, and why. `{Struct.field}` is that setting's default.
const QUESTIONS: [[&str; 5]; 12] = [
    [
        "client",
        "each kept exit, path idle",
        "PING and PONG",
        "every {PathConfig.keepalive_interval}",
        "keeps the way through address translators open, and finds a dead path before it is needed",
    ],
    [
        "client, provider",
        "the other end, path stalled",
        "PING, no data",
        "every {PathHealthConfig.stalled_ping_min} to {PathHealthConfig.stalled_ping_max}; after \
         {PathHealthConfig.stalled_ping_eager} every {PathHealthConfig.stalled_ping_lazy}",
        "the only thing that is sent into a silence; its answer ends the stall",
    ],
    [
        "client",
        "an exit without a session",
        "a QUIC handshake",
        "after {DialGateConfig.base_backoff} and from {ClientConfig.reconnect_base} to \
         {ClientConfig.reconnect_max}, doubling, jittered; {DialGateConfig.dial_timeout} each at most",
        "a session; the gate lets one dial at a time find out",
    ],
    [
        "client",
        "an exit, uplink in doubt",
        "one dial, the canary",
        "every {UplinkDoubtConfig.canary_interval} for {UplinkDoubtConfig.doubt_max} at most",
        "whether it is the own uplink that is gone",
    ],
    [
        "client",
        "a second exit, per connection",
        "a copy of the first packet",
        "once, after {RacerConfig.hedge_delay} without a confirmation",
        "an answer from whichever exit has one",
    ],
    [
        "client, provider",
        "each of `backend.urls`, well",
        "GET, 1.7 KB over TLS",
        "every {BackendHealthConfig.check_interval}, ± 20 %, while there is a session; \
         {BackendHealthConfig.attempt_timeout} each at most",
        "whether the control plane answers: it decides how patient lanes are",
    ],
    [
        "client, provider",
        "each of `backend.urls`, failing",
        "the same",
        "after {BackendHealthConfig.retry_interval}, until {BackendHealthConfig.failures_to_degrade} failed in a row",
        "one lost packet is no outage",
    ],
    [
        "client, provider",
        "each of `backend.urls`, degraded",
        "the same",
        "after {BackendHealthConfig.probe_interval_min}, doubling to {BackendHealthConfig.probe_interval_max}; \
         `Retry-After` is obeyed up to {BackendHealthConfig.retry_after_max}",
        "finds the return within half a minute, and floods nobody",
    ],
    [
        "client",
        "the control plane of `backend.url`",
        "a long poll for the catalog",
        "answered at a change, or when the client's wait is over ({CatalogConfig.wait_max} at most)",
        "which exits there are",
    ],
    [
        "client",
        "a provider, under a contract",
        "a signed receipt",
        "every {WalletConfig.receipt_interval} while bytes flow, or every {WalletConfig.receipt_bytes}",
        "what the provider is owed; without it the session pauses",
    ],
    [
        "provider",
        "the control plane of `backend.url`",
        "a heartbeat",
        "every {CatalogConfig.heartbeat_interval}, ± 20 %; silence for {CatalogConfig.heartbeat_max_age} takes it out \
         of the catalog; receipts are filed every {ContractsConfig.filing_interval}",
        "whether it lives and where it is reached; whose contracts to honour",
    ],
    [
        "reference backend",
        "each provider",
        "a QUIC handshake with the provider's key",
        "every {ProbeConfig.interval}, ± 20 %, {ProbeConfig.timeout} at most; out after \
         {ProbeLatchConfig.failures_before_critical} failures in a row, in after \
         {ProbeLatchConfig.success_before_passing} answers",
        "keeps clients from exits that do not answer",
    ],
];

fn all_structs() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    STRUCTS.into_iter().chain(OF_SERVER)
}

fn setting(path: &str) -> Option<Setting> {
    let (name, field) = path.split_once('.')?;
    let (_, file, _) = all_structs().find(|(_, _, known)| *known == name)?;
    let all = settings(&read(file), name);
    all.into_iter().find(|setting| setting.name == field)
}

/// The number and unit that open a doc's reason.
fn default_of(setting: &Setting) -> String {
    let why = setting.why.as_str();
    let end = why.find([':', '(']).unwrap_or(why.len());
    // A comma within a number has no blank behind it.
    let stops = [". ", ", "]
        .into_iter()
        .filter_map(|stop| why[..end].find(stop));
    let end = stops.min().unwrap_or(end);
    why[..end].trim().trim_end_matches('.').to_owned()
}

/// The text with each `{Struct.field}` replaced by its default.
fn filled(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (path, after) = after.split_once('}').ok_or("a brace is open")?;
        let setting = setting(path).ok_or_else(|| format!("there is no setting {path}"))?;
        out.push_str(before);
        out.push_str(&default_of(&setting));
        rest = after;
    }
    Ok(out + rest)
}

fn is_duration(setting: &Setting) -> bool {
    setting.value.starts_with("Duration::")
}

fn page() -> Result<String, String> {
    let mut page = String::from(
        "# Who probes whom, how often, and what each timer is for\n\nMade of the defaults in the code by the structure test, which \
         fails where this page is not what they say;\n`QUELL_WRITE_DEFAULTS=1 cargo test -p quell-tests --test structure` writes \
         it anew. Reasons in full and ranges:\n[defaults.md](defaults.md).\n\n## Who asks whom\n\nEverything that quell sends \
         without a packet of the user's, and when.\n\n| who | asks whom | with what | how often | what for |\n|---|---|---|---|---|\n",
    );
    for row in QUESTIONS {
        let cells: Result<Vec<_>, _> = row.iter().map(|cell| filled(cell)).collect();
        writeln!(page, "| {} |", cells?.join(" | ")).map_err(|error| error.to_string())?;
    }
    page.push_str(
        "\nWhile nothing makes progress, all that a client sends of this together stays below 16 KiB a minute \
         (`budget.quiet_bytes`), the\nquestions to control planes excepted.\n\n## Timers\n",
    );
    for (heading, file, name) in all_structs() {
        let timers: Vec<_> = settings(&read(file), name)
            .into_iter()
            .filter(is_duration)
            .collect();
        if timers.is_empty() {
            continue;
        }
        let head = format!("\n### {heading}\n\n| timer | default | what it is |\n|---|---|---|");
        writeln!(page, "{head}").map_err(|error| error.to_string())?;
        for timer in timers {
            let what = timer
                .what
                .replace('|', "\\|")
                .replace("[`", "`")
                .replace("`]", "`");
            let line = format!("| `{}` | {} | {what} |", timer.name, default_of(&timer));
            writeln!(page, "{line}").map_err(|error| error.to_string())?;
        }
    }
    Ok(page)
}

#[test]
fn the_page_of_probes_is_what_the_code_says() {
    let page = page().unwrap();
    if std::env::var_os("QUELL_WRITE_DEFAULTS").is_some() {
        std::fs::write(root().join(PAGE), &page).unwrap();
    }
    assert_eq!(read(PAGE), page, "QUELL_WRITE_DEFAULTS=1 writes it anew");
}

#[test]
fn each_timer_has_a_default_with_a_number() {
    let timers = all_structs().flat_map(|(_, file, name)| settings(&read(file), name));
    let timers: Vec<_> = timers.filter(is_duration).collect();
    assert!(timers.len() > 50, "{} timers", timers.len());
    let odd = timers.iter().map(|timer| (&timer.name, default_of(timer)));
    let odd: Vec<_> = odd
        .filter(|(_, text)| !text.starts_with(|c: char| c.is_ascii_digit()) || text.len() > 20)
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn a_setting_that_is_not_there_is_found() {
    assert_eq!(
        filled("every {PathConfig.keepalive}"),
        Err("there is no setting PathConfig.keepalive".to_owned())
    );
    assert_eq!(
        filled("every {PathConfig.keepalive_interval}"),
        Ok("every 20 s".to_owned())
    );
}
