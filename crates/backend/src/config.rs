//! The reference server's file: TOML, snake_case, unknown keys refused, each value checked once.
//!
//! ```toml
//! listen = "127.0.0.1:8080"
//! store = { redb = "backend.redb" }      # or { postgres = "postgres://…" }
//! signing_key_file = "signing.key"       # as `quell keygen` writes it
//! admin_token_file = "admin.token"       # at least 32 characters; without it there is no admin API
//! ```
//!
//! Relative paths are taken from the file's own folder. Secrets stand in files of their own that only their owner may
//! read, so that this one can be shown; no error repeats what a secret's file holds, nor the URL of a database.
//!
//! Durations are text (`"30s"`), sizes text with a unit (`"4GiB"`) or a number of bytes.

pub(crate) mod secrets;
mod sections;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use quell_core::config::ConfigError;
use quell_wire::key::PublicKey;
use serde::Deserialize;
use zeroize::Zeroizing;

pub use self::secrets::AdminToken;
use self::sections::{
    CatalogSection, ContractsSection, FlapSection, LimitsSection, MetricsSection, ProbeSection,
    StoreSection,
};
use crate::catalog::CatalogConfig;
use crate::probe::ProbeConfig;
use crate::server::{LimitsConfig, ServerError};
use crate::service::{ServiceConfig, SigningKeys};

/// Most bytes of the file.
const FILE_BYTES_MAX: u64 = 256 * 1_024;

/// Where the books are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// In a file, made when it is not there.
    Redb(PathBuf),
    /// In PostgreSQL, at a URL that may hold a password.
    Postgres(DatabaseUrl),
}

/// The URL of a database. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL, with its password.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatabaseUrl(hidden)")
    }
}

/// Certificate and key of TLS, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub cert_file: PathBuf,
    /// Its private key; only its owner may read it.
    pub key_file: PathBuf,
}

/// Everything that a server is told.
#[derive(Debug)]
pub struct ServerConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where the books are kept.
    pub store: StoreConfig,
    /// The key that signs contracts, and those that are believed.
    pub keys: SigningKeys,
    /// Who holds this may use the admin API; without one there is none.
    pub admin_token: Option<AdminToken>,
    /// What contracts are like.
    pub service: ServiceConfig,
    /// How the catalog changes, with the probe's thresholds and the damper.
    pub catalog: CatalogConfig,
    /// How providers are asked.
    pub probe: ProbeConfig,
    /// What whoever asks may take.
    pub limits: LimitsConfig,
    /// TLS; without it, plain HTTP for loopback and for a proxy in front.
    pub tls: Option<TlsFiles>,
    /// Where a collector is given metrics, an address of the loopback; without one, nowhere.
    pub metrics: Option<SocketAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: SocketAddr,
    store: StoreSection,
    signing_key_file: PathBuf,
    #[serde(default)]
    trusted: Vec<String>,
    #[serde(default)]
    retired: Vec<String>,
    admin_token_file: Option<PathBuf>,
    #[serde(default)]
    contracts: ContractsSection,
    #[serde(default)]
    catalog: CatalogSection,
    #[serde(default)]
    probe: ProbeSection,
    #[serde(default)]
    flap: FlapSection,
    #[serde(default)]
    limits: LimitsSection,
    tls: Option<TlsFiles>,
    #[serde(default)]
    metrics: MetricsSection,
}

impl ServerConfig {
    /// Reads and checks the file at `path`, and the secrets that it names.
    ///
    /// # Errors
    /// The first mistake: `File` for what cannot be read, `Setting` for a value out of its range.
    pub fn load(path: &Path) -> Result<Self, ServerError> {
        let text = secrets::read_text(path, FILE_BYTES_MAX)?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ServerError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let file: File = toml::from_str(text).map_err(|error| ServerError::File {
            path: path.to_owned(),
            words: said(&error, text),
        })?;
        let setting = |source| ServerError::Setting {
            path: path.to_owned(),
            source,
        };
        let secret = secrets::read_key(&folder.join(&file.signing_key_file))?;
        let other = one_more(&file.trusted).map_err(setting)?;
        let retired = keys("retired", &file.retired).map_err(setting)?;
        let keys = SigningKeys::try_new(secret, other, retired).map_err(setting)?;
        let token = file.admin_token_file.as_deref();
        let admin_token = token
            .map(|token| secrets::read_token(&folder.join(token)))
            .transpose()?;
        let catalog = file.catalog.config(&file.probe, file.flap);
        let catalog = catalog.try_new().map_err(setting)?;
        let service = file.contracts.config(catalog.heartbeat_interval);
        let service = service.map_err(setting)?;
        Ok(Self {
            listen: file.listen,
            store: file.store.config(folder).map_err(setting)?,
            keys,
            admin_token,
            service,
            catalog,
            probe: file.probe.config().try_new().map_err(setting)?,
            limits: file.limits.config().try_new().map_err(setting)?,
            metrics: file.metrics.address().map_err(setting)?,
            tls: file.tls.map(|tls| TlsFiles {
                cert_file: folder.join(tls.cert_file),
                key_file: folder.join(tls.key_file),
            }),
        })
    }
}

/// Who asks a backend as its operator: where it is, and with which token. Read from the server's own file.
#[derive(Debug)]
pub struct OperatorAccess {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether it speaks TLS itself.
    pub is_tls: bool,
    /// The token's text.
    pub token: Zeroizing<String>,
}

impl OperatorAccess {
    /// Reads the file at `path` and the token that it names; the signing key and the store are not looked at.
    ///
    /// # Errors
    /// The first mistake; a file without `admin_token_file` has no admin API.
    pub fn load(path: &Path) -> Result<Self, ServerError> {
        let text = secrets::read_text(path, FILE_BYTES_MAX)?;
        let refuse = |words: String| ServerError::File {
            path: path.to_owned(),
            words,
        };
        let file: File = toml::from_str(&text).map_err(|error| refuse(said(&error, &text)))?;
        let Some(token) = &file.admin_token_file else {
            return Err(refuse(
                "it has no admin_token_file, so there is no admin API".to_owned(),
            ));
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self {
            listen: file.listen,
            is_tls: file.tls.is_some(),
            token: secrets::read_token_text(&folder.join(token))?,
        })
    }
}

/// The line of a mistake and what it is, without a look at the line itself: a database's password may stand in it.
fn said(error: &toml::de::Error, text: &str) -> String {
    let words = error.message();
    let Some(span) = error.span() else {
        return words.to_owned();
    };
    let before = text.get(..span.start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    format!("line {line}: {words}")
}

fn keys(key: &str, texts: &[String]) -> Result<Vec<PublicKey>, ConfigError> {
    let read = |text: &String| {
        let public: Result<PublicKey, _> = text.parse();
        public.map_err(|error| {
            ConfigError::new(key, error, "public keys as `quell pubkey` prints them")
        })
    };
    texts.iter().map(read).collect()
}

fn one_more(texts: &[String]) -> Result<Option<PublicKey>, ConfigError> {
    match keys("trusted", texts)?.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        more => {
            let found = format!("{} keys", more.len());
            let allowed = "one key more than the one that signs: the next, or the one before";
            Err(ConfigError::new("trusted", found, allowed))
        }
    }
}

#[cfg(test)]
mod tests;
