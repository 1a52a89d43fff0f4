//! A page's file: that it can be written is known before what it reports begins.
//!
//! A minute of work whose page then has nowhere to go would be a minute lost. So the folder is tried with a file
//! without a name, which holds the room for the page meanwhile and vanishes with the process however that ends.
//! At the end the page is written beside the target and takes its name at once: whoever opens the file sees the
//! old page or the new one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::Failure;

/// Room that is kept for the page, in bytes: several times what a usual one takes.
const ROOM_BYTES: usize = 256 * 1024;

/// Where the page is going to be.
#[derive(Debug)]
pub(crate) struct ReportFile {
    path: PathBuf,
    way: Way,
    hint: &'static str,
}

#[derive(Debug)]
enum Way {
    /// A new file takes the target's name.
    Replace {
        folder: PathBuf,
        /// Held for its room alone.
        room: File,
    },
    /// The target is no ordinary file, such as a terminal: it is written to.
    Through(File),
}

impl ReportFile {
    /// Makes sure that a page can be written to `path`, and keeps the room for it. `hint` tells who is refused what to do.
    ///
    /// # Errors
    /// It cannot, and why.
    pub(crate) fn open(path: PathBuf, hint: &'static str) -> Result<Self, Failure> {
        let way = Way::find(&path).map_err(|error| cannot_write(&path, hint, error))?;
        Ok(Self { path, way, hint })
    }

    /// Writes the page, and says where it is.
    ///
    /// # Errors
    /// It could not be written, such as to a disk that others have filled meanwhile.
    pub(crate) fn write(self, page: &str) -> Result<PathBuf, Failure> {
        let Self { path, way, hint } = self;
        way.write(&path, page.as_bytes())
            .map_err(|error| cannot_write(&path, hint, error))?;
        Ok(path)
    }
}

impl Way {
    fn find(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                return Ok(Self::Through(File::options().write(true).open(path)?));
            }
            // Whose file may not be written to is not replaced either.
            Ok(_) => drop(File::options().append(true).open(path)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            Some(_) | None => PathBuf::from("."),
        };
        let mut room = tempfile::tempfile_in(&folder)?;
        room.write_all(&vec![0; ROOM_BYTES])?;
        // Some file systems find out only now that there is no room.
        room.sync_all()?;
        Ok(Self::Replace { folder, room })
    }

    fn write(self, path: &Path, page: &[u8]) -> io::Result<()> {
        match self {
            Self::Through(mut file) => file.write_all(page),
            Self::Replace { folder, room } => {
                drop(room);
                // A name that is a link goes on to lead to the page.
                let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                let folder = target.parent().unwrap_or(&folder);
                let folder = match folder.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => folder,
                };
                let mut file = tempfile::Builder::new()
                    .prefix(".quell-page-")
                    .permissions(mode(path))
                    .tempfile_in(folder)?;
                file.write_all(page)?;
                file.as_file().sync_all()?;
                file.persist(&target)?;
                Ok(())
            }
        }
    }
}

/// That of the file that is replaced; else what any program's new file has, less the umask.
fn mode(path: &Path) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;

    fs::metadata(path).map_or_else(
        |_| fs::Permissions::from_mode(0o666),
        |found| found.permissions(),
    )
}

fn cannot_write(path: &Path, hint: &str, error: io::Error) -> Failure {
    let words = format!("cannot write the page to {}; {hint}", path.display());
    let failed: Result<(), _> = Err(error).context(words);
    Failure::Failed(failed.err().unwrap_or_else(|| anyhow!("no page")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const HINT: &str = "`--elsewhere` names another place";

    fn words(failure: Failure) -> String {
        let (Failure::Failed(error) | Failure::Usage(error)) = failure;
        format!("{error:#}")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_seen_before_the_page_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let report = ReportFile::open(path.clone(), HINT).unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
        assert_eq!(report.write("<p/>").unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "<p/>");
        assert_eq!(names(folder.path()), ["page.html"]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
    }

    #[test]
    fn what_is_there_is_replaced_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("page"), folder.path().join("link"));
        fs::write(&path, "old and longer").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("page", &link).unwrap();
        ReportFile::open(link.clone(), HINT)
            .unwrap()
            .write("new")
            .unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_before_anything_is_played() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: PathBuf| words(ReportFile::open(path, HINT).unwrap_err());
        let directory = refused(folder.path().to_owned());
        assert!(directory.contains("--elsewhere") && directory.contains("directory"));
        assert!(refused(folder.path().join("none/page")).contains("No such file"));
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        let path = PathBuf::from("/dev/null");
        ReportFile::open(path.clone(), HINT)
            .unwrap()
            .write("x")
            .unwrap();
        assert!(!fs::metadata(path).unwrap().is_file());
    }

    #[test]
    fn a_full_disk_is_named() {
        let path = PathBuf::from("/dev/full");
        let report = ReportFile::open(path, HINT).unwrap();
        let words = words(report.write("x").unwrap_err());
        assert!(words.contains("/dev/full") && words.contains("No space left"));
    }
}
