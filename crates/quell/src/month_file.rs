//! The month's count in a file: `month-<name>.json` in `state_dir`.
//!
//! It is replaced as a whole: written beside, flushed, renamed over, and the folder flushed, so that a crash or a full disk
//! leaves the old count or the new one. When the provider starts, the count is read and written back at once, so that a
//! folder that takes no file is found while somebody looks, and not a month later.
//!
//! A file that cannot be read is an error, never a count of nothing: it may be what stands between the owner and a bill.
//! Who deletes it begins the month anew, and says so by doing it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use quell_core::provider::limits::{Month, MonthUse};
use quell_net::engine::provider::MonthStore;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The form of the file.
const VERSION: u32 = 1;
/// The longest file that is read; ours have some 60 bytes.
const FILE_BYTES_MAX: u64 = 4_096;

/// The month's count is not to be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MonthFileError {
    /// The system refused.
    #[error("cannot {doing} {path}: {source}", path = .path.display())]
    System {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no count.
    #[error(
        "{path} is no month's count: {reason}; restore it, or delete it to begin the month at 0",
        path = .path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    month: String,
    bytes: u64,
}

/// The file.
#[derive(Debug)]
pub(crate) struct MonthFile {
    path: PathBuf,
    beside: PathBuf,
}

impl MonthFile {
    /// Opens the count of `name` in `folder`, which is made where it is not there (for its owner alone). Without a file
    /// nothing was carried.
    ///
    /// # Errors
    /// It cannot be read, is no count, or cannot be written.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<(Self, MonthUse), MonthFileError> {
        let failed = |doing, path: &Path, source| MonthFileError::System {
            doing,
            path: path.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| failed("make the folder", folder, source))?;
        let mut file = Self {
            path: folder.join(format!("month-{name}.json")),
            beside: folder.join(format!("month-{name}.new")),
        };
        let text = file
            .read()
            .map_err(|source| failed("read", &file.path, source))?;
        let used = match text {
            None => MonthUse::default(),
            Some(text) => parse(&text).map_err(|reason| MonthFileError::Corrupt {
                path: file.path.clone(),
                reason,
            })?,
        };
        file.store(used)
            .map_err(|source| failed("write", &file.path, source))?;
        Ok((file, used))
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        Ok(Some(text))
    }
}

fn parse(text: &[u8]) -> Result<MonthUse, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("it is too long".to_owned());
    }
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if content.version != VERSION {
        return Err(format!("version {} is unknown", content.version));
    }
    let month: Result<Month, _> = content.month.parse();
    let month = month.map_err(|error| format!("{:?} is {error}", content.month))?;
    Ok(MonthUse {
        month,
        bytes: content.bytes,
    })
}

impl MonthStore for MonthFile {
    fn store(&mut self, used: MonthUse) -> io::Result<()> {
        let content = Content {
            version: VERSION,
            month: used.month.to_string(),
            bytes: used.bytes,
        };
        let text = serde_json::to_vec(&content)?;
        let written =
            write_beside(&self.beside, &text).and_then(|()| fs::rename(&self.beside, &self.path));
        if written.is_err() {
            // Nothing refers to it, and the next attempt removes it first.
            let _ = fs::remove_file(&self.beside);
            return written;
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

/// `create_new` follows no link that somebody may have laid there.
fn write_beside(path: &Path, text: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn used(month: &str, bytes: u64) -> MonthUse {
        MonthUse {
            month: month.parse().unwrap(),
            bytes,
        }
    }

    #[test]
    fn what_was_stored_is_found_by_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("deep/state");
        let (mut file, first) = MonthFile::open(&folder, "quell-exit").unwrap();
        assert_eq!(first, MonthUse::default());
        file.store(used("2026-11", u64::MAX)).unwrap();
        let (_, again) = MonthFile::open(&folder, "quell-exit").unwrap();
        assert_eq!(again, used("2026-11", u64::MAX));
        let (_, other) = MonthFile::open(&folder, "other").unwrap();
        assert_eq!(other, MonthUse::default());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file.path)), (0o700, 0o600));
        assert!(!file.beside.exists());
    }

    #[test]
    fn a_file_that_is_no_count_is_an_error_and_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("month-q.json");
        let good = r#"{"version":1,"month":"2026-11","bytes":7}"#;
        fs::write(&path, good).unwrap();
        assert_eq!(
            MonthFile::open(home.path(), "q").unwrap().1,
            used("2026-11", 7)
        );
        for bad in [
            String::new(),
            good[..20].to_owned(),
            good.replace("2026-11", "2026-13"),
            good.replace("2026-11", "nov"),
            good.replace(":7", ":-7"),
            good.replace(":7", ":18446744073709551616"),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"bytes\"", "\"bites\""),
            format!("{good}{}", " ".repeat(4_096)),
        ] {
            fs::write(&path, &bad).unwrap();
            let error = MonthFile::open(home.path(), "q").unwrap_err();
            assert!(
                matches!(error, MonthFileError::Corrupt { .. }),
                "{bad}: {error}"
            );
            let words = error.to_string();
            assert!(
                words.contains("month-q.json") && words.contains("delete it"),
                "{words}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
        }
    }

    #[test]
    fn a_disk_that_takes_nothing_is_found_at_the_start_and_keeps_the_old_count_later() {
        let home = tempfile::tempdir().unwrap();
        let blocked = home.path().join("file");
        fs::write(&blocked, "").unwrap();
        let error = MonthFile::open(&blocked.join("state"), "q").unwrap_err();
        assert!(matches!(error, MonthFileError::System { .. }), "{error}");

        let (mut file, _) = MonthFile::open(home.path(), "q").unwrap();
        file.store(used("2026-11", 7)).unwrap();
        // A folder in its place, as a disk that is full, lets nothing be written beside.
        fs::create_dir_all(file.beside.join("x")).unwrap();
        file.store(used("2026-11", 8)).unwrap_err();
        fs::remove_dir_all(&file.beside).unwrap();
        assert_eq!(
            MonthFile::open(home.path(), "q").unwrap().1,
            used("2026-11", 7)
        );
        assert!(write_beside(Path::new("/dev/full/x"), b"x").is_err());
    }

    #[test]
    fn a_link_that_lies_beside_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, home.path().join("month-q.new")).unwrap();
        let (mut file, _) = MonthFile::open(home.path(), "q").unwrap();
        file.store(used("2026-11", 7)).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }
}
