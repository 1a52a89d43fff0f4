//! Is this a contract that I should honour, and this a receipt that I may file?
//!
//! A provider answers both offline: it holds one or two keys of its backend, knows its own key, and the session's
//! handshake has proved the client's. The order of the questions is that of trust: form, who signed, whether the
//! signature holds, and only then what the fields say. So whoever sees a refusal other than the first three knows that
//! the backend did sign.
//!
//! Two keys, because keys rotate without a moment at which all parties change at once: the next one is trusted
//! everywhere before it signs, the last one until nothing that it signed is of use.
//!
//! Times are judged by wall clocks that differ by `clock_skew` at most: a contract is good from `not_before − skew` to
//! `not_after + skew`. Whatever a clock says, the bytes of a contract are bounded by what its receipts say; a jump can
//! lengthen a contract, never refill it.

use std::time::Duration;

use quell_wire::contract::{ContractTerms, FormError, KeyId, SignedContract, SignedReceipt};
use quell_wire::key::PublicKey;

use super::seal;
use crate::config::ConfigError;

/// Most keys of a backend that are trusted at a time.
pub const TRUSTED_KEYS_MAX: usize = 2;

/// Why a contract is not honoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractRefusal {
    /// It is none.
    #[error("it is no contract: {0}")]
    Malformed(#[from] FormError),
    /// Signed by a key that is not trusted, or no longer.
    #[error("it names the signing key {0}, which is not trusted here")]
    UnknownKey(KeyId),
    /// The signature does not hold.
    #[error("its signature does not hold")]
    BadSignature,
    /// Made for another provider.
    #[error("it is for another provider")]
    OtherProvider,
    /// Made for another client key than the session's.
    #[error("it is for another client key")]
    OtherClient,
    /// Its time has not come.
    #[error("it begins in {in_s} s")]
    NotYetValid {
        /// In how many seconds it begins, by the own clock.
        in_s: u64,
    },
    /// Its time is over.
    #[error("it ended {since_s} s ago")]
    Expired {
        /// How many seconds ago it ended, by the own clock; 0 where the clock went back since it was retired.
        since_s: u64,
    },
    /// It was in hand before, is used up, and others have taken its place.
    #[error("it is used up and was replaced")]
    Replaced,
    /// The current one and as many next ones as may be are in hand.
    #[error("as many contracts as may be are in hand")]
    TooMany,
    /// The provider remembers as many contracts as it may.
    #[error("the provider remembers as many contracts as it may")]
    BooksFull,
}

impl ContractRefusal {
    /// A stable name in snake_case, for metrics and machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::UnknownKey(_) => "unknown_key",
            Self::BadSignature => "bad_signature",
            Self::OtherProvider => "other_provider",
            Self::OtherClient => "other_client",
            Self::NotYetValid { .. } => "not_yet_valid",
            Self::Expired { .. } => "expired",
            Self::Replaced => "replaced",
            Self::TooMany => "too_many",
            Self::BooksFull => "books_full",
        }
    }
}

/// Why a receipt counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptRefusal {
    /// It is none.
    #[error("it is no receipt: {0}")]
    Malformed(#[from] FormError),
    /// No contract of that id is in hand for this client.
    #[error("no contract of that id is in hand")]
    UnknownContract,
    /// Made out to another provider.
    #[error("it is for another provider")]
    OtherProvider,
    /// It says no more than one that is here.
    #[error("it says no more than the last one, {at_least} bytes")]
    NotHigher {
        /// The highest total so far.
        at_least: u64,
    },
    /// It says more than its contract allows, grace included.
    #[error("it says more than the {allowed} bytes of its contract")]
    Exceeds {
        /// What the contract allows in all.
        allowed: u64,
    },
    /// The client's signature does not hold.
    #[error("its signature does not hold")]
    BadSignature,
}

impl ReceiptRefusal {
    /// A stable name in snake_case, for metrics and machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::UnknownContract => "unknown_contract",
            Self::OtherProvider => "other_provider",
            Self::NotHigher { .. } => "not_higher",
            Self::Exceeds { .. } => "exceeds",
            Self::BadSignature => "bad_signature",
        }
    }

    /// Whether only a broken or hostile client sends such a one. The others may cross a restart of either end.
    #[must_use]
    pub fn is_breach(self) -> bool {
        match self {
            Self::Malformed(_)
            | Self::OtherProvider
            | Self::Exceeds { .. }
            | Self::BadSignature => true,
            Self::UnknownContract | Self::NotHigher { .. } => false,
        }
    }
}

/// The backend's keys whose contracts are honoured: one, or two while they rotate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    keys: Vec<(KeyId, PublicKey)>,
}

impl Trusted {
    /// Trusts these keys.
    ///
    /// # Errors
    /// None, more than [`TRUSTED_KEYS_MAX`], or the same twice.
    pub fn try_new(keys: &[PublicKey]) -> Result<Self, ConfigError> {
        let wrong = |value: String| {
            let allowed = "one key of the backend, or two different ones";
            ConfigError::new("contracts.trusted_keys", value, allowed)
        };
        if keys.is_empty() || keys.len() > TRUSTED_KEYS_MAX {
            return Err(wrong(format!("{} keys", keys.len())));
        }
        let keys: Vec<_> = keys.iter().map(|key| (seal::key_id(key), *key)).collect();
        match keys.as_slice() {
            [(one, _), (other, key)] if one == other => Err(wrong(key.to_text())),
            _ => Ok(Self { keys }),
        }
    }

    /// Trusts nobody yet: every contract is refused until the backend has named its keys.
    #[must_use]
    pub fn nobody() -> Self {
        Self { keys: Vec::new() }
    }

    /// The keys, in the order in which they were given.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter().map(|(_, key)| key)
    }

    /// Whether a trusted key signed this contract.
    ///
    /// # Errors
    /// [`ContractRefusal::UnknownKey`] or [`ContractRefusal::BadSignature`].
    pub fn check(&self, contract: &SignedContract) -> Result<(), ContractRefusal> {
        let id = contract.terms.key_id;
        let Some((_, key)) = self.keys.iter().find(|(known, _)| *known == id) else {
            return Err(ContractRefusal::UnknownKey(id));
        };
        if seal::is_contract_signed(key, contract) {
            Ok(())
        } else {
            Err(ContractRefusal::BadSignature)
        }
    }
}

/// Judges contracts for one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Whose contracts are honoured.
    pub trusted: Trusted,
    /// The provider's own key.
    pub provider_key: PublicKey,
    /// How far clocks may differ.
    pub clock_skew: Duration,
}

impl Verifier {
    /// Whether this is a contract for a session of `client_key`, good at `wall_s` (seconds since 1970 UTC).
    ///
    /// # Errors
    /// Why not.
    pub fn verify(
        &self,
        form: &[u8],
        client_key: &PublicKey,
        wall_s: u64,
    ) -> Result<SignedContract, ContractRefusal> {
        let contract = self.verify_signed(form)?;
        let terms = &contract.terms;
        if terms.client_key != *client_key {
            return Err(ContractRefusal::OtherClient);
        }
        let skew_s = self.clock_skew.as_secs();
        let begins = terms.not_before_s.saturating_sub(skew_s);
        if wall_s < begins {
            let in_s = begins - wall_s;
            return Err(ContractRefusal::NotYetValid { in_s });
        }
        let ends = terms.not_after_s.saturating_add(skew_s);
        if wall_s > ends {
            let since_s = wall_s - ends;
            return Err(ContractRefusal::Expired { since_s });
        }
        Ok(contract)
    }

    /// Whether this is a contract of this provider, whoever's it is and whenever it holds: what a store gives back.
    ///
    /// # Errors
    /// Why not.
    pub fn verify_signed(&self, form: &[u8]) -> Result<SignedContract, ContractRefusal> {
        let contract = SignedContract::decode(form)?;
        self.trusted.check(&contract)?;
        if contract.terms.provider_key != self.provider_key {
            return Err(ContractRefusal::OtherProvider);
        }
        Ok(contract)
    }
}

/// Whether this is a receipt under `contract` that says more than `highest` bytes. The signature, which costs the most,
/// is looked at last: an old receipt sent over and over costs a comparison.
///
/// # Errors
/// Why not.
pub fn verify_receipt(
    form: &[u8],
    contract: &ContractTerms,
    highest: u64,
) -> Result<SignedReceipt, ReceiptRefusal> {
    let receipt = SignedReceipt::decode(form)?;
    let terms = &receipt.terms;
    if terms.contract_id != contract.contract_id {
        return Err(ReceiptRefusal::UnknownContract);
    }
    if terms.provider_key != contract.provider_key {
        return Err(ReceiptRefusal::OtherProvider);
    }
    if terms.bytes_total <= highest {
        return Err(ReceiptRefusal::NotHigher { at_least: highest });
    }
    let allowed = contract.bytes.saturating_add(contract.grace_bytes);
    if terms.bytes_total > allowed {
        return Err(ReceiptRefusal::Exceeds { allowed });
    }
    if seal::is_receipt_signed(&contract.client_key, &receipt) {
        Ok(receipt)
    } else {
        Err(ReceiptRefusal::BadSignature)
    }
}

#[cfg(test)]
mod tests;
