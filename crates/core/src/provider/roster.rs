//! Which keys may connect, and what people call them.
//!
//! A roster is written once and then only read. Clones share it: a process with many providers, as a simulated fleet is,
//! holds the clients of all of them once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use quell_wire::key::PublicKey;

use crate::config::ConfigError;

/// The clients of a provider.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    names: Arc<HashMap<PublicKey, String>>,
}

impl Roster {
    /// A roster of `(name, key)` pairs.
    ///
    /// # Errors
    /// A name or a key that occurs twice.
    pub fn try_new(
        clients: impl IntoIterator<Item = (String, PublicKey)>,
    ) -> Result<Self, ConfigError> {
        let (mut names, mut seen) = (HashMap::new(), HashSet::new());
        for (name, key) in clients {
            if !seen.insert(name.clone()) {
                return Err(ConfigError::new(
                    "clients.name",
                    name,
                    "a name that no other client has",
                ));
            }
            if names.insert(key, name).is_some() {
                return Err(ConfigError::new(
                    "clients.public_key",
                    key,
                    "a key that no other client has",
                ));
            }
        }
        let names = Arc::new(names);
        Ok(Self { names })
    }

    /// The name of the client with `key`.
    pub fn name_of(&self, key: &PublicKey) -> Option<&str> {
        self.names.get(key).map(String::as_str)
    }
}
