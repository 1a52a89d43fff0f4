//! Receipts: what was had, proven by two signatures.
//!
//! A receipt comes with its contract. That one of this backend's keys signed the contract says how much was allowed, to
//! whom and by whom; that the contract's client key signed the receipt says how much was had. Nothing that the store
//! remembers is needed to judge it, so that a store restored from an old copy takes receipts of contracts that it does
//! not know, and credits the provider. Whose account they were on is not in a contract; it stays unknown then.
//!
//! Nothing is refused for the time of day: the provider bore the cost when the contract held, and files when it can. Only
//! after the retention, when it is not known any longer what was counted, a receipt is refused as expired.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quell_core::contract::seal;
use quell_wire::contract::{SignedContract, SignedReceipt};
use quell_wire::key::PublicKey;

use super::Service;
use super::refuse::{ServiceError, refusal};
use crate::api::{
    FiledReceipt, RECEIPTS_MAX, ReceiptOutcome, ReceiptsAnswer, ReceiptsRequest, Refusal,
    RefusalCode, Role,
};
use crate::store::{Settled, Settlement};

/// After how many receipts others have a turn: verifying this many is about a millisecond.
const VERIFIED_AT_ONCE: usize = 16;

impl Service {
    /// Settles receipts of the provider who asks, one outcome for each.
    ///
    /// # Errors
    /// A refusal of all of it: `Malformed`, `Limit`, `Unknown`, `Banned` or `WrongRole`; or the store's, and then the
    /// same may be filed again.
    pub async fn receipts(
        &self,
        who: PublicKey,
        request: &ReceiptsRequest,
    ) -> Result<ReceiptsAnswer, ServiceError> {
        if request.receipts.is_empty() {
            return Err(refusal(RefusalCode::Malformed, "no receipt is filed").into());
        }
        if request.receipts.len() > RECEIPTS_MAX {
            let words = format!("{RECEIPTS_MAX} receipts are the most in one request");
            return Err(refusal(RefusalCode::Limit, words).into());
        }
        self.admit(who, Role::Provider).await?;
        let mut judged = Vec::with_capacity(request.receipts.len());
        for chunk in request.receipts.chunks(VERIFIED_AT_ONCE) {
            judged.extend(chunk.iter().map(|filed| self.verify(who, filed)));
            tokio::task::yield_now().await;
        }
        let good: Vec<Settlement> = judged.iter().flatten().cloned().collect();
        let mut settled = match good.is_empty() {
            true => Vec::new(),
            false => self.store.settle(good).await?,
        }
        .into_iter();
        let outcomes = judged.into_iter().map(|judged| match judged {
            Err(refusal) => ReceiptOutcome::Refused(refusal),
            Ok(_) => match settled.next() {
                Some(Settled::Total(bytes_total)) => ReceiptOutcome::Settled { bytes_total },
                Some(Settled::Unknown) | None => ReceiptOutcome::Refused(refusal(
                    RefusalCode::Expired,
                    "the contract ended so long ago that it is forgotten",
                )),
            },
        });
        Ok(ReceiptsAnswer {
            outcomes: outcomes.collect(),
        })
    }

    /// Whether a receipt holds, by itself and its contract alone.
    fn verify(&self, who: PublicKey, filed: &FiledReceipt) -> Result<Settlement, Refusal> {
        let contract = SignedContract::decode(&unpacked("contract", &filed.contract)?)
            .map_err(|error| refusal(RefusalCode::Malformed, error.to_string()))?;
        let receipt = SignedReceipt::decode(&unpacked("receipt", &filed.receipt)?)
            .map_err(|error| refusal(RefusalCode::Malformed, error.to_string()))?;
        let misdirected = |words: &str| Err(refusal(RefusalCode::Misdirected, words));
        let Some(key) = self.keys.of_id(contract.terms.key_id) else {
            return misdirected("the contract is signed by no key of this backend");
        };
        if !seal::is_contract_signed(key, &contract) {
            let words = "the contract's signature does not hold";
            return Err(refusal(RefusalCode::Signature, words));
        }
        if contract.terms.provider_key != who {
            return misdirected("the contract is with another provider");
        }
        if receipt.terms.provider_key != who {
            return misdirected("the receipt is for another provider");
        }
        if receipt.terms.contract_id != contract.terms.contract_id {
            return misdirected("the receipt is under another contract");
        }
        if !seal::is_receipt_signed(&contract.terms.client_key, &receipt) {
            let words = "the receipt's signature does not hold";
            return Err(refusal(RefusalCode::Signature, words));
        }
        let (bytes, grace) = (contract.terms.bytes, contract.terms.grace_bytes);
        let allowed = bytes.saturating_add(grace);
        if receipt.terms.bytes_total > allowed {
            let words = format!(
                "{} bytes were had, {allowed} are allowed",
                receipt.terms.bytes_total
            );
            return Err(refusal(RefusalCode::Exceeds, words));
        }
        Ok(Settlement {
            contract: contract.terms.contract_id,
            provider: who,
            bytes_total: receipt.terms.bytes_total,
            form: receipt.encode(),
            contract_form: contract.encode(),
        })
    }
}

fn unpacked(what: &str, text: &str) -> Result<Vec<u8>, Refusal> {
    STANDARD.decode(text).map_err(|error| {
        refusal(
            RefusalCode::Malformed,
            format!("the {what}'s base64: {error}"),
        )
    })
}
