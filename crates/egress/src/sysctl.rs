//! The few kernel settings that an egress may touch, under `/proc/sys`.
//!
//! A [`Key`] is one of a closed list: it can also be read from a state file, and a file must not be able to make a root
//! process write anywhere else. Values are whole numbers.
//!
//! `/proc/sys/net` shows the network namespace of the thread that opens a file.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::EgressError;

/// The most interfaces that are looked at.
pub(crate) const INTERFACES_MAX: usize = 4_096;

/// An IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    fn directory(self) -> &'static str {
        match self {
            Self::V4 => "net/ipv4",
            Self::V6 => "net/ipv6",
        }
    }
}

/// A setting, as its path below `/proc/sys`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Key(String);

impl Key {
    /// The switch that forwards packets of a family, between all interfaces.
    pub(crate) fn forward_all(family: Family) -> Self {
        match family {
            // The same setting as conf/all/forwarding.
            Family::V4 => Self("net/ipv4/ip_forward".to_owned()),
            Family::V6 => Self("net/ipv6/conf/all/forwarding".to_owned()),
        }
    }

    /// Forwarding of packets that come in by one interface (IPv4), or its part as a router (IPv6).
    pub(crate) fn forward(family: Family, interface: &str) -> Self {
        Self(format!(
            "{}/conf/{interface}/forwarding",
            family.directory()
        ))
    }

    /// Whether ICMP redirects are believed.
    pub(crate) fn accept_redirects_all() -> Self {
        Self("net/ipv4/conf/all/accept_redirects".to_owned())
    }

    /// Whether router advertisements are believed: 0 never, 1 unless forwarding, 2 always.
    pub(crate) fn accept_ra(interface: &str) -> Self {
        Self(format!("net/ipv6/conf/{interface}/accept_ra"))
    }

    /// Whether writing it changes others too.
    pub(crate) fn is_global(&self) -> bool {
        [Family::V4, Family::V6]
            .iter()
            .any(|family| *self == Self::forward_all(*family))
    }

    /// In the form of sysctl(8), for people. An interface's name may hold dots, so it is for reading alone.
    fn spoken(&self) -> String {
        self.0.replace('/', ".")
    }
}

impl TryFrom<String> for Key {
    type Error = &'static str;

    fn try_from(path: String) -> Result<Self, Self::Error> {
        let parts: Vec<_> = path.split('/').collect();
        let known = match parts[..] {
            ["net", "ipv4", "ip_forward"] | ["net", "ipv4", "conf", "all", "accept_redirects"] => {
                true
            }
            ["net", "ipv4", "conf", interface, "forwarding"]
            | ["net", "ipv6", "conf", interface, "forwarding" | "accept_ra"] => {
                !matches!(interface, "" | "." | "..")
            }
            _ => false,
        };
        if known {
            Ok(Self(path))
        } else {
            Err("a setting that is none of ours")
        }
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0
    }
}

/// Reads and writes settings below a directory that is `/proc/sys`, or a test's.
#[derive(Debug, Clone)]
pub(crate) struct Sysctls {
    root: PathBuf,
}

impl Sysctls {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The value; `None` when the kernel has no such setting: no IPv6, or an interface that is gone.
    pub(crate) fn read(&self, key: &Key) -> Result<Option<i32>, EgressError> {
        self.read_path(&key.0)
            .map_err(|source| EgressError::Sysctl {
                operation: "read",
                sysctl: key.spoken(),
                source,
            })
    }

    /// Sets a value. A setting that is gone is no error: there is nothing left to set.
    pub(crate) fn write(&self, key: &Key, value: i32) -> Result<(), EgressError> {
        let path = self.root.join(&key.0);
        // Opened without creating: below a test's directory too, a setting either exists or does not.
        let written = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path)
            .and_then(|mut file| io::Write::write_all(&mut file, format!("{value}\n").as_bytes()));
        match written {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result.map_err(|source| EgressError::Sysctl {
                operation: "set",
                sysctl: format!("{} = {value}", key.spoken()),
                source,
            }),
        }
    }

    /// The interfaces that have settings of the family, `default` among them, which is what later ones start with; `all`
    /// is not. Sorted, so that a plan is the same each time.
    pub(crate) fn interfaces(&self, family: Family) -> Result<Vec<String>, EgressError> {
        self.interfaces_within(family, INTERFACES_MAX)
    }

    fn interfaces_within(&self, family: Family, max: usize) -> Result<Vec<String>, EgressError> {
        let directory = self.root.join(family.directory()).join("conf");
        let failed = |source| EgressError::Sysctl {
            operation: "list",
            sysctl: directory.display().to_string(),
            source,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            // A name that is no UTF-8 could not stand in a state file.
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string()
                && name != "all"
            {
                names.push(name);
            }
            if names.len() > max {
                return Err(EgressError::TooManyInterfaces { max });
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether the host has IPv6, and has it switched on.
    pub(crate) fn has_ipv6(&self) -> Result<bool, EgressError> {
        const PATH: &str = "net/ipv6/conf/all/disable_ipv6";
        let disabled = self.read_path(PATH).map_err(|source| EgressError::Sysctl {
            operation: "read",
            sysctl: PATH.replace('/', "."),
            source,
        })?;
        Ok(disabled == Some(0))
    }

    fn read_path(&self, path: &str) -> io::Result<Option<i32>> {
        let text = match fs::read_to_string(self.root.join(path)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let invalid = |error| io::Error::new(ErrorKind::InvalidData, error);
        text.trim().parse().map(Some).map_err(invalid)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::FakeHost;

    #[test]
    fn a_key_is_one_of_a_closed_list() {
        for good in [
            "net/ipv4/ip_forward",
            "net/ipv4/conf/all/accept_redirects",
            "net/ipv4/conf/eth0.7/forwarding",
            "net/ipv6/conf/all/forwarding",
            "net/ipv6/conf/default/accept_ra",
        ] {
            assert!(Key::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/net/ipv4/ip_forward",
            "net/ipv4/ip_forward/",
            "net/ipv4/tcp_syncookies",
            "kernel/core_pattern",
            "net/ipv4/conf/../forwarding",
            "net/ipv4/conf//forwarding",
            "net/ipv4/conf/./forwarding",
            "net/ipv4/conf/eth0/../../ip_forward",
            "net/ipv6/conf/eth0/accept_redirects",
            "../../etc/passwd",
        ] {
            assert!(Key::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_key_that_is_made_here_can_be_read_back() {
        let keys = [
            Key::forward_all(Family::V4),
            Key::forward_all(Family::V6),
            Key::forward(Family::V4, "eth0"),
            Key::forward(Family::V6, "eth0"),
            Key::accept_redirects_all(),
            Key::accept_ra("eth0"),
        ];
        for key in keys {
            assert_eq!(Key::try_from(String::from(key.clone())), Ok(key));
        }
    }

    #[test]
    fn what_is_missing_reads_as_none_and_writes_as_nothing() {
        let host = FakeHost::new();
        let sysctls = host.sysctls();
        let gone = Key::accept_ra("gone0");
        assert_eq!(sysctls.read(&gone).unwrap(), None);
        sysctls.write(&gone, 2).unwrap();
        assert_eq!(sysctls.read(&gone).unwrap(), None, "nothing is created");

        let there = Key::forward_all(Family::V4);
        sysctls.write(&there, 1).unwrap();
        assert_eq!(sysctls.read(&there).unwrap(), Some(1));
    }

    #[test]
    fn a_value_that_is_no_number_is_an_error_with_the_settings_name() {
        let host = FakeHost::new();
        host.set("net/ipv4/ip_forward", "yes");
        let error = host
            .sysctls()
            .read(&Key::forward_all(Family::V4))
            .unwrap_err();
        assert!(error.to_string().contains("net.ipv4.ip_forward"), "{error}");
    }

    #[test]
    fn a_host_may_have_so_many_interfaces_and_not_one_more() {
        let host = FakeHost::new();
        let listed = host.sysctls().interfaces(Family::V4).unwrap();
        assert_eq!(listed, ["default", "eth0", "lo"]);
        assert_eq!(
            host.sysctls().interfaces_within(Family::V4, 3).unwrap(),
            listed
        );
        let error = host.sysctls().interfaces_within(Family::V4, 2).unwrap_err();
        assert!(matches!(error, EgressError::TooManyInterfaces { max: 2 }));
    }
}
