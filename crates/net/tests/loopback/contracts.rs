//! A client that is carried for contracts, over real QUIC on loopback, with the backend played by the test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quell_core::config::{ContractsConfig, ProviderConfig, WalletConfig};
use quell_core::contract::wallet::WantOutcome;
use quell_core::contract::{AskEnd, Filed, RefusedFor, Stored, Trusted, seal};
use quell_net::backend::BackendSettings;
use quell_net::engine::client::{ClientReport, Server};
use quell_net::engine::paying::{ContractsEnded, PaySettings, Paying};
use quell_net::engine::provider::{BillSettings, Billing, FilingEnded};
use quell_net::identity::Identity;
use quell_packet::build;
use quell_wire::contract::{ContractId, ContractTerms, SignedBinding, SignedReceipt};
use quell_wire::key::PublicKey;
use tokio::sync::watch;

use crate::ends::{PATIENCE, Running, client_prepared, provider_prepared, server};

fn wall_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// The backend and the disk, in the hands of the test.
struct Plane {
    signer: Identity,
    /// Contracts are refused.
    refuses: AtomicBool,
    /// Bytes that a contract allows.
    allows: AtomicU64,
    contracts: AtomicU64,
    requests: AtomicU64,
    /// Keys that contracts were asked for, each with its account.
    keys: Mutex<Vec<SignedBinding>>,
    /// Durable totals of the disk.
    disk: Mutex<HashMap<ContractId, u64>>,
    filed: Mutex<HashMap<ContractId, u64>>,
}

impl Plane {
    fn new(allows: u64) -> Arc<Self> {
        Arc::new(Self {
            signer: Identity::generate().unwrap(),
            refuses: AtomicBool::new(false),
            allows: AtomicU64::new(allows),
            contracts: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            keys: Mutex::default(),
            disk: Mutex::default(),
            filed: Mutex::default(),
        })
    }

    fn contract(&self, binding: &SignedBinding) -> WantOutcome {
        assert!(seal::is_binding_signed(binding));
        if self.refuses.load(Ordering::SeqCst) {
            return WantOutcome::Refused(RefusedFor::Quota);
        }
        self.keys.lock().unwrap().push(*binding);
        let number = self.contracts.fetch_add(1, Ordering::SeqCst);
        let terms = ContractTerms {
            key_id: seal::key_id(&self.signer.public_key()),
            contract_id: ContractId(u128::from(number).to_be_bytes()),
            client_key: binding.terms.client_key,
            provider_key: binding.terms.provider_key,
            bytes: self.allows.load(Ordering::SeqCst),
            not_before_s: wall_s(),
            not_after_s: wall_s() + 3_600,
            grace_bytes: 0,
            grace_s: 0,
        };
        let form = seal::sign_contract(self.signer.secret_key(), terms).encode();
        WantOutcome::Signed(form.to_vec())
    }

    fn serve_client(self: &Arc<Self>, paying: Paying) {
        let plane = Arc::clone(self);
        let Paying {
            mut wanted, ended, ..
        } = paying;
        thread::spawn(move || {
            while let Some(asked) = wanted.blocking_recv() {
                plane.requests.fetch_add(1, Ordering::SeqCst);
                let outcomes = asked
                    .wants
                    .iter()
                    .map(|(binding, _)| plane.contract(binding));
                let end = Ok::<_, AskEnd>(outcomes.collect());
                let number = asked.number;
                if ended.blocking_send(ContractsEnded { number, end }).is_err() {
                    return;
                }
            }
        });
    }

    fn serve_provider(self: &Arc<Self>, billing: Billing) {
        let plane = Arc::clone(self);
        let Billing {
            mut batches,
            written,
            mut filings,
            filed,
            trusted: _,
        } = billing;
        thread::spawn(move || {
            while let Some(batch) = batches.blocking_recv() {
                for (id, record) in &batch.records {
                    let total = record.key().unwrap().1;
                    let before = plane.disk.lock().unwrap().insert(*id, total);
                    assert!(
                        before.is_none_or(|before| before <= total),
                        "totals never fall"
                    );
                }
                if written.blocking_send((batch.id, true)).is_err() {
                    return;
                }
            }
        });
        let plane = Arc::clone(self);
        thread::spawn(move || {
            while let Some(request) = filings.blocking_recv() {
                let file = |record: &quell_core::contract::Record| {
                    let receipt = SignedReceipt::decode(&record.receipt).unwrap().terms;
                    let mut filed = plane.filed.lock().unwrap();
                    let total = filed.entry(receipt.contract_id).or_default();
                    *total = receipt.bytes_total.max(*total);
                    Filed::Settled(*total)
                };
                let end = Ok(request.receipts.iter().map(file).collect());
                let id = request.id;
                if filed.blocking_send(FilingEnded { id, end }).is_err() {
                    return;
                }
            }
        });
    }
}

struct World {
    plane: Arc<Plane>,
    account: Identity,
    provider: Running<quell_net::engine::provider::ProviderReport, PublicKey>,
    client: Running<ClientReport, ()>,
    _catalog: watch::Sender<Vec<Server>>,
}

fn world(allows: u64, refuses: bool) -> World {
    let plane = Plane::new(allows);
    plane.refuses.store(refuses, Ordering::SeqCst);
    let (exit, account) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let trusted = Trusted::try_new(&[plane.signer.public_key()]).unwrap();
    let of_provider = Arc::clone(&plane);
    let (provider, remote) = provider_prepared(
        &exit,
        Vec::new(),
        (ProviderConfig::default(), BackendSettings::default()),
        move |engine| {
            let settings = BillSettings {
                contracts: ContractsConfig {
                    filing_interval: Duration::from_secs(1),
                    ..ContractsConfig::default()
                },
                trusted,
                stored: Stored::default(),
            };
            of_provider.serve_provider(engine.bill(settings, 1));
        },
    );
    let (tell, told) = std::sync::mpsc::channel();
    let of_client = Arc::clone(&plane);
    let client = client_prepared(
        &account,
        Vec::new(),
        BackendSettings::default(),
        move |engine| {
            let settings = PaySettings {
                wallet: WalletConfig::default(),
                stored: Vec::new(),
                clean: true,
            };
            of_client.serve_client(engine.pay(settings, 2));
            tell.send(engine.catalog()).unwrap();
        },
    );
    let catalog = told.recv().unwrap();
    let mut listed = server(exit.public_key(), remote, None);
    listed.is_paid = true;
    catalog.send(vec![listed]).unwrap();
    World {
        plane,
        account,
        provider,
        client,
        _catalog: catalog,
    }
}

impl World {
    /// The user's packets out, until the provider's device has so many.
    fn carry(&self, packets: usize) -> usize {
        let addresses = self.client.until("up", |report| {
            (report.client.state == "up").then_some(report.client.addresses?)
        });
        let own = addresses.ipv4.unwrap().0;
        let packet = build::udp(
            (own, 4_000).into(),
            ("192.0.2.1".parse::<std::net::Ipv4Addr>().unwrap(), 53).into(),
            &[7; 1_200],
        );
        let begun = Instant::now();
        let mut carried = 0;
        while carried < packets && begun.elapsed() < Duration::from_secs(3) {
            self.client.device.inject_copy(&packet).unwrap();
            carried += usize::from(
                self.provider
                    .device
                    .take_within(Duration::from_millis(100))
                    .is_some(),
            );
        }
        carried
    }
}

#[test]
fn a_client_is_carried_for_contracts_and_signs_for_what_it_had() {
    let world = world(64 << 20, false);
    assert_eq!(world.carry(200), 200);
    let bytes = 200 * 1_228;
    let begun = Instant::now();
    loop {
        let filed: u64 = world.plane.filed.lock().unwrap().values().sum();
        if filed >= bytes {
            assert!(
                filed <= bytes + 64 * 1_228,
                "signed for what was carried: {filed}"
            );
            break;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{filed} of {bytes} bytes are filed"
        );
        thread::sleep(Duration::from_millis(50));
    }
    let report = world.client.status();
    let contracts = report.contracts.unwrap();
    assert!(
        contracts.survives.starts_with("survives"),
        "{}",
        contracts.survives
    );
    assert_eq!(
        (
            report.client.unaccounted,
            world.provider.status().provider.unaccounted
        ),
        (0, 0)
    );
    // The provider knows a key of the day, the backend whose it is.
    let bindings = world.plane.keys.lock().unwrap();
    let own = world.account.public_key();
    assert!(
        bindings
            .iter()
            .all(|binding| binding.terms.account_key == own)
    );
    assert!(
        bindings
            .iter()
            .all(|binding| binding.terms.client_key != own)
    );
}

#[test]
fn without_a_contract_nothing_is_carried() {
    let world = world(64 << 20, true);
    assert_eq!(world.carry(1), 0);
    assert!(world.plane.disk.lock().unwrap().is_empty());
    let requests = world.plane.requests.load(Ordering::SeqCst);
    assert!(
        requests <= 2,
        "a refusal is an answer, and is not asked for again at once: {requests}"
    );
}

#[test]
fn contracts_that_are_spent_are_followed_by_others_before_they_end() {
    // Half of each is left when the next is asked for.
    let world = world(256 << 10, false);
    assert_eq!(world.carry(1_000), 1_000);
    let contracts = world.plane.contracts.load(Ordering::SeqCst);
    assert!(
        (4..=12).contains(&contracts),
        "{contracts} contracts of 256 KiB for 1.2 MB"
    );
}
