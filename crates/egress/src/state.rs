//! The state file: what an egress has changed, so that a later process can put it back.
//!
//! One file a TUN, `egress-<tun>.json` in the run directory; how it is written and read is [`quell_host::Store`]'s.
//!
//! It names the boot and the network namespace that it speaks of. Settings and rules do not outlive either, so a file of
//! an earlier boot is forgotten rather than obeyed: its "previous" values would undo what the host has been set to since.
//!
//! A file that cannot be read is an error, never a guess: it may be the only memory of what the host was.

use quell_host::{Realm, Stored};
use serde::{Deserialize, Serialize};

use crate::plan::Change;

/// The kind of these files: the beginning of their names.
pub(crate) const KIND: &str = "egress";
/// The form of the file.
const VERSION: u32 = 1;

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

impl Stored for State {
    const VERSION: u32 = VERSION;

    fn version(&self) -> u32 {
        self.version
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::path::Path;

    use quell_host::{HostError, Store, TunName};

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
        let store = Store::open(&host.run_dir(), KIND).unwrap();
        assert_eq!(store.load::<State>(&quell0()).unwrap(), None);
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
        let store = Store::open(&host.run_dir(), KIND).unwrap();
        store.store(&quell0(), &state()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&host.run_dir()), 0o700);
        assert_eq!(mode(&store.path(&quell0())), 0o600);
    }

    /// As in `quell_host`: about twice what a host with the most interfaces needs.
    const STATE_BYTES_MAX: u64 = 2 * 1024 * 1024;

    #[test]
    fn a_damaged_file_is_named_and_kept() {
        let host = FakeHost::new();
        let store = Store::open(&host.run_dir(), KIND).unwrap();
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
            let error = store.load::<State>(&quell0()).unwrap_err();
            assert!(matches!(error, HostError::StateCorrupt { .. }), "{error}");
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
        let store = Store::open(&host.run_dir(), KIND).unwrap();
        let victim = host.run_dir().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, host.run_dir().join("egress-quell0.new")).unwrap();
        store.store(&quell0(), &state()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_store_that_fails_leaves_the_former_state() {
        let host = FakeHost::new();
        let store = Store::open(&host.run_dir(), KIND).unwrap();
        store.store(&quell0(), &state()).unwrap();
        // Something that cannot be removed as a file stands where the new one goes.
        fs::create_dir_all(host.run_dir().join("egress-quell0.new/x")).unwrap();
        let mut other = state();
        other.masquerade = false;
        assert!(matches!(
            store.store(&quell0(), &other),
            Err(HostError::File { .. })
        ));
        assert_eq!(store.load(&quell0()).unwrap(), Some(state()));
    }
}
