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
//! `source` finds the line of a mistake, `key_file` reads the private key, `keys` compares what two files say.

mod address;
mod backend;
mod client;
mod common;
#[cfg(feature = "provider")]
mod egress;
mod error;
mod exits;
mod key_file;
mod keys;
mod lanes;
#[cfg(feature = "provider")]
mod limits;
#[cfg(feature = "provider")]
mod provider;
mod proxy;
#[cfg(feature = "provider")]
mod rules;
mod source;
#[cfg(all(test, feature = "provider"))]
mod tests;
mod text;
mod vpn;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use quell_core::config::ConfigError;
use quell_net::identity::Identity;
use quell_wire::key::PublicKey;
use serde::de::DeserializeOwned;

pub use address::{AddressError, Host, ServerAddress};
pub use backend::BackendSection;
pub use client::{ClientFile, ClientTransport, TunSection};
pub use common::{ControlSection, LogLevel, LogSection, MetricsSection, Offload};
#[cfg(feature = "provider")]
pub use egress::{EgressKind, EgressSection, UserspaceSection};
pub use error::{LoadError, Place};
pub use exits::{FlapSection, ProviderPeer, RaceSection, WindowSection};
pub use key_file::read_private_key;
pub use keys::{Change, Keys};
pub use lanes::LanesSection;
#[cfg(feature = "provider")]
pub use limits::{BitRate, Limits, MonthBytes};
#[cfg(feature = "provider")]
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
    #[cfg(feature = "provider")]
    Provider(Box<ProviderFile>),
}

impl Config {
    /// Reads and checks the file at `path`: see [`load`].
    ///
    /// # Errors
    /// The first mistake, see [`LoadError`].
    pub fn from_file(path: &Path) -> Result<Self, LoadError> {
        load(path)
    }

    /// Reads and checks a text of the same form. No environment variable has a say, relative paths are taken from the
    /// working directory, and `private_key_file` may be left out: the builders take the key itself.
    ///
    /// ```
    /// let text = r#"
    ///     [provider]
    ///     address = "vpn.example.net"
    ///     public_key = "qpub1s98mt0m9qmgwgpl7yzjlhdlq7jx0zfg9qgkspgt2k0tuq94y7pjsknk2wc"
    /// "#;
    /// # let text = &text.replace("qpub1s98mt0m9qmgwgpl7yzjlhdlq7jx0zfg9qgkspgt2k0tuq94y7pjsknk2wc",
    /// #     &quell::Identity::generate().unwrap().public_key().to_string());
    /// let config = quell::Config::from_text(text)?;
    /// let typo = quell::Config::from_text(&text.replace("address", "adress"));
    /// assert!(typo.unwrap_err().to_string().contains("unknown field `adress`"));
    /// # assert!(matches!(config, quell::Config::Client(_)));
    /// # Ok::<(), quell::config::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// The first mistake, see [`LoadError`].
    pub fn from_text(text: &str) -> Result<Self, LoadError> {
        let source = Source::parse(Path::new("configuration"), text)?;
        read(&source, Path::new(""), &|_| None)
    }
}

impl From<ClientFile> for Config {
    fn from(file: ClientFile) -> Self {
        Self::Client(Box::new(file))
    }
}

#[cfg(feature = "provider")]
impl From<ProviderFile> for Config {
    fn from(file: ProviderFile) -> Self {
        Self::Provider(Box::new(file))
    }
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
    of_text(path, &read_text(path)?, variable)
}

/// As [`load`], with what the file says key by key: for whoever will read it again.
///
/// # Errors
/// The first mistake, see [`LoadError`].
pub fn load_with_keys(path: &Path) -> Result<(Config, Keys), LoadError> {
    let text = read_text(path)?;
    let config = of_text(path, &text, &|name| std::env::var_os(name))?;
    Ok((config, Keys::of(&text)))
}

/// What the file at `path` says key by key, whether or not it is a good one.
///
/// # Errors
/// It cannot be read, or is no TOML.
pub fn keys_of(path: &Path) -> Result<Keys, LoadError> {
    let text = read_text(path)?;
    Source::parse(path, &text)?;
    Ok(Keys::of(&text))
}

fn of_text(
    path: &Path,
    text: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Config, LoadError> {
    let source = Source::parse(path, text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let config = read(&source, folder, variable)?;
    let key_file = match &config {
        Config::Client(file) => &file.private_key_file,
        #[cfg(feature = "provider")]
        Config::Provider(file) => &file.private_key_file,
    };
    if key_file.as_os_str().is_empty() {
        return Err(source.lacks("private_key_file"));
    }
    Ok(config)
}

fn read(
    source: &Source<'_>,
    folder: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Config, LoadError> {
    let is_provider = source.has("listen");
    let is_client = source.has("provider") || !is_provider && source.has("backend");
    match (is_client, is_provider) {
        (true, false) => {
            let file: ClientFile = finish(source, folder, variable)?;
            Ok(Config::Client(Box::new(file)))
        }
        #[cfg(feature = "provider")]
        (false, true) => {
            let file: ProviderFile = finish(source, folder, variable)?;
            Ok(Config::Provider(Box::new(file)))
        }
        (true, true) => Err(LoadError::BothRoles {
            path: source.path(),
        }),
        #[cfg(not(feature = "provider"))]
        (false, true) => Err(LoadError::NoRole {
            path: source.path(),
        }),
        (false, false) => Err(LoadError::NoRole {
            path: source.path(),
        }),
    }
}

/// What the loader needs to know of either file.
pub(crate) trait RoleFile: DeserializeOwned {
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
    // An absolute path replaces the folder; none stays none.
    let resolve = |path: &mut PathBuf| {
        if !path.as_os_str().is_empty() {
            *path = folder.join(&*path);
        }
    };
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
    if !file.private_key_file().as_os_str().is_empty() {
        let own = read_private_key(file.private_key_file())?;
        // A secret that has no public half is refused when it is used.
        if let Ok(own) = Identity::from_secret(&own) {
            let refused = refuse_own_key(own.public_key(), &file.peers());
            refused.map_err(|error| source.setting(error))?;
        }
    }
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
pub(crate) fn refuse_own_key(
    own: PublicKey,
    peers: &[(String, PublicKey)],
) -> Result<(), ConfigError> {
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
