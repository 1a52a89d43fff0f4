//! The state files of one kind, a file for each TUN: what was changed, so that a later process can put it back.
//!
//! `<kind>-<tun>.json` in one directory. It is complete on disk *before* the first change is made: written beside, flushed,
//! renamed over, and the directory flushed, so that it is the old one or the new one whatever happens. It is removed only
//! after everything was put back.
//!
//! A file that cannot be read is an error, never a guess: it may be the only memory of what the host was.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::HostError;
use crate::name::TunName;

/// The longest file that is read: about twice what a host with the most interfaces needs.
const STATE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// State files in one directory that are looked at.
const FILES_MAX: usize = 256;

/// What a state file holds.
pub trait Stored: Serialize + DeserializeOwned {
    /// The form of the file that this version reads.
    const VERSION: u32;

    /// The form that a file has.
    fn version(&self) -> u32;
}

/// The directory of state files of one kind.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
    kind: &'static str,
}

impl Store {
    /// Opens the directory for files of `kind`, and makes it if it is not there (readable by its owner alone).
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn open(directory: &Path, kind: &'static str) -> Result<Self, HostError> {
        use std::os::unix::fs::DirBuilderExt;

        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| HostError::file("create the directory", directory, source))?;
        Ok(Self {
            directory: directory.to_owned(),
            kind,
        })
    }

    /// The file whose lock is held while the host is changed.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.directory.join(format!("{}.lock", self.kind))
    }

    /// The file whose lock the process holds that lives for this TUN.
    #[must_use]
    pub fn owner_path(&self, tun: &TunName) -> PathBuf {
        let name = format!("{}-{}.lock", self.kind, tun.as_str());
        self.directory.join(name)
    }

    /// The state file of a TUN.
    #[must_use]
    pub fn path(&self, tun: &TunName) -> PathBuf {
        let name = format!("{}-{}.json", self.kind, tun.as_str());
        self.directory.join(name)
    }

    /// The TUNs that have a state file.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn tuns(&self) -> Result<Vec<TunName>, HostError> {
        let read = |source| HostError::file("read the directory", &self.directory, source);
        let prefix = format!("{}-", self.kind);
        let mut tuns = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            let tun = name
                .to_str()
                .and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".json"))
                .and_then(|name| TunName::new(name).ok());
            tuns.extend(tun);
            if tuns.len() >= FILES_MAX {
                break;
            }
        }
        tuns.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok(tuns)
    }

    /// The state of a TUN, when there is one.
    ///
    /// # Errors
    /// [`HostError::StateCorrupt`], [`HostError::File`].
    pub fn load<S: Stored>(&self, tun: &TunName) -> Result<Option<S>, HostError> {
        let path = self.path(tun);
        let corrupt = |reason: String| HostError::StateCorrupt {
            path: path.clone(),
            reason,
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(HostError::file("open", &path, source)),
        };
        let mut text = Vec::new();
        file.take(STATE_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|source| HostError::file("read", &path, source))?;
        if text.len() as u64 > STATE_BYTES_MAX {
            return Err(corrupt("it is too long".to_owned()));
        }
        let state: S = serde_json::from_slice(&text).map_err(|error| corrupt(error.to_string()))?;
        if state.version() != S::VERSION {
            return Err(corrupt(format!("version {} is unknown", state.version())));
        }
        Ok(Some(state))
    }

    /// Replaces the state of a TUN. When it fails, the former state is still there.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn store<S: Stored>(&self, tun: &TunName, state: &S) -> Result<(), HostError> {
        let path = self.path(tun);
        let beside = format!("{}-{}.new", self.kind, tun.as_str());
        let beside = self.directory.join(beside);
        let text = serde_json::to_vec_pretty(state)
            .map_err(|error| HostError::file("write", &path, io::Error::other(error)))?;
        let written = write_beside(&beside, &text, 0o600).and_then(|()| fs::rename(&beside, &path));
        if let Err(source) = written {
            // Nothing refers to it, and the next attempt removes it first.
            let _ = fs::remove_file(&beside);
            return Err(HostError::file("write", &path, source));
        }
        self.flush()
    }

    /// Forgets the state of a TUN.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn remove(&self, tun: &TunName) -> Result<(), HostError> {
        let path = self.path(tun);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            result => result.map_err(|source| HostError::file("remove", &path, source))?,
        }
        self.flush()
    }

    /// Makes renames and removals durable.
    fn flush(&self) -> Result<(), HostError> {
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| HostError::file("flush the directory", &self.directory, source))
    }
}

/// Writes a new file with that mode, durably, in the place of one that lies there. `create_new` follows no link that
/// somebody may have laid.
///
/// # Errors
/// The system refused.
pub fn write_beside(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(text)?;
    file.sync_all()
}
