//! Signing the forms of [`quell_wire::contract`], and telling whether a signature holds.
//!
//! One rule for all three: Ed25519 with strict verification, which refuses keys of small order and encodings that are
//! not canonical, so that every verifier agrees and a signature cannot be reshaped into another valid one (a receipt
//! would count as new). The form's own tag is part of what is signed: no signature serves under another form.

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use quell_wire::contract::{
    BindingTerms, ContractTerms, KeyId, ReceiptTerms, Signature, SignedBinding, SignedContract,
    SignedReceipt,
};
use quell_wire::key::{PublicKey, SecretKey};
use sha2::{Digest as _, Sha256};

/// Signs any bytes. The caller's bytes must begin with a tag of their own.
#[must_use]
pub fn sign(secret: &SecretKey, bytes: &[u8]) -> Signature {
    let key = SigningKey::from_bytes(secret.as_bytes());
    Signature(key.sign(bytes).to_bytes())
}

/// Whether `signature` is `key`'s over these bytes. A key that is no point of the curve signs nothing.
#[must_use]
pub fn is_signed(key: &PublicKey, bytes: &[u8], signature: &Signature) -> bool {
    let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
    VerifyingKey::from_bytes(&key.0).is_ok_and(|key| key.verify_strict(bytes, &signature).is_ok())
}

/// The public half of a secret key.
#[must_use]
pub fn public_key(secret: &SecretKey) -> PublicKey {
    PublicKey(
        SigningKey::from_bytes(secret.as_bytes())
            .verifying_key()
            .to_bytes(),
    )
}

/// The name of a signing key.
#[must_use]
pub fn key_id(key: &PublicKey) -> KeyId {
    let digest: [u8; 32] = Sha256::digest(key.0).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    KeyId([a, b, c, d, e, f, g, h])
}

/// Signs a contract. `secret` is the key that `terms.key_id` names.
#[must_use]
pub fn sign_contract(secret: &SecretKey, terms: ContractTerms) -> SignedContract {
    let signature = sign(secret, &terms.to_signed_part());
    SignedContract { terms, signature }
}

/// Whether `key` signed this contract.
#[must_use]
pub fn is_contract_signed(key: &PublicKey, contract: &SignedContract) -> bool {
    is_signed(key, &contract.terms.to_signed_part(), &contract.signature)
}

/// Signs a receipt with the contract's client key.
#[must_use]
pub fn sign_receipt(secret: &SecretKey, terms: ReceiptTerms) -> SignedReceipt {
    let signature = sign(secret, &terms.to_signed_part());
    SignedReceipt { terms, signature }
}

/// Whether `client_key` signed this receipt.
#[must_use]
pub fn is_receipt_signed(client_key: &PublicKey, receipt: &SignedReceipt) -> bool {
    is_signed(
        client_key,
        &receipt.terms.to_signed_part(),
        &receipt.signature,
    )
}

/// Signs a key binding with the enrolled key, whose public half must be `terms.account_key`.
#[must_use]
pub fn sign_binding(secret: &SecretKey, terms: BindingTerms) -> SignedBinding {
    let signature = sign(secret, &terms.to_signed_part());
    SignedBinding { terms, signature }
}

/// Whether the account that a binding names signed it.
#[must_use]
pub fn is_binding_signed(binding: &SignedBinding) -> bool {
    let account = &binding.terms.account_key;
    is_signed(account, &binding.terms.to_signed_part(), &binding.signature)
}
