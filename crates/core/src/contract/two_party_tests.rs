//! A client's wallet, a provider's books and a backend against each other, while each of them fails.
//!
//! Seeded worlds: traffic, connections that break, crashes of either end at any point (between a batch and its answer, with
//! a receipt on the stream, before anything is stored), a disk that is full, a backend that is gone, or serves and loses the
//! answer. After each step the books are held against what truly happened; in the end everything heals, and what is settled
//! must be what is durable.
#![allow(clippy::unwrap_used)]

mod outage;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use quell_wire::contract::{ContractId, ContractTerms, SignedContract};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::testing::*;
use super::wallet::{Party, StoredContract, Want, WantOutcome};
use super::*;
use crate::config::{BackendHealthConfig, ContractsConfig, WalletConfig};
use crate::health::BackendHealth;

const MIB: u64 = 1 << 20;
const PACKET: u64 = 1_000;

/// What a control plane is here: contracts by request, totals by contract.
#[derive(Default)]
struct Backend {
    up: bool,
    issued: BTreeMap<([u8; 16], usize), SignedContract>,
    settled: BTreeMap<ContractId, u64>,
    requests: u64,
    filings: u64,
}

impl Backend {
    fn issue(&mut self, id: [u8; 16], index: usize, want: &Want, wall_s: u64) -> WantOutcome {
        let count = self.issued.len() as u64;
        let contract = self.issued.entry((id, index)).or_insert_with(|| {
            let mut name = [0; 16];
            name[..8].copy_from_slice(&(count + 1).to_be_bytes());
            signed(ContractTerms {
                contract_id: ContractId(name),
                client_key: want.party.client_key,
                provider_key: want.party.provider_key,
                not_before_s: wall_s,
                not_after_s: wall_s + 3_600,
                grace_bytes: MIB,
                grace_s: 600,
                ..terms(0, want.bytes.min(4 * MIB))
            })
        });
        WantOutcome::Signed(contract.encode().to_vec())
    }

    fn settle(&mut self, record: &Record) -> Filed {
        let contract = SignedContract::decode(&record.contract).unwrap();
        let receipt = verify::verify_receipt(&record.receipt, &contract.terms, 0).unwrap();
        let total = self.settled.entry(receipt.terms.contract_id).or_default();
        assert!(
            receipt.terms.bytes_total >= *total,
            "a total that is filed fell"
        );
        *total = receipt.terms.bytes_total;
        Filed::Settled(*total)
    }
}

enum Said {
    Contract(Vec<u8>),
    Receipt(Vec<u8>),
}

struct World {
    rng: SmallRng,
    now: Instant,
    start: Instant,
    party: Party,
    backend: Backend,
    wallet: Wallet,
    client_health: BackendHealth,
    stored: Vec<StoredContract>,
    books: Books,
    meter: Meter,
    provider_health: BackendHealth,
    disk: BTreeMap<ContractId, Record>,
    disk_floor_s: u64,
    connected: bool,
    to_provider: VecDeque<Said>,
    to_client: VecDeque<Vec<u8>>,
    delivered: u64,
    client_crashes: u64,
    /// The highest total of each contract that was acknowledged as durable.
    acknowledged: BTreeMap<ContractId, u64>,
}

fn health(seed: u64, now: Instant) -> BackendHealth {
    let mut rng = SmallRng::seed_from_u64(seed);
    BackendHealth::new(BackendHealthConfig::default(), now, &mut rng)
}

fn total_of(record: &Record) -> u64 {
    record.key().unwrap().1
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let party = Party {
            provider_key: public(PROVIDER),
            client_key: public(CLIENT),
        };
        let mut wallet = Wallet::new(WalletConfig::default(), seed);
        wallet.set_wanted(&[party]);
        Self {
            rng: SmallRng::seed_from_u64(seed),
            now,
            start: now,
            party,
            backend: Backend {
                up: true,
                ..Backend::default()
            },
            wallet,
            client_health: health(seed, now),
            stored: Vec::new(),
            books: Books::new(ContractsConfig::default(), verifier(), seed, WALL_S, now),
            meter: Meter::default(),
            provider_health: health(seed + 1, now),
            disk: BTreeMap::new(),
            disk_floor_s: 0,
            connected: false,
            to_provider: VecDeque::new(),
            to_client: VecDeque::new(),
            delivered: 0,
            client_crashes: 0,
            acknowledged: BTreeMap::new(),
        }
    }

    fn wall_s(&self) -> u64 {
        WALL_S + (self.now - self.start).as_secs()
    }

    // --- what happens ------------------------------------------------------

    fn traffic(&mut self, packets: u64) {
        for _ in 0..packets {
            let lossy = self.rng.random_bool(0.3);
            let carried = if lossy {
                Carried::Unacknowledged
            } else {
                Carried::Known
            };
            if !self.meter.admit(carried, PACKET as usize) {
                self.look();
                if !self.meter.admit(carried, PACKET as usize) {
                    // The user's own packet is acknowledged before it is dropped as unpaid.
                    self.delivered += PACKET;
                    self.wallet.on_delivered(&self.party, PACKET, self.now);
                    break;
                }
            }
            if !(lossy && self.rng.random_bool(0.05)) {
                self.delivered += PACKET;
                self.wallet.on_delivered(&self.party, PACKET, self.now);
            }
        }
    }

    fn look(&mut self) {
        if self.connected {
            self.books
                .judge(&self.party.client_key, &mut self.meter, self.now);
        }
    }

    fn connect(&mut self) {
        if !self.connected {
            self.connected = true;
            let contracts = self.wallet.contracts_for(&self.party).into_iter();
            let receipts = self.wallet.receipts_for(&self.party).into_iter();
            let contracts = contracts.map(|form| Said::Contract(form.to_vec()));
            let receipts = receipts.map(|form| Said::Receipt(form.to_vec()));
            self.to_provider.extend(contracts.chain(receipts));
        }
    }

    fn disconnect(&mut self) {
        self.connected = false;
        self.to_provider.clear();
        self.to_client.clear();
        self.books.settle(&self.party.client_key, &mut self.meter);
    }

    fn sign(&mut self) {
        let wall_s = self.wall_s();
        while let Some((party, terms)) = self.wallet.poll_receipt(wall_s, self.now) {
            let receipt = seal::sign_receipt(&secret(CLIENT), terms);
            self.wallet.on_signed(&party, &receipt);
            if self.connected {
                self.to_provider
                    .push_back(Said::Receipt(receipt.encode().to_vec()));
            }
        }
    }

    fn stream(&mut self) {
        let key = self.party.client_key;
        while let Some(said) = self.to_provider.pop_front() {
            let sends_back = match said {
                Said::Contract(form) => matches!(
                    self.books.on_contract(&key, &form, self.now),
                    Ok(_) | Err(ContractRefusal::Replaced)
                ),
                Said::Receipt(form) => match self.books.on_receipt(&key, &form, self.now) {
                    Ok(()) => false,
                    Err(refusal) => {
                        assert!(!refusal.is_breach(), "an honest client, and {refusal}");
                        matches!(refusal, ReceiptRefusal::NotHigher { .. })
                    }
                },
            };
            if sends_back {
                let account = self.books.account_of(&key).into_iter();
                let last = account
                    .flat_map(Account::receipts)
                    .map(|form| form.to_vec());
                self.to_client.extend(last);
            }
        }
        while let Some(form) = self.to_client.pop_front() {
            self.wallet.on_echo(&self.party, &form);
        }
        self.look();
    }

    /// The disk takes a batch, or fails, or the provider dies before or after it was written.
    fn persist(&mut self, fails: bool) {
        let Some(batch) = self.books.poll_persist(self.now) else {
            return;
        };
        let fate = if fails {
            self.rng.random_range(0..4)
        } else {
            3
        };
        if fate == 0 {
            self.books.on_persist_failed(batch.id, self.now);
            return;
        }
        if fate != 1 {
            for (id, record) in &batch.records {
                let before = self.disk.insert(*id, *record);
                let before = before.map_or(0, |before| total_of(&before));
                assert!(total_of(record) >= before, "a total on the disk fell");
            }
            for id in &batch.forgotten {
                self.disk.remove(id);
            }
            assert!(batch.floor_s >= self.disk_floor_s, "the floor fell");
            self.disk_floor_s = batch.floor_s;
        }
        if fate == 3 {
            self.books.on_persisted(batch.id, self.now);
            let totals = batch
                .records
                .iter()
                .map(|(id, record)| (*id, total_of(record)));
            self.acknowledged.extend(totals);
            self.look();
        } else {
            self.provider_crash();
        }
    }

    fn provider_crash(&mut self) {
        self.disconnect();
        let (seed, wall_s) = (self.rng.random(), self.wall_s());
        let config = ContractsConfig::default();
        self.books = Books::new(config, verifier(), seed, wall_s, self.now);
        let restored = self.books.restore(Stored {
            records: self.disk.values().copied().collect(),
            floor_s: self.disk_floor_s,
        });
        assert_eq!(restored.refused, 0);
        self.meter = Meter::default();
    }

    fn client_crash(&mut self) {
        self.disconnect();
        self.client_crashes += 1;
        self.wallet = Wallet::new(WalletConfig::default(), self.rng.random());
        self.wallet.set_wanted(&[self.party]);
        self.wallet.restore(&self.stored, false, self.wall_s());
        self.client_health = health(3, self.now);
    }

    fn ask(&mut self, loses: bool) {
        let wall_s = self.wall_s();
        let Some(asked) = self
            .wallet
            .poll_request(&self.client_health, wall_s, self.now)
        else {
            return;
        };
        self.backend.requests += 1;
        let lost = loses && self.rng.random_bool(0.3);
        let wants = asked.wants.iter().enumerate();
        let id = asked.request_id;
        let outcomes: Vec<_> = if self.backend.up {
            wants
                .map(|(index, want)| self.backend.issue(id, index, want, wall_s))
                .collect()
        } else {
            Vec::new()
        };
        let (health, now) = (&self.client_health, self.now);
        if outcomes.is_empty() || lost {
            self.wallet
                .on_ended(asked.number, AskEnd::Failed, health, wall_s, now);
            return;
        }
        for (_, form) in self
            .wallet
            .on_answer(asked.number, &outcomes, health, wall_s, now)
        {
            if self.connected {
                self.to_provider.push_back(Said::Contract(form.to_vec()));
            }
        }
        if self.wallet.take_changed() {
            self.stored = self.wallet.stored();
        }
    }

    fn file(&mut self, loses: bool) {
        self.books.on_backend(!self.backend.up);
        let Some(request) = self.books.poll_filing(&self.provider_health, self.now) else {
            return;
        };
        self.backend.filings += 1;
        let lost = loses && self.rng.random_bool(0.3);
        let outcomes: Vec<_> = if self.backend.up {
            request
                .receipts
                .iter()
                .map(|record| self.backend.settle(record))
                .collect()
        } else {
            Vec::new()
        };
        if outcomes.is_empty() || lost {
            let health = &self.provider_health;
            self.books
                .on_filing_ended(request.id, AskEnd::Failed, health, self.now);
        } else {
            let health = &self.provider_health;
            let refused = self.books.on_filed(request.id, &outcomes, health, self.now);
            assert!(refused.is_empty());
        }
    }

    /// One step of faults.
    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..2 => self.provider_crash(),
            2..4 => self.client_crash(),
            4..8 => self.disconnect(),
            8..11 => self.backend.up = !self.backend.up,
            _ => {}
        }
        self.connect();
        let packets = self.rng.random_range(0..600);
        self.traffic(packets);
        self.sign();
        if self.rng.random_bool(0.8) {
            self.stream();
        }
        if self.rng.random_bool(0.7) {
            self.persist(true);
        }
        self.ask(true);
        self.file(true);
        self.now += Duration::from_millis(self.rng.random_range(1..2_000));
        self.check();
    }

    /// One step in which nothing fails.
    fn heal(&mut self) {
        self.heal_with(50);
    }

    fn heal_with(&mut self, packets: u64) {
        self.backend.up = true;
        self.connect();
        self.traffic(packets);
        self.sign();
        self.stream();
        self.persist(false);
        self.ask(false);
        self.file(false);
        self.now += Duration::from_secs(1);
        self.check();
    }

    // --- what must hold ----------------------------------------------------

    fn check(&mut self) {
        for (id, total) in &self.acknowledged {
            let kept = self.disk.get(id).map_or(0, total_of);
            assert!(kept >= *total, "an acknowledged receipt is lost");
        }
        for (id, total) in &self.backend.settled {
            let kept = self.disk.get(id).map_or(0, total_of);
            assert!(
                *total <= kept,
                "the backend has what this provider never kept"
            );
        }
        // None is counted twice: what is signed was delivered, or is the doubt of a crash.
        let signed: u64 = self.disk.values().map(total_of).sum();
        let doubt =
            self.client_crashes * WalletConfig::default().receipt_bytes * wallet::DOUBT_STEPS;
        assert!(
            signed <= self.delivered + doubt,
            "{signed} of {}",
            self.delivered
        );
        self.look();
        if let Some(account) = self.books.account_of(&self.party.client_key) {
            let (exposed, limit) = account.exposure_bytes(self.books.config());
            assert!(exposed <= limit.max(MIB) + PACKET, "{exposed} of {limit}");
        }
    }
}

fn lives_through(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..400 {
        world.step();
    }
    (0..120).for_each(|_| world.heal());
    let before = world.delivered;
    (0..60).for_each(|_| world.heal());
    assert!(
        world.delivered >= before + 60 * 40 * PACKET,
        "seed {seed}: it does not carry on"
    );
    let settled: u64 = world.backend.settled.values().sum();
    let durable: u64 = world.disk.values().map(total_of).sum();
    // The last receipts may wait for their turn.
    assert!(
        settled + 2 * MIB >= durable,
        "seed {seed}: {settled} of {durable} are settled"
    );
    for (id, total) in &world.acknowledged {
        let later = world.backend.settled.get(id).copied().unwrap_or(0);
        assert!(later + 2 * MIB >= *total, "seed {seed}: {id}");
    }
}

#[test]
fn no_receipt_is_lost_or_counted_twice_whatever_fails() {
    // R-18, case B30
    (0..24).for_each(lives_through);
}

#[test]
fn an_hour_without_a_backend_is_asked_by_the_schedule_and_traffic_ends_with_what_is_held() {
    // nothing but the schedule decides how often a backend that is gone is asked.
    let mut world = World::new(77);
    (0..30).for_each(|_| world.heal());
    let (asked, start) = (world.backend.requests, world.now);
    let before = world.delivered;
    world.backend.up = false;
    while world.now < start + Duration::from_secs(3_600) {
        world.traffic(40);
        world.sign();
        world.stream();
        world.persist(false);
        world.ask(false);
        world.file(false);
        world.now += Duration::from_secs(1);
        world.check();
    }
    let requests = world.backend.requests - asked;
    assert!((60..=170).contains(&requests), "{requests}");
    // The contracts of 4 MiB in hand, a MiB of grace, and a packet of each second that was not carried.
    let had = world.delivered - before;
    assert!((3 * MIB..=14 * MIB).contains(&had), "{had}");
    world.backend.up = true;
    (0..60).for_each(|_| world.heal());
    assert!(
        world.delivered > before + had + MIB,
        "and goes on by itself"
    );
}
