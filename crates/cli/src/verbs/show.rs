//! `quell show dump`: a status as lines for scripts, like `wg show dump`.

use clap::{Args, Subcommand};

use crate::socket::{self, Sockets};
use crate::{Failure, Streams, dump};

/// Show a running quell for scripts
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// One thing a line, fields separated by tabs: the quell, then its exits or sessions, then its control planes
    Dump(Sockets),
}

impl Show {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let What::Dump(sockets) = self.what;
        let status = socket::status(&sockets.one()?)?;
        write!(streams.out, "{}", dump::of(&status))?;
        Ok(())
    }
}
