//! What a wallet asks for, signs and remembers.
#![allow(clippy::unwrap_used)]

use super::super::asked::{AskEnd, RefusedFor};
use super::super::testing::*;
use super::*;
use crate::config::BackendHealthConfig;
use crate::health::BackendHealth;
use quell_wire::contract::{ContractId, ContractTerms};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const S: Duration = Duration::from_secs(1);

struct Desk {
    wallet: Wallet,
    health: BackendHealth,
    start: Instant,
    now: Instant,
    issued: u8,
}

impl Desk {
    fn new() -> Self {
        let now = Instant::now();
        let mut rng = SmallRng::seed_from_u64(1);
        Self {
            wallet: Wallet::new(WalletConfig::default(), 7),
            health: BackendHealth::new(BackendHealthConfig::default(), now, &mut rng),
            start: now,
            now,
            issued: 0,
        }
    }

    fn wall_s(&self) -> u64 {
        WALL_S + (self.now - self.start).as_secs()
    }

    fn ask(&mut self) -> Option<ContractsAsked> {
        let wall_s = self.wall_s();
        self.wallet.poll_request(&self.health, wall_s, self.now)
    }

    fn grant(&mut self, want: &Want) -> WantOutcome {
        self.issued += 1;
        let terms = ContractTerms {
            client_key: want.party.client_key,
            provider_key: want.party.provider_key,
            not_before_s: self.wall_s(),
            not_after_s: self.wall_s() + 3_600,
            ..terms(self.issued, want.bytes)
        };
        WantOutcome::Signed(signed(terms).encode().to_vec())
    }

    fn grant_all(&mut self, asked: &ContractsAsked) -> Vec<(Party, [u8; CONTRACT_LEN])> {
        let outcomes: Vec<_> = asked.wants.iter().map(|want| self.grant(want)).collect();
        self.answer(asked, &outcomes)
    }

    fn answer(
        &mut self,
        asked: &ContractsAsked,
        outcomes: &[WantOutcome],
    ) -> Vec<(Party, [u8; CONTRACT_LEN])> {
        let wall_s = self.wall_s();
        self.wallet
            .on_answer(asked.number, outcomes, &self.health, wall_s, self.now)
    }

    fn end(&mut self, asked: &ContractsAsked, end: AskEnd) {
        let wall_s = self.wall_s();
        self.wallet
            .on_ended(asked.number, end, &self.health, wall_s, self.now);
    }

    fn receipt(&mut self) -> Option<u64> {
        let wall_s = self.wall_s();
        let due = self.wallet.poll_receipt(wall_s, self.now);
        due.map(|(_, terms)| terms.bytes_total)
    }
}

fn party(of: u8) -> Party {
    Party {
        provider_key: public(of),
        client_key: public(of + 100),
    }
}

fn with_contract() -> Desk {
    let mut desk = Desk::new();
    desk.wallet.set_wanted(&[party(1)]);
    let asked = desk.ask().unwrap();
    assert_eq!(desk.grant_all(&asked).len(), 1);
    desk
}

#[test]
fn all_exits_are_asked_for_in_one_request_of_at_most_sixteen() {
    // never one request per exit.
    let mut desk = Desk::new();
    let parties: Vec<Party> = (1..=20).map(party).collect();
    desk.wallet.set_wanted(&parties);
    let first = desk.ask().unwrap();
    assert_eq!(first.wants.len(), WANTS_MAX);
    assert_eq!(
        first.wants[0],
        Want {
            party: party(1),
            bytes: 256 * MIB
        }
    );
    assert_eq!(desk.ask(), None, "one is in flight");
    assert_eq!(desk.grant_all(&first).len(), 16);
    let second = desk.ask().unwrap();
    assert_ne!(second.request_id, first.request_id);
    assert_eq!(second.wants.len(), 4);
    desk.grant_all(&second);
    assert_eq!(desk.ask(), None);
    assert_eq!(desk.wallet.usable(WALL_S).count(), 20);
    assert!(desk.wallet.take_changed() && !desk.wallet.take_changed());
}

#[test]
fn a_request_without_an_answer_is_repeated_as_it_was() {
    let mut desk = Desk::new();
    desk.wallet.set_wanted(&[party(1)]);
    let first = desk.ask().unwrap();
    desk.end(&first, AskEnd::Failed);
    desk.wallet.set_wanted(&[party(1), party(2)]);
    assert_eq!(desk.ask(), None, "not at once");
    desk.now += 2 * S;
    let again = desk.ask().unwrap();
    assert_eq!(
        (again.request_id, &again.wants),
        (first.request_id, &first.wants)
    );
    assert_ne!(again.number, first.number);
    let outcome = desk.grant(&again.wants[0]);
    assert_eq!(
        desk.answer(&first, std::slice::from_ref(&outcome)),
        [],
        "too late"
    );
    // A contract of another want, or too few outcomes, is no answer.
    let other = desk.grant(&Want {
        party: party(9),
        bytes: 1,
    });
    assert_eq!(desk.answer(&again, &[other]), []);
    desk.now += 2 * S;
    let third = desk.ask().unwrap();
    assert_eq!(third.request_id, first.request_id);
    assert_eq!(desk.answer(&third, &[outcome]).len(), 1);
    assert_eq!(desk.ask().unwrap().wants[0].party, party(2));
}

#[test]
fn the_next_contract_is_asked_for_at_half_the_bytes_or_half_the_time() {
    let mut desk = with_contract();
    desk.wallet.on_delivered(&party(1), 128 * MIB - 1, desk.now);
    assert_eq!(desk.ask(), None);
    desk.wallet.on_delivered(&party(1), 1, desk.now);
    let asked = desk.ask().unwrap();
    desk.grant_all(&asked);
    desk.now += 60 * S;
    assert_eq!(desk.ask(), None, "the next one is in hand");

    let mut desk = with_contract();
    desk.now += 1_799 * S;
    assert_eq!(desk.ask(), None);
    let (at, why) = desk.wallet.poll_timeout(desk.wall_s(), desk.now).unwrap();
    assert_eq!((at, why), (desk.now + S, "contracts"));
    desk.now += S;
    assert!(desk.ask().is_some());
}

#[test]
fn a_fast_client_asks_for_more_bytes_and_not_more_often() {
    let mut desk = with_contract();
    let mut requests = 0;
    // 1 Gbit/s for ten minutes.
    for _ in 0..6_000 {
        desk.now += Duration::from_millis(100);
        desk.wallet.on_delivered(&party(1), 12_500_000, desk.now);
        while desk.receipt().is_some() {}
        if let Some(asked) = desk.ask() {
            requests += 1;
            assert!(asked.wants[0].bytes <= 16 << 30);
            desk.grant_all(&asked);
        }
    }
    assert!((3..=16).contains(&requests), "{requests}");
}

#[test]
fn an_outage_of_an_hour_is_asked_by_the_schedule_whatever_is_wanted() {
    //
    let mut desk = Desk::new();
    let parties: Vec<Party> = (1..=30).map(party).collect();
    desk.wallet.set_wanted(&parties);
    let (end, mut times) = (desk.now + 3_600 * S, Vec::new());
    while desk.now < end {
        if let Some(asked) = desk.ask() {
            times.push(desk.now);
            assert_eq!(desk.ask(), None);
            desk.now += Duration::from_millis(200);
            desk.end(&asked, AskEnd::Failed);
        }
        let wall_s = desk.wall_s();
        let (due, _) = desk.wallet.poll_timeout(wall_s, desk.now).unwrap();
        desk.now = due.max(desk.now + Duration::from_millis(1));
    }
    assert!((110..=170).contains(&times.len()), "{}", times.len());
    let gaps: Vec<_> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(
        gaps.iter()
            .skip(3)
            .all(|gap| *gap >= Duration::from_millis(3_750))
    );
    assert!(gaps.iter().all(|gap| *gap <= 31 * S), "{gaps:?}");
}

#[test]
fn a_refused_want_rests_longer_each_time_and_the_others_do_not() {
    let mut desk = Desk::new();
    desk.wallet.set_wanted(&[party(1), party(2)]);
    let asked = desk.ask().unwrap();
    let granted = desk.grant(&asked.wants[1]);
    let outcomes = [WantOutcome::Refused(RefusedFor::Quota), granted];
    assert_eq!(desk.answer(&asked, &outcomes).len(), 1);
    desk.wallet.set_wanted(&[party(1)]);
    let mut rests = Vec::new();
    for _ in 0..7 {
        let before = desk.now;
        let (at, _) = desk.wallet.poll_timeout(desk.wall_s(), desk.now).unwrap();
        desk.now = at;
        let asked = desk.ask().unwrap();
        assert_eq!(asked.wants[0].party, party(1));
        rests.push((at - before).as_secs());
        let outcome = WantOutcome::Refused(RefusedFor::Quota);
        desk.answer(&asked, &[outcome]);
    }
    assert!((22..=38).contains(&rests[0]), "{rests:?}");
    assert!(
        rests.last().unwrap() >= &300 && rests.iter().all(|rest| *rest <= 900),
        "{rests:?}"
    );
    assert_eq!(desk.wallet.status(desk.wall_s(), desk.now).granted, 1);
    // Refused as a whole, all of it rests, and it is another request afterwards.
    let mut desk = Desk::new();
    desk.wallet.set_wanted(&[party(1)]);
    let asked = desk.ask().unwrap();
    desk.end(&asked, AskEnd::Refused(RefusedFor::Clock));
    desk.now += 20 * S;
    assert_eq!(desk.ask(), None);
    desk.now += 20 * S;
    assert_ne!(desk.ask().unwrap().request_id, asked.request_id);
}

#[test]
fn a_receipt_is_due_after_its_bytes_or_its_time_and_totals_rise() {
    let mut desk = with_contract();
    assert_eq!(desk.receipt(), None);
    desk.wallet.on_delivered(&party(1), 256 * KIB - 1, desk.now);
    assert_eq!(desk.receipt(), None);
    desk.wallet.on_delivered(&party(1), 1, desk.now);
    assert_eq!(desk.receipt(), Some(256 * KIB));
    assert_eq!(desk.receipt(), None);
    desk.wallet.on_delivered(&party(1), 10, desk.now);
    desk.now += Duration::from_millis(999);
    assert_eq!(desk.receipt(), None);
    desk.now += Duration::from_millis(1);
    assert_eq!(desk.receipt(), Some(256 * KIB + 10));
    desk.now += 60 * S;
    assert_eq!(desk.receipt(), None, "nothing is unsigned");
}

#[test]
fn bytes_fill_one_contract_after_the_other_and_the_last_ones_grace() {
    let mut desk = Desk::new();
    desk.wallet.set_wanted(&[party(1)]);
    let small = |id: u8| ContractTerms {
        client_key: party(1).client_key,
        provider_key: party(1).provider_key,
        grace_bytes: 50,
        grace_s: 60,
        ..terms(id, 100)
    };
    let stored = |id: u8| StoredContract {
        contract: signed(small(id)).encode(),
        signed_total: 0,
        receipt: None,
    };
    desk.wallet.restore(&[stored(1), stored(2)], true, WALL_S);
    desk.wallet.on_delivered(&party(1), 230, desk.now);
    desk.now += S;
    let wall_s = desk.wall_s();
    let mut signed = Vec::new();
    while let Some((_, terms)) = desk.wallet.poll_receipt(wall_s, desk.now) {
        signed.push((terms.contract_id, terms.bytes_total));
    }
    let of = |id: u8| ContractId([id; 16]);
    assert_eq!(signed, [(of(1), 100), (of(2), 100), (of(2), 130)]);
    desk.wallet.on_delivered(&party(1), 1_000, desk.now);
    desk.now += S;
    assert_eq!(desk.receipt(), Some(150));
    assert_eq!(desk.receipt(), None, "nothing more may be signed");
}

#[test]
fn a_count_that_was_lost_is_found_in_what_the_provider_sends_back() {
    let mut desk = Desk::new();
    let party = Party {
        provider_key: public(PROVIDER),
        client_key: public(CLIENT),
    };
    let of = contract(1, 64 * MIB);
    let stored = StoredContract {
        contract: of.encode(),
        signed_total: 5,
        receipt: None,
    };
    desk.wallet.restore(&[stored], false, WALL_S);
    assert!(desk.wallet.on_echo(&party, &receipt(&of.terms, MIB)));
    assert!(
        !desk.wallet.on_echo(&party, &receipt(&of.terms, MIB)),
        "known"
    );
    assert!(!desk.wallet.on_echo(&party, &receipt(&of.terms, 7)), "less");
    let forged = seal::sign_receipt(&secret(9), receipt_terms(&of.terms, 2 * MIB));
    assert!(
        !desk.wallet.on_echo(&party, &forged.encode()),
        "not by this client"
    );
    assert!(!desk.wallet.on_echo(&party, &[0; 9]));
    // As much as a provider bears may have been delivered and not signed when it crashed.
    desk.now += S;
    assert_eq!(desk.receipt(), Some(2 * MIB));
    assert_eq!(
        desk.wallet.receipts_for(&party),
        [receipt(&of.terms, MIB).as_slice()]
    );
}

#[test]
fn what_is_stored_serves_a_cold_start_and_says_how_long() {
    // R-17's other half: no backend is asked before there is traffic.
    let mut desk = with_contract();
    let stored = desk.wallet.stored();
    let mut cold = Wallet::new(WalletConfig::default(), 8);
    cold.restore(&stored, true, WALL_S);
    assert_eq!(cold.usable(WALL_S).collect::<Vec<_>>(), [&party(1)]);
    assert_eq!(cold.contracts_for(&party(1)).len(), 1);
    assert_eq!(cold.survives(WALL_S, desk.now), 3_600 * S, "by time");
    assert_eq!(cold.survives(WALL_S + 600, desk.now), 3_000 * S);
    // At 1 MiB/s a quarter of a GiB is four minutes.
    for _ in 0..60 {
        desk.now += S;
        cold.on_delivered(&party(1), MIB, desk.now);
    }
    let lasts = cold.survives(WALL_S + 60, desk.now).as_secs();
    assert!((180..=230).contains(&lasts), "{lasts}");
    let mut late = Wallet::new(WalletConfig::default(), 9);
    late.restore(&stored, true, WALL_S + 3_600);
    assert_eq!(late.usable(WALL_S + 3_600).count(), 0);
    assert_eq!(late.survives(WALL_S + 3_600, desk.now), Duration::ZERO);
    late.restore(&stored, true, u64::MAX);
    late.restore(&stored, true, 0);
}

#[test]
fn a_contract_that_a_provider_does_not_honour_is_given_up_and_another_asked_for_later() {
    let mut desk = with_contract();
    desk.wallet.on_contract_refused(&party(1), None, desk.now);
    assert_eq!(desk.wallet.usable(WALL_S).count(), 0);
    assert_eq!(desk.ask(), None);
    desk.now += 40 * S;
    assert!(desk.ask().is_some());
}

#[test]
fn of_several_contracts_the_refused_one_alone_is_given_up() {
    let mut desk = Desk::new();
    let party = Party {
        provider_key: public(PROVIDER),
        client_key: public(CLIENT),
    };
    let stored = [1, 2, 3].map(|id| StoredContract {
        contract: contract(id, MIB).encode(),
        signed_total: 0,
        receipt: None,
    });
    desk.wallet.restore(&stored, true, WALL_S);
    desk.wallet.take_changed();
    desk.wallet.set_wanted(&[party]);
    let id = |id: u8| Some(ContractId([id; 16]));
    desk.wallet.on_contract_refused(&party, id(9), desk.now);
    assert!(!desk.wallet.take_changed(), "it is not in hand");
    desk.wallet.on_contract_refused(&party, id(2), desk.now);
    assert!(desk.wallet.take_changed());
    let left = [contract(1, MIB).encode(), contract(3, MIB).encode()];
    assert_eq!(desk.wallet.contracts_for(&party), left);
    desk.wallet.on_contract_refused(&party, None, desk.now);
    assert_eq!(desk.wallet.contracts_for(&party), [[0; CONTRACT_LEN]; 0]);
}

#[test]
fn parties_are_bounded() {
    let mut desk = Desk::new();
    for number in 0..=PARTIES_MAX {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        let party = Party {
            provider_key: PublicKey(key),
            client_key: public(1),
        };
        desk.wallet.purse(party, WALL_S);
    }
    assert!(desk.wallet.purses.len() <= PARTIES_MAX);
}
