//! Timelines of one account, and a client that takes what it can.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::testing::*;
use super::*;
use quell_wire::contract::SignedContract;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// An account, its session, its disk, and the wall clock.
struct Desk {
    account: Account,
    meter: Meter,
    config: ContractsConfig,
    grace: Grace,
    wall_s: u64,
    now: Instant,
}

impl Desk {
    fn new() -> Self {
        let config = ContractsConfig::default();
        Self {
            account: Account::default(),
            meter: Meter::default(),
            grace: Grace::new(config.grace_bytes_max),
            config,
            wall_s: WALL_S,
            now: Instant::now(),
        }
    }

    fn with(contracts: &[SignedContract]) -> Self {
        let mut desk = Self::new();
        for contract in contracts {
            desk.contract(contract).unwrap();
        }
        desk
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut Account, &mut Terms<'_>, Instant) -> T) -> T {
        let mut terms = Terms {
            config: &self.config,
            grace: &mut self.grace,
            wall_s: self.wall_s,
        };
        self.account.settle(&mut self.meter);
        let of = act(&mut self.account, &mut terms, self.now);
        self.account.judge(&mut terms);
        self.account.refill(&mut self.meter);
        of
    }

    fn contract(&mut self, contract: &SignedContract) -> Result<(), ContractRefusal> {
        self.act(|account, terms, _| account.on_contract(contract, terms))
    }

    fn receipt(&mut self, contract: &SignedContract, total: u64) -> Result<(), ReceiptRefusal> {
        let form = receipt(&contract.terms, total);
        self.act(|account, terms, _| account.on_receipt(&form, terms).map(drop))
    }

    fn durable(&mut self, contract: &SignedContract, total: u64) {
        let id = contract.terms.contract_id;
        self.act(|account, terms, now| account.on_durable(id, total, terms, now));
    }

    fn signed(&mut self, contract: &SignedContract, total: u64) {
        self.receipt(contract, total).unwrap();
        self.durable(contract, total);
    }

    fn verdict(&mut self) -> Verdict {
        self.act(|account, terms, _| account.judge(terms))
    }

    /// One packet, the account looked at anew where the meter says no.
    fn packet(&mut self, carried: Carried, bytes: usize) -> bool {
        self.meter.admit(carried, bytes) || {
            self.verdict();
            self.meter.admit(carried, bytes)
        }
    }

    /// Carries packets of a known fate until it pauses; bytes carried.
    fn drain(&mut self) -> u64 {
        let mut bytes = 0;
        while self.packet(Carried::Known, 1_280) {
            bytes += 1_280;
            assert!(bytes < 1 << 40, "it never ends");
        }
        bytes
    }
}

fn paused(why: Pause) -> Verdict {
    Verdict::Paused(why)
}

/// What 63/64 of so many bytes allow, at most one packet more.
fn about(found: u64, owed: u64) -> bool {
    let full = owed * 64 / 63;
    (full..=full + 1_280).contains(&found)
}

#[test]
fn nothing_is_carried_without_a_contract() {
    let mut desk = Desk::new();
    assert_eq!(desk.verdict(), paused(Pause::NoContract));
    assert!(!desk.packet(Carried::Known, 1));
    desk.contract(&contract(1, MIB)).unwrap();
    assert_eq!(desk.verdict(), Verdict::Go);
    assert!(desk.packet(Carried::Known, 1));
}

#[test]
fn unsigned_bytes_stop_at_the_limit_and_go_on_when_a_receipt_is_durable() {
    let of = contract(1, 64 * MIB);
    let mut desk = Desk::with(&[of]);
    let first = desk.drain();
    assert!(about(first, MIB));
    assert_eq!(desk.verdict(), paused(Pause::ReceiptDue));
    desk.receipt(&of, MIB / 2).unwrap();
    assert_eq!(desk.verdict(), paused(Pause::NotDurable));
    assert_eq!(desk.drain(), 0, "a crash would forget it");
    desk.durable(&of, MIB / 2);
    assert_eq!(desk.verdict(), Verdict::Go);
    assert!(about(first + desk.drain(), MIB / 2 * 3));
    // What is durable is at most what was signed.
    desk.durable(&of, 60 * MIB);
    assert_eq!(desk.verdict(), paused(Pause::ReceiptDue));
}

#[test]
fn the_limit_grows_with_the_rate_that_was_paid_for_and_not_with_what_was_taken() {
    let of = contract(1, 1_024 * MIB);
    let mut desk = Desk::with(&[of]);
    // 8 MiB signed durably within a second: 2 s of it may be unsigned.
    for step in 1..=9_u64 {
        desk.drain();
        desk.now += Duration::from_millis(125);
        desk.signed(&of, step * MIB);
    }
    let (exposed, limit) = desk.account.exposure_bytes(&desk.config);
    assert!((14 * MIB..=18 * MIB).contains(&limit), "{limit}");
    desk.drain();
    let (all, _) = desk.account.exposure_bytes(&desk.config);
    assert!(exposed < all && all >= limit && all <= limit + 1_280);
    // Taking alone lifts nothing, however long it waits.
    desk.now += Duration::from_secs(10);
    assert_eq!(desk.drain(), 0);
}

#[test]
fn a_contract_ends_with_its_bytes_and_the_next_takes_over() {
    let (first, next) = (contract(1, 100 * KIB), contract(2, 100 * KIB));
    let mut desk = Desk::with(&[first]);
    assert!(about(desk.drain(), 100 * KIB));
    assert_eq!(desk.verdict(), paused(Pause::UsedUp));
    desk.contract(&next).unwrap();
    assert!(desk.drain() >= 98 * KIB);
    assert_eq!(desk.verdict(), paused(Pause::UsedUp));
    // Signed in full, the first makes place, and gives nothing when it comes again.
    desk.signed(&first, 100 * KIB);
    assert_eq!(desk.account.contracts().count(), 1);
    assert_eq!(desk.contract(&first), Err(ContractRefusal::Replaced));
    assert_eq!(
        desk.receipt(&first, 1),
        Err(ReceiptRefusal::UnknownContract)
    );
    assert_eq!(desk.contract(&next), Ok(()), "sent twice");
    assert_eq!(desk.drain(), 0);
}

#[test]
fn the_current_one_and_three_next_ones_are_in_hand_and_no_fifth() {
    let mut desk = Desk::new();
    for id in 1..=4 {
        desk.contract(&contract(id, MIB)).unwrap();
    }
    assert_eq!(
        desk.contract(&contract(5, MIB)),
        Err(ContractRefusal::TooMany)
    );
    desk.drain();
    desk.signed(&contract(1, MIB), MIB);
    desk.contract(&contract(5, MIB)).unwrap();
}

#[test]
fn time_ends_a_contract_a_skew_after_its_last_second_and_a_clock_set_back_refills_nothing() {
    let of = contract(1, 100 * KIB);
    let mut desk = Desk::with(&[of]);
    desk.wall_s = of.terms.not_after_s + 300;
    assert_eq!(desk.verdict(), Verdict::Go);
    assert_eq!(
        desk.account.next_end_in_s(&desk.config, desk.wall_s),
        Some(1)
    );
    desk.wall_s += 1;
    assert_eq!(desk.verdict(), paused(Pause::Over));
    assert_eq!(desk.drain(), 0);
    desk.wall_s = WALL_S;
    assert!(about(desk.drain(), 100 * KIB));
    desk.wall_s = u64::MAX;
    assert_eq!(desk.verdict(), paused(Pause::Over));
    desk.wall_s = 0;
    assert_eq!(desk.drain(), 0, "its bytes are gone");
}

#[test]
fn a_debt_outlives_the_contract_that_it_was_made_under() {
    let (first, next) = (contract(1, 2 * MIB), contract(2, 8 * MIB));
    let mut desk = Desk::with(&[first]);
    desk.drain();
    desk.wall_s = first.terms.not_after_s + 301;
    let later = ContractTerms {
        not_after_s: desk.wall_s + 3_600,
        ..next.terms
    };
    desk.contract(&signed(later)).unwrap();
    assert_eq!(desk.verdict(), paused(Pause::ReceiptDue));
    desk.signed(&first, MIB);
    assert_eq!(
        desk.verdict(),
        Verdict::Go,
        "a receipt for what is over still counts"
    );
}

#[test]
fn a_receipt_for_more_than_was_carried_is_credit_within_its_contract() {
    let of = contract(1, MIB);
    let mut desk = Desk::with(&[of]);
    desk.signed(&of, MIB - 1_000);
    assert_eq!(desk.account.exposure_bytes(&desk.config).0, 0);
    assert!(about(desk.drain(), MIB), "no more than the contract has");
    assert_eq!(desk.verdict(), paused(Pause::UsedUp));
}

#[test]
fn grace_is_had_when_all_is_used_up_in_an_outage_and_once() {
    let terms = ContractTerms {
        grace_bytes: 50 * KIB,
        grace_s: 600,
        ..terms(1, 100 * KIB)
    };
    let of = signed(terms);
    let mut desk = Desk::with(&[of]);
    desk.drain();
    assert_eq!(desk.verdict(), paused(Pause::UsedUp), "the backend is well");
    desk.grace.on_backend(true);
    assert_eq!(desk.verdict(), Verdict::Go);
    assert!(about(desk.drain() + 1_280, 50 * KIB) || about(desk.drain(), 49 * KIB));
    assert_eq!(desk.verdict(), paused(Pause::UsedUp));
    desk.grace.on_backend(false);
    desk.grace.on_backend(true);
    assert_eq!(desk.drain(), 0, "another outage, the same contract");
    desk.signed(&of, 150 * KIB);
    desk.wall_s = terms.not_after_s + 300 + 600;
    assert_eq!(desk.verdict(), paused(Pause::UsedUp));
    desk.wall_s += 1;
    assert_eq!(desk.verdict(), paused(Pause::Over));
}

#[test]
fn grace_by_time_ends_with_it() {
    let terms = ContractTerms {
        grace_bytes: MIB,
        grace_s: 600,
        ..terms(1, MIB)
    };
    let mut desk = Desk::with(&[signed(terms)]);
    desk.wall_s = terms.not_after_s + 301;
    assert_eq!(desk.verdict(), paused(Pause::Over));
    desk.grace.on_backend(true);
    assert_eq!(desk.verdict(), Verdict::Go);
    desk.wall_s = terms.not_after_s + 901;
    assert_eq!(desk.verdict(), paused(Pause::Over));
}

#[test]
fn packets_that_may_be_lost_are_owed_at_seven_eighths() {
    let of = contract(1, 64 * MIB);
    let mut desk = Desk::with(&[of]);
    let mut bytes = 0;
    while desk.packet(Carried::Unacknowledged, 1_000) {
        bytes += 1_000;
    }
    assert!(
        (MIB * 8 / 7..=MIB * 8 / 7 + 1_000).contains(&bytes),
        "{bytes}"
    );
    // An honest client behind a path that loses one in eight is never paused for good.
    let mut total = 0;
    for _ in 0..200 {
        total += bytes * 7 / 8;
        desk.signed(&of, total.min(64 * MIB));
        bytes = 0;
        while bytes < 100_000 && desk.packet(Carried::Unacknowledged, 1_000) {
            bytes += 1_000;
        }
        assert_eq!(bytes, 100_000);
    }
    // What this side dropped after all is not owed.
    let mut desk = Desk::with(&[of]);
    let drained = desk.drain();
    desk.act(|account, _, _| account.refund(Carried::Known, drained));
    assert_eq!(desk.account.exposure_bytes(&desk.config).0, 0);
}

#[test]
fn ids_that_are_used_up_are_bounded_and_none_of_them_counts_again() {
    let mut desk = Desk::new();
    let numbered = |number: u64| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        signed(ContractTerms {
            contract_id: ContractId(id),
            not_after_s: WALL_S + 3_600 + number,
            ..terms(0, KIB)
        })
    };
    let count = SPENT_MAX as u64 + 10;
    for number in 0..=count {
        desk.contract(&numbered(number)).unwrap();
        if number > 0 {
            desk.signed(&numbered(number - 1), KIB);
        }
    }
    assert_eq!(desk.account.spent.len(), SPENT_MAX);
    for number in [0, 5, 9, 10, 500, count - 1] {
        desk.contract(&numbered(number)).unwrap_err();
    }
}

/// What a hostile client may do.
#[derive(Debug, Clone)]
enum Act {
    Take {
        packets: u16,
        bytes: u16,
        lossy: bool,
    },
    Sign {
        contract: u8,
        total: u64,
    },
    Persist,
    Contract {
        id: u8,
    },
    Wall {
        wall_s: u64,
    },
    Backend {
        degraded: bool,
    },
    Pass {
        ms: u16,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let around = (WALL_S - 4_000)..(WALL_S + 9_000);
    let act = prop_oneof![
        4 => (0..2_000_u16, 1..1_500_u16, any::<bool>())
            .prop_map(|(packets, bytes, lossy)| Act::Take { packets, bytes, lossy }),
        4 => (0..6_u8, 0..5 * MIB).prop_map(|(contract, total)| Act::Sign { contract, total }),
        3 => Just(Act::Persist),
        2 => (0..6_u8).prop_map(|id| Act::Contract { id }),
        1 => around.prop_map(|wall_s| Act::Wall { wall_s }),
        1 => any::<bool>().prop_map(|degraded| Act::Backend { degraded }),
        2 => (0..5_000_u16).prop_map(|ms| Act::Pass { ms }),
    ];
    prop::collection::vec(act, 1..60)
}

fn offered(id: u8) -> SignedContract {
    signed(ContractTerms {
        grace_bytes: if id.is_multiple_of(2) { MIB / 2 } else { 0 },
        grace_s: if id.is_multiple_of(2) { 600 } else { 0 },
        ..terms(id, u64::from(id % 3 + 1) * MIB)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // R-18's other half: no byte is served beyond contract, exposure and grace.
    #[test]
    fn no_client_gets_more_than_the_limit_and_a_packet_or_more_than_its_contracts(acts in acts()) {
        let mut desk = Desk::new();
        let mut pending = Vec::new();
        let (mut owed, mut durable) = (0_u64, [0_u64; 6]);
        let mut allowed = [0_u64; 6];
        for act in acts {
            match act {
                Act::Take { packets, bytes, lossy } => {
                    let carried = if lossy { Carried::Unacknowledged } else { Carried::Known };
                    let before = desk.account.exposure_bytes(&desk.config);
                    for _ in 0..packets {
                        if !desk.packet(carried, bytes.into()) {
                            break;
                        }
                        owed += u64::from(bytes) * carried.weight();
                    }
                    desk.verdict();
                    let (exposed, limit) = desk.account.exposure_bytes(&desk.config);
                    let bound = (limit + u64::from(bytes)).max(before.0);
                    prop_assert!(exposed <= bound, "{exposed} of {limit}");
                }
                Act::Sign { contract, total } => {
                    if desk.receipt(&offered(contract), total).is_ok() {
                        pending.push((contract, total));
                    }
                }
                Act::Persist => for (contract, total) in pending.drain(..) {
                    desk.durable(&offered(contract), total);
                    let of = &mut durable[usize::from(contract)];
                    *of = total.max(*of);
                },
                Act::Contract { id } => {
                    if desk.contract(&offered(id)).is_ok() {
                        let terms = offered(id).terms;
                        allowed[usize::from(id)] = terms.bytes + terms.grace_bytes;
                    }
                }
                Act::Wall { wall_s } => desk.wall_s = wall_s,
                Act::Backend { degraded } => drop(desk.grace.on_backend(degraded)),
                Act::Pass { ms } => desk.now += Duration::from_millis(ms.into()),
            }
            let (_, limit) = desk.account.exposure_bytes(&desk.config);
            let paid: u64 = durable.iter().sum();
            let most = allowed.iter().sum::<u64>() + 1_500;
            prop_assert!(owed / 64 <= most, "{} of {most}", owed / 64);
            // Over the whole life too: what was had is paid, or within the largest limit there was.
            prop_assert!(owed / 64 <= paid + limit.max(20 * MIB) + 1_500);
        }
    }
}
