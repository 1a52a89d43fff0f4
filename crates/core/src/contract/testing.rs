//! What the tests of contracts are made of: keys, terms, clocks.

use quell_wire::contract::{ContractId, ContractTerms, ReceiptTerms, SignedContract};
use quell_wire::key::{PublicKey, SecretKey};

use super::seal;
use super::verify::{Trusted, Verifier};

/// A wall clock's reading, in seconds since 1970 UTC.
pub(crate) const WALL_S: u64 = 1_900_000_000;

pub(crate) fn secret(of: u8) -> SecretKey {
    SecretKey::from_bytes([of; 32])
}

pub(crate) fn public(of: u8) -> PublicKey {
    seal::public_key(&secret(of))
}

pub(crate) const BACKEND: u8 = 1;
pub(crate) const PROVIDER: u8 = 2;
pub(crate) const CLIENT: u8 = 3;

pub(crate) fn terms(id: u8, bytes: u64) -> ContractTerms {
    ContractTerms {
        key_id: seal::key_id(&public(BACKEND)),
        contract_id: ContractId([id; 16]),
        client_key: public(CLIENT),
        provider_key: public(PROVIDER),
        bytes,
        not_before_s: WALL_S,
        not_after_s: WALL_S + 3_600,
        grace_bytes: 0,
        grace_s: 0,
    }
}

pub(crate) fn contract(id: u8, bytes: u64) -> SignedContract {
    signed(terms(id, bytes))
}

pub(crate) fn signed(terms: ContractTerms) -> SignedContract {
    seal::sign_contract(&secret(BACKEND), terms)
}

pub(crate) fn receipt_terms(contract: &ContractTerms, bytes_total: u64) -> ReceiptTerms {
    ReceiptTerms {
        contract_id: contract.contract_id,
        provider_key: contract.provider_key,
        bytes_total,
        issued_s: WALL_S,
    }
}

/// A receipt of the client's for so many bytes, as bytes.
pub(crate) fn receipt(contract: &ContractTerms, bytes_total: u64) -> Vec<u8> {
    let terms = receipt_terms(contract, bytes_total);
    seal::sign_receipt(&secret(CLIENT), terms).encode().to_vec()
}

pub(crate) fn verifier() -> Verifier {
    Verifier {
        trusted: Trusted::try_new(&[public(BACKEND)]).unwrap_or_else(|e| panic!("{e}")),
        provider_key: public(PROVIDER),
        clock_skew: std::time::Duration::from_secs(300),
    }
}
