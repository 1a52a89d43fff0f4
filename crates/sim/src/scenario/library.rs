//! The scenarios that ship in the binary: TOML files in `scenarios`, each with a comment on what it shows.

/// A scenario by its name, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// What [`named`] finds it by; its text says the same.
    pub name: &'static str,
    /// TOML.
    pub text: &'static str,
}

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        &[$(Named {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All of them: what the network does, what backends do, what providers and clients do, and fleets.
const LIBRARY: &[Named] = library![
    "quiet",
    "ack-blackout-one",
    "ack-blackout-cold",
    "ack-blackout",
    "full-blackout",
    "long-blackout",
    "lossy-degraded",
    "asymmetric-up",
    "asymmetric-down",
    "backend-blackout",
    "backend-503",
    "backend-slow",
    "backend-half",
    "contract-only",
    "backend-flap",
    "provider-death",
    "rolling-restart",
    "cascade",
    "cold-start",
    "shared-nat",
    "uplink-loss",
    "suspend",
    "clock-jump",
    "fleet-outage",
    "drill-blackout",
    "drill-death",
    "drill-backend",
];

/// All of them, in the order in which they are listed.
#[must_use]
pub fn library() -> &'static [Named] {
    LIBRARY
}

/// The one of this name.
#[must_use]
pub fn named(name: &str) -> Option<Named> {
    LIBRARY.iter().find(|named| named.name == name).copied()
}

/// What a scenario's text says of itself: its first comment, as one line.
#[must_use]
pub fn about(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}
