//! The parts together: what gives credit, what is remembered, and for how long.
#![allow(clippy::unwrap_used)]

use super::super::testing::*;
use super::*;
use crate::contract::account::{Carried, Pause};

const MIB: u64 = 1 << 20;
const S: Duration = Duration::from_secs(1);

fn books(now: Instant) -> Books {
    let config = ContractsConfig::default();
    Books::new(config, verifier(), 1, WALL_S, now)
}

fn take(books: &mut Books, bytes: u64, now: Instant) -> u64 {
    let (key, mut meter, mut taken) = (public(CLIENT), Meter::default(), 0);
    while taken < bytes {
        if !meter.admit(Carried::Known, 1_000) {
            books.judge(&key, &mut meter, now);
            if !meter.admit(Carried::Known, 1_000) {
                break;
            }
        }
        taken += 1_000;
    }
    books.settle(&key, &mut meter);
    taken
}

fn verdict(books: &mut Books, now: Instant) -> Verdict {
    books.judge(&public(CLIENT), &mut Meter::default(), now)
}

#[test]
fn a_receipt_gives_credit_when_it_is_durable_and_not_before() {
    let now = Instant::now();
    let (mut books, key, of) = (books(now), public(CLIENT), contract(1, 64 * MIB));
    books.on_contract(&key, &of.encode(), now).unwrap();
    assert!(take(&mut books, 4 * MIB, now) < 2 * MIB);
    books
        .on_receipt(&key, &receipt(&of.terms, MIB), now)
        .unwrap();
    assert_eq!(take(&mut books, MIB, now), 0);
    let full = books.poll_persist(now).unwrap();
    books.on_persist_failed(full.id, now);
    assert_eq!(
        verdict(&mut books, now),
        Verdict::Paused(Pause::NotDurable),
        "the disk is full"
    );
    let (at, _) = books.poll_timeout(now).unwrap();
    let later = at.max(now + 2 * S);
    let again = books.poll_persist(later).unwrap();
    books.on_persisted(again.id, later);
    assert_eq!(books.poll_changed(), Some(key));
    assert_eq!(verdict(&mut books, later), Verdict::Go);
}

#[test]
fn connecting_anew_sheds_no_debt() {
    let now = Instant::now();
    let (mut books, key, of) = (books(now), public(CLIENT), contract(1, 64 * MIB));
    books.on_contract(&key, &of.encode(), now).unwrap();
    take(&mut books, 4 * MIB, now);
    // Another session of the same key begins with an empty meter.
    books.on_contract(&key, &of.encode(), now).unwrap();
    assert_eq!(take(&mut books, MIB, now), 0);
}

#[test]
fn a_restart_finds_what_is_durable_and_files_it() {
    let now = Instant::now();
    let (mut before, key, of) = (books(now), public(CLIENT), contract(1, 8 * MIB));
    before.on_contract(&key, &of.encode(), now).unwrap();
    take(&mut before, MIB, now);
    before
        .on_receipt(&key, &receipt(&of.terms, 7 * MIB), now)
        .unwrap();
    let kept = before.poll_persist(now).unwrap().records;
    // The crash: `kept` is on the disk, and no answer of it was read.
    let mut after = books(now);
    let mut records: Vec<Record> = kept.iter().map(|(_, record)| *record).collect();
    records.push(Record {
        contract: [7; 192],
        ..records[0]
    });
    records.push(records[0]);
    let restored = after.restore(Stored {
        records,
        floor_s: 0,
    });
    assert_eq!((restored.taken, restored.refused), (1, 2));
    // The same contract again goes on where it was: a receipt of no more counts for nothing.
    after.on_contract(&key, &of.encode(), now).unwrap();
    let same = after.on_receipt(&key, &receipt(&of.terms, 7 * MIB), now);
    assert_eq!(same, Err(ReceiptRefusal::NotHigher { at_least: 7 * MIB }));
    assert!(take(&mut after, 9 * MIB, now) <= MIB * 64 / 63 + 1_000);
    assert_eq!(after.status().to_file, 1);
}

#[test]
fn what_is_over_for_a_day_is_forgotten_and_refused_for_good() {
    let now = Instant::now();
    let (mut books, key, of) = (books(now), public(CLIENT), contract(1, MIB));
    books.on_contract(&key, &of.encode(), now).unwrap();
    books.handle_timeout(now);
    let until = of.terms.not_after_s + 300 + KEPT_S;
    books.on_wall_clock(until, now + 600 * S);
    books.handle_timeout(now + 600 * S);
    assert_eq!(books.status().contracts, 1, "a second too early");
    books.on_wall_clock(until + 1, now + 1_200 * S);
    books.handle_timeout(now + 1_200 * S);
    assert_eq!((books.status().contracts, books.status().accounts), (0, 0));
    let batch = books.poll_persist(now + 1_200 * S).unwrap();
    assert_eq!(batch.forgotten, [of.terms.contract_id]);
    assert_eq!(batch.floor_s, of.terms.not_after_s + 300);
    let floor_s = of.terms.not_after_s + 300;
    // The clock was wrong by a day and more; the contract's time is not over, its bytes are.
    books.on_wall_clock(WALL_S, now + 1_201 * S);
    let again = books.on_contract(&key, &of.encode(), now + 1_201 * S);
    assert_eq!(again, Err(ContractRefusal::Expired { since_s: 0 }));
    // And after a restart, with what the disk has; one that ends a second later was never forgotten.
    let mut after = self::books(now);
    after.restore(Stored {
        records: Vec::new(),
        floor_s,
    });
    let again = after.on_contract(&key, &of.encode(), now);
    assert_eq!(again, Err(ContractRefusal::Expired { since_s: 0 }));
    let later = signed(ContractTerms {
        not_after_s: of.terms.not_after_s + 1,
        ..of.terms
    });
    after.on_contract(&key, &later.encode(), now).unwrap();
    assert_eq!(after.poll_persist(now).unwrap().floor_s, floor_s);
}

#[test]
fn a_floor_is_written_until_it_is_durable_and_once() {
    let now = Instant::now();
    let mut journal = Journal::new(SmallRng::seed_from_u64(1));
    journal.raise_floor(0);
    assert_eq!(journal.poll_persist(now), None, "nothing new");
    journal.raise_floor(9);
    let batch = journal.poll_persist(now).unwrap();
    assert_eq!((batch.floor_s, batch.records.len()), (9, 0));
    journal.on_persist_failed(batch.id, now);
    let again = journal.poll_persist(now + 3 * S).unwrap();
    assert_eq!(again.floor_s, 9);
    journal.on_persisted(again.id);
    journal.raise_floor(8);
    assert_eq!(journal.poll_persist(now + 9 * S), None);
}

#[test]
fn contracts_that_are_remembered_are_bounded_and_refusals_counted() {
    let now = Instant::now();
    let config = ContractsConfig {
        contracts_max: 16,
        ..ContractsConfig::default()
    };
    let mut books = Books::new(config, verifier(), 1, WALL_S, now);
    let of = |id: u8| {
        let key = public(id + 100);
        let terms = ContractTerms {
            client_key: key,
            ..terms(id, MIB)
        };
        (key, signed(terms).encode())
    };
    for id in 0..16 {
        let (key, form) = of(id);
        books.on_contract(&key, &form, now).unwrap();
    }
    let (key, form) = of(16);
    assert_eq!(
        books.on_contract(&key, &form, now),
        Err(ContractRefusal::BooksFull)
    );
    let (key, form) = of(3);
    books.on_contract(&key, &form, now).unwrap();
    assert_eq!(books.status().refused, [("books_full", 1)].into());
}

#[test]
fn only_an_outage_that_this_provider_sees_gives_grace() {
    let now = Instant::now();
    let (mut books, key) = (books(now), public(CLIENT));
    let of = signed(ContractTerms {
        grace_bytes: MIB / 2,
        grace_s: 60,
        ..terms(1, MIB / 2)
    });
    books.on_contract(&key, &of.encode(), now).unwrap();
    take(&mut books, MIB, now);
    assert_eq!(verdict(&mut books, now), Verdict::Paused(Pause::UsedUp));
    books.on_backend(true);
    assert_eq!(books.poll_changed(), Some(key));
    assert_eq!(verdict(&mut books, now), Verdict::Go);
    assert_eq!(books.status().grace_bytes, MIB / 2);
}
