//! `quell backend`: runs the reference control plane.
//!
//! With `--new` a file that is not there is made first, with what it needs beside it, so that one command starts a backend:
//!
//! ```text
//! FOLDER/backend.toml    listens on the loopback, store in a file
//! FOLDER/signing.key     signs contracts
//! FOLDER/admin.token     for `quell invite` and the admin API
//! ```
//!
//! The secrets are made before the file that names them, and none of the three is ever replaced: what is there stays, so a
//! start that failed half way is mended by the same command.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use quell::config::LogLevel;
use quell_backend::config::ServerConfig;
use quell_backend::server::Server;
use quell_wire::key::SecretKey;
use tokio::runtime::Builder;
use tracing::info;

use super::keygen;
use crate::{Failure, Streams, daemon};

/// The files beside the configuration.
const KEY_FILE: &str = "signing.key";
const TOKEN_FILE: &str = "admin.token";
const STORE_FILE: &str = "backend.redb";

/// Run a control plane: enrolment, catalog, contracts, receipts
#[derive(Debug, Args)]
pub(crate) struct Backend {
    /// The backend's configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Make the file, with its keys beside it, if it is not there
    #[arg(long)]
    new: bool,
    /// With --new: where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6620")]
    listen: SocketAddr,
}

impl Backend {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        if self.new && !self.file.exists() {
            self.make()?;
        }
        daemon::start_log(LogLevel::Info);
        daemon::raise_file_limit();
        let config = ServerConfig::load(&self.file).map_err(Failure::usage)?;
        // One thread does: what takes time is the store, which has its own, and more servers share one PostgreSQL.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let scheme = if config.tls.is_some() {
                "https"
            } else {
                "http"
            };
            let server = Server::start(config).await?;
            let address = server.local_addr();
            writeln!(streams.out, "backend: {scheme}://{address}")?;
            streams.out.flush()?;
            info!(%address, "backend is ready");
            server.serve(daemon::told_to_stop()?).await;
            Ok(())
        })
    }

    fn make(&self) -> Result<(), Failure> {
        let folder = match self.file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
        let key = folder.join(KEY_FILE);
        if !key.exists() {
            keygen::make(&key)?;
        }
        write_once(&folder.join(TOKEN_FILE), 0o600, &token()?)?;
        let listen = self.listen;
        let text = format!(
            "listen = \"{listen}\"\nstore = {{ redb = {STORE_FILE:?} }}\nsigning_key_file = {KEY_FILE:?}\n\
             admin_token_file = {TOKEN_FILE:?}\n"
        );
        write_once(&self.file, 0o644, &text)
    }
}

/// A token that nobody guesses: the text of a key that is used for nothing else.
fn token() -> Result<String, Failure> {
    let identity = quell_net::identity::Identity::generate()?;
    let text = SecretKey::to_text(identity.secret_key());
    // Without the word that says "secret key", which it is not.
    let random = text.rsplit_once('1').map_or("", |(_, random)| random);
    Ok(format!("{random}\n"))
}

fn write_once(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let written = || -> io::Result<()> {
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(path);
        let mut file = match opened {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            opened => opened?,
        };
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        written.inspect_err(|_| {
            // Half a file would be kept by the next attempt.
            let _ = std::fs::remove_file(path);
        })
    };
    Ok(written().with_context(|| format!("cannot write {}", path.display()))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_made_can_be_loaded_and_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let backend = Backend {
            file: home.path().join("deep/backend.toml"),
            new: true,
            listen: "127.0.0.1:6620".parse().unwrap(),
        };
        assert!(backend.make().is_ok());
        let config = ServerConfig::load(&backend.file).unwrap();
        assert!(config.admin_token.is_some());
        let token = std::fs::read_to_string(home.path().join("deep/admin.token")).unwrap();
        assert!(!token.contains("quellsec"), "it is no key");
        std::fs::write(&backend.file, "mine").unwrap();
        assert!(backend.make().is_ok());
        assert_eq!(std::fs::read_to_string(&backend.file).unwrap(), "mine");
        let same = std::fs::read_to_string(home.path().join("deep/admin.token")).unwrap();
        assert_eq!(same, token);
    }
}
