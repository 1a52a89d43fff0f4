//! A small file that outlives the process: read whole, replaced whole.
//!
//! It is written beside, flushed, renamed over, and the folder flushed, so that a crash or a full disk leaves the old
//! content or the new one. Folder and file are for their owner alone, and no link that somebody laid is followed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The system refused something about a file of state.
#[derive(Debug, Error)]
#[error("cannot {doing} {path}: {source}", path = .path.display())]
pub struct StateFileError {
    /// What was tried.
    pub doing: &'static str,
    /// With what.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// The file.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    beside: PathBuf,
}

/// Makes a folder of state where it is not there, for its owner alone.
///
/// # Errors
/// The system refuses.
pub(crate) fn make_folder(folder: &Path) -> Result<(), StateFileError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| StateFileError {
        doing: "make the folder",
        path: folder.to_owned(),
        source,
    })
}

impl StateFile {
    /// The file `name.extension` in `folder`, which is made where it is not there. Beside it stands `name.new`.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn in_folder(
        folder: &Path,
        name: &str,
        extension: &str,
    ) -> Result<Self, StateFileError> {
        make_folder(folder)?;
        Ok(Self {
            path: folder.join(format!("{name}.{extension}")),
            beside: folder.join(format!("{name}.new")),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its content, or its first `bytes_max` bytes and one more; `None` when it is not there.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn read(&self, bytes_max: u64) -> Result<Option<Vec<u8>>, StateFileError> {
        self.read_as_is(bytes_max)
            .map_err(|source| self.failed("read", source))
    }

    fn read_as_is(&self, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut text)?;
        Ok(Some(text))
    }

    /// Puts `text` in the place of what was there, durably.
    ///
    /// # Errors
    /// The system refuses; the old content stays.
    pub(crate) fn replace(&self, text: &[u8]) -> Result<(), StateFileError> {
        self.replace_as_is(text)
            .map_err(|source| self.failed("write", source))
    }

    /// As [`StateFile::replace`], with what the system said alone.
    pub(crate) fn replace_as_is(&self, text: &[u8]) -> io::Result<()> {
        let written =
            write_beside(&self.beside, text).and_then(|()| fs::rename(&self.beside, &self.path));
        if written.is_err() {
            // Nothing refers to it, and the next attempt removes it first.
            let _ = fs::remove_file(&self.beside);
            return written;
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// Puts the file aside as `name.bad`, for people to look at; the one from before is replaced.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn put_aside(&self) -> Result<PathBuf, StateFileError> {
        let aside = self.path.with_extension("bad");
        fs::rename(&self.path, &aside).map_err(|source| self.failed("put aside", source))?;
        Ok(aside)
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> StateFileError {
        StateFileError {
            doing,
            path: self.path.clone(),
            source,
        }
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

    fn file(folder: &Path) -> StateFile {
        StateFile::in_folder(folder, "q", "json").unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_belongs_to_its_owner() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("deep/state");
        let one = file(&folder);
        assert_eq!(one.read(10).unwrap(), None);
        one.replace(b"first").unwrap();
        one.replace(b"second").unwrap();
        assert_eq!(file(&folder).read(10).unwrap(), Some(b"second".to_vec()));
        assert_eq!(
            one.read(3).unwrap(),
            Some(b"seco".to_vec()),
            "one more tells that it is longer"
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&one.path)), (0o700, 0o600));
        assert!(!one.beside.exists());
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_content() {
        let home = tempfile::tempdir().unwrap();
        let one = file(home.path());
        one.replace(b"old").unwrap();
        // A folder in its place, as a disk that is full, lets nothing be written beside.
        fs::create_dir_all(one.beside.join("x")).unwrap();
        let error = one.replace(b"new").unwrap_err().to_string();
        assert!(
            error.starts_with("cannot write ") && error.contains("q.json"),
            "{error}"
        );
        assert_eq!(one.read(10).unwrap(), Some(b"old".to_vec()));
        assert!(write_beside(Path::new("/dev/full/x"), b"x").is_err());
        let blocked = home.path().join("q.json/state");
        StateFile::in_folder(&blocked, "q", "json").unwrap_err();
    }

    #[test]
    fn a_link_that_lies_beside_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, home.path().join("q.new")).unwrap();
        file(home.path()).replace(b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }

    #[test]
    fn what_is_put_aside_is_kept_for_people() {
        let home = tempfile::tempdir().unwrap();
        let one = file(home.path());
        one.replace(b"odd").unwrap();
        let aside = one.put_aside().unwrap();
        assert_eq!(
            (fs::read(aside).unwrap(), one.read(10).unwrap()),
            (b"odd".to_vec(), None)
        );
        one.put_aside().unwrap_err();
    }
}
