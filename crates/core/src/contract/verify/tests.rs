//! A forged, re-targeted, expired, truncated or flipped contract or receipt is refused, with its reason.
#![allow(clippy::unwrap_used)]

use quell_wire::contract::{ContractTerms, SignedBinding};

use super::super::testing::*;
use super::*;

const MIB: u64 = 1 << 20;

fn refusal(form: &[u8], wall_s: u64) -> &'static str {
    let judged = verifier().verify(form, &public(CLIENT), wall_s);
    judged.map_or_else(ContractRefusal::name, |_| "honoured")
}

fn refusal_of(change: fn(&mut ContractTerms)) -> &'static str {
    let mut terms = terms(1, MIB);
    change(&mut terms);
    refusal(&signed(terms).encode(), WALL_S)
}

#[test]
fn a_contract_is_honoured_from_its_first_second_to_its_last_skew_allowed() {
    let form = contract(1, MIB).encode();
    for (wall_s, expected) in [
        (WALL_S - 301, "not_yet_valid"),
        (WALL_S - 300, "honoured"),
        (WALL_S + 3_900, "honoured"),
        (WALL_S + 3_901, "expired"),
        (0, "not_yet_valid"),
        (u64::MAX, "expired"),
    ] {
        assert_eq!(refusal(&form, wall_s), expected, "{wall_s}");
    }
}

#[test]
fn what_the_backend_signed_for_others_is_refused_by_its_reason() {
    assert_eq!(refusal_of(|_| {}), "honoured");
    assert_eq!(refusal_of(|t| t.client_key = public(9)), "other_client");
    assert_eq!(refusal_of(|t| t.provider_key = public(9)), "other_provider");
    let unknown = refusal_of(|t| t.key_id = seal::key_id(&public(9)));
    assert_eq!(unknown, "unknown_key");
    // The right key's name on another key's signature.
    let forged = seal::sign_contract(&secret(9), terms(1, MIB));
    assert_eq!(refusal(&forged.encode(), WALL_S), "bad_signature");
    // A signature of another contract.
    let mut spliced = contract(1, MIB);
    spliced.signature = contract(2, MIB).signature;
    assert_eq!(refusal(&spliced.encode(), WALL_S), "bad_signature");
}

#[test]
fn every_flipped_bit_and_every_truncation_of_a_contract_is_refused() {
    let form = contract(1, MIB).encode();
    for bit in 0..form.len() * 8 {
        let mut flipped = form;
        flipped[bit / 8] ^= 1 << (bit % 8);
        let expected: &[&str] = match bit / 8 {
            0..4 => &["malformed"],
            4..12 => &["unknown_key"],
            _ => &["bad_signature", "malformed"],
        };
        let found = refusal(&flipped, WALL_S);
        assert!(expected.contains(&found), "bit {bit}: {found}");
    }
    for len in 0..form.len() {
        assert_eq!(refusal(&form[..len], WALL_S), "malformed", "{len} bytes");
    }
    assert_eq!(refusal(&[&form[..], &[0]].concat(), WALL_S), "malformed");
}

#[test]
fn two_keys_are_trusted_while_they_rotate_and_a_third_is_not() {
    let keys = [public(BACKEND), public(8)];
    let verifier = Verifier {
        trusted: Trusted::try_new(&keys).unwrap(),
        ..verifier()
    };
    assert_eq!(verifier.trusted.keys().count(), 2);
    let next = ContractTerms {
        key_id: seal::key_id(&public(8)),
        ..terms(2, MIB)
    };
    for form in [contract(1, MIB), seal::sign_contract(&secret(8), next)] {
        let judged = verifier.verify(&form.encode(), &public(CLIENT), WALL_S);
        assert_eq!(judged, Ok(form));
    }
    Trusted::try_new(&[]).unwrap_err();
    Trusted::try_new(&[public(1), public(1)]).unwrap_err();
    Trusted::try_new(&[public(1), public(2), public(3)]).unwrap_err();
}

fn judged(form: &[u8], highest: u64) -> &'static str {
    let judged = verify_receipt(form, &terms(1, MIB), highest);
    judged.map_or_else(ReceiptRefusal::name, |_| "taken")
}

#[test]
fn every_flipped_bit_and_every_truncation_of_a_receipt_is_refused() {
    let form = receipt(&terms(1, MIB), 5_000);
    assert_eq!(judged(&form, 4_999), "taken");
    for bit in 0..form.len() * 8 {
        let mut flipped = form.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let expected: &[&str] = match bit / 8 {
            0..4 => &["malformed"],
            4..20 => &["unknown_contract"],
            20..52 => &["other_provider"],
            52..60 => &["not_higher", "exceeds", "bad_signature"],
            _ => &["bad_signature"],
        };
        let found = judged(&flipped, 4_999);
        assert!(expected.contains(&found), "bit {bit}: {found}");
    }
    for len in 0..form.len() {
        assert_eq!(judged(&form[..len], 0), "malformed", "{len} bytes");
    }
}

#[test]
fn a_receipt_says_more_than_the_last_and_no_more_than_its_contract() {
    let own = terms(1, MIB);
    assert_eq!(judged(&receipt(&own, 5_000), 5_000), "not_higher");
    assert_eq!(judged(&receipt(&own, MIB), 0), "taken");
    assert_eq!(judged(&receipt(&own, MIB + 1), 0), "exceeds");
    let grace = ContractTerms {
        grace_bytes: 10,
        grace_s: 1,
        ..own
    };
    verify_receipt(&receipt(&grace, MIB + 10), &grace, 0).unwrap();
    verify_receipt(&receipt(&grace, MIB + 11), &grace, 0).unwrap_err();
    // Of another contract, to another provider, by another key.
    assert_eq!(judged(&receipt(&terms(2, MIB), 1), 0), "unknown_contract");
    let other = ContractTerms {
        provider_key: public(9),
        ..own
    };
    assert_eq!(judged(&receipt(&other, 1), 0), "other_provider");
    let forged = seal::sign_receipt(&secret(9), receipt_terms(&own, 1)).encode();
    assert_eq!(judged(&forged, 0), "bad_signature");
}

#[test]
fn a_receipt_that_may_cross_a_restart_is_no_breach() {
    let breach = |form: &[u8]| {
        verify_receipt(form, &terms(1, MIB), 7)
            .unwrap_err()
            .is_breach()
    };
    assert!(!breach(&receipt(&terms(1, MIB), 7)));
    assert!(!breach(&receipt(&terms(2, MIB), 8)));
    assert!(breach(&receipt(&terms(1, MIB), MIB + 1)));
    assert!(breach(&[0; 3]));
}

/// The vectors of a golden file, by name: hex that goes on in lines that are indented.
fn golden() -> std::collections::BTreeMap<&'static str, Vec<u8>> {
    let text = include_str!("../../../../wire/golden/contracts.txt");
    let mut of = std::collections::BTreeMap::<&str, Vec<u8>>::new();
    let mut name = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let hex = match line.split_once(" = ") {
            Some((next, hex)) => {
                name = next;
                hex
            }
            None => line,
        };
        let digits: String = hex.split_whitespace().collect();
        let bytes = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap());
        of.entry(name).or_default().extend(bytes);
    }
    of.remove("");
    of
}

#[test]
fn signatures_of_another_implementation_hold_and_none_with_a_flipped_bit() {
    let vectors = golden();
    assert_eq!(vectors.len(), 9);
    let account = SignedBinding::decode(&vectors["binding"]).unwrap();
    let backend = account.terms.account_key;
    let client = SignedContract::decode(&vectors["contract"]).unwrap();
    let client = client.terms.client_key;
    let holds = |name: &str, form: &[u8]| match name.split('-').next() {
        Some("contract") => SignedContract::decode(form).is_ok_and(|contract| {
            contract.terms.key_id == seal::key_id(&backend)
                && seal::is_contract_signed(&backend, &contract)
        }),
        Some("receipt") => SignedReceipt::decode(form)
            .is_ok_and(|receipt| seal::is_receipt_signed(&client, &receipt)),
        Some("binding") => {
            SignedBinding::decode(form).is_ok_and(|binding| seal::is_binding_signed(&binding))
        }
        other => panic!("{other:?}"),
    };
    for (name, form) in &vectors {
        assert!(holds(name, form), "{name}");
        for bit in (0..form.len() * 8).step_by(7) {
            let mut other = form.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!holds(name, &other), "{name}, bit {bit}");
        }
    }
}
