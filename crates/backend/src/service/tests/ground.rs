//! A service with its store in memory, a client (key 1, fresh key 11) and a provider (key 21).

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quell_core::contract::seal;
use quell_wire::contract::{
    BindingTerms, ReceiptTerms, SignedBinding, SignedContract, SignedReceipt,
};
use quell_wire::key::{PublicKey, SecretKey};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::api::{
    ContractOutcome, ContractWant, ContractsRequest, EnrolRequest, FiledReceipt, ReceiptOutcome,
    ReceiptsRequest, RefusalCode, Role,
};
use crate::service::admin::InvitationPlan;
use crate::service::{InvitationText, Service, ServiceConfig, ServiceError, SigningKeys};
use crate::store::Store;
use crate::store::redb::RedbStore;

pub(super) const DAY: u32 = 20_000;
/// Noon of that day.
pub(super) const NOW_S: u64 = DAY as u64 * 86_400 + 43_200;

pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

pub(super) fn secret(n: u8) -> SecretKey {
    SecretKey::from_bytes([n; 32])
}

pub(super) fn pack(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn unpack(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

pub(super) fn code<T>(answer: Result<T, ServiceError>) -> RefusalCode {
    match answer {
        Ok(_) => panic!("not refused"),
        Err(ServiceError::Refused(refusal)) => {
            assert!(refusal.words.len() > 5);
            refusal.code
        }
        Err(ServiceError::Store(error)) => panic!("{error}"),
    }
}

pub(super) struct Ground {
    pub(super) service: Service,
    pub(super) store: Arc<RedbStore>,
    rng: RefCell<StdRng>,
}

impl Ground {
    pub(super) fn new() -> Self {
        Self::over(Arc::new(RedbStore::in_memory()), 100, None, vec![])
    }

    /// One that signs with this key, and trusts those.
    pub(super) fn over(
        store: Arc<RedbStore>,
        signer: u8,
        other: Option<u8>,
        retired: Vec<u8>,
    ) -> Self {
        let public = |n| seal::public_key(&secret(n));
        let retired = retired.into_iter().map(public).collect();
        let keys = SigningKeys::try_new(secret(signer), other.map(public), retired).unwrap();
        let shared: Arc<dyn Store> = store.clone();
        let service = Service::try_new(shared, keys, ServiceConfig::default()).unwrap();
        let rng = RefCell::new(StdRng::seed_from_u64(1));
        Self {
            service,
            store,
            rng,
        }
    }

    pub(super) fn draw(&self) -> InvitationText {
        InvitationText::draw(&mut *self.rng.borrow_mut())
    }

    pub(super) async fn invitation(
        &self,
        role: Role,
        uses: u32,
        quota_bytes: Option<u64>,
    ) -> EnrolRequest {
        let text = self.draw();
        let plan = InvitationPlan {
            role,
            uses,
            lasts_s: 3_600,
            quota_bytes,
        };
        self.service.invite(&text, plan, NOW_S).await.unwrap();
        EnrolRequest {
            invitation: text.to_text().to_string(),
            name: "somebody".into(),
            addresses: vec![],
        }
    }

    /// Enrols the client with this allowance, and the provider.
    pub(super) async fn pair(&self, quota_bytes: Option<u64>) -> (PublicKey, PublicKey) {
        let (client, provider) = (seal::public_key(&secret(1)), seal::public_key(&secret(21)));
        for (who, role, quota) in [
            (client, Role::Client, quota_bytes),
            (provider, Role::Provider, None),
        ] {
            let request = self.invitation(role, 1, quota).await;
            self.service.enrol(who, &request, NOW_S).await.unwrap();
        }
        (client, provider)
    }

    pub(super) async fn contracts(
        &self,
        request: u8,
        wants: Vec<ContractWant>,
    ) -> Result<Vec<ContractOutcome>, ServiceError> {
        self.contracts_at(request, wants, NOW_S).await
    }

    pub(super) async fn contracts_at(
        &self,
        request: u8,
        wants: Vec<ContractWant>,
        now_s: u64,
    ) -> Result<Vec<ContractOutcome>, ServiceError> {
        let request_id = format!("{request:02x}").repeat(16);
        let request = ContractsRequest { request_id, wants };
        let who = seal::public_key(&secret(1));
        let answer = self.service.contracts(who, &request, now_s).await?;
        Ok(answer.outcomes)
    }

    /// A contract of so many bytes.
    pub(super) async fn contract(&self, request: u8, bytes: u64) -> SignedContract {
        let outcomes = self.contracts(request, vec![want(bytes)]).await.unwrap();
        match &outcomes[0] {
            ContractOutcome::Signed(form) => SignedContract::decode(&unpack(form)).unwrap(),
            ContractOutcome::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    /// Files a receipt of the fresh key.
    pub(super) async fn file(
        &self,
        contract: &SignedContract,
        total: u64,
    ) -> Result<u64, RefusalCode> {
        self.file_pair(contract, &receipt(contract, total)).await
    }

    pub(super) async fn file_pair(
        &self,
        contract: &SignedContract,
        receipt: &SignedReceipt,
    ) -> Result<u64, RefusalCode> {
        let filed = filed(&contract.encode(), &receipt.encode());
        self.file_all(vec![filed]).await.unwrap().remove(0)
    }

    pub(super) async fn file_all(
        &self,
        receipts: Vec<FiledReceipt>,
    ) -> Result<Vec<Result<u64, RefusalCode>>, ServiceError> {
        let provider = seal::public_key(&secret(21));
        let request = ReceiptsRequest { receipts };
        let answer = self.service.receipts(provider, &request).await?;
        let outcomes = answer.outcomes.into_iter().map(|outcome| match outcome {
            ReceiptOutcome::Settled { bytes_total } => Ok(bytes_total),
            ReceiptOutcome::Refused(refusal) => Err(refusal.code),
        });
        Ok(outcomes.collect())
    }

    /// What the client had, and what the provider carried.
    pub(super) async fn sums(&self) -> (u64, u64) {
        let sum = async |n| {
            self.service
                .usage(seal::public_key(&secret(n)))
                .await
                .unwrap()
                .settled_bytes
        };
        (sum(1).await, sum(21).await)
    }
}

pub(super) fn filed(contract: &[u8], receipt: &[u8]) -> FiledReceipt {
    FiledReceipt {
        contract: pack(contract),
        receipt: pack(receipt),
    }
}

pub(super) fn receipt(contract: &SignedContract, bytes_total: u64) -> SignedReceipt {
    let terms = ReceiptTerms {
        contract_id: contract.terms.contract_id,
        provider_key: contract.terms.provider_key,
        bytes_total,
        issued_s: NOW_S,
    };
    seal::sign_receipt(&secret(11), terms)
}

pub(super) fn binding(day: u32) -> SignedBinding {
    let terms = BindingTerms {
        account_key: seal::public_key(&secret(1)),
        client_key: seal::public_key(&secret(11)),
        provider_key: seal::public_key(&secret(21)),
        day,
    };
    seal::sign_binding(&secret(1), terms)
}

pub(super) fn want_of(binding: &SignedBinding, bytes: u64) -> ContractWant {
    ContractWant {
        binding: pack(&binding.encode()),
        bytes,
    }
}

pub(super) fn want(bytes: u64) -> ContractWant {
    want_of(&binding(DAY), bytes)
}
