//! Why a configuration file cannot be used, in words that say what to do.
//!
//! Every text names the file, and where there is one the line, the key, the
//! value as it was written and what is allowed. No text repeats a secret key.

use std::fmt;
use std::io;
use std::path::PathBuf;

use quell_core::config::ConfigError;
use quell_wire::key::KeyError;
use thiserror::Error;

/// Where a setting was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file, on a line counted from 1 if it is known.
    File {
        /// The file.
        path: PathBuf,
        /// The line. A setting that is missing altogether has none.
        line: Option<usize>,
    },
    /// In an environment variable.
    Environment,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File {
                path,
                line: Some(line),
            } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("environment"),
        }
    }
}

/// Why a configuration file, or its private key file, cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system does not let us read it.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A folder, device or pipe.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// More than a configuration can need.
    #[error("{} is too large: allowed are at most {bytes_max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        bytes_max: u64,
    },
    /// Not UTF-8.
    #[error("{}:{line}: not UTF-8 text: TOML has to be", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line of the first wrong byte.
        line: usize,
    },
    /// Not TOML.
    #[error("{place}: not valid TOML: {words}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says.
        words: String,
    },
    /// An unknown or missing key, or a value of the wrong form.
    #[error("{place}: {}{words}", written(key, value.as_deref()))]
    Form {
        /// Where.
        place: Place,
        /// The key's full name; empty for one missing at the top level.
        key: String,
        /// The value as it stands in the file, if there is one.
        value: Option<String>,
        /// What is wrong and what is allowed.
        words: String,
    },
    /// A value of the right form that is not allowed.
    #[error("{place}: {error}")]
    Setting {
        /// Where.
        place: Place,
        /// Key, value, and what is allowed.
        error: ConfigError,
    },
    /// Keys of both roles.
    #[error(
        "{} has both `listen` (a provider's key) and a [provider] table (a client's): \
         write one file for each",
        path.display()
    )]
    BothRoles {
        /// The file.
        path: PathBuf,
    },
    /// Keys of neither role.
    #[error(
        "{} is neither a client's nor a provider's: write a [provider] table with `address` and \
         `public_key` for a client, or `listen = \"0.0.0.0:{}\"` for a provider",
        path.display(),
        quell_wire::registry::DEFAULT_PORT
    )]
    NoRole {
        /// The file.
        path: PathBuf,
    },
    /// There is no private key file.
    #[error("private_key_file: {0} does not exist; create it with: quell keygen --out {0}", path.display())]
    KeyMissing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// Others may read the private key.
    #[error(
        "private_key_file: {0} has mode {mode:04o}, so others may read the private key: allowed \
         is 0600; run: chmod 600 {0}",
        path.display()
    )]
    KeyMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The proxy's password, or its file, is not usable.
    #[error("proxy.password_file: {words}")]
    Password {
        /// What is wrong, and what to do.
        words: String,
    },
    /// The private key file does not hold a secret key.
    #[error("private_key_file: {} holds no usable key", path.display())]
    KeyText {
        /// The file.
        path: PathBuf,
        /// What is wrong with the text.
        source: KeyError,
    },
}

fn written(key: &str, value: Option<&str>) -> String {
    match (key, value) {
        ("", _) => String::new(),
        (key, Some(value)) => format!("{key} = {value}: "),
        (key, None) => format!("{key}: "),
    }
}
