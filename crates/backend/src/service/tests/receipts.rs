//! What counts, what does not, and that it counts once.

use std::sync::Arc;

use quell_core::contract::seal;

use super::ground::{Ground, NOW_S, code, filed, receipt, run, secret};
use crate::api::{FiledReceipt, ReceiptsRequest, RefusalCode, Role};
use crate::store::redb::RedbStore;

#[test]
fn a_receipt_counts_up_to_what_was_allowed_and_once() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let contract = ground.contract(1, 2 << 20).await;
        assert_eq!(ground.file(&contract, 0).await, Ok(0));
        assert_eq!(ground.file(&contract, 1_000).await, Ok(1_000));
        assert_eq!(ground.file(&contract, 1_000).await, Ok(1_000));
        assert_eq!(ground.file(&contract, 999).await, Ok(1_000));
        assert_eq!(
            ground.file(&contract, (2 << 20) + 1).await,
            Err(RefusalCode::Exceeds)
        );
        assert_eq!(ground.sums().await, (1_000, 1_000));
        assert_eq!(ground.file(&contract, 2 << 20).await, Ok(2 << 20));
        // With grace, up to its last byte.
        let graced = ground.contract(2, 2 << 20).await;
        assert_eq!(graced.terms.grace_bytes, 2 << 20);
        assert_eq!(
            ground.file(&graced, (4 << 20) + 1).await,
            Err(RefusalCode::Exceeds)
        );
        assert_eq!(ground.file(&graced, 4 << 20).await, Ok(4 << 20));
        assert_eq!(ground.sums().await, (6 << 20, 6 << 20));
    });
}

#[test]
fn what_is_not_this_providers_or_this_backends_is_refused() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let other_provider = seal::public_key(&secret(22));
        let request = ground.invitation(Role::Provider, 1, None).await;
        ground
            .service
            .enrol(other_provider, &request, NOW_S)
            .await
            .unwrap();
        let (contract, second) = (
            ground.contract(1, 1 << 20).await,
            ground.contract(2, 1 << 20).await,
        );
        let good = receipt(&contract, 5);

        // Stolen by another provider, as it is and signed anew for the thief.
        let mut terms = good.terms;
        terms.provider_key = other_provider;
        let for_the_thief = seal::sign_receipt(&secret(11), terms);
        for receipt in [&good, &for_the_thief] {
            let request = ReceiptsRequest {
                receipts: vec![filed(&contract.encode(), &receipt.encode())],
            };
            let answer = ground
                .service
                .receipts(other_provider, &request)
                .await
                .unwrap();
            let words = format!("{:?}", answer.outcomes[0]);
            assert!(
                words.contains("Misdirected") && words.contains("another provider"),
                "{words}"
            );
        }
        // Under another contract.
        let found = ground.file_pair(&second, &good).await;
        assert_eq!(found, Err(RefusalCode::Misdirected));
        // For another provider, signed so by the client.
        let found = ground.file_pair(&contract, &for_the_thief).await;
        assert_eq!(found, Err(RefusalCode::Misdirected));
        // Signed by another, even by the enrolled key.
        for signer in [1, 21, 12] {
            let forged = seal::sign_receipt(&secret(signer), good.terms);
            let found = ground.file_pair(&contract, &forged).await;
            assert_eq!(found, Err(RefusalCode::Signature));
        }
        // A contract that the provider signed itself, by its own name and by the backend's.
        let mut terms = contract.terms;
        let forged = seal::sign_contract(&secret(21), terms);
        assert_eq!(
            ground.file_pair(&forged, &good).await,
            Err(RefusalCode::Signature)
        );
        terms.key_id = seal::key_id(&seal::public_key(&secret(21)));
        let forged = seal::sign_contract(&secret(21), terms);
        assert_eq!(
            ground.file_pair(&forged, &good).await,
            Err(RefusalCode::Misdirected)
        );
        assert_eq!(ground.sums().await, (0, 0));
        assert_eq!(ground.file_pair(&contract, &good).await, Ok(5));
    });
}

#[test]
fn outcomes_stand_in_the_order_of_what_was_filed_and_a_request_has_bounds() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let contract = ground.contract(1, 1 << 20).await;
        let good = |total| filed(&contract.encode(), &receipt(&contract, total).encode());
        let bad = FiledReceipt {
            contract: "?".into(),
            receipt: "?".into(),
        };
        let short = FiledReceipt {
            contract: good(1).contract,
            receipt: "QUJD".into(),
        };
        let batch = vec![bad, good(7), short, good(5), good((1 << 20) + 1), good(9)];
        let malformed = Err(RefusalCode::Malformed);
        let outcomes = ground.file_all(batch).await.unwrap();
        assert_eq!(
            outcomes,
            [
                malformed,
                Ok(7),
                malformed,
                Ok(7),
                Err(RefusalCode::Exceeds),
                Ok(9)
            ]
        );
        assert_eq!(
            ground.file_all(vec![good(1); 256]).await.unwrap(),
            vec![Ok(9); 256]
        );
        assert_eq!(
            code(ground.file_all(vec![good(1); 257]).await),
            RefusalCode::Limit
        );
        assert_eq!(code(ground.file_all(vec![]).await), RefusalCode::Malformed);
        let client = seal::public_key(&secret(1));
        let request = ReceiptsRequest {
            receipts: vec![good(1)],
        };
        let refused = ground.service.receipts(client, &request).await;
        assert_eq!(code(refused), RefusalCode::WrongRole);
        let provider = seal::public_key(&secret(21));
        ground.service.set_banned(provider, true).await.unwrap();
        assert_eq!(
            code(ground.file_all(vec![good(1)]).await),
            RefusalCode::Banned
        );
    });
}

#[test]
fn contracts_of_the_key_before_count_and_of_a_dropped_one_do_not() {
    run(async {
        let store = Arc::new(RedbStore::in_memory());
        let old = Ground::over(Arc::clone(&store), 100, None, vec![]);
        old.pair(None).await;
        let contract = old.contract(1, 1 << 20).await;
        // The next key signs, the old one is trusted still.
        let both = Ground::over(Arc::clone(&store), 101, Some(100), vec![]);
        assert_eq!(both.service.keys().trusted().len(), 2);
        assert_eq!(both.file(&contract, 1).await, Ok(1));
        let next = both.contract(2, 1 << 20).await;
        assert_eq!(
            next.terms.key_id,
            seal::key_id(&seal::public_key(&secret(101)))
        );
        // It is retired: no provider is told of it any longer.
        let retired = Ground::over(Arc::clone(&store), 101, None, vec![100]);
        assert_eq!(retired.service.keys().trusted().len(), 1);
        assert_eq!(retired.file(&contract, 2).await, Ok(2));
        let dropped = Ground::over(store, 101, None, vec![]);
        assert_eq!(
            dropped.file(&contract, 3).await,
            Err(RefusalCode::Misdirected)
        );
        assert_eq!(dropped.file(&next, 3).await, Ok(3));
        assert_eq!(dropped.sums().await, (5, 5));
    });
}

// R-18, case B30: a backend that lost its books to a restored copy still pays for what it signed.
#[test]
fn a_restored_store_takes_receipts_of_contracts_that_it_does_not_know() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let contract = ground.contract(1, 1 << 20).await;
        let restored = Ground::new();
        restored.pair(None).await;
        assert_eq!(restored.file(&contract, 70).await, Ok(70));
        assert_eq!(restored.file(&contract, 70).await, Ok(70));
        assert_eq!(restored.sums().await, (0, 70));
    });
}

#[test]
fn receipts_are_taken_until_their_retention_is_over_and_sums_stay() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let contract = ground.contract(1, 1 << 20).await;
        let ends_s = contract.terms.not_after_s;
        assert_eq!(ground.file(&contract, 10).await, Ok(10));
        let over_s = ends_s + 30 * 86_400;
        // The invitations of both expired long before; the contract is not there yet.
        assert_eq!(ground.service.forget(over_s).await.unwrap(), 2);
        assert_eq!(ground.file(&contract, 20).await, Ok(20));
        assert_eq!(ground.service.forget(over_s + 1).await.unwrap(), 1);
        assert_eq!(ground.file(&contract, 30).await, Err(RefusalCode::Expired));
        assert_eq!(ground.sums().await, (20, 20));
        assert_eq!(ground.service.forget(0).await.unwrap(), 0);
        assert_eq!(ground.service.forget(u64::MAX).await.unwrap(), 0);
    });
}
