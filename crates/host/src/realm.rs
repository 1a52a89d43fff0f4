//! What settings and rules live in: one boot of one kernel, one network namespace.
//!
//! A state file names its realm. What it speaks of does not outlive either, so a file of an earlier boot is forgotten
//! rather than obeyed: its "previous" values would undo what the host has been set to since.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// One boot, one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Realm {
    /// The kernel's identity of this boot.
    pub boot: String,
    /// The namespace's, as its link says it.
    pub namespace: String,
}

impl Realm {
    /// That of the calling thread, by a directory that is `/proc` or a test's.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn of(proc_root: &Path) -> Result<Self, HostError> {
        let boot = proc_root.join("sys/kernel/random/boot_id");
        let namespace = proc_root.join("thread-self/ns/net");
        Ok(Self {
            boot: fs::read_to_string(&boot)
                .map_err(|source| HostError::file("read", &boot, source))?
                .trim()
                .to_owned(),
            namespace: fs::read_link(&namespace)
                .map_err(|source| HostError::file("read", &namespace, source))?
                .display()
                .to_string(),
        })
    }
}
