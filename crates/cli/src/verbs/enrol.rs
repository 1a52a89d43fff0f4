//! `quell enrol`: redeems an invitation, and leaves a folder that `up` or `provide` starts from.
//!
//! ```text
//! FOLDER/quell.key       made here, if it is not there; its public half is what is enrolled
//! FOLDER/client.toml     or provider.toml, as the invitation is for one or the other
//! FOLDER/state/          of the process that will run
//! ```
//!
//! The same command again does the same: the key is kept, the backend knows it, and a configuration file that is there
//! stays as its owner left it. So a connection that breaks in the middle, or a full disk, is mended by asking again.
//! The key is written before it is enrolled: an enrolled key that nobody has would be an invitation wasted.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use quell::backend::api::{EnrolAnswer, EnrolRequest, Role};
use quell::backend::ask::Backend as _;
use quell::backend::http::{BaseUrl, HttpBackend};
use quell::config::read_private_key;
use quell_wire::key::SecretKey;

use super::keygen;
use super::provide::Provide;
use super::up::Up;
use crate::{Failure, Streams};

/// How long the backend may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// The file of the key, in the folder.
const KEY_FILE: &str = "quell.key";

/// Join a backend with an invitation, and write what `up` or `provide` starts from
#[derive(Debug, Args)]
pub(crate) struct Enrol {
    /// The backend's URL
    #[arg(value_name = "URL")]
    backend: BaseUrl,
    /// The invitation, as `quell invite` printed it
    #[arg(value_name = "INVITATION")]
    invitation: String,
    /// The folder for the key and the configuration, made if it is not there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// What people are to call it
    #[arg(long, value_name = "NAME", default_value = "quell")]
    name: String,
    /// A client: make no interface, let applications speak SOCKS5 to this address, such as 127.0.0.1:1080
    #[arg(long, value_name = "ADDR")]
    socks5: Option<SocketAddr>,
    /// A provider: where to listen
    #[arg(long, value_name = "ADDR", default_value = "[::]:6610")]
    listen: SocketAddr,
    /// A provider: where clients reach it, HOST:PORT; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Vec<String>,
    /// A provider: let clients reach a network that is denied to them otherwise, such as 192.168.1.0/24; may be repeated
    #[arg(long, value_name = "PREFIX")]
    allow: Vec<String>,
    /// Start it at once, as `up` or `provide` would
    #[arg(long)]
    start: bool,
}

impl Enrol {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let secret = self.own_key()?;
        let answer = self.redeem(secret)?;
        let (file, verb) = match answer.role {
            Role::Client => ("client.toml", "up"),
            Role::Provider => ("provider.toml", "provide"),
        };
        let path = self.folder.join(file);
        let kept = write_once(&path, &self.configuration(answer.role))
            .with_context(|| format!("cannot write {}", path.display()))?;
        let shown = path.display();
        writeln!(streams.out, "enrolled as {}", answer.name)?;
        if kept {
            writeln!(streams.err, "{shown} was there, and stays as it is")?;
        }
        match (self.start, answer.role) {
            (false, _) => {
                writeln!(streams.out, "start it with: quell {verb} {shown}")?;
                Ok(())
            }
            (true, Role::Client) => Up::of(path).run(streams),
            (true, Role::Provider) => Provide::of(path).run(streams),
        }
    }

    fn own_key(&self) -> Result<SecretKey, Failure> {
        let folder = &self.folder;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(KEY_FILE);
        if !path.exists() {
            keygen::make(&path)?;
        }
        Ok(read_private_key(&path)?)
    }

    fn redeem(&self, secret: SecretKey) -> Result<EnrolAnswer, Failure> {
        let request = EnrolRequest {
            invitation: self.invitation.trim().to_owned(),
            name: self.name.clone(),
            addresses: self.advertise.clone(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let backend = HttpBackend::new(self.backend.clone(), secret, ANSWER_TIMEOUT)?;
        let answer = runtime.block_on(backend.enrol(&request))?;
        if answer.role == Role::Provider && self.advertise.is_empty() {
            return Err(Failure::usage(anyhow!(
                "the invitation is for a provider: say where clients reach it, with --advertise HOST:PORT"
            )));
        }
        Ok(answer)
    }

    fn configuration(&self, role: Role) -> String {
        let mut text = String::new();
        let url = self.backend.to_string();
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "private_key_file = {KEY_FILE:?}\nstate_dir = \"state\""
        );
        match role {
            Role::Client => {
                let _ = writeln!(text, "\n[backend]\nurl = {url:?}");
                if let Some(address) = self.socks5 {
                    let _ = writeln!(text, "\n[proxy]\nsocks5 = \"{address}\"");
                }
            }
            Role::Provider => {
                let listen = self.listen;
                let _ = writeln!(text, "listen = \"{listen}\"");
                let _ = writeln!(text, "\n[addresses]\nipv4_pool = \"10.85.0.0/16\"");
                let _ = writeln!(
                    text,
                    "\n[backend]\nurl = {url:?}\nadvertise = {:?}",
                    self.advertise
                );
                if !self.allow.is_empty() {
                    let _ = writeln!(text, "\n[egress]\nallow = {:?}", self.allow);
                }
            }
        }
        text
    }
}

/// Writes a new file; whether one was there, which stays.
fn write_once(path: &Path, text: &str) -> io::Result<bool> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(true),
        opened => opened?,
    };
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.inspect_err(|_| {
        // Half a file would be kept by the next attempt.
        let _ = fs::remove_file(path);
    })?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;
    use quell::config::{self, Config};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        enrol: Enrol,
    }

    fn enrol(rest: &[&str]) -> Enrol {
        let line = ["quell", "http://127.0.0.1:6620", "quellinv1x", "folder"];
        Line::parse_from(line.iter().chain(rest)).enrol
    }

    fn loaded(text: &str) -> Config {
        let folder = tempfile::tempdir().unwrap();
        keygen::make(&folder.path().join(KEY_FILE)).unwrap();
        let path = folder.path().join("quell.toml");
        assert!(!write_once(&path, text).unwrap());
        config::load(&path).unwrap()
    }

    #[test]
    fn what_is_written_can_be_loaded() {
        let client = enrol(&["--socks5", "127.0.0.1:1080"]);
        match loaded(&client.configuration(Role::Client)) {
            Config::Client(file) => {
                assert_eq!(file.proxy.socks5, "127.0.0.1:1080".parse().ok());
                assert!(file.state_dir.ends_with("state"));
                assert!(file.backend.url.is_some());
            }
            Config::Provider(_) => panic!("a provider"),
        }
        let provider = enrol(&[
            "--advertise",
            "vpn.example.net:6610",
            "--listen",
            "0.0.0.0:6611",
        ]);
        match loaded(&provider.configuration(Role::Provider)) {
            Config::Provider(file) => {
                assert_eq!(file.listen, "0.0.0.0:6611".parse().unwrap());
                assert_eq!(
                    file.backend.advertise[0].to_string(),
                    "vpn.example.net:6610"
                );
            }
            Config::Client(_) => panic!("a client"),
        }
    }

    #[test]
    fn a_file_that_is_there_stays_and_half_a_file_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.toml");
        assert!(!write_once(&path, "mine").unwrap());
        assert!(write_once(&path, "other").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        write_once(&folder.path().join("none/client.toml"), "x").unwrap_err();
    }
}
