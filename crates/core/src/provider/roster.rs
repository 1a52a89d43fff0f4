//! Which keys may connect, and what people call them.

use std::collections::HashMap;

use quell_wire::key::PublicKey;

use crate::config::ConfigError;

/// The clients of a provider.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    names: HashMap<PublicKey, String>,
}

impl Roster {
    /// A roster of `(name, key)` pairs.
    ///
    /// # Errors
    /// A name or a key that occurs twice.
    pub fn try_new(
        clients: impl IntoIterator<Item = (String, PublicKey)>,
    ) -> Result<Self, ConfigError> {
        let mut roster = Self::default();
        for (name, key) in clients {
            if roster.names.values().any(|other| *other == name) {
                return Err(ConfigError::new(
                    "clients.name",
                    name,
                    "a name that no other client has",
                ));
            }
            if roster.names.insert(key, name).is_some() {
                return Err(ConfigError::new(
                    "clients.public_key",
                    key,
                    "a key that no other client has",
                ));
            }
        }
        Ok(roster)
    }

    /// The name of the client with `key`.
    pub fn name_of(&self, key: &PublicKey) -> Option<&str> {
        self.names.get(key).map(String::as_str)
    }
}
