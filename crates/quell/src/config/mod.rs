//! What a person writes: the client's and the provider's configuration file.
//!
//! One TOML file, snake_case, each key with a default where one can be right for
//! everybody. A file is a provider's if it says `listen`, a client's if it has a
//! `[provider]` table or, without `listen`, a `[backend]`. [`load`] goes
//!
//! ```text
//! bytes → TOML → typed file → QUELL_… overrides → ranges → key file
//! ```
//!
//! and stops at the first mistake with a [`LoadError`] that names the file, the
//! line, the key, what was written and what is allowed. After it nothing checks
//! a setting again.
//!
//! **Strict on purpose.** An unknown key is an error: a typing mistake in
//! `idle_timeout` must not silently mean the default. Durations are text
//! (`"30s"`), sizes too (`"2MiB"`), so that no number has to be guessed a unit.
//!
//! **Secrets.** The private key stands in a file of its own that only its owner
//! may read, so that the configuration can be shown, copied and put under version
//! control. Errors never repeat a secret key, wherever it was written by mistake.
//!
//! | variable | replaces | note |
//! |---|---|---|
//! | `QUELL_LOG` | `log.level` | |
//! | `QUELL_CONTROL_SOCKET` | `control.socket` | relative to the working directory |
//! | `QUELL_BACKEND_URLS` | `backend.urls` | separated by white space |
//! | `QUELL_PRIVATE_KEY_FILE` | `private_key_file` | relative to the working directory |
//!
//! An empty variable counts as unset. Only these few can be overridden: a setting
//! that a service manager or a container has to know differently from the file.
//!
//! The parts: `client` and `provider` are the two files, `common` what they
//! share, `rules` who may be spoken to, `address` a server's address, `text` how values are read from text,
//! `source` finds the line of a mistake, `key_file` reads the private key.

mod address;
mod backend;
mod client;
mod common;
mod egress;
mod error;
mod exits;
mod key_file;
mod lanes;
mod limits;
mod provider;
mod proxy;
mod rules;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod vpn;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use quell_core::config::ConfigError;
use quell_net::identity::Identity;
use quell_wire::key::{PublicKey, SecretKey};
use serde::de::DeserializeOwned;

pub use address::{AddressError, Host, ServerAddress};
pub use backend::BackendSection;
pub use client::{ClientFile, ClientTransport, TunSection};
pub use common::{ControlSection, LogLevel, LogSection, Offload};
pub use egress::{EgressKind, EgressSection, UserspaceSection};
pub use error::{LoadError, Place};
pub use exits::{FlapSection, ProviderPeer, RaceSection, WindowSection};
pub use key_file::read_private_key;
pub use lanes::LanesSection;
pub use limits::{BitRate, Limits, MonthBytes};
pub use provider::{Addresses, ClientEntry, ProviderFile, ProviderTransport};
pub use proxy::{DnsServer, ProxySection};
pub use quell_core::config::{LanesConfig, TcpLane};
pub use quell_core::provider::rules::{Rule, RuleError};
pub use quell_net::backend::{BACKENDS_MAX, BackendUrl, BackendUrlError};
pub use quell_net::transport::TransportSettings;
use source::Source;
pub use vpn::VpnSection;

/// Most bytes of a configuration file: room for some 8,000 clients of a provider.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A checked configuration, of either role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// The side that has the user's packets.
    Client(Box<ClientFile>),
    /// The exit.
    Provider(Box<ProviderFile>),
}

/// Reads and checks the file at `path`, with the process's `QUELL_…` variables.
///
/// Relative paths in the file are taken from the file's own folder.
///
/// # Errors
/// The first mistake, see [`LoadError`].
pub fn load(path: &Path) -> Result<Config, LoadError> {
    load_with(path, &|name| std::env::var_os(name))
}

/// As [`load`], with the variables that `variable` knows.
///
/// # Errors
/// The first mistake, see [`LoadError`].
pub fn load_with(
    path: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Config, LoadError> {
    let text = read_text(path)?;
    let source = Source::parse(path, &text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_provider = source.has("listen");
    let is_client = source.has("provider") || !is_provider && source.has("backend");
    match (is_client, is_provider) {
        (true, false) => {
            let file: ClientFile = finish(&source, folder, variable)?;
            Ok(Config::Client(Box::new(file)))
        }
        (false, true) => {
            let file: ProviderFile = finish(&source, folder, variable)?;
            Ok(Config::Provider(Box::new(file)))
        }
        (true, true) => Err(LoadError::BothRoles {
            path: path.to_owned(),
        }),
        (false, false) => Err(LoadError::NoRole {
            path: path.to_owned(),
        }),
    }
}

/// What the loader needs to know of either file.
trait RoleFile: DeserializeOwned {
    fn private_key_file(&mut self) -> &mut PathBuf;
    fn run_dir(&mut self) -> &mut PathBuf;
    /// Where what outlives the host's restart is kept, for a role that keeps anything.
    fn state_dir(&mut self) -> Option<&mut PathBuf> {
        None
    }
    fn control(&mut self) -> &mut ControlSection;
    fn backend(&mut self) -> &mut BackendSection;
    fn log(&mut self) -> &mut LogSection;
    /// A password's file, where there may be one.
    fn password_file(&mut self) -> Option<&mut PathBuf> {
        None
    }
    /// Reads what else is secret, so that a file is refused here and not where it is used.
    fn check_secrets(&self) -> Result<(), LoadError> {
        Ok(())
    }
    /// The public keys of the other side, with their settings' names.
    fn peers(&self) -> Vec<(String, PublicKey)>;
    fn checked(self) -> Result<Self, ConfigError>;
}

fn finish<F: RoleFile>(
    source: &Source<'_>,
    folder: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<F, LoadError> {
    let mut file: F = source.read()?;
    refuse_key_for_path(file.private_key_file()).map_err(|error| source.setting(error))?;
    // An absolute path replaces the folder.
    let resolve = |path: &mut PathBuf| *path = folder.join(&*path);
    resolve(file.private_key_file());
    resolve(file.run_dir());
    file.state_dir().into_iter().for_each(&resolve);
    file.control().socket.iter_mut().for_each(resolve);
    file.password_file().into_iter().for_each(resolve);

    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(value) = set("QUELL_LOG") {
        let text = value.to_string_lossy();
        file.log().level = text.parse().map_err(|allowed| LoadError::Setting {
            place: Place::Environment,
            error: ConfigError::new("QUELL_LOG", &text, allowed),
        })?;
    }
    if let Some(value) = set("QUELL_CONTROL_SOCKET") {
        file.control().socket = Some(value.into());
    }
    if let Some(value) = set("QUELL_PRIVATE_KEY_FILE") {
        *file.private_key_file() = value.into();
    }
    if let Some(value) = set("QUELL_BACKEND_URLS") {
        file.backend().urls = urls_of(&value.to_string_lossy())?;
    }
    let mut file = file.checked().map_err(|error| source.setting(error))?;
    let own = read_private_key(file.private_key_file())?;
    refuse_own_key(&own, &file.peers()).map_err(|error| source.setting(error))?;
    file.check_secrets()?;
    Ok(file)
}

/// The URLs of `QUELL_BACKEND_URLS`. Errors do not repeat them: they may hold credentials.
fn urls_of(text: &str) -> Result<Vec<BackendUrl>, LoadError> {
    const NAME: &str = "QUELL_BACKEND_URLS";
    let wrong = |error| LoadError::Setting {
        place: Place::Environment,
        error,
    };
    let urls = text.split_whitespace().zip(1..).map(|(url, number)| {
        let form = <BackendUrl as text::Text>::FORM;
        url.parse().map_err(|error: BackendUrlError| {
            wrong(ConfigError::new(
                NAME,
                format!("URL {number}, {error}"),
                form,
            ))
        })
    });
    let section = BackendSection {
        urls: urls.collect::<Result<_, _>>()?,
        ..BackendSection::default()
    };
    let settings = section.settings().try_new();
    let settings =
        settings.map_err(|error| wrong(ConfigError::new(NAME, error.value, error.allowed)));
    Ok(settings?.urls)
}

/// Of two key pairs the wrong public half is easily copied; it shows here, or as
/// a handshake that never succeeds.
fn refuse_own_key(own: &SecretKey, peers: &[(String, PublicKey)]) -> Result<(), ConfigError> {
    // A secret that has no public half is refused when it is used.
    let Ok(own) = Identity::from_secret(own).map(|identity| identity.public_key()) else {
        return Ok(());
    };
    match peers.iter().find(|(_, peer)| *peer == own) {
        None => Ok(()),
        Some((key, _)) => Err(ConfigError::new(
            key,
            own,
            "the other side's key; this one belongs to the key in private_key_file",
        )),
    }
}

/// A key pasted where its file's name belongs: as a path it would end up in messages and logs.
fn refuse_key_for_path(path: &Path) -> Result<(), ConfigError> {
    if !text::holds_secret(&path.to_string_lossy()) {
        return Ok(());
    }
    Err(ConfigError::new(
        "private_key_file",
        text::HIDDEN,
        "the path of a file that holds the key, not the key itself",
    ))
}

/// Reads a whole regular file of bounded size as text.
fn read_text(path: &Path) -> Result<String, LoadError> {
    let unreadable = |source| LoadError::Unreadable {
        path: path.to_owned(),
        source,
    };
    // Asked before opening: opening a named pipe would wait for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(LoadError::NotAFile {
            path: path.to_owned(),
        });
    }
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(unreadable)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(LoadError::TooLarge {
            path: path.to_owned(),
            bytes_max: FILE_BYTES_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        LoadError::NotText {
            path: path.to_owned(),
            line: 1 + good.iter().filter(|byte| **byte == b'\n').count(),
        }
    })
}
