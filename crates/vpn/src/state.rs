//! What is remembered on disk, in two files.
//!
//! `vpn-<tun>.json` in the run folder speaks of rules, routes and the firewall, which end with the boot: one of another
//! boot or network namespace is forgotten. `names-<tun>.json` in the state folder speaks of the resolver's file, which is
//! on the disk itself and outlives a power cut, so its memory has to, too.

use std::path::PathBuf;

use quell_host::{Realm, Stored};
use quell_packet::Prefix;
use serde::{Deserialize, Serialize};

/// Rules, routes, firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) version: u32,
    pub(crate) realm: Realm,
    pub(crate) mark: u32,
    /// Routes of the own table, and prefixes that are excluded.
    pub(crate) marked: Vec<Text>,
    pub(crate) exclude: Vec<Text>,
    /// Whether nothing leaves but through the tunnel.
    pub(crate) fail_closed: bool,
    /// Whether the reverse-path filter was told to look at marks.
    pub(crate) minds_marks: bool,
}

impl Stored for State {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}

/// A prefix as its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Text(pub(crate) Prefix);

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let prefix = text.parse().map(Self);
        prefix.map_err(|error: quell_packet::PacketError| error.to_string())
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.to_string()
    }
}

/// The resolver's file as it was, and as it was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    pub(crate) version: u32,
    pub(crate) path: PathBuf,
    pub(crate) before: Before,
    /// What was written. While it stands, the file is ours to put back.
    pub(crate) set: String,
}

/// What stood at the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Before {
    /// Nothing.
    Absent,
    /// A symbolic link to there.
    Link(PathBuf),
    /// A file.
    File {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Its permissions.
        mode: u32,
        /// Its owner and group.
        owner: (u32, u32),
    },
}

impl Stored for Names {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}
