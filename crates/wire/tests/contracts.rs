//! The signed forms against the vectors of `golden/`, and against every way to damage them.
//!
//! The vectors were laid out field by field from the table in the module's doc and signed by another implementation. What
//! is held here is form alone: whether a signature holds is the core's test.

#![allow(clippy::unwrap_used)]

mod common;

use common::vectors;
use proptest::prelude::*;
use quell_wire::contract::{
    BINDING_LEN, BindingTerms, CONTRACT_ALLOWS_MAX, CONTRACT_LEN, ContractId, ContractTerms,
    FormError, KeyId, RECEIPT_LEN, ReceiptTerms, Signature, SignedBinding, SignedContract,
    SignedReceipt,
};
use quell_wire::key::PublicKey;

/// A form read and written again, whichever it is.
fn again(name: &str, bytes: &[u8]) -> Result<Vec<u8>, FormError> {
    match name.split('-').next().unwrap() {
        "contract" => SignedContract::decode(bytes).map(|form| form.encode().to_vec()),
        "receipt" => SignedReceipt::decode(bytes).map(|form| form.encode().to_vec()),
        "binding" => SignedBinding::decode(bytes).map(|form| form.encode().to_vec()),
        other => panic!("no form {other}"),
    }
}

fn vector(name: &str) -> Vec<u8> {
    let all = vectors(include_str!("../golden/contracts.txt"));
    let found = all.into_iter().find(|(of, ..)| of == name);
    found.unwrap_or_else(|| panic!("no vector {name}")).1
}

#[test]
fn every_vector_is_read_and_written_as_it_is() {
    let all = vectors(include_str!("../golden/contracts.txt"));
    assert_eq!(all.len(), 9);
    for (name, bytes, _) in all {
        assert_eq!(again(&name, &bytes), Ok(bytes), "{name}");
    }
}

#[test]
fn the_fields_lie_where_the_document_says() {
    let contract = SignedContract::decode(&vector("contract")).unwrap().terms;
    let id = ContractId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(contract.contract_id, id);
    assert_eq!(
        contract.contract_id.to_string(),
        "000102030405060708090a0b0c0d0e0f"
    );
    // The first 8 bytes of SHA-256 of TEST 1's public key.
    assert_eq!(contract.key_id.to_string(), "21fe31dfa154a261");
    assert_eq!(contract.client_key.0[..4], [0x3d, 0x40, 0x17, 0xc3]);
    assert_eq!(contract.provider_key.0[..4], [0xfc, 0x51, 0xcd, 0x8e]);
    assert_eq!(
        (contract.bytes, contract.grace_bytes),
        (256 << 20, 16 << 20)
    );
    assert_eq!(
        (contract.not_before_s, contract.not_after_s),
        (1_900_000_000, 1_900_003_600)
    );
    assert_eq!(contract.grace_s, 600);
    let receipt = SignedReceipt::decode(&vector("receipt")).unwrap().terms;
    assert_eq!(
        (receipt.contract_id, receipt.provider_key),
        (id, contract.provider_key)
    );
    assert_eq!(
        (receipt.bytes_total, receipt.issued_s),
        (1 << 20, 1_900_000_001)
    );
    let binding = SignedBinding::decode(&vector("binding")).unwrap().terms;
    assert_eq!(binding.account_key.0[..4], [0xd7, 0x5a, 0x98, 0x01]);
    assert_eq!(
        (binding.client_key, binding.provider_key),
        (contract.client_key, contract.provider_key)
    );
    assert_eq!(binding.day, 21_990);
}

// case B79
#[test]
fn malformed_forms_are_refused_by_their_reason() {
    for (name, bytes, reason) in vectors(include_str!("../golden/contracts-malformed.txt")) {
        assert_eq!(
            again(&name, &bytes).unwrap_err().to_string(),
            reason,
            "{name}"
        );
    }
}

// case B79
#[test]
fn every_truncation_is_refused_and_every_flipped_bit_is_seen() {
    for name in ["contract", "receipt", "binding"] {
        let whole = vector(name);
        for len in 0..whole.len() {
            let error = again(name, &whole[..len]).unwrap_err();
            assert!(matches!(error, FormError::WrongLength { found, .. } if found == len));
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match again(name, &flipped) {
                // It says something else, and no two forms are written alike.
                Ok(written) => assert_eq!(written, flipped, "{name}, bit {bit}"),
                Err(FormError::WrongTag { .. }) => assert!(bit < 32, "{name}, bit {bit}"),
                Err(FormError::Invalid { .. }) => assert!((92 * 8..128 * 8).contains(&bit)),
                Err(error) => panic!("{name}, bit {bit}: {error}"),
            }
        }
    }
}

#[test]
fn no_form_is_taken_for_another() {
    for of in ["contract", "receipt", "binding"] {
        for name in ["contract", "receipt", "binding"] {
            assert_eq!(
                again(of, &vector(name)).is_ok(),
                of == name,
                "{name} as {of}"
            );
        }
    }
}

#[test]
fn a_backend_is_told_what_no_contract_may_say() {
    let good = SignedContract::decode(&vector("contract")).unwrap().terms;
    good.check().unwrap();
    let most = ContractTerms {
        bytes: CONTRACT_ALLOWS_MAX,
        ..good
    };
    most.check().unwrap();
    ContractTerms {
        bytes: CONTRACT_ALLOWS_MAX + 1,
        ..good
    }
    .check()
    .unwrap_err();
    ContractTerms {
        grace_bytes: good.bytes,
        ..good
    }
    .check()
    .unwrap();
    ContractTerms {
        grace_bytes: good.bytes + 1,
        ..good
    }
    .check()
    .unwrap_err();
    ContractTerms {
        not_after_s: good.not_before_s + 1,
        ..good
    }
    .check()
    .unwrap();
    ContractTerms {
        not_after_s: good.not_before_s,
        ..good
    }
    .check()
    .unwrap_err();
}

fn key() -> impl Strategy<Value = PublicKey> {
    any::<[u8; 32]>().prop_map(PublicKey)
}

fn signature() -> impl Strategy<Value = Signature> {
    prop::collection::vec(any::<u8>(), 64).prop_map(|bytes| Signature(bytes.try_into().unwrap()))
}

proptest! {
    #[test]
    fn a_contract_comes_back_as_it_was(
        ids in any::<([u8; 8], [u8; 16])>(), client_key in key(), provider_key in key(),
        bytes in 1..=CONTRACT_ALLOWS_MAX, begin in 0..u64::MAX, grace in any::<u64>(),
        grace_s in 1..=u32::MAX, signature in signature(),
    ) {
        let grace_bytes = grace % (bytes + 1);
        let terms = ContractTerms {
            key_id: KeyId(ids.0), contract_id: ContractId(ids.1), client_key, provider_key, bytes,
            not_before_s: begin, not_after_s: begin + 1, grace_bytes,
            grace_s: if grace_bytes == 0 { 0 } else { grace_s },
        };
        let form = SignedContract { terms, signature };
        let written = form.encode();
        prop_assert_eq!(written.len(), CONTRACT_LEN);
        prop_assert_eq!(&written[..128], &terms.to_signed_part());
        prop_assert_eq!(SignedContract::decode(&written), Ok(form));
    }

    #[test]
    fn a_receipt_and_a_binding_come_back_as_they_were(
        id in any::<[u8; 16]>(), keys in (key(), key(), key()), numbers in any::<(u64, u64, u32)>(),
        signature in signature(),
    ) {
        let (account_key, client_key, provider_key) = keys;
        let (bytes_total, issued_s, day) = numbers;
        let terms = ReceiptTerms { contract_id: ContractId(id), provider_key, bytes_total, issued_s };
        let form = SignedReceipt { terms, signature };
        prop_assert_eq!(form.encode().len(), RECEIPT_LEN);
        prop_assert_eq!(SignedReceipt::decode(&form.encode()), Ok(form));
        let terms = BindingTerms { account_key, client_key, provider_key, day };
        let form = SignedBinding { terms, signature };
        prop_assert_eq!(form.encode().len(), BINDING_LEN);
        prop_assert_eq!(SignedBinding::decode(&form.encode()), Ok(form));
    }

    #[test]
    fn any_bytes_are_read_without_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        quell_wire::fuzz::contracts(&bytes);
    }
}
