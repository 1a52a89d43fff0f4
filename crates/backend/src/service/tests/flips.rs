//! Each single bit of what is signed matters: with it flipped, the form is refused with a reason, and nothing changes.

use quell_wire::contract::{BINDING_LEN, CONTRACT_LEN, RECEIPT_LEN};

use super::ground::{DAY, Ground, NOW_S, binding, filed, pack, receipt, run};
use crate::api::{ContractOutcome, ContractWant, FiledReceipt, RefusalCode};
use crate::store::{Account, Store as _};

fn flips(form: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..form.len() * 8).map(|bit| {
        let mut form = form.to_vec();
        form[bit / 8] ^= 1 << (bit % 8);
        form
    })
}

async fn accounts(ground: &Ground) -> Vec<Account> {
    ground.store.accounts(None, 99).await.unwrap()
}

async fn all_are_refused(ground: &Ground, pairs: Vec<FiledReceipt>) {
    let before = accounts(ground).await;
    let mut refused = 0;
    for batch in pairs.chunks(256) {
        for outcome in ground.file_all(batch.to_vec()).await.unwrap() {
            let code = outcome.unwrap_err();
            let reasons = [
                RefusalCode::Malformed,
                RefusalCode::Misdirected,
                RefusalCode::Signature,
            ];
            assert!(reasons.contains(&code), "{code:?}");
            refused += 1;
        }
    }
    assert_eq!(refused, pairs.len());
    assert_eq!(accounts(ground).await, before);
}

#[test]
fn a_filed_contract_or_receipt_with_any_bit_flipped_counts_for_nothing() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let contract = ground.contract(1, 1 << 20).await;
        let receipt = receipt(&contract, 500_000);
        let (contract_form, receipt_form) = (contract.encode(), receipt.encode());
        let contracts = flips(&contract_form).map(|form| filed(&form, &receipt_form));
        let contracts: Vec<_> = contracts.collect();
        assert_eq!(contracts.len(), CONTRACT_LEN * 8);
        all_are_refused(&ground, contracts).await;
        let receipts: Vec<_> = flips(&receipt_form)
            .map(|form| filed(&contract_form, &form))
            .collect();
        assert_eq!(receipts.len(), RECEIPT_LEN * 8);
        all_are_refused(&ground, receipts).await;
        // Cut off anywhere, or with something behind it.
        let cut = (0..CONTRACT_LEN).map(|len| filed(&contract_form[..len], &receipt_form));
        let cut =
            cut.chain((0..RECEIPT_LEN).map(|len| filed(&contract_form, &receipt_form[..len])));
        let longer = [contract_form.as_slice(), &[0]].concat();
        let cut = cut.chain([filed(&longer, &receipt_form)]);
        all_are_refused(&ground, cut.collect()).await;
        // As it is, it counts.
        let good = filed(&contract_form, &receipt_form);
        assert_eq!(ground.file_all(vec![good]).await.unwrap(), [Ok(500_000)]);
        assert_eq!(ground.sums().await, (500_000, 500_000));
    });
}

#[test]
fn a_binding_with_any_bit_flipped_gets_no_contract() {
    run(async {
        let ground = Ground::new();
        let (client, _) = ground.pair(Some(1 << 20)).await;
        let form = binding(DAY).encode();
        let wants = flips(&form).map(|form| ContractWant {
            binding: pack(&form),
            bytes: 1,
        });
        let wants: Vec<_> = wants.collect();
        assert_eq!(wants.len(), BINDING_LEN * 8);
        for (request, batch) in wants.chunks(16).enumerate() {
            let request = u8::try_from(request).unwrap();
            for outcome in ground.contracts(request, batch.to_vec()).await.unwrap() {
                assert!(matches!(outcome, ContractOutcome::Refused(_)));
            }
        }
        // The whole allowance is left.
        let all = ground.contract(255, 1 << 20).await;
        assert_eq!(all.terms.not_before_s, NOW_S);
        assert_eq!(ground.service.usage(client).await.unwrap().settled_bytes, 0);
    });
}
