//! Random operations on a store and on the model, which answer alike.
//!
//! Keys, ids, bytes and times are few and small, so that they meet: the same contract twice, the last byte of an
//! allowance, a receipt for what was just forgotten.

use std::sync::Arc;

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::model::Model;
use super::{asked, block_on, contract, key, receipt};
use crate::api::Role;
use crate::store::redb::RedbStore;
use crate::store::{Invitation, NewContract, Settlement, Store, StoreError};

/// One call of a store.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Invite(Invitation),
    Redeem(u8, u8, u64),
    Ban(u8, bool),
    Quota(u8, Option<u64>),
    Heartbeat(u8, String, u64),
    Issue(u8, Vec<NewContract>, u64),
    Settle(Vec<Settlement>),
    Forget(u64, usize),
    HasSettled(u8),
    Accounts,
}

fn drawn_contract(rng: &mut StdRng) -> NewContract {
    let id = rng.random_range(0..12);
    // The rest follows from the id in part: most that come again are the same.
    let provider = 100 + id % 2;
    let bytes = 10 * (1 + u64::from(id % 3)) + u64::from(rng.random_range(0..8u8) == 0);
    contract(
        id,
        provider,
        bytes,
        20 + 5 * u64::from(id),
        u32::from(id % 4),
    )
}

impl Op {
    pub(super) fn draw(rng: &mut StdRng) -> Self {
        let now_s = rng.random_range(0..90);
        let who = rng.random_range(0..3);
        match rng.random_range(0..20) {
            0 => Self::Invite(Invitation {
                hash: [rng.random_range(0..4); 32],
                role: [Role::Client, Role::Client, Role::Provider][rng.random_range(0..3)],
                uses_left: rng.random_range(0..3),
                expires_s: rng.random_range(50..100),
                quota_bytes: rng.random_bool(0.7).then(|| rng.random_range(0..120)),
            }),
            1 | 2 => {
                let who = [0, 1, 2, 100, 101][rng.random_range(0..5)];
                Self::Redeem(rng.random_range(0..5), who, now_s)
            }
            3 => Self::Ban(who, rng.random_bool(0.5)),
            4 => Self::Quota(who, rng.random_bool(0.8).then(|| rng.random_range(0..200))),
            5 => Self::Heartbeat(100 + who % 2, format!("h:{now_s}"), now_s),
            6..=10 => {
                let contracts = (0..rng.random_range(1..4)).map(|_| drawn_contract(rng));
                Self::Issue(who, contracts.collect(), now_s)
            }
            11..=16 => {
                let receipts = (0..rng.random_range(0..5)).map(|_| {
                    let contract = drawn_contract(rng);
                    receipt(&contract, rng.random_range(0..=contract.bytes))
                });
                Self::Settle(receipts.collect())
            }
            17 => Self::Forget(rng.random_range(0..90), rng.random_range(0..4)),
            18 => Self::HasSettled(who),
            _ => Self::Accounts,
        }
    }

    /// One that goes through the writer's queue, which is what has an order.
    pub(super) fn draw_change(rng: &mut StdRng) -> Self {
        loop {
            let op = Self::draw(rng);
            if !matches!(op, Self::HasSettled(_) | Self::Accounts) {
                return op;
            }
        }
    }

    pub(super) fn draw_settle(rng: &mut StdRng) -> Self {
        loop {
            let op = Self::draw(rng);
            if matches!(op, Self::Settle(_)) {
                return op;
            }
        }
    }

    /// Does it, and says what came of it.
    pub(super) async fn on_store(&self, store: &dyn Store) -> Result<String, StoreError> {
        Ok(match self.clone() {
            Self::Invite(invitation) => format!("{:?}", store.invite(invitation).await?),
            Self::Redeem(hash, n, now_s) => {
                format!(
                    "{:?}",
                    store.redeem([hash; 32], asked(n, now_s), now_s).await?
                )
            }
            Self::Ban(n, is_banned) => format!("{:?}", store.set_banned(key(n), is_banned).await?),
            Self::Quota(n, quota) => format!("{:?}", store.set_quota(key(n), quota).await?),
            Self::Heartbeat(n, address, now_s) => {
                format!("{:?}", store.heartbeat(key(n), vec![address], now_s).await?)
            }
            Self::Issue(n, contracts, now_s) => {
                format!("{:?}", store.issue(key(n), contracts, now_s).await?)
            }
            Self::Settle(settlements) => format!("{:?}", store.settle(settlements).await?),
            Self::Forget(before_s, max) => format!("{:?}", store.forget(before_s, max).await?),
            Self::HasSettled(n) => format!("{:?}", store.has_settled(key(n)).await?),
            Self::Accounts => format!("{:?}", store.accounts(None, 99).await?),
        })
    }

    /// What the model says to it.
    pub(super) fn on_model(&self, model: &mut Model) -> String {
        match self.clone() {
            Self::Invite(invitation) => format!("{:?}", model.invite(invitation)),
            Self::Redeem(hash, n, now_s) => {
                format!("{:?}", model.redeem([hash; 32], asked(n, now_s), now_s))
            }
            Self::Ban(n, is_banned) => {
                format!("{:?}", model.change(key(n), |a| a.is_banned = is_banned))
            }
            Self::Quota(n, quota) => {
                format!("{:?}", model.change(key(n), |a| a.quota_bytes = quota))
            }
            Self::Heartbeat(n, address, now_s) => {
                format!("{:?}", model.heartbeat(key(n), vec![address], now_s))
            }
            Self::Issue(n, contracts, now_s) => {
                format!("{:?}", model.issue(key(n), &contracts, now_s))
            }
            Self::Settle(settlements) => format!("{:?}", model.settle(&settlements)),
            Self::Forget(before_s, max) => format!("{:?}", model.forget(before_s, max)),
            Self::HasSettled(n) => format!("{:?}", model.sum(key(n)) > 0),
            Self::Accounts => format!("{:?}", model.accounts()),
        }
    }
}

/// Sequences of operations, each begun by what makes the accounts likely.
pub(super) fn sequence() -> impl Strategy<Value = Vec<Op>> {
    let op = any::<u64>().prop_map(|seed| Op::draw(&mut StdRng::seed_from_u64(seed)));
    proptest::collection::vec(op, 1..120)
}

/// Whether the store and the model agree on each.
pub(super) async fn agree(store: Arc<dyn Store>, ops: &[Op]) {
    let mut model = Model::default();
    for (at, op) in ops.iter().enumerate() {
        let found = op.on_store(store.as_ref()).await.unwrap();
        assert_eq!(found, op.on_model(&mut model), "operation {at}: {op:?}");
        let accounts = store.accounts(None, 99).await.unwrap();
        assert_eq!(accounts, model.accounts(), "after operation {at}: {op:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn redb_answers_as_the_model_does(ops in sequence()) {
        block_on(agree(Arc::new(RedbStore::in_memory()), &ops));
    }
}
