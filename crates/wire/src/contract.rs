//! The signed forms between a backend, a provider and a client: contract, receipt, key binding.
//!
//! ```text
//! backend ── contract ──> client ── contract ──> provider     "this key may have so many bytes of this provider"
//! client  ── receipt ───> provider ── receipt ─> backend      "so many bytes were delivered to me under it, in all"
//! client  ── binding ───> backend                             "this fresh key is mine, for this provider and day"
//! ```
//!
//! Each is of fixed length and big-endian: a tag of four letters, which no other form begins with, its fields, and an
//! Ed25519 signature (RFC 8032) over everything before it. The tag keeps a signature of one form from standing under
//! another; a later version of a form gets a tag of its own, and its own length.
//!
//! ```text
//! contract "QLC1"  192  key_id 8, contract_id 16, client_key 32, provider_key 32, bytes 8,
//!                       not_before_s 8, not_after_s 8, grace_bytes 8, grace_s 4; by the backend
//! receipt  "QLR1"  132  contract_id 16, provider_key 32, bytes_total 8, issued_s 8; by the contract's client_key
//! binding  "QLB1"  168  account_key 32, client_key 32, provider_key 32, day 4; by account_key
//! ```
//!
//! Times are whole seconds since 1970 UTC, a day is their 86,400th part. Fixed forms and not CBOR, since what is
//! signed must have one encoding, and a verifier should not parse before it knows who wrote: the lengths are checked,
//! then the signature, then what the fields say. Here is form alone; whether a signature holds and whether the terms
//! do is asked of the core.

mod bytes;

use std::fmt;

use self::bytes::{Reader, Writer};
use crate::key::PublicKey;

/// Bytes of an Ed25519 signature.
pub const SIGNATURE_LEN: usize = 64;
/// Bytes of a contract, its signature included.
pub const CONTRACT_LEN: usize = 192;
/// Bytes of a receipt, its signature included.
pub const RECEIPT_LEN: usize = 132;
/// Bytes of a key binding, its signature included.
pub const BINDING_LEN: usize = 168;
/// Most bytes that a contract may allow: 1 PiB, so that sums of a fleet's contracts stay far from overflow.
pub const CONTRACT_ALLOWS_MAX: u64 = 1 << 50;

/// Why bytes are none of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// Truncated, or followed by something.
    #[error("a {form} has {wanted} bytes, not {found}")]
    WrongLength {
        /// Which form was wanted.
        form: &'static str,
        /// Its length.
        wanted: usize,
        /// How many bytes came.
        found: usize,
    },
    /// It begins with another tag: another form, or a version that is not known here.
    #[error("no {form} of a known version begins so")]
    WrongTag {
        /// Which form was wanted.
        form: &'static str,
    },
    /// A value that no such form may have.
    #[error("`{field}` of a {form} {words}")]
    Invalid {
        /// Which form.
        form: &'static str,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        words: &'static str,
    },
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; $len]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id! {
    /// Names one of a backend's signing keys: the first 8 bytes of the SHA-256 of the raw public key.
    KeyId, 8
}
id! {
    /// Names a contract, for good.
    ContractId, 16
}

/// An Ed25519 signature, as bytes that nobody has verified.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; SIGNATURE_LEN]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

/// What a contract allows: one client key so many bytes of one provider, for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractTerms {
    /// Which of the backend's keys signed.
    pub key_id: KeyId,
    /// Which contract.
    pub contract_id: ContractId,
    /// Whose traffic. The key that the client proves in its QUIC handshake with the provider.
    pub client_key: PublicKey,
    /// Which provider; no other may accept it.
    pub provider_key: PublicKey,
    /// How many bytes of inner packets, both directions together; 1 to [`CONTRACT_ALLOWS_MAX`].
    pub bytes: u64,
    /// From when on, in seconds since 1970 UTC.
    pub not_before_s: u64,
    /// Until when, in seconds since 1970 UTC; after `not_before_s`.
    pub not_after_s: u64,
    /// How many bytes more may be had when the backend cannot be asked; at most `bytes`, 0 for none.
    pub grace_bytes: u64,
    /// For how many seconds after `not_after_s` at most, in that case; 0 with `grace_bytes` 0.
    pub grace_s: u32,
}

impl ContractTerms {
    const FORM: &'static str = "contract";
    const TAG: [u8; 4] = *b"QLC1";

    /// What is signed: the form without its signature.
    #[must_use]
    pub fn to_signed_part(&self) -> [u8; CONTRACT_LEN - SIGNATURE_LEN] {
        let mut out = Writer::new(Self::TAG);
        out.put(&self.key_id.0);
        out.put(&self.contract_id.0);
        out.put(&self.client_key.0);
        out.put(&self.provider_key.0);
        out.put(&self.bytes.to_be_bytes());
        out.put(&self.not_before_s.to_be_bytes());
        out.put(&self.not_after_s.to_be_bytes());
        out.put(&self.grace_bytes.to_be_bytes());
        out.put(&self.grace_s.to_be_bytes());
        out.finish()
    }

    /// Checks what every contract must hold, whoever signed it. A backend asks before it signs.
    ///
    /// # Errors
    /// The first field whose value no contract may have.
    pub fn check(&self) -> Result<(), FormError> {
        let invalid = |field, words| {
            let form = Self::FORM;
            Err(FormError::Invalid { form, field, words })
        };
        if self.bytes == 0 || self.bytes > CONTRACT_ALLOWS_MAX {
            return invalid("bytes", "is not in 1 to 2^50");
        }
        if self.not_after_s <= self.not_before_s {
            return invalid("not_after_s", "is not after `not_before_s`");
        }
        if self.grace_bytes > self.bytes {
            return invalid("grace_bytes", "is more than `bytes`");
        }
        if (self.grace_bytes == 0) != (self.grace_s == 0) {
            return invalid("grace_s", "and `grace_bytes` are not both zero or both not");
        }
        Ok(())
    }
}

/// A contract and the signature that came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedContract {
    /// What it says.
    pub terms: ContractTerms,
    /// Over [`ContractTerms::to_signed_part`], by the key that `key_id` names; not verified here.
    pub signature: Signature,
}

impl SignedContract {
    /// Reads a contract.
    ///
    /// # Errors
    /// Another length or tag, or a value that no contract may have.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormError> {
        let mut from: Reader<'_, CONTRACT_LEN> =
            Reader::new(ContractTerms::FORM, ContractTerms::TAG, bytes)?;
        let terms = ContractTerms {
            key_id: KeyId(from.take()),
            contract_id: ContractId(from.take()),
            client_key: PublicKey(from.take()),
            provider_key: PublicKey(from.take()),
            bytes: u64::from_be_bytes(from.take()),
            not_before_s: u64::from_be_bytes(from.take()),
            not_after_s: u64::from_be_bytes(from.take()),
            grace_bytes: u64::from_be_bytes(from.take()),
            grace_s: u32::from_be_bytes(from.take()),
        };
        let signature = Signature(from.take());
        terms.check()?;
        Ok(Self { terms, signature })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> [u8; CONTRACT_LEN] {
        bytes::joined(&self.terms.to_signed_part(), &self.signature)
    }
}

/// What a receipt says: so many bytes were delivered under a contract, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptTerms {
    /// Under which contract.
    pub contract_id: ContractId,
    /// By which provider: a receipt is worth nothing in another's hands.
    pub provider_key: PublicKey,
    /// Bytes of inner packets delivered since the contract began, both directions together.
    pub bytes_total: u64,
    /// When it was signed by the client's clock, in seconds since 1970 UTC. For people; nothing is decided by it.
    pub issued_s: u64,
}

impl ReceiptTerms {
    const FORM: &'static str = "receipt";
    const TAG: [u8; 4] = *b"QLR1";

    /// What is signed: the form without its signature.
    #[must_use]
    pub fn to_signed_part(&self) -> [u8; RECEIPT_LEN - SIGNATURE_LEN] {
        let mut out = Writer::new(Self::TAG);
        out.put(&self.contract_id.0);
        out.put(&self.provider_key.0);
        out.put(&self.bytes_total.to_be_bytes());
        out.put(&self.issued_s.to_be_bytes());
        out.finish()
    }
}

/// A receipt and the signature that came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedReceipt {
    /// What it says.
    pub terms: ReceiptTerms,
    /// Over [`ReceiptTerms::to_signed_part`], by the contract's `client_key`; not verified here.
    pub signature: Signature,
}

impl SignedReceipt {
    /// Reads a receipt.
    ///
    /// # Errors
    /// Another length or tag.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormError> {
        let mut from: Reader<'_, RECEIPT_LEN> =
            Reader::new(ReceiptTerms::FORM, ReceiptTerms::TAG, bytes)?;
        let terms = ReceiptTerms {
            contract_id: ContractId(from.take()),
            provider_key: PublicKey(from.take()),
            bytes_total: u64::from_be_bytes(from.take()),
            issued_s: u64::from_be_bytes(from.take()),
        };
        let signature = Signature(from.take());
        Ok(Self { terms, signature })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> [u8; RECEIPT_LEN] {
        bytes::joined(&self.terms.to_signed_part(), &self.signature)
    }
}

/// An enrolled client's word that a fresh key is its own, for one provider and from one day on.
///
/// The provider sees the fresh key alone, so that two providers, or one on two days, cannot tell by keys that they
/// serve the same client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingTerms {
    /// The enrolled key.
    pub account_key: PublicKey,
    /// The fresh key.
    pub client_key: PublicKey,
    /// For which provider.
    pub provider_key: PublicKey,
    /// The day from which it is used, in days since 1970 UTC.
    pub day: u32,
}

impl BindingTerms {
    const FORM: &'static str = "key binding";
    const TAG: [u8; 4] = *b"QLB1";

    /// What is signed: the form without its signature.
    #[must_use]
    pub fn to_signed_part(&self) -> [u8; BINDING_LEN - SIGNATURE_LEN] {
        let mut out = Writer::new(Self::TAG);
        out.put(&self.account_key.0);
        out.put(&self.client_key.0);
        out.put(&self.provider_key.0);
        out.put(&self.day.to_be_bytes());
        out.finish()
    }
}

/// A key binding and the signature that came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedBinding {
    /// What it says.
    pub terms: BindingTerms,
    /// Over [`BindingTerms::to_signed_part`], by `account_key`; not verified here.
    pub signature: Signature,
}

impl SignedBinding {
    /// Reads a binding.
    ///
    /// # Errors
    /// Another length or tag.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormError> {
        let mut from: Reader<'_, BINDING_LEN> =
            Reader::new(BindingTerms::FORM, BindingTerms::TAG, bytes)?;
        let terms = BindingTerms {
            account_key: PublicKey(from.take()),
            client_key: PublicKey(from.take()),
            provider_key: PublicKey(from.take()),
            day: u32::from_be_bytes(from.take()),
        };
        let signature = Signature(from.take());
        Ok(Self { terms, signature })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> [u8; BINDING_LEN] {
        bytes::joined(&self.terms.to_signed_part(), &self.signature)
    }
}
