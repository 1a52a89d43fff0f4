//! The state file: what an egress has changed, so that a later process can put it back.
//!
//! One file a TUN, `egress-<tun>.json` in the run directory. It is complete on disk *before* the first change is made:
//! written beside, flushed, renamed over, and the directory flushed, so that it is the old one or the new one whatever
//! happens. It is removed only after everything was put back.
//!
//! It names the boot and the network namespace that it speaks of. Settings and rules do not outlive either, so a file of
//! an earlier boot is forgotten rather than obeyed: its "previous" values would undo what the host has been set to since.
//!
//! A file that cannot be read is an error, never a guess: it may be the only memory of what the host was.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::EgressError;
use crate::host::Realm;
use crate::name::TunName;
use crate::plan::Change;

/// The form of the file.
const VERSION: u32 = 1;
/// The longest file that is read: about twice what the most interfaces need.
const STATE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// State files in one directory that are looked at.
const FILES_MAX: usize = 256;

/// What one egress has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    pub(crate) realm: Realm,
    /// Whether a table of nftables was installed.
    pub(crate) masquerade: bool,
    pub(crate) changes: Vec<Change>,
}

impl State {
    pub(crate) fn new(realm: Realm, masquerade: bool, changes: Vec<Change>) -> Self {
        Self {
            version: VERSION,
            realm,
            masquerade,
            changes,
        }
    }
}

/// The directory of state files.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Opens the directory, and makes it if it is not there (readable by its owner alone).
    pub(crate) fn open(directory: &Path) -> Result<Self, EgressError> {
        use std::os::unix::fs::DirBuilderExt;

        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| failed("create the directory", directory, source))?;
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    /// The file whose lock is held while settings are changed.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.directory.join("egress.lock")
    }

    /// The file whose lock the process holds that owns this TUN's egress.
    pub(crate) fn owner_path(&self, tun: &TunName) -> PathBuf {
        self.directory.join(format!("egress-{}.lock", tun.as_str()))
    }

    fn path(&self, tun: &TunName) -> PathBuf {
        self.directory.join(format!("egress-{}.json", tun.as_str()))
    }

    /// The TUNs that have a state file.
    pub(crate) fn tuns(&self) -> Result<Vec<TunName>, EgressError> {
        let read = |source| failed("read the directory", &self.directory, source);
        let mut tuns = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            let tun = name
                .to_str()
                .and_then(|name| name.strip_prefix("egress-")?.strip_suffix(".json"))
                .and_then(|name| TunName::new(name).ok());
            tuns.extend(tun);
            if tuns.len() >= FILES_MAX {
                break;
            }
        }
        tuns.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok(tuns)
    }

    /// The state of a TUN's egress, when there is one.
    pub(crate) fn load(&self, tun: &TunName) -> Result<Option<State>, EgressError> {
        let path = self.path(tun);
        let corrupt = |reason: String| EgressError::StateCorrupt {
            path: path.clone(),
            reason,
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("open", &path, source)),
        };
        let mut text = Vec::new();
        file.take(STATE_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|source| failed("read", &path, source))?;
        if text.len() as u64 > STATE_BYTES_MAX {
            return Err(corrupt("it is too long".to_owned()));
        }
        let state: State =
            serde_json::from_slice(&text).map_err(|error| corrupt(error.to_string()))?;
        if state.version != VERSION {
            return Err(corrupt(format!("version {} is unknown", state.version)));
        }
        Ok(Some(state))
    }

    /// Replaces the state of a TUN's egress. When it fails, the former state is still there.
    pub(crate) fn store(&self, tun: &TunName, state: &State) -> Result<(), EgressError> {
        let path = self.path(tun);
        let beside = self.directory.join(format!("egress-{}.new", tun.as_str()));
        let text = serde_json::to_vec_pretty(state)
            .map_err(|error| failed("write", &path, io::Error::other(error)))?;
        let written = write_beside(&beside, &text).and_then(|()| fs::rename(&beside, &path));
        if let Err(source) = written {
            // Nothing refers to it, and the next attempt removes it first.
            let _ = fs::remove_file(&beside);
            return Err(failed("write", &path, source));
        }
        self.flush()
    }

    /// Forgets the state of a TUN's egress.
    pub(crate) fn remove(&self, tun: &TunName) -> Result<(), EgressError> {
        let path = self.path(tun);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            result => result.map_err(|source| failed("remove", &path, source))?,
        }
        self.flush()
    }

    /// Makes renames and removals durable.
    fn flush(&self) -> Result<(), EgressError> {
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| failed("flush the directory", &self.directory, source))
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

pub(crate) fn failed(operation: &'static str, path: &Path, source: io::Error) -> EgressError {
    EgressError::State {
        operation,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::sysctl::{Family, Key};
    use crate::testing::FakeHost;

    fn quell0() -> TunName {
        TunName::new("quell0").unwrap()
    }

    fn state() -> State {
        let realm = Realm {
            boot: "b".to_owned(),
            namespace: "net:[1]".to_owned(),
        };
        let change = Change {
            key: Key::forward_all(Family::V4),
            previous: 0,
            set: 1,
        };
        State::new(realm, true, vec![change])
    }

    #[test]
    fn what_is_stored_is_loaded_listed_and_removed() {
        let host = FakeHost::new();
        let store = Store::open(&host.run_dir()).unwrap();
        assert_eq!(store.load(&quell0()).unwrap(), None);
        store.remove(&quell0()).unwrap();
        store.store(&quell0(), &state()).unwrap();
        store.store(&quell0(), &state()).unwrap();
        assert_eq!(store.load(&quell0()).unwrap(), Some(state()));
        assert_eq!(store.tuns().unwrap(), [quell0()]);
        store.remove(&quell0()).unwrap();
        assert_eq!(store.tuns().unwrap(), []);
    }

    #[test]
    fn the_directory_and_the_file_are_the_owners_alone() {
        use std::os::unix::fs::PermissionsExt;

        let host = FakeHost::new();
        let store = Store::open(&host.run_dir()).unwrap();
        store.store(&quell0(), &state()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&host.run_dir()), 0o700);
        assert_eq!(mode(&store.path(&quell0())), 0o600);
    }

    #[test]
    fn a_damaged_file_is_named_and_kept() {
        let host = FakeHost::new();
        let store = Store::open(&host.run_dir()).unwrap();
        store.store(&quell0(), &state()).unwrap();
        let path = store.path(&quell0());
        let good = fs::read_to_string(&path).unwrap();
        let damaged = [
            String::new(),
            good[..good.len() / 2].to_owned(),
            good.replace("\"version\": 1", "\"version\": 2"),
            good.replace("net/ipv4/ip_forward", "kernel/core_pattern"),
            good.replace("\"masquerade\"", "\"masquerades\""),
            " ".repeat(usize::try_from(STATE_BYTES_MAX).unwrap() + 1),
        ];
        for text in damaged {
            assert_ne!(text, good);
            fs::write(&path, &text).unwrap();
            let error = store.load(&quell0()).unwrap_err();
            assert!(matches!(error, EgressError::StateCorrupt { .. }), "{error}");
            assert!(error.to_string().contains("egress-quell0.json"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        // The longest file that is read: spaces before the end are JSON's.
        let longest = usize::try_from(STATE_BYTES_MAX).unwrap();
        fs::write(&path, format!("{}{good}", " ".repeat(longest - good.len()))).unwrap();
        assert_eq!(store.load(&quell0()).unwrap(), Some(state()));
    }

    #[test]
    fn a_link_laid_beside_is_not_followed() {
        let host = FakeHost::new();
        let store = Store::open(&host.run_dir()).unwrap();
        let victim = host.run_dir().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, host.run_dir().join("egress-quell0.new")).unwrap();
        store.store(&quell0(), &state()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_store_that_fails_leaves_the_former_state() {
        let host = FakeHost::new();
        let store = Store::open(&host.run_dir()).unwrap();
        store.store(&quell0(), &state()).unwrap();
        // Something that cannot be removed as a file stands where the new one goes.
        fs::create_dir_all(host.run_dir().join("egress-quell0.new/x")).unwrap();
        let mut other = state();
        other.masquerade = false;
        assert!(matches!(
            store.store(&quell0(), &other),
            Err(EgressError::State { .. })
        ));
        assert_eq!(store.load(&quell0()).unwrap(), Some(state()));
    }
}
