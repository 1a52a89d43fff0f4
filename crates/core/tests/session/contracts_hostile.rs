//! Clients that cheat, against a whole provider: forms that are not what they seem, and ways not to pay.

use quell_core::contract::{Pause, seal};
use quell_core::multi::ContractNews;
use quell_wire::contract::{ContractId, ContractTerms, ReceiptTerms, SignedContract};
use quell_wire::registry::ErrorCode;

use super::common::*;
use super::contracts::*;

fn fresh() -> Pair {
    let mut pair = Pair::new(public(CLIENT), true);
    pair.news();
    pair
}

fn signed(change: impl FnOnce(&mut ContractTerms)) -> Vec<u8> {
    let mut terms = contract(1, MIB).terms;
    change(&mut terms);
    seal::sign_contract(&secret(BACKEND), terms)
        .encode()
        .to_vec()
}

/// Sends a contract's form; the books' names of what was refused so far.
fn refused_as(pair: &mut Pair, form: &[u8]) -> Vec<&'static str> {
    assert!(pair.client.send_contract(EXIT, form, pair.now));
    pair.settle();
    let books = pair.provider.status().contracts.unwrap();
    books.refused.keys().copied().collect()
}

#[test]
fn each_contract_that_is_not_ones_own_is_refused_with_its_reason() {
    let good = contract(1, MIB).encode();
    let by_another = seal::sign_contract(&secret(77), contract(1, MIB).terms);
    let forged = SignedContract {
        signature: contract(2, MIB).signature,
        ..contract(1, MIB)
    };
    let other_key = seal::sign_contract(
        &secret(77),
        ContractTerms {
            key_id: seal::key_id(&public(77)),
            ..contract(1, MIB).terms
        },
    );
    let cases = [
        ("malformed", good[..good.len() - 1].to_vec()),
        ("malformed", [&good[..], &[0]].concat()),
        ("malformed", vec![0; good.len()]),
        ("bad_signature", forged.encode().to_vec()),
        ("bad_signature", by_another.encode().to_vec()),
        ("unknown_key", other_key.encode().to_vec()),
        (
            "other_provider",
            signed(|terms| terms.provider_key = public(78)),
        ),
        (
            "other_client",
            signed(|terms| terms.client_key = public(79)),
        ),
        (
            "not_yet_valid",
            signed(|terms| {
                terms.not_before_s = WALL_S + 302;
            }),
        ),
        (
            "expired",
            signed(|terms| {
                (terms.not_before_s, terms.not_after_s) = (WALL_S - 900, WALL_S - 302);
            }),
        ),
    ];
    for (reason, form) in cases {
        let mut pair = fresh();
        assert_eq!(refused_as(&mut pair, &form), [reason]);
        let news = pair.news();
        assert!(
            matches!(news.as_slice(), [ContractNews::Refused { .. }]),
            "{reason}: {news:?}"
        );
        pair.up(2);
        assert_eq!((pair.pause(), pair.to_world), (Some(Pause::NoContract), 0));
    }
}

#[test]
fn no_bit_of_a_contract_may_be_another() {
    let good = contract(1, MIB).encode();
    let mut pair = fresh();
    for bit in 0..good.len() * 8 {
        let mut form = good;
        form[bit / 8] ^= 1 << (bit % 8);
        let reasons = refused_as(&mut pair, &form);
        let known = ["malformed", "unknown_key", "bad_signature"];
        assert!(!reasons.is_empty() && reasons.iter().all(|of| known.contains(of)));
        assert_eq!(pair.pause(), Some(Pause::NoContract), "bit {bit}");
        if bit % 16 == 15 {
            pair = fresh();
        }
    }
}

#[test]
fn no_bit_of_a_receipt_may_be_another() {
    let good = receipt(1, CLIENT, 5_000);
    for bit in 0..good.len() * 8 {
        let mut form = good.clone();
        form[bit / 8] ^= 1 << (bit % 8);
        let mut pair = Pair::with_contract(MIB);
        pair.receipt(&form);
        assert_eq!(pair.provider.poll_persist(pair.now), None, "bit {bit}");
        let books = pair.provider.status().contracts.unwrap();
        assert_eq!(books.refused.values().sum::<u64>(), 1, "bit {bit}");
    }
}

#[test]
fn each_receipt_that_is_not_ones_own_is_refused_with_its_reason() {
    let made = |change: &dyn Fn(&mut ReceiptTerms)| {
        let mut terms = ReceiptTerms {
            contract_id: ContractId([1; 16]),
            provider_key: public(PROVIDER),
            bytes_total: 5_000,
            issued_s: WALL_S,
        };
        change(&mut terms);
        seal::sign_receipt(&secret(CLIENT), terms).encode().to_vec()
    };
    let good = receipt(1, CLIENT, 5_000);
    // Whether it ends the session: only a cheat, or a broken client, sends such a one.
    let cases = [
        ("malformed", good[..good.len() - 1].to_vec(), true),
        ("bad_signature", receipt(1, 99, 5_000), true),
        (
            "other_provider",
            made(&|terms| terms.provider_key = public(78)),
            true,
        ),
        ("exceeds", made(&|terms| terms.bytes_total = MIB + 1), true),
        ("unknown_contract", receipt(2, CLIENT, 5_000), false),
    ];
    for (reason, form, ends) in cases {
        let mut pair = Pair::with_contract(MIB);
        pair.receipt(&form);
        let books = pair.provider.status().contracts.unwrap();
        assert_eq!(books.refused, [(reason, 1)].into());
        let code = pair.closed.as_ref().map(|closed| closed.code);
        assert_eq!(code, ends.then_some(ErrorCode::ReceiptRefused), "{reason}");
        assert_eq!(pair.provider.poll_persist(pair.now), None);
    }
    let mut pair = Pair::with_contract(MIB);
    pair.receipt(&made(&|terms| terms.bytes_total = MIB));
    assert!(pair.closed.is_none(), "to the last byte of it");
}

#[test]
fn who_never_signs_gets_the_exposure_once_however_often_it_connects() {
    let mut pair = Pair::with_contract(64 * MIB);
    let mut carried = 0;
    for _ in 0..5 {
        pair.up(1_200);
        carried = pair.to_world as u64 * 1_000;
        let id = pair.id.take().unwrap();
        pair.provider.on_closed(id, None, pair.now);
        pair.client.on_closed(EXIT, pair.attempt, "cut", pair.now);
        for _ in 0..30 {
            pair.now += S;
            pair.client.handle_timeout(pair.now);
            pair.settle();
        }
        pair.contract(&contract(1, 64 * MIB));
    }
    assert!(
        (MIB..=MIB * 64 / 63 + 1_000).contains(&carried),
        "{carried}"
    );
}

#[test]
fn who_signs_less_pauses_at_the_limit_beyond_what_it_signed() {
    let mut pair = Pair::with_contract(64 * MIB);
    let mut signed = 0;
    for _ in 0..12 {
        let before = pair.to_world;
        pair.up(400);
        signed += (pair.to_world - before) as u64 * 1_000 / 2;
        pair.receipt(&receipt(1, CLIENT, signed + 1));
        if let Some(batch) = pair.provider.poll_persist(pair.now) {
            pair.provider.on_persisted(batch.id, pair.now);
            pair.settle();
        }
    }
    let carried = pair.to_world as u64 * 1_000;
    assert!(
        carried <= (signed + MIB) * 64 / 63 + 2_000,
        "{carried}, {signed}"
    );
    assert!(carried >= MIB, "{carried}");
}

#[test]
fn contracts_in_any_order_are_taken_and_a_thousand_of_them_are_too_many() {
    let mut pair = fresh();
    for id in [3, 1, 2] {
        pair.contract(&contract(id, 100_000));
    }
    pair.up(310);
    let carried = pair.to_world;
    assert!((300..=306).contains(&carried), "{carried}");
    assert_eq!(pair.pause(), Some(Pause::UsedUp));
    let mut sent = 0;
    while pair.closed.is_none() && sent < 1_000_u32 {
        sent += 1;
        let terms = ContractTerms {
            contract_id: ContractId(u128::from(sent).to_be_bytes()),
            ..contract(1, 100_000).terms
        };
        let form = seal::sign_contract(&secret(BACKEND), terms).encode();
        pair.client.send_contract(EXIT, &form, pair.now);
        pair.settle();
    }
    assert_eq!(pair.closed.unwrap().code, ErrorCode::ContractRefused);
    assert!((17..=21).contains(&sent), "{sent}");
    let books = pair.provider.status().contracts.unwrap();
    assert!(books.contracts <= 7, "{books:?}");
}

#[test]
fn a_resumed_session_takes_another_contract_of_its_key_and_none_of_another() {
    let mut pair = Pair::with_contract(100_000);
    pair.up(110);
    assert_eq!(pair.pause(), Some(Pause::UsedUp));
    let id = pair.id.take().unwrap();
    pair.provider.on_closed(id, None, pair.now);
    pair.client.on_closed(EXIT, pair.attempt, "cut", pair.now);
    for _ in 0..20 {
        pair.now += S;
        pair.client.handle_timeout(pair.now);
        pair.settle();
    }
    assert_eq!(pair.provider.status().resumes, 1);
    let other = signed(|terms| terms.client_key = public(79));
    assert_eq!(refused_as(&mut pair, &other), ["other_client"]);
    assert_eq!(pair.pause(), Some(Pause::UsedUp));
    pair.contract(&contract(2, 100_000));
    assert_eq!(pair.pause(), None);
}
