//! An hour without the backend that begins at each stage of a contract, and crashes at the points that matter.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// When the backend goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    BeforeTheFirstContract,
    MidContract,
    /// Receipts are durable and on their way.
    MidFiling,
    /// The contracts are used up, and grace is had in an outage before.
    InGrace,
}

impl Stage {
    const ALL: [Self; 4] = [
        Self::BeforeTheFirstContract,
        Self::MidContract,
        Self::MidFiling,
        Self::InGrace,
    ];
}

impl World {
    fn carried(&self) -> u64 {
        let account = self.books.account_of(&self.party.client_key);
        account.map_or(0, Account::carried_bytes)
    }

    fn granted(&self) -> u64 {
        let of = |contract: &SignedContract| contract.terms.bytes;
        self.backend.issued.values().map(of).sum()
    }

    /// A second without a backend.
    fn without(&mut self) {
        self.backend.up = false;
        self.connect();
        self.traffic(40);
        self.sign();
        self.stream();
        self.persist(false);
        self.ask(false);
        self.file(false);
        self.now += Duration::from_secs(1);
        self.check();
    }

    fn reach(&mut self, stage: Stage) {
        match stage {
            Stage::BeforeTheFirstContract => {}
            Stage::MidContract => (0..30).for_each(|_| self.heal()),
            Stage::MidFiling => {
                (0..30).for_each(|_| self.heal());
                self.traffic(300);
                self.sign();
                self.stream();
                self.persist(false);
                assert!(self.books.status().to_file > 0);
            }
            Stage::InGrace => {
                (0..30).for_each(|_| self.heal());
                (0..600).for_each(|_| self.without());
                assert!(self.books.status().grace_bytes > 0);
            }
        }
    }

    /// Nothing is carried any more: what is durable is with the backend, to the byte.
    fn comes_to_rest(&mut self) {
        (0..100).for_each(|_| self.heal_with(0));
        let durable = self.disk.iter();
        let durable: BTreeMap<_, _> = durable
            .map(|(id, record)| (*id, total_of(record)))
            .collect();
        assert_eq!(self.backend.settled, durable);
        for (id, total) in &self.acknowledged {
            assert!(self.backend.settled.get(id) >= Some(total), "{id}");
        }
    }
}

#[test]
fn an_hour_without_the_backend_is_survived_at_every_stage() {
    // R-18, case B30
    for (stage, seed) in Stage::ALL.into_iter().zip(100..) {
        let mut world = World::new(seed);
        world.reach(stage);
        let (asked, filed) = (world.backend.requests, world.backend.filings);
        let (start, before, granted) = (world.now, world.carried(), world.granted());
        let (mut last_ask, mut asks) = (asked, Vec::new());
        while world.now < start + HOUR {
            world.without();
            if world.backend.requests > last_ask {
                assert_eq!(world.backend.requests, last_ask + 1, "one at a time");
                last_ask = world.backend.requests;
                asks.push(world.now);
            }
        }
        let gaps: Vec<_> = asks.windows(2).map(|two| two[1] - two[0]).collect();
        let quick = gaps.iter().filter(|gap| **gap < Duration::from_secs(3));
        assert!(quick.count() <= 3, "{stage:?}: {gaps:?}");
        assert!(
            (60..=170).contains(&asks.len()),
            "{stage:?}: {}",
            asks.len()
        );
        let filings = world.backend.filings - filed;
        assert!(filings <= 170, "{stage:?}: {filings}");
        let (had, all) = (world.carried() - before, world.carried());
        let most = (granted + world.books.status().grace_bytes) * 8 / 7 + PACKET;
        assert!(all <= most, "{stage:?}: {all} of {most}");
        match stage {
            Stage::BeforeTheFirstContract => assert_eq!(all, 0),
            // All that was in hand, and the grace of one contract.
            Stage::MidContract | Stage::MidFiling => {
                assert!(all >= granted + MIB, "{stage:?}: {all} of {granted}");
            }
            Stage::InGrace => assert!(had <= 2 * PACKET, "{had}: grace is had once"),
        }
        let end = world.delivered;
        (0..60).for_each(|_| world.heal());
        assert!(
            world.delivered > end + MIB,
            "{stage:?}: it goes on by itself"
        );
        world.comes_to_rest();
    }
}

/// The provider dies when the backend has settled what it filed and before it hears so.
fn dies_before_the_answer(world: &mut World) {
    world.backend.up = true;
    world.books.on_backend(false);
    let request = world.books.poll_filing(&world.provider_health, world.now);
    if let Some(request) = request {
        for record in &request.receipts {
            world.backend.settle(record);
        }
    }
    world.provider_crash();
    world.provider_health = health(9, world.now);
}

/// The provider dies when a batch is on the disk and before it gives credit.
fn dies_before_credit(world: &mut World) {
    if let Some(batch) = world.books.poll_persist(world.now) {
        for (id, record) in &batch.records {
            let before = world.disk.insert(*id, *record);
            assert!(total_of(record) >= before.map_or(0, |before| total_of(&before)));
        }
    }
    world.provider_crash();
}

#[test]
fn a_crash_at_any_point_loses_no_receipt_and_counts_none_twice() {
    // R-18, case B30
    for seed in 0..500_u64 {
        let mut world = World::new(1_000 + seed);
        (0..3).for_each(|_| world.heal());
        let steps = world.rng.random_range(1..12);
        (0..steps).for_each(|_| world.step());
        world.connect();
        world.traffic(300);
        world.sign();
        world.stream();
        match seed % 3 {
            0 => dies_before_credit(&mut world),
            1 => {
                world.persist(false);
                dies_before_the_answer(&mut world);
            }
            _ => world.client_crash(),
        }
        world.comes_to_rest();
    }
}
