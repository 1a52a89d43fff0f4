//! How many contracts a second a server gives out, in requests of 16, over either store. HTTP is not in it.
//!
//! ```text
//! cargo run --release -p quell-backend --features postgres --example contracts_per_second -- redb FILE
//! cargo run --release -p quell-backend --features postgres --example contracts_per_second -- postgres URL
//! ```
//!
//! Each request is judged, signed and durable before it counts. Once with one client, which waits for each answer and
//! so for each flush of the disk; then with more, which share them. The file or database should be new, and on a disk:
//! a folder in memory flushes for nothing.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quell_backend::api::{
    ContractOutcome, ContractWant, ContractsRequest, EnrolRequest, FiledReceipt, ReceiptOutcome,
    ReceiptsRequest, Role,
};
use quell_backend::service::admin::InvitationPlan;
use quell_backend::service::{InvitationText, Service, ServiceConfig, SigningKeys};
use quell_backend::store::Store;
use quell_backend::store::postgres::PostgresStore;
use quell_backend::store::redb::RedbStore;
use quell_core::contract::seal;
use quell_wire::contract::{BindingTerms, ReceiptTerms, SignedContract};
use quell_wire::key::{PublicKey, SecretKey};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const DAY: u32 = 20_000;
const NOW_S: u64 = DAY as u64 * 86_400;
/// How long each number of clients is measured.
const MEASURED: Duration = Duration::from_secs(5);

fn secret(n: u8) -> SecretKey {
    SecretKey::from_bytes([n; 32])
}

async fn enrol(service: &Service, n: u8, role: Role, rng: &mut StdRng) -> Outcome<PublicKey> {
    let text = InvitationText::draw(rng);
    let plan = InvitationPlan {
        role,
        uses: 1,
        lasts_s: 60,
        quota_bytes: (role == Role::Client).then_some(1 << 59),
    };
    service.invite(&text, plan, NOW_S).await?;
    let who = seal::public_key(&secret(n));
    let request = EnrolRequest {
        invitation: text.to_text().to_string(),
        name: format!("account {n}"),
        addresses: Vec::new(),
    };
    service.enrol(who, &request, NOW_S).await?;
    Ok(who)
}

fn request(n: u8, provider: PublicKey, number: u64) -> ContractsRequest {
    let terms = BindingTerms {
        account_key: seal::public_key(&secret(n)),
        client_key: seal::public_key(&secret(255)),
        provider_key: provider,
        day: DAY,
    };
    let binding = STANDARD.encode(seal::sign_binding(&secret(n), terms).encode());
    let want = ContractWant {
        binding,
        bytes: 1 << 20,
    };
    ContractsRequest {
        request_id: format!("{number:032x}"),
        wants: vec![want; 16],
    }
}

/// One client for a while: the contracts that it got.
async fn ask(service: Arc<Service>, n: u8, provider: PublicKey, round: u64) -> Vec<String> {
    let who = seal::public_key(&secret(n));
    let began = Instant::now();
    let mut contracts = Vec::new();
    let mut number = round << 32;
    while began.elapsed() < MEASURED {
        number += 1;
        let request = request(n, provider, number);
        let Ok(answer) = service.contracts(who, &request, NOW_S).await else {
            break;
        };
        contracts.extend(
            answer
                .outcomes
                .into_iter()
                .filter_map(|outcome| match outcome {
                    ContractOutcome::Signed(form) => Some(form),
                    ContractOutcome::Refused(_) => None,
                }),
        );
    }
    contracts
}

fn receipt(form: &str) -> Outcome<FiledReceipt> {
    let contract = SignedContract::decode(&STANDARD.decode(form).map_err(|e| e.to_string())?)?;
    let terms = ReceiptTerms {
        contract_id: contract.terms.contract_id,
        provider_key: contract.terms.provider_key,
        bytes_total: 1_000,
        issued_s: NOW_S,
    };
    let receipt = seal::sign_receipt(&secret(255), terms).encode();
    Ok(FiledReceipt {
        contract: form.to_owned(),
        receipt: STANDARD.encode(receipt),
    })
}

async fn file(service: &Service, provider: PublicKey, contracts: &[String]) -> Outcome<()> {
    let receipts = contracts.iter().map(|form| receipt(form));
    let receipts = receipts.collect::<Outcome<Vec<_>>>()?;
    let began = Instant::now();
    let mut settled = 0;
    for batch in receipts.chunks(256) {
        let receipts = batch.to_vec();
        let answer = service
            .receipts(provider, &ReceiptsRequest { receipts })
            .await?;
        let counts = |outcome: &&ReceiptOutcome| matches!(outcome, ReceiptOutcome::Settled { .. });
        settled += answer.outcomes.iter().filter(counts).count();
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "1 provider, 256 at once: {:.0} receipts/s",
        settled as f64 / took
    );
    Ok(())
}

async fn measure(store: Arc<dyn Store>) -> Outcome<()> {
    let mut rng = StdRng::seed_from_u64(1);
    let keys = SigningKeys::try_new(secret(250), None, Vec::new())?;
    let service = Arc::new(Service::try_new(store, keys, ServiceConfig::default())?);
    let provider = enrol(&service, 200, Role::Provider, &mut rng).await?;
    for n in 1..=64 {
        enrol(&service, n, Role::Client, &mut rng).await?;
    }
    let mut contracts = Vec::new();
    for (round, clients) in (1u64..).zip([1, 8, 64]) {
        let began = Instant::now();
        let asked =
            (1..=clients).map(|n| tokio::spawn(ask(Arc::clone(&service), n, provider, round)));
        let asked: Vec<_> = asked.collect();
        let mut got = 0;
        for answer in asked {
            let forms = answer.await?;
            got += forms.len();
            contracts.extend(forms);
        }
        let took = began.elapsed().as_secs_f64();
        println!(
            "{clients} clients, 16 at once: {:.0} contracts/s",
            got as f64 / took
        );
    }
    contracts.truncate(16_384);
    file(&service, provider, &contracts).await
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let (kind, place) = (arguments.next(), arguments.next());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match (kind.as_deref(), place) {
            (Some("redb"), Some(file)) => measure(Arc::new(RedbStore::open(file.as_ref())?)).await,
            (Some("postgres"), Some(url)) => {
                measure(Arc::new(PostgresStore::connect(&url).await?)).await
            }
            _ => Err("redb FILE or postgres URL is wanted".into()),
        }
    })
}
