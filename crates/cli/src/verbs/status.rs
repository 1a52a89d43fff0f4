//! `quell status`: how a running quell is doing.
//!
//! For people everything is a table, and the control plane one line of it; programs get
//! all of it as one object.

use clap::Args;
use serde_json::Value;

use crate::socket::{self, Sockets};
use crate::table::Table;
use crate::{Failure, Streams};

/// Show how a running quell is doing
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    sockets: Sockets,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let status = socket::status(&self.sockets.one()?)?;
        match self.json {
            true => writeln!(streams.out, "{status}")?,
            false => write!(streams.out, "{}", Table::of(&for_people(status)))?,
        }
        Ok(())
    }
}

/// The backend in the one line that its report has for people.
fn for_people(mut status: Value) -> Value {
    if let Some(backend) = status.get_mut("backend")
        && let Some(reason) = backend.get_mut("reason").map(Value::take)
    {
        *backend = reason;
    }
    status
}
