//! `quell check`: is a configuration file good, what does it mean, and what will an outage cost with it?
//!
//! Goes through the very loading that `up` and `provide` begin with, so a file
//! that passes here is not refused there. Then comes the arithmetic, for one round trip: copies, resends and their
//! times, bytes, recoveries, requests, memory; and what in the file does not fit together. Warnings do not make a file
//! a bad one: `up` takes it.
//!
//! | file | what it shows |
//! |---|---|
//! | `meaning` | the settings, defaults filled in |
//! | `figures` | what they come to |

mod figures;
mod meaning;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use quell::arithmetic::{self, ClientFigures, ProviderFigures, Warning};
use quell::config::{self, Config};
use quell_backend::config::ServerConfig;
use serde_json::json;

use crate::verbs::arguments::duration;
use crate::{Failure, Streams};

/// The round trips that figures are made for.
const RTT_MIN: Duration = Duration::from_millis(1);
const RTT_MAX: Duration = Duration::from_secs(10);

/// Check a configuration file, print what it means and what an outage costs with it
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The file, of a client, a provider or a backend
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The round trip that figures are made for, 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = rtt)]
    rtt: Duration,
    /// Print one JSON object: the role, the figures, and the warnings in them
    #[arg(long)]
    json: bool,
}

fn rtt(text: &str) -> Result<Duration, String> {
    duration(text, RTT_MIN..=RTT_MAX)
}

/// What a file comes to.
enum Figures {
    Client(Box<ClientFigures>),
    Provider(Box<ProviderFigures>),
}

impl Figures {
    fn of(config: &Config, rtt: Duration) -> Result<Self, Failure> {
        Ok(match config {
            Config::Client(file) => Self::Client(Box::new(arithmetic::of_client_file(file, rtt))),
            Config::Provider(file) => {
                let figures = arithmetic::of_provider_file(file, rtt).map_err(Failure::usage)?;
                Self::Provider(Box::new(figures))
            }
        })
    }

    fn role(&self) -> &'static str {
        match self {
            Self::Client(_) => "client",
            Self::Provider(_) => "provider",
        }
    }

    fn warnings(&self) -> &[Warning] {
        match self {
            Self::Client(figures) => &figures.warnings,
            Self::Provider(figures) => &figures.warnings,
        }
    }
}

impl Check {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        if is_backend(&self.file) {
            return self.run_backend(streams);
        }
        let config = config::load(&self.file).map_err(Failure::usage)?;
        // Before anything is shown: keys are read for it.
        let meaning = match &config {
            Config::Client(file) => meaning::client(file)?,
            Config::Provider(file) => meaning::provider(file)?,
        };
        let figures = Figures::of(&config, self.rtt)?;
        let (file, role) = (self.file.display(), figures.role());
        if self.json {
            let figures = match &figures {
                Figures::Client(figures) => serde_json::to_value(figures)?,
                Figures::Provider(figures) => serde_json::to_value(figures)?,
            };
            let object = json!({"file": file.to_string(), "role": role, "figures": figures});
            writeln!(streams.out, "{object}")?;
            return Ok(());
        }
        let table = match &figures {
            Figures::Client(figures) => figures::client(figures),
            Figures::Provider(figures) => figures::provider(figures),
        };
        writeln!(streams.out, "{file} is good: a {role}\n\n{meaning}")?;
        writeln!(
            streams.out,
            "What it comes to at a round trip of {:?} (--rtt for another)\n\n{table}",
            self.rtt
        )?;
        match figures.warnings() {
            [] => writeln!(streams.out, "no warnings")?,
            warnings => {
                for warning in warnings {
                    writeln!(streams.out, "warning: {warning}")?;
                }
            }
        }
        Ok(())
    }

    /// The file of a control plane: it is good or not, an outage costs it nothing.
    fn run_backend(&self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let config = ServerConfig::load(&self.file).map_err(Failure::usage)?;
        let file = self.file.display();
        if self.json {
            let object = json!({"file": file.to_string(), "role": "backend"});
            writeln!(streams.out, "{object}")?;
            return Ok(());
        }
        writeln!(
            streams.out,
            "{file} is good: a backend\n\n{}",
            meaning::backend_file(&config)
        )?;
        Ok(())
    }
}

/// Whether a file says where a backend's books are kept, as no other does.
pub(crate) fn is_backend(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| {
        line.starts_with("store")
            && line
                .trim_start_matches("store")
                .trim_start()
                .starts_with('=')
    }) || text.lines().any(|line| line.trim() == "[store]")
}
