//! The power fails at any write or flush, and what was not flushed is lost, in part or torn.
//!
//! Operations go to the store in order, several at a time. What was answered must be there afterwards; of what was not,
//! some first part, since the store works in order, and each of them whole. So there is a list of states that may be,
//! each a model: those after the last answer, and after each further operation that had been sent. What the store answers
//! from then on strikes out those that would answer otherwise; one has to remain.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::disk::Disk;
use super::model::Model;
use super::sequences::Op;
use super::{block_on, key};
use crate::store::Store;
use crate::store::redb::RedbStore;

/// Seeds; each is three lives of one disk.
const SEEDS: u64 = 500;
const LIVES: usize = 3;
const OPS_A_LIFE: usize = 24;

struct World {
    disk: Disk,
    rng: StdRng,
    /// States that agree with all answers so far.
    may_be: Vec<Model>,
}

impl World {
    /// Strikes out what does not answer so; what remains has done the operation.
    fn answered(&mut self, op: &Op, answer: &str) {
        self.may_be.retain_mut(|model| op.on_model(model) == answer);
        self.may_be.dedup();
        assert!(
            !self.may_be.is_empty(),
            "no state answers {answer} to {op:?}"
        );
    }

    /// Not answered: it may have been done or not, and those behind it, too.
    fn sent(&mut self, ops: &[Op]) {
        let mut all = self.may_be.clone();
        for model in &self.may_be {
            let mut model = model.clone();
            for op in ops {
                op.on_model(&mut model);
                all.push(model.clone());
            }
        }
        all.dedup();
        self.may_be = all;
    }

    async fn live(&mut self) {
        let opened = RedbStore::with_opener(self.disk.opener());
        // The power may go while it is opened.
        let Ok(store) = opened else { return };
        let store = Arc::new(store);
        let mut left = OPS_A_LIFE;
        while left > 0 {
            let together = self.rng.random_range(1..5);
            left = left.saturating_sub(together);
            let ops: Vec<_> = (0..together)
                .map(|_| Op::draw_change(&mut self.rng))
                .collect();
            let mut waiting = VecDeque::new();
            for op in ops.clone() {
                let store = Arc::clone(&store);
                // Spawned tasks of one thread start in their order.
                waiting.push_back(tokio::spawn(
                    async move { op.on_store(store.as_ref()).await },
                ));
            }
            for (at, op) in ops.iter().enumerate() {
                match waiting.pop_front().unwrap().await.unwrap() {
                    Ok(answer) => self.answered(op, &answer),
                    Err(_) => {
                        self.sent(&ops[at..]);
                        self.disk.fail();
                        return;
                    }
                }
            }
        }
        self.disk.fail();
    }

    /// After a restart: the accounts are those of a state that may be, and nobody's sum fell.
    async fn look(&mut self) {
        let floor = |n| {
            self.may_be
                .iter()
                .map(|model| model.sum(key(n)))
                .min()
                .unwrap()
        };
        let floors = [0, 1, 2, 100, 101].map(|n| (n, floor(n)));
        let store = RedbStore::with_opener(self.disk.opener()).unwrap();
        let accounts = store.accounts(None, 99).await.unwrap();
        for (n, floor) in floors {
            let account = accounts.iter().find(|account| account.key == key(n));
            assert!(account.is_none_or(|account| account.settled_bytes >= floor));
        }
        self.answered(&Op::Accounts, &format!("{accounts:?}"));
        let op = Op::draw_settle(&mut self.rng);
        let answer = op.on_store(&store).await.unwrap();
        self.answered(&op, &answer);
    }
}

// R-18, case B30: what a backend answered before it died is what it says when it is back.
#[test]
fn what_was_answered_survives_the_power_and_the_rest_is_whole_or_gone() {
    let mut cut = 0;
    for seed in 0..SEEDS {
        let mut world = World {
            disk: Disk::default(),
            rng: StdRng::seed_from_u64(seed),
            may_be: vec![Model::default()],
        };
        // A file is put in its place when it is whole.
        drop(RedbStore::with_opener(world.disk.opener()).unwrap());
        for _ in 0..LIVES {
            let steps = world.rng.random_range(0..400);
            world.disk.fail_after(steps);
            block_on(world.live());
            world.disk.restart(&mut world.rng);
            cut += usize::from(world.may_be.len() > 1);
            block_on(world.look());
            world.disk.fail();
            world.disk.restart(&mut world.rng);
        }
    }
    // The power went in the midst of things, and not before or after all of them.
    assert!(cut > 100, "{cut}");
}
