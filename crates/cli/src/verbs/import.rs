//! `quell import`: a client made of a wg-quick file.
//!
//! Every line of the file is answered: what became of it, or that it was left. The client gets a new key; the file's is
//! never copied. Hooks are never run. Nothing that is there is replaced, and what was begun is removed when it fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use quell::config;
use quell_net::identity::Identity;
use quell_wire::key::PublicKey;

use super::keygen;
use crate::wg_quick::{self, FILE_BYTES_MAX, Found};
use crate::{Failure, Streams};

/// Make a client of a wg-quick file: its routes, names' servers and MTU, with a new key
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file, such as wg0.conf
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The folder for client.toml and client.key
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The quell provider's public key; without it the file says where it goes
    #[arg(long, value_name = "KEY")]
    provider_key: Option<PublicKey>,
}

impl Import {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let found = self.read()?;
        let config = self.folder.join("client.toml");
        let key = self.folder.join("client.key");
        for path in [&config, &key] {
            if path.exists() {
                let words = format!("{} is there already: choose another folder", path.display());
                return Err(Failure::usage(anyhow!(words)));
            }
        }
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create {}", self.folder.display()))?;
        keygen::make(&key)?;
        let text = found.client_file(self.provider_key.as_ref());
        if let Err(error) = write_new(&config, &text) {
            let _ = fs::remove_file(&key);
            return Err(Failure::Failed(error));
        }
        let public = match config::read_private_key(&key) {
            Ok(secret) => Identity::from_secret(&secret)?.public_key(),
            Err(error) => return Err(error.into()),
        };
        for note in &found.notes {
            writeln!(
                streams.out,
                "line {:<4} {:<20} {}",
                note.line, note.key, note.words
            )?;
        }
        writeln!(streams.out, "\nA new key was made: {}", key.display())?;
        writeln!(streams.out, "Its public half, for the provider: {public}")?;
        match (&self.provider_key, &found.endpoint) {
            (Some(_), Some(_)) => {
                config::load(&config)?;
                writeln!(streams.out, "Next: quell up {}", config.display())?;
            }
            (_, None) => writeln!(streams.out, "Write the provider into {}", config.display())?,
            (None, Some(_)) => {
                let path = config.display();
                writeln!(streams.out, "Write the provider's public key into {path}")?;
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<Found, Failure> {
        let what = || format!("cannot read {}", self.file.display());
        let mut bytes = Vec::new();
        // One more than is taken, so that a longer one is noticed.
        let limit = FILE_BYTES_MAX as u64 + 1;
        let file = File::open(&self.file).with_context(what)?;
        file.take(limit)
            .read_to_end(&mut bytes)
            .with_context(what)?;
        let refused = |words| Failure::usage(anyhow!("{}: {words}", self.file.display()));
        wg_quick::read(&bytes).map_err(refused)
    }
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}
