//! How large contracts are, how long they last and how long they are remembered; and the keys that sign them.
//!
//! A contract is trust handed out ahead of use: large ones let a client live longer without the backend, and tie up more
//! of its allowance while they are not used. The defaults carry a client of 100 Mbit/s for an hour and a half on one
//! request of 16, and let a day pass between two of an idle one.
//!
//! Keys rotate in three steps: the next public key is put into `trusted` and reaches every provider with its heartbeats;
//! the next secret key signs; the previous public key goes to `retired`. Retired keys open nothing anew: they only let
//! receipts under contracts that they signed still count.

use std::time::Duration;

use quell_core::config::{ConfigError, duration, number};
use quell_core::contract::seal;
use quell_wire::contract::{CONTRACT_ALLOWS_MAX, KeyId};
use quell_wire::key::{PublicKey, SecretKey};

use crate::api::TRUSTED_KEYS_MAX;

/// Most keys whose old contracts still count.
pub const RETIRED_KEYS_MAX: usize = 16;
/// Longest life of a contract, and longest grace: what a lost key could still be used for after a ban.
pub const LIFETIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// What contracts are like, and how long they are remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Least bytes of a contract: 1 MiB. A smaller wish gets this much, so that records are few beside what they allow.
    pub contract_bytes_min: u64,
    /// Most bytes of a contract: 4 GiB, which is 5 min at 100 Mbit/s.
    pub contract_bytes_max: u64,
    /// How long a contract lasts: 24 h. At least a minute, whole seconds count.
    pub contract_lifetime: Duration,
    /// Bytes of grace: 256 MiB, at most as many as the contract itself allows. 0 for no grace.
    pub grace_bytes: u64,
    /// How long grace lasts: 1 h after the contract. 0 for no grace.
    pub grace: Duration,
    /// How long contracts and receipts are remembered after their end: 30 days. A receipt that is filed later counts
    /// for nothing.
    pub retention: Duration,
    /// After how long the next heartbeat of a provider is welcome: 10 s.
    pub heartbeat_interval: Duration,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            contract_bytes_min: 1 << 20,
            contract_bytes_max: 4 << 30,
            contract_lifetime: Duration::from_secs(86_400),
            grace_bytes: 256 << 20,
            grace: Duration::from_secs(3_600),
            retention: Duration::from_secs(30 * 86_400),
            heartbeat_interval: Duration::from_secs(10),
        }
    }
}

impl ServiceConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        let c = |name| format!("contracts.{name}");
        let (max, min) = (self.contract_bytes_max, self.contract_bytes_min);
        number(c("contract_bytes_max"), max, 1..=CONTRACT_ALLOWS_MAX)?;
        number(c("contract_bytes_min"), min, 1..=max)?;
        let lifetime = Duration::from_secs(60)..=LIFETIME_MAX;
        duration(c("contract_lifetime"), self.contract_lifetime, lifetime)?;
        duration(c("grace"), self.grace, Duration::ZERO..=LIFETIME_MAX)?;
        if (self.grace_bytes == 0) != (self.grace.as_secs() == 0) {
            let value = format!("{:?}, with grace_bytes = {}", self.grace, self.grace_bytes);
            let allowed = "both none, or 1 s at least and 1 byte at least";
            return Err(ConfigError::new(c("grace"), value, allowed));
        }
        let interval = Duration::from_secs(1)..=Duration::from_secs(600);
        duration(
            "catalog.heartbeat_interval",
            self.heartbeat_interval,
            interval,
        )?;
        Ok(self)
    }
}

/// The key that signs contracts, and those that are believed.
#[derive(Debug)]
pub struct SigningKeys {
    secret: SecretKey,
    id: KeyId,
    trusted: Vec<PublicKey>,
    retired: Vec<PublicKey>,
}

impl SigningKeys {
    /// The keys of a server. `other` is the one before or after the key that signs.
    ///
    /// # Errors
    /// More than [`RETIRED_KEYS_MAX`] retired keys, or one key in two places.
    pub fn try_new(
        secret: SecretKey,
        other: Option<PublicKey>,
        retired: Vec<PublicKey>,
    ) -> Result<Self, ConfigError> {
        let public = seal::public_key(&secret);
        let trusted: Vec<_> = [public].into_iter().chain(other).collect();
        debug_assert!(trusted.len() <= TRUSTED_KEYS_MAX);
        if retired.len() > RETIRED_KEYS_MAX {
            let value = format!("{} keys", retired.len());
            let allowed = format!("{RETIRED_KEYS_MAX} keys at most");
            return Err(ConfigError::new("retired", value, allowed));
        }
        let all = || trusted.iter().chain(&retired);
        if let Some(twice) = all().find(|key| all().filter(|other| other == key).count() > 1) {
            let allowed = "each key once among `signing_key_file`, `trusted` and `retired`";
            return Err(ConfigError::new(
                "trusted",
                format!("{twice} twice"),
                allowed,
            ));
        }
        Ok(Self {
            id: seal::key_id(&public),
            secret,
            trusted,
            retired,
        })
    }

    /// The keys whose contracts providers are to accept, the one that signs first.
    #[must_use]
    pub fn trusted(&self) -> &[PublicKey] {
        &self.trusted
    }

    /// The trusted keys as text.
    #[must_use]
    pub fn trusted_texts(&self) -> Vec<String> {
        self.trusted.iter().map(PublicKey::to_text).collect()
    }

    pub(super) fn secret(&self) -> &SecretKey {
        &self.secret
    }

    pub(super) fn id(&self) -> KeyId {
        self.id
    }

    /// The key, trusted or retired, that an id names.
    pub(super) fn of_id(&self, id: KeyId) -> Option<&PublicKey> {
        let all = self.trusted.iter().chain(&self.retired);
        all.into_iter().find(|key| seal::key_id(key) == id)
    }
}
