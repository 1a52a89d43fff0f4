//! Where the host is: its settings, its identity, its `nft`.
//!
//! Paths and not constants, so that every decision of this crate is tested without privileges, against a directory that
//! looks like `/proc` and a script that behaves like `nft`.

use std::path::{Path, PathBuf};

use quell_host::{Program, Realm};

use crate::error::EgressError;
use crate::nft::NFT_ARGS;
use crate::sysctl::Sysctls;

/// The host that an egress changes.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    proc_root: PathBuf,
    pub(crate) sysctls: Sysctls,
    pub(crate) nft: Program,
}

impl Host {
    pub(crate) fn new(proc_root: &Path, nft: Program) -> Self {
        Self {
            proc_root: proc_root.to_owned(),
            sysctls: Sysctls::new(&proc_root.join("sys")),
            nft,
        }
    }

    /// This host, as the calling thread sees it.
    pub(crate) fn this() -> Self {
        Self::new(Path::new("/proc"), Program::new("nft"))
    }

    /// Which boot and which network namespace the calling thread is in.
    pub(crate) fn realm(&self) -> Result<Realm, EgressError> {
        Ok(Realm::of(&self.proc_root)?)
    }

    /// Has `nft` take a script as one transaction.
    pub(crate) fn rules(&self, script: &str) -> Result<(), EgressError> {
        Ok(self.nft.run(&NFT_ARGS, script)?)
    }
}
