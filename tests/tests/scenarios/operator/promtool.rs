//! promtool, and what it is fed: pages, rule files, and tests of rules that are made of pages.
//!
//! Scrapes of a scenario are a fraction of a second apart, and alerts wait for minutes. So each page that was taken stands for
//! a scrape of its own, 15 s after the one before: what the alerts see is a real course of values, played slowly. Only alerts
//! over states can be judged so; a rate comes out too small.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;

use crate::fixture::Outcome;

/// What a page stands for.
const SCRAPE_S: usize = 15;

/// Trials of functions that need promtool beside namespaces.
macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(libtest_mimic::Trial::ignorable_test(
                concat!(module_path!(), "::", stringify!($name)).trim_start_matches("scenarios::"),
                || crate::fixture::unless_missing("promtool", $name),
            )),+]
        }
    };
}
pub(super) use trials;

/// Where the rules are.
pub(super) fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/prometheus/quell.rules.yml")
}

/// Runs promtool with `input`; what it said, and whether all was well.
pub(super) fn promtool(arguments: &[&str], input: &str) -> Result<(bool, String), Failed> {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((output.status.success(), said))
}

/// Checks a page as a collector would read it, and by what promtool finds good style.
pub(super) fn check_page(page: &str) -> Outcome {
    match promtool(&["check", "metrics"], page)? {
        (true, said) if said.is_empty() => Ok(()),
        (_, said) => Err(format!("promtool: {said}\n{page}").into()),
    }
}

/// What `http://ADDRESS/metrics` says. To be called in its namespace.
pub(super) fn scrape(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(6)))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, page)) if head.starts_with("HTTP/1.1 200 ") => Ok(page.to_owned()),
        Some(_) | None => Err(std::io::Error::other(answer)),
    }
}

/// Pages of one process, in order.
#[derive(Default)]
pub(super) struct Course {
    pages: usize,
    series: BTreeMap<String, Vec<Option<String>>>,
}

impl Course {
    pub(super) fn push(&mut self, page: &str) {
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let values = self.series.entry(series.to_owned()).or_default();
            values.resize(self.pages, None);
            values.push(Some(value.to_owned()));
        }
        self.pages += 1;
    }

    /// The moment of the last page, in seconds of the slow play.
    pub(super) fn last_s(&self) -> usize {
        self.pages.saturating_sub(1) * SCRAPE_S
    }

    /// Whether exactly these alerts fire at each of these moments, by the rules.
    pub(super) fn fires(&self, folder: &Path, expected: &[(usize, &[&str])]) -> Outcome {
        let mut test = format!(
            "rule_files: [{}]\nevaluation_interval: {SCRAPE_S}s\ntests:\n  - interval: {SCRAPE_S}s\n    input_series:\n",
            rules().canonicalize()?.display()
        );
        for (series, values) in &self.series {
            let own = "job=\"quell\",instance=\"drill\"";
            let series = match series.strip_suffix('}') {
                Some(open) => format!("{open},{own}}}"),
                None => format!("{series}{{{own}}}"),
            };
            let values = values.iter().map(|value| value.as_deref().unwrap_or("_"));
            let values: Vec<_> = values.collect();
            let (series, values) = (series.replace('\'', "''"), values.join(" "));
            writeln!(
                test,
                "      - series: '{series}'\n        values: '{values}'"
            )?;
        }
        test.push_str("    promql_expr_test:\n");
        for (at_s, alerts) in expected {
            let expr = "max by (alertname) (ALERTS{alertstate=\"firing\"})";
            write!(
                test,
                "      - expr: '{expr}'\n        eval_time: {at_s}s\n        exp_samples:"
            )?;
            if alerts.is_empty() {
                test.push_str(" []");
            }
            test.push('\n');
            for alert in *alerts {
                let labels = format!("{{alertname=\"{alert}\"}}");
                writeln!(test, "          - labels: '{labels}'\n            value: 1")?;
            }
        }
        let file = folder.join("drill.test.yml");
        fs::write(&file, &test)?;
        match promtool(&["test", "rules", &file.to_string_lossy()], "")? {
            (true, _) => Ok(()),
            (false, said) => Err(format!("{said}\n{test}").into()),
        }
    }
}
