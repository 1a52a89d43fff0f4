//! `quell completions SHELL` and `quell man`: what shells and `man` want to know of this command line, made of it.
//!
//! A package runs both when it is built, so that neither can be of another version than the command.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;

use crate::{Failure, Streams};

/// Print what a shell needs to complete this command line
#[derive(Debug, Args)]
#[command(
    after_help = "bash: quell completions bash > /etc/bash_completion.d/quell\n\
                        zsh:  quell completions zsh > /usr/local/share/zsh/site-functions/_quell\n\
                        fish: quell completions fish > ~/.config/fish/completions/quell.fish"
)]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        // Into memory first: the writer of completions does not tell of an error.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "quell", &mut text);
        streams.out.write_all(&text)?;
        Ok(())
    }
}

/// Write the manual's pages, one a verb
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder that they go to; it is made if need be
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Man {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let folder = &self.out;
        let failed = || format!("cannot write to {}", folder.display());
        fs::create_dir_all(folder).with_context(failed)?;
        clap_mangen::generate_to(crate::command(), folder).with_context(failed)?;
        writeln!(streams.out, "{}", folder.join("quell.1").display())?;
        Ok(())
    }
}
