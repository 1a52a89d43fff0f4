//! `quell pubkey`: the public half of a secret key.
//!
//! A file is read under the same rules as `private_key_file` is, so that a key
//! others may read is noticed here as well.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use quell::config::read_private_key;
use quell_net::identity::Identity;
use quell_wire::key::SecretKey;

use crate::{Failure, Streams};

/// Most bytes of standard input that are read; a key has 67.
const INPUT_BYTES_MAX: u64 = 4096;

/// Print the public key of a secret key
#[derive(Debug, Args)]
pub(crate) struct Pubkey {
    /// The secret key's file; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

impl Pubkey {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let secret = if self.file == Path::new("-") {
            read_input(streams.input)?
        } else {
            read_private_key(&self.file)?
        };
        let identity = Identity::from_secret(&secret)?;
        writeln!(streams.out, "{}", identity.public_key())?;
        Ok(())
    }
}

fn read_input(input: &mut dyn Read) -> anyhow::Result<SecretKey> {
    let mut text = String::new();
    input
        .take(INPUT_BYTES_MAX)
        .read_to_string(&mut text)
        .context("cannot read standard input")?;
    text.parse().context("standard input")
}
