//! Sessions that are carried under contracts: a client and a provider on a perfect path, with a disk and a clock.

use std::time::Instant;

use bytes::Bytes;
use quell_core::config::{ClientConfig, ContractsConfig, ProviderConfig};
use quell_core::contract::{Books, Pause, Trusted, Verifier, seal};
use quell_core::drops::DropReason;
use quell_core::multi::{self, Client, ContractNews, Loss};
use quell_core::path::Violation;
use quell_core::provider::{self, AddressPool, Provider, Roster, SessionId};
use quell_wire::contract::{ContractId, ContractTerms, ReceiptTerms, SignedContract};
use quell_wire::control::{Contract, Control, Receipt};
use quell_wire::key::{PublicKey, SecretKey};
use quell_wire::registry::{ErrorCode, VERSION, feature};

use super::common::*;

pub(super) const WALL_S: u64 = 1_900_000_000;
pub(super) const MIB: u64 = 1 << 20;

pub(super) fn secret(of: u8) -> SecretKey {
    SecretKey::from_bytes([of; 32])
}

pub(super) fn public(of: u8) -> PublicKey {
    seal::public_key(&secret(of))
}

pub(super) const BACKEND: u8 = 21;
pub(super) const PROVIDER: u8 = 22;
pub(super) const CLIENT: u8 = 23;

pub(super) fn contract(id: u8, bytes: u64) -> SignedContract {
    let terms = ContractTerms {
        key_id: seal::key_id(&public(BACKEND)),
        contract_id: ContractId([id; 16]),
        client_key: public(CLIENT),
        provider_key: public(PROVIDER),
        bytes,
        not_before_s: WALL_S,
        not_after_s: WALL_S + 3_600,
        grace_bytes: 0,
        grace_s: 0,
    };
    seal::sign_contract(&secret(BACKEND), terms)
}

pub(super) fn receipt(of: u8, by: u8, bytes_total: u64) -> Vec<u8> {
    let terms = ReceiptTerms {
        contract_id: ContractId([of; 16]),
        provider_key: public(PROVIDER),
        bytes_total,
        issued_s: WALL_S,
    };
    seal::sign_receipt(&secret(by), terms).encode().to_vec()
}

pub(super) fn billing_provider(now: Instant) -> Provider {
    let roster = Roster::try_new([("listed".to_owned(), public(9))]).unwrap();
    let pool = AddressPool::try_new(Some("10.85.0.0/24".parse().unwrap()), None).unwrap();
    let verifier = Verifier {
        trusted: Trusted::try_new(&[public(BACKEND)]).unwrap(),
        provider_key: public(PROVIDER),
        clock_skew: 300 * S,
    };
    let books = Books::new(ContractsConfig::default(), verifier, 5, WALL_S, now);
    let provider = Provider::new(ProviderConfig::default(), roster, pool, 1_500, 7);
    provider.with_contracts(books)
}

/// A client and a provider with nothing between them.
pub(super) struct Pair {
    pub(super) client: Client,
    pub(super) provider: Provider,
    pub(super) id: Option<SessionId>,
    pub(super) attempt: u64,
    pub(super) key: PublicKey,
    pub(super) now: Instant,
    pub(super) to_user: usize,
    pub(super) to_world: usize,
    pub(super) closed: Option<Violation>,
}

impl Pair {
    pub(super) fn new(key: PublicKey, offers: bool) -> Self {
        let now = Instant::now();
        Self::over(billing_provider(now), key, offers, now)
    }

    pub(super) fn over(provider: Provider, key: PublicKey, offers: bool, now: Instant) -> Self {
        let client = Client::new(ClientConfig::default(), "test", 1_500, 7, now);
        let client = if offers {
            client.with_contracts()
        } else {
            client
        };
        let mut pair = Self {
            client,
            provider,
            id: None,
            attempt: 0,
            key,
            now,
            to_user: 0,
            to_world: 0,
            closed: None,
        };
        pair.settle();
        pair
    }

    /// A session that is up under a contract of so many bytes.
    pub(super) fn with_contract(bytes: u64) -> Self {
        let mut pair = Self::new(public(CLIENT), true);
        assert_eq!(pair.news(), [ContractNews::Wanted]);
        pair.contract(&contract(1, bytes));
        pair
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            let carrier = facts(1_414);
            self.client
                .on_carrier(EXIT, self.attempt, carrier, self.now);
            if let Some(id) = self.id {
                self.provider.on_carrier(id, carrier, self.now);
            }
            let from_client = client_outputs(&mut self.client, self.now);
            let from_provider = self
                .id
                .map(|id| session_outputs(&mut self.provider, id, self.now));
            let from_provider = from_provider.unwrap_or_default();
            if from_client.is_empty() && from_provider.is_empty() {
                return;
            }
            from_client
                .into_iter()
                .for_each(|output| self.on_client(output));
            from_provider
                .into_iter()
                .for_each(|output| self.on_provider(output));
        }
    }

    pub(super) fn on_client(&mut self, output: multi::Output) {
        match (output, self.id) {
            (multi::Output::Dial { attempt, .. }, _) => {
                self.attempt = attempt;
                self.id = self.provider.on_connection(self.key, self.now).ok();
                self.client.on_connected(EXIT, attempt, self.now);
            }
            (multi::Output::Control { bytes, .. }, Some(id)) => {
                self.provider.handle_control(id, &bytes, self.now);
            }
            (multi::Output::Datagram { bytes, .. }, Some(id)) => {
                self.provider.handle_datagram(id, &bytes, self.now);
            }
            (multi::Output::Deliver(_), _) => self.to_user += 1,
            (_, _) => {}
        }
    }

    pub(super) fn on_provider(&mut self, output: provider::Output) {
        match output {
            provider::Output::Control(bytes) => {
                self.client
                    .handle_control(EXIT, self.attempt, &bytes, self.now);
            }
            provider::Output::Datagram(bytes) => {
                self.client
                    .handle_datagram(EXIT, self.attempt, &bytes, self.now);
            }
            provider::Output::Deliver(_) => self.to_world += 1,
            provider::Output::Close(violation) => {
                let loss = Loss::said(&violation);
                if let Some(id) = self.id.take() {
                    self.provider.on_closed(id, None, self.now);
                }
                self.client.on_closed(EXIT, self.attempt, loss, self.now);
                self.closed = Some(violation);
            }
            provider::Output::MessagesEnded(_) => {}
        }
    }

    pub(super) fn news(&mut self) -> Vec<ContractNews> {
        let news = std::iter::from_fn(|| self.client.poll_contract_news());
        news.map(|(_, news)| news).collect()
    }

    pub(super) fn contract(&mut self, contract: &SignedContract) {
        assert!(
            self.client
                .send_contract(EXIT, &contract.encode(), self.now)
        );
        self.settle();
    }

    pub(super) fn receipt(&mut self, form: &[u8]) {
        assert!(self.client.send_receipt(EXIT, form, self.now));
        self.settle();
    }

    pub(super) fn persist(&mut self) {
        let batch = self.provider.poll_persist(self.now).unwrap();
        self.provider.on_persisted(batch.id, self.now);
        self.settle();
    }

    pub(super) fn own(&self) -> std::net::IpAddr {
        self.client
            .status(self.now)
            .addresses
            .unwrap()
            .ipv4
            .unwrap()
            .0
            .into()
    }

    pub(super) fn up(&mut self, packets: usize) {
        for _ in 0..packets {
            let packet = packet(self.own(), ip(WORLD_V4), 1_000);
            self.client.handle_packet(packet, self.now);
            self.settle();
        }
    }

    pub(super) fn down(&mut self, packets: usize) {
        for _ in 0..packets {
            let packet = packet(ip(WORLD_V4), self.own(), 1_000);
            self.provider.handle_packet(packet, self.now);
            self.settle();
        }
    }

    pub(super) fn pause(&self) -> Option<Pause> {
        self.provider.pause_of(self.id.unwrap())
    }

    pub(super) fn unpaid(&self) -> (u64, u64) {
        let status = self.provider.status();
        assert_eq!(status.unaccounted, 0, "the books do not close");
        let sessions = status.sessions.iter();
        let inwards = status.tun_drops[DropReason::Unpaid];
        let outwards = sessions.map(|session| session.received_drops[DropReason::Unpaid]);
        (outwards.sum(), inwards)
    }

    pub(super) fn pass(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.now += S;
            let id = self.id.unwrap();
            self.provider.handle_timeout(id, self.now);
            self.provider.handle_contracts(self.now);
            self.client.handle_timeout(self.now);
            self.settle();
            if self.id.is_none() {
                return;
            }
        }
    }
}

#[test]
fn nothing_is_carried_before_a_contract_and_all_of_it_after() {
    let mut pair = Pair::new(public(CLIENT), true);
    assert_eq!(pair.pause(), Some(Pause::NoContract));
    pair.up(3);
    pair.down(2);
    assert_eq!((pair.to_world, pair.to_user), (0, 0));
    assert_eq!(pair.unpaid(), (3, 2));
    pair.client.take_billed(EXIT);
    pair.contract(&contract(1, MIB));
    assert_eq!(pair.pause(), None);
    pair.up(5);
    pair.down(4);
    assert_eq!((pair.to_world, pair.to_user), (5, 4));
    assert_eq!(pair.unpaid(), (3, 2));
    // What the client is to sign for: each packet once.
    assert_eq!(pair.client.take_billed(EXIT), 9_000);
    assert_eq!(pair.client.take_billed(EXIT), 0);
}

#[test]
fn status_tells_of_the_books_and_why_a_session_is_paused() {
    let mut pair = Pair::new(public(CLIENT), true);
    let status = pair.provider.status();
    assert!(status.sessions[0].billed);
    let pause = status.sessions[0].pause.unwrap();
    assert_eq!(
        (pause.name, pause.words),
        ("no_contract", "no contract came")
    );
    pair.contract(&contract(1, MIB));
    pair.receipt(&receipt(1, CLIENT, 5_000));
    let status = pair.provider.status();
    assert_eq!(status.sessions[0].pause, None);
    let books = status.contracts.unwrap();
    assert_eq!(
        (books.accounts, books.contracts, books.to_persist),
        (1, 1, 1)
    );
    let listed = Pair::new(public(9), false).provider.status();
    assert!(!listed.sessions[0].billed);
    assert_eq!(listed.sessions[0].pause, None);
}

#[test]
fn a_session_pauses_at_the_unsigned_limit_and_goes_on_by_a_durable_receipt() {
    let mut pair = Pair::with_contract(64 * MIB);
    pair.up(600);
    pair.down(700);
    let carried = (pair.to_world + pair.to_user) as u64 * 1_000;
    assert!((MIB..=MIB * 9 / 8 + 2_000).contains(&carried), "{carried}");
    assert_eq!(pair.pause(), Some(Pause::ReceiptDue));
    let (_, before) = pair.unpaid();
    assert!(before > 0);
    // It is there all the same: PINGs are answered, nothing stalls.
    pair.pass(30);
    assert!(pair.closed.is_none());
    assert_eq!(pair.pause(), Some(Pause::ReceiptDue));
    pair.receipt(&receipt(1, CLIENT, MIB));
    assert_eq!(pair.pause(), Some(Pause::NotDurable));
    pair.persist();
    assert_eq!(pair.pause(), None);
    let before = pair.to_user;
    pair.down(10);
    assert_eq!(pair.to_user, before + 10);
}

#[test]
fn a_pause_that_lasts_ends_the_session_in_words() {
    let mut pair = Pair::new(public(CLIENT), true);
    pair.pass(59);
    assert_eq!(pair.closed, None);
    pair.pass(2);
    let closed = pair.closed.unwrap();
    assert_eq!(closed.code, ErrorCode::ContractRequired);
    assert!(
        closed.words.contains("no contract came"),
        "{}",
        closed.words
    );
}

#[test]
fn a_client_that_sends_no_contracts_is_told_so_and_a_listed_one_needs_none() {
    let pair = Pair::new(public(CLIENT), false);
    assert_eq!(pair.closed.unwrap().code, ErrorCode::ContractRequired);
    for offers in [false, true] {
        let mut pair = Pair::new(public(9), offers);
        assert_eq!((pair.pause(), pair.news().len()), (None, 0));
        pair.up(2_000);
        assert_eq!((pair.to_world, pair.unpaid().0), (2_000, 0));
        assert!(
            !pair.client.send_contract(EXIT, &[1], pair.now),
            "it wants none"
        );
    }
}

#[test]
fn a_contract_that_is_not_honoured_is_answered_and_the_session_goes_on() {
    let mut pair = Pair::new(public(CLIENT), true);
    pair.news();
    let forged = SignedContract {
        signature: contract(2, MIB).signature,
        ..contract(1, MIB)
    };
    pair.contract(&forged);
    let said = pair.news();
    let [
        ContractNews::Refused {
            contract: of,
            words,
        },
    ] = said.as_slice()
    else {
        panic!("{said:?}");
    };
    assert_eq!(*of, Some(forged.terms.contract_id));
    assert!(words.ends_with("its signature does not hold"), "{words}");
    pair.contract(&contract(1, MIB));
    assert_eq!((pair.pause(), pair.news().len()), (None, 0));
    for _ in 0..20 {
        let said = pair.client.send_contract(EXIT, &forged.encode(), pair.now);
        pair.settle();
        if !said {
            break;
        }
    }
    assert_eq!(pair.closed.unwrap().code, ErrorCode::ContractRefused);
}

#[test]
fn a_forged_receipt_ends_the_session_and_an_old_one_is_answered_with_the_last() {
    let mut pair = Pair::with_contract(4 * MIB);
    pair.news();
    pair.receipt(&receipt(1, CLIENT, 5_000));
    assert_eq!(pair.news(), []);
    pair.receipt(&receipt(1, CLIENT, 4_000));
    let last = Bytes::from(receipt(1, CLIENT, 5_000));
    assert_eq!(pair.news(), [ContractNews::SentBack(last)]);
    pair.receipt(&receipt(1, 99, 6_000));
    assert_eq!(pair.closed.unwrap().code, ErrorCode::ReceiptRefused);
}

#[test]
fn a_resumed_session_keeps_its_books_and_is_asked_for_contracts_again() {
    let mut pair = Pair::with_contract(64 * MIB);
    pair.up(500);
    pair.receipt(&receipt(1, CLIENT, 300_000));
    pair.news();
    let id = pair.id.take().unwrap();
    pair.provider.on_closed(id, None, pair.now);
    pair.client.on_closed(EXIT, pair.attempt, "cut", pair.now);
    for _ in 0..20 {
        pair.now += S;
        pair.client.handle_timeout(pair.now);
        pair.settle();
    }
    assert_eq!(pair.provider.status().resumes, 1);
    assert_eq!(pair.news(), [ContractNews::Wanted]);
    pair.contract(&contract(1, 64 * MIB));
    let last = Bytes::from(receipt(1, CLIENT, 300_000));
    assert_eq!(pair.news(), [ContractNews::SentBack(last)]);
    pair.up(900);
    assert_eq!(pair.pause(), Some(Pause::NotDurable), "the debt came along");
    let carried = pair.to_world as u64 * 1_000;
    assert!(carried <= MIB * 64 / 63 + 1_000, "{carried}");
}

#[test]
fn a_new_session_of_the_same_key_sheds_no_debt() {
    let mut pair = Pair::with_contract(64 * MIB);
    pair.up(1_200);
    assert_eq!(pair.pause(), Some(Pause::ReceiptDue));
    let other = pair
        .provider
        .on_connection(public(CLIENT), pair.now)
        .unwrap();
    let Control::Hello(hello) = hello(VERSION) else {
        panic!("a HELLO");
    };
    let features = feature::CONTRACTS;
    let hello = Control::Hello(quell_wire::control::Hello { features, ..hello });
    pair.provider
        .handle_control(other, &on_stream(&hello), pair.now);
    let bytes = Bytes::copy_from_slice(&contract(1, 64 * MIB).encode());
    let again = on_stream(&Control::Contract(Contract { bytes }));
    pair.provider.handle_control(other, &again, pair.now);
    assert_eq!(pair.provider.pause_of(other), Some(Pause::ReceiptDue));
    let bytes = Bytes::from(receipt(1, CLIENT, MIB));
    let paid = on_stream(&Control::Receipt(Receipt { bytes }));
    pair.provider.handle_control(other, &paid, pair.now);
    let batch = pair.provider.poll_persist(pair.now).unwrap();
    pair.provider.on_persisted(batch.id, pair.now);
    assert_eq!(pair.provider.pause_of(other), None);
}

#[test]
fn contract_messages_are_a_breach_where_nobody_asked_for_them() {
    let now = Instant::now();
    let mut provider = billing_provider(now);
    let id = provider.on_connection(public(9), now).unwrap();
    provider.handle_control(id, &on_stream(&hello(VERSION)), now);
    let bytes = Bytes::from_static(&[1]);
    provider.handle_control(id, &on_stream(&Control::Receipt(Receipt { bytes })), now);
    let out = session_outputs(&mut provider, id, now);
    let wrong = |output: &provider::Output| matches!(output, provider::Output::Close(why) if why.code == ErrorCode::WrongState);
    assert!(out.iter().any(wrong), "{out:?}");
}
