//! `quell bugreport`: one text with what a maintainer asks for first, and with nothing that is nobody's business.
//!
//! Version and system, the configuration key by key, the status, what `quell doctor` says, the last lines of the log. Whatever
//! cannot be had is said in its place, so that a report of a quell that does not even start is one too. Addresses inside the
//! tunnel are left out of the status; then the whole text is scrubbed of keys, tokens and addresses.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::Args;
use quell::config;
use serde_json::Value;

use crate::scrub::scrub;
use crate::socket::{self, Sockets};
use crate::{Failure, Streams, checkup, counted, words};

/// Most lines of a log.
const LOG_LINES_MAX: usize = 200;
/// Most bytes of a log's end that are read: lines of 500 characters, and some longer ones.
const LOG_BYTES_MAX: u64 = 256 * 1024;
/// What of a status is of the user and not of the tunnel.
const PRIVATE: [&str; 3] = ["addresses", "destination", "client"];

/// Write what a maintainer asks for, without keys, tokens and addresses
#[derive(Debug, Args)]
pub(crate) struct Bugreport {
    /// The configuration file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    sockets: Sockets,
    /// The log, where it is not in the journal
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write it here instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Bugreport {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let report = scrub(&self.report());
        let Some(path) = &self.out else {
            write!(streams.out, "{report}")?;
            return Ok(());
        };
        let written = fs::File::create_new(path).and_then(|mut file| {
            file.write_all(report.as_bytes())?;
            file.sync_all()
        });
        written.with_context(|| format!("cannot write {}", path.display()))?;
        let what = "keys, tokens and addresses are taken out; names of servers are in it: read it before you send it";
        writeln!(streams.out, "{}: {what}", path.display())?;
        Ok(())
    }

    fn report(&self) -> String {
        let sections = [
            ("version", version()),
            ("configuration", self.configuration()),
            ("status", self.status()),
            (
                "doctor",
                checkup::text(&checkup::examine(self.file.as_deref())),
            ),
            ("log", self.last_lines()),
        ];
        let sections = sections.map(|(name, text)| format!("== {name}\n{}\n", text.trim_end()));
        sections.join("\n")
    }

    fn configuration(&self) -> String {
        let Some(path) = &self.file else {
            return "no file was named".to_owned();
        };
        match config::keys_of(path) {
            Ok(keys) => without_clients(&keys.lines()),
            Err(error) => format!("it cannot be read: {}", words(&error.into())),
        }
    }

    fn status(&self) -> String {
        let asked = self.sockets.one().map_err(|failure| match failure {
            Failure::Failed(error) | Failure::Usage(error) => error.to_string(),
        });
        let status = asked.and_then(|path| socket::status(&path).map_err(|e| words(&e.into())));
        match status {
            Ok(mut status) => {
                take_out(&mut status);
                serde_json::to_string_pretty(&status).unwrap_or_else(|error| error.to_string())
            }
            Err(words) => words,
        }
    }

    fn last_lines(&self) -> String {
        match &self.log {
            Some(path) => end_of(path),
            None => journal(),
        }
    }
}

/// Lines of settings, the clients of a provider counted in place of being named.
fn without_clients(lines: &[String]) -> String {
    let is_client = |line: &&String| line.starts_with("clients[");
    let (clients, others): (Vec<_>, Vec<_>) = lines.iter().partition(is_client);
    let mut text: Vec<_> = others.into_iter().cloned().collect();
    if !clients.is_empty() {
        text.push(counted(clients.len(), "client"));
    }
    text.join("\n")
}

/// Takes what is of the user out of a status, however deep it stands.
fn take_out(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !PRIVATE.contains(&name.as_str()));
            fields.values_mut().for_each(take_out);
        }
        Value::Array(entries) => entries.iter_mut().for_each(take_out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn version() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/etc/os-release");
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    format!(
        "quell {}\n{}\n{}",
        env!("CARGO_PKG_VERSION"),
        read("/proc/sys/kernel/osrelease").trim_end(),
        name.unwrap_or("a system without a name").trim_matches('"')
    )
}

/// The last lines of a file.
fn end_of(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => last(&text),
        Err(error) => format!("it cannot be read: {error}"),
    }
}

fn last(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES_MAX);
    lines[from..].join("\n")
}

/// What systemd's journal has of quell's units.
fn journal() -> String {
    let count = LOG_LINES_MAX.to_string();
    let asked = Command::new("journalctl")
        .args([
            "--no-pager",
            "--quiet",
            "--output=short-iso",
            "--unit=quell*",
            "--lines",
        ])
        .arg(count)
        .stdin(Stdio::null())
        .output();
    match asked {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            last(&String::from_utf8_lossy(&output.stdout))
        }
        Ok(_) => "the journal has nothing of quell; --log names a file".to_owned(),
        Err(error) => format!("there is no journal ({error}); --log names a file"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_of_the_user_is_taken_out_at_any_depth() {
        let mut status = json!({
            "state": "up", "addresses": {"ipv4": ["10.85.0.2", 16]},
            "sessions": [{"client": "ada", "state": "up", "addresses": {}, "path": {"rtt_ms": 1}}],
        });
        take_out(&mut status);
        let left = json!({"state": "up", "sessions": [{"state": "up", "path": {"rtt_ms": 1}}]});
        assert_eq!(status, left);
    }

    #[test]
    fn clients_are_counted_and_not_named() {
        let lines = ["a = 1", "clients[\"ada\"] = x", "clients[\"bob\"] = y"];
        let text = without_clients(&lines.map(str::to_owned));
        assert_eq!(text, "a = 1\n2 clients");
    }

    #[test]
    fn of_a_long_log_the_end_is_kept() {
        let text: String = (0..500).map(|n| format!("line {n}\n")).collect();
        let kept = last(&text);
        assert!(kept.starts_with("line 300\n") && kept.ends_with("line 499"));
    }
}
