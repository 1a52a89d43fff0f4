//! Each route, by the real client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use quell_wire::contract::{BindingTerms, ReceiptTerms, SignedContract};

use super::*;
use crate::api::{
    ContractOutcome, ContractWant, ContractsRequest, FiledReceipt, ReceiptOutcome, ReceiptsRequest,
    RefusalCode,
};
use crate::ask::AskError;

fn secret(seed: u8) -> SecretKey {
    SecretKey::from_bytes([seed; 32])
}

fn code<T: std::fmt::Debug>(answer: Result<T, AskError>) -> RefusalCode {
    let error = answer.unwrap_err();
    let AskError::Refused(refusal) = error else {
        panic!("{error:?}");
    };
    refusal.code
}

/// The catalog, once it has so many exits: a change may wait for `min_interval`.
async fn with_exits(client: &HttpBackend, exits: usize) -> crate::api::CatalogAnswer {
    let mut seen = client.catalog(None, 5 * S).await.unwrap().unwrap();
    while seen.exits.len() != exits {
        let next = client.catalog(Some(&seen.version), 5 * S).await;
        seen = next.unwrap().unwrap();
    }
    seen
}

#[tokio::test]
async fn each_route_does_what_it_is_for() {
    let server = Running::new(limits()).await;
    let provider = server.enrolled(2, Role::Provider).await;
    let client = server.enrolled(3, Role::Client).await;
    let exits = with_exits(&client, 1).await.exits;
    assert_eq!(exits[0].public_key, key_text(2));
    // A contract for a fresh key, and a receipt under it.
    let (account, fresh) = (secret(3), secret(9));
    let binding = BindingTerms {
        account_key: seal::public_key(&account),
        client_key: seal::public_key(&fresh),
        provider_key: seal::public_key(&secret(2)),
        day: u32::try_from(wall_s() / 86_400).unwrap(),
    };
    let binding = seal::sign_binding(&account, binding);
    let request = ContractsRequest {
        request_id: "00".repeat(16),
        wants: vec![ContractWant {
            binding: BASE64.encode(binding.encode()),
            bytes: 1 << 20,
        }],
    };
    let answer = client.contracts(&request).await.unwrap();
    let ContractOutcome::Signed(contract) = &answer.outcomes[0] else {
        panic!("{answer:?}");
    };
    assert_eq!(client.contracts(&request).await.unwrap(), answer);
    let signed = SignedContract::decode(&BASE64.decode(contract).unwrap()).unwrap();
    assert!(seal::is_contract_signed(
        &seal::public_key(&secret(1)),
        &signed
    ));
    let receipt = ReceiptTerms {
        contract_id: signed.terms.contract_id,
        provider_key: signed.terms.provider_key,
        bytes_total: 1_000,
        issued_s: wall_s(),
    };
    let receipt = seal::sign_receipt(&fresh, receipt);
    let request = ReceiptsRequest {
        receipts: vec![FiledReceipt {
            contract: contract.clone(),
            receipt: BASE64.encode(receipt.encode()),
        }],
    };
    let settled = ReceiptOutcome::Settled { bytes_total: 1_000 };
    for _ in 0..2 {
        let answer = provider.receipts(&request).await.unwrap();
        assert_eq!(answer.outcomes, std::slice::from_ref(&settled));
    }
    // The longest batch fits into what a body may have.
    let many = ReceiptsRequest {
        receipts: vec![request.receipts[0].clone(); crate::api::RECEIPTS_MAX],
    };
    assert_eq!(provider.receipts(&many).await.unwrap().outcomes.len(), 256);
    server.stopped().await;
}

#[tokio::test]
async fn who_may_not_is_told_why() {
    let server = Running::new(limits()).await;
    let provider = server.enrolled(2, Role::Provider).await;
    let client = server.enrolled(3, Role::Client).await;
    let stranger = server.client(4);
    assert_eq!(code(stranger.catalog(None, S).await), RefusalCode::Unknown);
    assert_eq!(
        code(provider.catalog(None, S).await),
        RefusalCode::WrongRole
    );
    let beat = heartbeat(vec!["127.0.0.1:1".to_owned()], false);
    assert_eq!(code(client.heartbeat(&beat).await), RefusalCode::WrongRole);
    let request = EnrolRequest {
        invitation: "quellinv1nothing".to_owned(),
        name: "x".to_owned(),
        addresses: Vec::new(),
    };
    assert_eq!(
        code(stranger.enrol(&request).await),
        RefusalCode::Invitation
    );
    let key = seal::public_key(&secret(3));
    server.app.service.set_banned(key, true).await.unwrap();
    assert_eq!(code(client.catalog(None, S).await), RefusalCode::Banned);
    server.stopped().await;
}

#[tokio::test]
async fn a_long_poll_waits_and_is_told_of_the_next_version_at_once() {
    let server = Running::new(limits()).await;
    let client = server.enrolled(3, Role::Client).await;
    let first = client.catalog(None, 5 * S).await.unwrap().unwrap();
    let begun = Instant::now();
    let same = client.catalog(Some(&first.version), S).await.unwrap();
    assert!(same.is_none() && begun.elapsed() >= S);
    let begun = Instant::now();
    let waits = client.catalog(Some(&first.version), 20 * S);
    let (next, _provider) = tokio::join!(waits, server.enrolled(2, Role::Provider));
    let next = next.unwrap().unwrap();
    assert!(begun.elapsed() < 5 * S);
    assert!(next.version != first.version && next.exits.len() == 1);
    // A version of another server, or of one before a restart, is none of this one's.
    let other = client.catalog(Some("beef.7"), 20 * S).await.unwrap();
    assert_eq!(other.unwrap().version, next.version);
    server.stopped().await;
}

#[tokio::test]
async fn a_provider_that_drains_leaves_and_is_told_where_it_stands() {
    let server = Running::new(limits()).await;
    let provider = server.enrolled(2, Role::Provider).await;
    let client = server.enrolled(3, Role::Client).await;
    let addresses = vec!["127.0.0.1:20002".to_owned()];
    let answer = provider
        .heartbeat(&heartbeat(addresses.clone(), false))
        .await
        .unwrap();
    assert!(answer.in_service && answer.reason.starts_with("probe_unsupported"));
    let seen = with_exits(&client, 1).await;
    let answer = provider
        .heartbeat(&heartbeat(addresses, true))
        .await
        .unwrap();
    assert!(!answer.in_service && answer.reason.starts_with("draining"));
    let next = client
        .catalog(Some(&seen.version), 5 * S)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(next.exits, []);
    server.stopped().await;
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_corrected_once_and_within_a_day() {
    let server = Running::new(limits()).await;
    let client = server.enrolled(3, Role::Client).await;
    client.set_clock_for_tests(-7_200);
    client.catalog(None, S).await.unwrap();
    assert!((-2..=2).contains(&client.clock_correction_s()));
    let unsigned = server.app.counters.counted().requests_unsigned;
    assert_eq!(unsigned, 1);
    server.stopped().await;
}

#[tokio::test]
async fn a_catalog_that_is_not_there_yet_is_not_an_empty_one() {
    let server = Running::new(limits()).await;
    let client = server.enrolled(3, Role::Client).await;
    let fresh = Catalog::new(catalog(), 1);
    assert!(fresh.subscribe().borrow().version.is_empty());
    let seen = client.catalog(None, 5 * S).await.unwrap().unwrap();
    assert!(!seen.version.is_empty());
    server.stopped().await;
}
