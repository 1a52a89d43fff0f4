//! The month's count in a file: `month-<name>.json` in `state_dir`.
//!
//! It is replaced as a whole ([`crate::state_file`]). When the provider starts, the count is read and written back at once, so that a
//! folder that takes no file is found while somebody looks, and not a month later.
//!
//! A file that cannot be read is an error, never a count of nothing: it may be what stands between the owner and a bill.
//! Who deletes it begins the month anew, and says so by doing it.

use std::io;
use std::path::{Path, PathBuf};

use quell_core::provider::limits::{Month, MonthUse};
use quell_net::engine::provider::MonthStore;
use serde::Deserialize;
use thiserror::Error;

use crate::state_file::{StateFile, StateFileError};

/// The form of the file.
const VERSION: u32 = 1;
/// The longest file that is read; ours have some 60 bytes.
const FILE_BYTES_MAX: u64 = 4_096;

/// The month's count is not to be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MonthFileError {
    /// The system refused.
    #[error(transparent)]
    System(#[from] StateFileError),
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    month: String,
    bytes: u64,
}

/// The file.
#[derive(Debug)]
pub(crate) struct MonthFile(StateFile);

impl MonthFile {
    /// Opens the count of `name` in `folder`, which is made where it is not there. Without a file nothing was carried.
    ///
    /// # Errors
    /// It cannot be read, is no count, or cannot be written.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<(Self, MonthUse), MonthFileError> {
        let file = StateFile::in_folder(folder, &format!("month-{name}"), "json")?;
        let used = match file.read(FILE_BYTES_MAX)? {
            None => MonthUse::default(),
            Some(text) => parse(&text).map_err(|reason| MonthFileError::Corrupt {
                path: file.path().to_owned(),
                reason,
            })?,
        };
        file.replace(text_of(used).as_bytes())?;
        Ok((Self(file), used))
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

fn text_of(used: MonthUse) -> String {
    let (month, bytes) = (used.month, used.bytes);
    format!(r#"{{"version":{VERSION},"month":"{month}","bytes":{bytes}}}"#)
}

impl MonthStore for MonthFile {
    fn store(&mut self, used: MonthUse) -> io::Result<()> {
        self.0.replace_as_is(text_of(used).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

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
    fn a_disk_that_takes_nothing_is_found_at_the_start() {
        let home = tempfile::tempdir().unwrap();
        let blocked = home.path().join("file");
        fs::write(&blocked, "").unwrap();
        let error = MonthFile::open(&blocked.join("state"), "q").unwrap_err();
        assert!(matches!(error, MonthFileError::System { .. }), "{error}");
    }
}
