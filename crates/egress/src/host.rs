//! Where the host is: its settings, its identity, its `nft`.
//!
//! Paths and not constants, so that every decision of this crate is tested without privileges, against a directory that
//! looks like `/proc` and a script that behaves like `nft`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::EgressError;
use crate::nft::Nft;
use crate::state::failed;
use crate::sysctl::Sysctls;

/// What settings and rules live in: one boot of one kernel, one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Realm {
    pub(crate) boot: String,
    pub(crate) namespace: String,
}

/// The host that an egress changes.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    proc_root: PathBuf,
    pub(crate) sysctls: Sysctls,
    pub(crate) nft: Nft,
}

impl Host {
    pub(crate) fn new(proc_root: &Path, nft: Nft) -> Self {
        Self {
            proc_root: proc_root.to_owned(),
            sysctls: Sysctls::new(&proc_root.join("sys")),
            nft,
        }
    }

    /// This host, as the calling thread sees it.
    pub(crate) fn this() -> Self {
        Self::new(Path::new("/proc"), Nft::default())
    }

    /// Which boot and which network namespace the calling thread is in.
    pub(crate) fn realm(&self) -> Result<Realm, EgressError> {
        let boot = self.proc_root.join("sys/kernel/random/boot_id");
        let namespace = self.proc_root.join("thread-self/ns/net");
        Ok(Realm {
            boot: fs::read_to_string(&boot)
                .map_err(|source| failed("read", &boot, source))?
                .trim()
                .to_owned(),
            namespace: fs::read_link(&namespace)
                .map_err(|source| failed("read", &namespace, source))?
                .display()
                .to_string(),
        })
    }
}
