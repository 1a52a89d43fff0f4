//! From arguments to what is run: scenarios with their counts changed, policies by name, quell's configuration.
//!
//! All that can be refused is refused here, before a second of a run is spent.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use quell::config::{self, Config};
use quell_core::config::{ClientConfig, ProviderConfig};
use quell_sim::fleet::Options;
use quell_sim::policy::policies;
use quell_sim::scenario::{self, Bounds, Scenario, TEXT_BYTES_MAX, library, named};

use crate::Failure;

/// What quell is called among the policies, and what its ablations' names begin with.
const QUELL: &str = "quell";
const ABLATION: &str = "quell-";

/// What `run` and `compare` take alike.
#[derive(Debug, Args)]
pub(super) struct Asked {
    /// Policies by name, separated by commas; `all`: quell and what it is compared with; `ablations`: quell, and quell
    /// less one mechanism at a time
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policy: Vec<String>,
    /// How many clients, in the place of the scenario's count
    #[arg(long, value_name = "COUNT")]
    clients: Option<u32>,
    /// How many providers, in the place of the scenario's count
    #[arg(long, value_name = "COUNT")]
    providers: Option<u16>,
    /// Feeds every draw: the same seed gives the same run
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// A client's or a provider's configuration for quell; one of each at most
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// A bound that has to hold, such as max_sends_of_one_pack=17; keys as under [bounds] of a scenario
    #[arg(long, value_name = "KEY=VALUE")]
    bound: Vec<String>,
    /// Print all figures as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Print all figures as CSV, one on a line
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
    /// Write a page with tables and plots
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Policies that run side by side
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) threads: u16,
}

/// A scenario as it is run.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) scenario: Scenario,
    /// What its text says of itself.
    pub(super) about: String,
}

/// What is run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) stages: Vec<Stage>,
    pub(super) policies: Vec<&'static str>,
    pub(super) options: Options,
    /// Bounds asked for by hand.
    bounds: Bounds,
    /// What makes the same report again.
    pub(super) command: String,
}

impl Plan {
    /// `command` is the verb and its scenarios, `otherwise` the policies where none are named.
    pub(super) fn new(
        asked: &Asked,
        command: &str,
        scenarios: &[String],
        otherwise: &str,
    ) -> Result<Self, Failure> {
        let names = match asked.policy.as_slice() {
            [] => vec![otherwise.to_owned()],
            names => names.to_vec(),
        };
        let policies = policies_of(&names)?;
        let stage = |name: &String| stage(name, asked);
        let stages = scenarios.iter().map(stage).collect::<Result<_, _>>()?;
        let quell = quell(&asked.config)?;
        let is_quell = |name: &&str| *name == QUELL || name.starts_with(ABLATION);
        if quell.is_some() && !policies.iter().any(is_quell) {
            let words = "--config is for quell, which is not among the policies";
            return Err(Failure::usage(anyhow!(words)));
        }
        Ok(Self {
            stages,
            policies,
            options: Options {
                seed: asked.seed,
                quell,
                ..Options::default()
            },
            bounds: bounds(&asked.bound)?,
            command: again(asked, command, &names),
        })
    }

    /// What has to hold for this policy; `None`: it is only looked at.
    pub(super) fn bounds_of(&self, scenario: &Scenario, policy: &str) -> Option<Bounds> {
        if policy == QUELL {
            return Some(self.bounds.clone().or(&scenario.bounds));
        }
        let is_asked = self.bounds != Bounds::default() && !self.policies.contains(&QUELL);
        is_asked.then(|| self.bounds.clone())
    }
}

/// The policies of these names and groups, each once, in the order in which they are named.
fn policies_of(names: &[String]) -> Result<Vec<&'static str>, Failure> {
    let mut found: Vec<&'static str> = Vec::new();
    for name in names {
        let fits = |policy: &&str| match name.as_str() {
            "all" => !policy.starts_with(ABLATION),
            "ablations" => *policy == QUELL || policy.starts_with(ABLATION),
            name => *policy == name,
        };
        let fitting: Vec<_> = policies().map(|policy| policy.name).filter(fits).collect();
        if fitting.is_empty() {
            let known: Vec<_> = policies().map(|policy| policy.name).collect();
            let known = known.join(", ");
            return Err(Failure::usage(anyhow!(
                "no policy is called {name:?}; there are all, ablations, {known}"
            )));
        }
        for policy in fitting {
            if !found.contains(&policy) {
                found.push(policy);
            }
        }
    }
    Ok(found)
}

fn stage(name: &str, asked: &Asked) -> Result<Stage, Failure> {
    let text = match named(name) {
        Some(named) => named.text.to_owned(),
        None => text_of(name)?,
    };
    let read = || -> anyhow::Result<Scenario> {
        let mut scenario = Scenario::from_toml(&text)?;
        let fleet = &mut scenario.fleet;
        fleet.clients = asked.clients.unwrap_or(fleet.clients);
        fleet.providers = asked.providers.unwrap_or(fleet.providers);
        scenario.check()?;
        Ok(scenario)
    };
    let scenario = read().context(name.to_owned()).map_err(Failure::usage)?;
    Ok(Stage {
        scenario,
        about: scenario::about(&text),
    })
}

/// The text of a file, of which no more is read than a scenario may have.
fn text_of(name: &str) -> Result<String, Failure> {
    let path = Path::new(name);
    if !path.exists() {
        return Err(no_such(name));
    }
    let read = || -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        let most = TEXT_BYTES_MAX as u64 + 1;
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(String::from_utf8(bytes)?)
    };
    read().context(name.to_owned()).map_err(Failure::usage)
}

/// Neither a scenario nor a file is called so.
pub(super) fn no_such(name: &str) -> Failure {
    let known: Vec<_> = library().iter().map(|named| named.name).collect();
    Failure::usage(anyhow!(
        "no scenario and no file is called {name:?}; there are {}",
        known.join(", ")
    ))
}

/// quell's configuration from files; `None`: all of it is the default.
fn quell(files: &[PathBuf]) -> Result<Option<(ClientConfig, ProviderConfig)>, Failure> {
    let (mut client, mut provider) = (None, None);
    for path in files {
        let is_second = match config::load(path).map_err(Failure::usage)? {
            Config::Client(file) => client.replace(file.core()).is_some(),
            Config::Provider(file) => provider.replace(file.core()).is_some(),
        };
        if is_second {
            let words = "--config takes one client's and one provider's file at most";
            return Err(Failure::usage(anyhow!("{}: {words}", path.display())));
        }
    }
    if files.is_empty() {
        return Ok(None);
    }
    Ok(Some((
        client.unwrap_or_default(),
        provider.unwrap_or_default(),
    )))
}

fn bounds(texts: &[String]) -> Result<Bounds, Failure> {
    let mut bounds = Bounds::default();
    for text in texts {
        let Some((key, value)) = text.split_once('=') else {
            return Err(Failure::usage(anyhow!(
                "--bound {text}: allowed is KEY=VALUE"
            )));
        };
        let set = bounds.set(key.trim(), value.trim());
        set.context("--bound").map_err(Failure::usage)?;
    }
    Ok(bounds)
}

/// The command that makes the same report. Where results go and how fast is the reader's own affair.
fn again(asked: &Asked, command: &str, policies: &[String]) -> String {
    let mut words = format!(
        "quell sim {command} --policy {} --seed {}",
        quoted(&policies.join(",")),
        asked.seed
    );
    if let Some(clients) = asked.clients {
        words += &format!(" --clients {clients}");
    }
    if let Some(providers) = asked.providers {
        words += &format!(" --providers {providers}");
    }
    for path in &asked.config {
        words += &format!(" --config {}", quoted(&path.display().to_string()));
    }
    for bound in &asked.bound {
        words += &format!(" --bound {}", quoted(bound));
    }
    words
}

/// A word as a shell takes it for one.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./,=:+".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_quoted_word_for_one() {
        assert_eq!(quoted("a-b/c.toml"), "a-b/c.toml");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn groups_hold_quell_first_and_each_policy_once() {
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            policies_of(&names).ok()
        };
        let all = of(&["all"]).unwrap_or_default();
        assert_eq!(all.first(), Some(&QUELL));
        assert!(!all.iter().any(|name| name.starts_with(ABLATION)));
        let ablations = of(&["ablations"]).unwrap_or_default();
        assert_eq!(ablations.first(), Some(&QUELL));
        assert!(
            ablations.len() > 1 && ablations[1..].iter().all(|name| name.starts_with(ABLATION))
        );
        let every = of(&["all", "ablations", "quell"]).unwrap_or_default();
        assert_eq!(every.len(), all.len() + ablations.len() - 1);
        assert_eq!(every.len(), policies().count());
        assert_eq!(of(&["quel"]), None);
        assert_eq!(of(&[""]), None);
    }
}
