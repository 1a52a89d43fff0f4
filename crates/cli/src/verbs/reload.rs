//! `quell reload`: has a running quell read its file again, and says what that changed.

use clap::Args;

use crate::rereading::lines;
use crate::socket::{self, Sockets};
use crate::{Failure, Streams};

/// Have a running quell read its file again, and take on what changed
#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    sockets: Sockets,
}

impl Reload {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let answer = socket::reload(&self.sockets.one()?)?;
        for line in lines(&answer) {
            writeln!(streams.out, "{line}")?;
        }
        Ok(())
    }
}
