//! `quell keygen`: a new key pair.
//!
//! With `--out` the secret key goes into a file that nobody else may read from
//! its first moment, and the public key to standard output. The file is created,
//! never replaced: an overwritten key is gone for good, and with it everybody who
//! knows its public half. If it cannot be written whole, it is removed again.
//! Without `--out` the secret goes to standard output, for pipelines, and the
//! public key to standard error.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use quell_net::identity::Identity;
use quell_wire::key::SecretKey;

use crate::{Failure, Streams};

/// Make a key pair
#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// Write the secret key to this new file (mode 0600) and print the public key;
    /// without it the secret key is printed, and the public key goes to standard error
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Keygen {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let identity = Identity::generate()?;
        let secret = identity.secret_key();
        match self.out {
            Some(path) => {
                write_new(&path, secret)
                    .with_context(|| format!("cannot write the key to {}", path.display()))?;
                let said = writeln!(streams.out, "{}", identity.public_key());
                said.and_then(|()| streams.out.flush()).with_context(|| {
                    format!(
                        "the key is in {0}, but its public half could not be printed (see quell pubkey {0})",
                        path.display()
                    )
                })?;
            }
            None => {
                let said = writeln!(streams.out, "{}", secret.to_text());
                said.and_then(|()| streams.out.flush())
                    .context("the key could not be printed")?;
                writeln!(streams.err, "{}", identity.public_key())?;
            }
        }
        Ok(())
    }
}

/// Makes a key pair whose secret half is in the new file `path`.
///
/// # Errors
/// The file is there, or cannot be written.
pub(super) fn make(path: &Path) -> anyhow::Result<()> {
    let identity = Identity::generate()?;
    write_new(path, identity.secret_key())
        .with_context(|| format!("cannot write the key to {}", path.display()))
}

fn write_new(path: &Path, secret: &SecretKey) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = writeln!(file, "{}", secret.to_text()).and_then(|()| file.sync_all());
    written.inspect_err(|_| {
        // Ours and useless; the reason to be told is the failed write.
        let _ = std::fs::remove_file(path);
    })
}
