//! `quell doctor`: what of this machine would keep a quell from working, and what to do about it.
//!
//! *Intuition.* Most reports of a VPN that does not work are about the machine under it: no TUN in the container, a firewall
//! program that is missing, a limit of 1,024 files, a name that does not resolve. Each of those shows in its own way and late.
//! Here each is looked at once, on purpose, and said with its remedy.
//!
//! ```text
//! file ──→ Needs ──→ one thread a check, CHECK_TIME each ──→ Finding: ok, warning, problem
//! ```
//!
//! What is looked at depends on the file: without one, everything that some quell may need is looked at, and what is missing is
//! a warning. With one, what it needs and is missing is a problem. What a check sees and what it concludes are apart: the
//! conclusions are functions of plain values, which the tests give them.
//!
//! No check changes anything that outlasts it. The TUN that is tried is made in a network namespace of its own where the system
//! allows that, and vanishes with the thread.
//!
//! | file | checks |
//! |---|---|
//! | `needs` | none: what a file needs of the machine |
//! | `host` | TUN, offload, ECN, ping group, files, nft, clock, folders |
//! | `net` | families, MTU, ports, DNS, control planes |

mod host;
mod needs;
mod net;

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::counted;

pub(crate) use needs::Needs;

/// Longest time of one check. A resolver that is dead takes 5 s to say so with its usual settings.
const CHECK_TIME: Duration = Duration::from_secs(6);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be, or not needed.
    Ok,
    /// It works, and less well than it could.
    Warning,
    /// It does not work.
    Problem,
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Which check.
    pub(crate) check: &'static str,
    /// How bad it is.
    pub(crate) level: Level,
    /// What was seen.
    pub(crate) seen: String,
    /// What to do; none where there is nothing to do.
    pub(crate) todo: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            seen: seen.into(),
            todo: None,
        }
    }

    fn bad(
        check: &'static str,
        level: Level,
        seen: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Self {
            check,
            level,
            seen: seen.into(),
            todo: Some(todo.into()),
        }
    }
}

/// How much something is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing that is configured uses it.
    Not,
    /// It is not known what will be configured.
    Perhaps,
    /// What is configured does not start without it.
    Must,
}

impl Need {
    /// How bad it is that it is missing.
    fn missing(self) -> Level {
        match self {
            Self::Not => Level::Ok,
            Self::Perhaps => Level::Warning,
            Self::Must => Level::Problem,
        }
    }
}

/// A check: its name, and what looks.
type Check = (&'static str, fn(&Needs) -> Vec<Finding>);

/// All of them, in the order of their output.
const CHECKS: [Check; 12] = [
    ("tun", host::tun),
    ("ecn", host::ecn),
    ("mtu", net::mtu),
    ("clock", host::clock),
    ("ports", net::ports),
    ("ping", host::ping),
    ("family", net::family),
    ("backend", net::backends),
    ("dns", net::dns),
    ("files", host::files),
    ("nft", host::nft),
    ("folders", host::folders),
];

/// Looks at this machine, for what `file` needs of it.
pub(crate) fn examine(file: Option<&Path>) -> Vec<Finding> {
    match file.map(Needs::of_file).transpose() {
        Ok(needs) => {
            let needs = needs.unwrap_or_else(Needs::of_nobody);
            let mut findings = Vec::new();
            if let Some(path) = file {
                let seen = format!("{} is good: a {}", path.display(), needs.role);
                findings.push(Finding::ok("config", seen));
            }
            findings.extend(run(&needs, &CHECKS, CHECK_TIME));
            findings
        }
        Err(words) => {
            let todo = "mend the file, then ask again: `quell check FILE` says the same of it";
            vec![Finding::bad("config", Level::Problem, words, todo)]
        }
    }
}

/// Runs all checks at once, each with a thread and a deadline.
fn run(needs: &Needs, checks: &[Check], limit: Duration) -> Vec<Finding> {
    let began = Instant::now();
    let started = checks.iter().map(|(name, look)| {
        let (tell, told) = mpsc::channel();
        let (needs, look) = (needs.clone(), *look);
        // One that hangs is left behind: the process ends soon.
        let spawned = thread::Builder::new().spawn(move || tell.send(look(&needs)));
        (*name, told, spawned.is_ok())
    });
    let started: Vec<_> = started.collect();
    let found = started.into_iter().flat_map(|(name, told, spawned)| {
        let left = limit.saturating_sub(began.elapsed());
        match told.recv_timeout(left) {
            Ok(findings) => findings,
            Err(_) if !spawned => {
                let todo = "see `ulimit -u`, or the unit's TasksMax";
                vec![Finding::bad(
                    name,
                    Level::Problem,
                    "the system gives no thread",
                    todo,
                )]
            }
            Err(_) => {
                let seen = format!("no answer within {limit:?}");
                let todo = "what it asks hangs: try it by hand";
                vec![Finding::bad(name, Level::Warning, seen, todo)]
            }
        }
    });
    found.collect()
}

/// The findings as text for people, the worst level last.
pub(crate) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (level, check) = (finding.level.as_str(), finding.check);
        let seen = finding.seen.escape_debug();
        text.push_str(&format!(
            "{level:<8} {check:<8} {}\n",
            unquoted(&seen.to_string())
        ));
        if let Some(todo) = &finding.todo {
            text.push_str(&format!("{:<17} → {todo}\n", ""));
        }
    }
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    let summary = match (problems, warnings) {
        (0, 0) => "all is well".to_owned(),
        (problems, warnings) => {
            let (problems, warnings) = (counted(problems, "problem"), counted(warnings, "warning"));
            format!("{problems}, {warnings}")
        }
    };
    text.push_str(&format!("\n{summary}\n"));
    text
}

/// Quotes may stand; what a terminal obeys stays escaped.
fn unquoted(text: &str) -> String {
    text.replace("\\\"", "\"").replace("\\'", "'")
}

/// The worst of all levels.
pub(crate) fn worst(findings: &[Finding]) -> Level {
    let levels = findings.iter().map(|finding| finding.level);
    levels.max().unwrap_or(Level::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine(_: &Needs) -> Vec<Finding> {
        vec![Finding::ok("fine", "well")]
    }

    fn hangs(_: &Needs) -> Vec<Finding> {
        thread::sleep(Duration::from_secs(60));
        Vec::new()
    }

    #[test]
    fn a_check_that_hangs_is_told_of_in_time_and_keeps_no_other() {
        let began = Instant::now();
        let needs = Needs::of_nobody();
        let found = run(
            &needs,
            &[("hangs", hangs), ("fine", fine)],
            Duration::from_millis(100),
        );
        assert!(began.elapsed() < Duration::from_secs(10));
        let levels: Vec<_> = found.iter().map(|f| (f.check, f.level)).collect();
        assert_eq!(levels, [("hangs", Level::Warning), ("fine", Level::Ok)]);
    }

    #[test]
    fn what_is_to_be_done_stands_below_what_was_seen() {
        let findings = [
            Finding::ok("tun", "it works"),
            Finding::bad(
                "nft",
                Level::Problem,
                "no \u{1b}[31m \"nft\"",
                "install nftables",
            ),
        ];
        let expected = "ok       tun      it works\n\
                        problem  nft      no \\u{1b}[31m \"nft\"\n                  → install nftables\n\n\
                        1 problem, 0 warnings\n";
        assert_eq!(text(&findings), expected);
        assert_eq!(worst(&findings), Level::Problem);
        assert_eq!(worst(&[]), Level::Ok);
    }

    #[test]
    fn what_is_missing_is_as_bad_as_it_is_needed() {
        let levels = [Need::Not, Need::Perhaps, Need::Must].map(Need::missing);
        assert_eq!(levels, [Level::Ok, Level::Warning, Level::Problem]);
    }
}
