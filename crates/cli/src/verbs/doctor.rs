//! `quell doctor`: looks at this machine, and says what to do.
//!
//! Warnings do not make it fail: what works, works. One problem does.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use serde_json::json;

use crate::checkup::{self, Level};
use crate::{Failure, Streams};

/// Look at this machine for what would keep a quell from working, and say what to do
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// A configuration file: look for what it needs, and no more
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON object: what was found, and the worst of it
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let findings = checkup::examine(self.file.as_deref());
        let worst = checkup::worst(&findings);
        match self.json {
            true => {
                let object = json!({"worst": worst, "findings": findings});
                writeln!(streams.out, "{object}")?;
            }
            false => write!(streams.out, "{}", checkup::text(&findings))?,
        }
        match worst {
            Level::Ok | Level::Warning => Ok(()),
            Level::Problem => Err(Failure::Failed(anyhow!("this machine has a problem"))),
        }
    }
}
