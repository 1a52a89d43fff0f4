//! Each sentence of [`Store`], one check each. A check gets an empty store.

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{asked, contract, key, other_form, receipt};
use crate::api::Role;
use crate::store::{
    HEARTBEAT_AHEAD_MAX_S, Invitation, Issued, NewContract, Redeemed, Settled, Store,
};

type Shared = Arc<dyn Store>;
type Run = Pin<Box<dyn Future<Output = ()>>>;
/// Its name, and what is to be run on an empty store.
pub(super) type Check = (&'static str, fn(Shared) -> Run);

macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), |store| Box::pin($name(store)))),*]
    };
}

pub(super) const CHECKS: [Check; 19] = checks![
    a_second_invitation_of_a_hash_changes_nothing,
    an_invitation_is_for_so_many_keys_and_no_more,
    an_invitation_ends_in_time,
    a_key_that_redeemed_gets_its_account_again,
    a_key_of_the_other_role_is_told_so,
    the_invitation_says_what_the_account_may,
    accounts_come_in_the_order_of_their_keys,
    what_is_not_there_is_not_changed,
    heartbeats_never_go_back,
    a_contract_that_comes_again_is_the_first_one,
    an_allowance_is_used_to_the_byte_and_not_beyond,
    what_was_settled_is_not_reserved_twice,
    a_reservation_ends_with_its_contract,
    totals_rise_and_count_once,
    grace_is_given_on_what_was_settled,
    a_contract_proves_itself_to_a_store_that_lost_it,
    what_is_forgotten_stays_counted_and_counts_no_more,
    an_invitation_is_forgotten_after_its_end_and_accounts_stay,
    a_heartbeat_of_a_clock_that_was_wrong_does_not_stay,
];

fn invitation(n: u8, role: Role, uses_left: u32, quota_bytes: Option<u64>) -> Invitation {
    Invitation {
        hash: [n; 32],
        role,
        uses_left,
        expires_s: 1_000,
        quota_bytes,
    }
}

async fn enrol(store: &Shared, n: u8, role: Role, quota_bytes: Option<u64>) {
    let hash = [n; 32];
    store
        .invite(invitation(n, role, 1, quota_bytes))
        .await
        .unwrap();
    let redeemed = store.redeem(hash, asked(n, 10), 10).await.unwrap();
    assert!(matches!(redeemed, Redeemed::Enrolled(_)));
}

async fn sum(store: &Shared, n: u8) -> u64 {
    store.account(key(n)).await.unwrap().unwrap().settled_bytes
}

async fn issue(
    store: &Shared,
    n: u8,
    contracts: impl AsRef<[NewContract]>,
    now_s: u64,
) -> Vec<Issued> {
    store
        .issue(key(n), contracts.as_ref().to_vec(), now_s)
        .await
        .unwrap()
}

async fn settle(store: &Shared, of: &NewContract, total: u64) -> Settled {
    store.settle(vec![receipt(of, total)]).await.unwrap()[0]
}

async fn a_second_invitation_of_a_hash_changes_nothing(store: Shared) {
    store
        .invite(invitation(1, Role::Client, 1, Some(5)))
        .await
        .unwrap();
    store
        .invite(invitation(1, Role::Provider, 9, None))
        .await
        .unwrap();
    let Redeemed::Enrolled(account) = store.redeem([1; 32], asked(1, 7), 7).await.unwrap() else {
        panic!("refused");
    };
    assert_eq!((account.role, account.quota_bytes), (Role::Client, Some(5)));
    let second = store.redeem([1; 32], asked(2, 7), 7).await.unwrap();
    assert_eq!(second, Redeemed::Invalid);
}

async fn an_invitation_is_for_so_many_keys_and_no_more(store: Shared) {
    store
        .invite(invitation(1, Role::Client, 3, None))
        .await
        .unwrap();
    for n in 1..=3 {
        let redeemed = store.redeem([1; 32], asked(n, 7), 7).await.unwrap();
        assert!(matches!(redeemed, Redeemed::Enrolled(_)), "{n}");
    }
    let fourth = store.redeem([1; 32], asked(4, 7), 7).await.unwrap();
    assert_eq!(fourth, Redeemed::Invalid);
    assert_eq!(store.account(key(4)).await.unwrap(), None);
    let unknown = store.redeem([2; 32], asked(4, 7), 7).await.unwrap();
    assert_eq!(unknown, Redeemed::Invalid);
}

async fn an_invitation_ends_in_time(store: Shared) {
    store
        .invite(invitation(1, Role::Client, 9, None))
        .await
        .unwrap();
    let last = store.redeem([1; 32], asked(1, 999), 999).await.unwrap();
    assert!(matches!(last, Redeemed::Enrolled(_)));
    let late = store.redeem([1; 32], asked(2, 1_000), 1_000).await.unwrap();
    assert_eq!(late, Redeemed::Invalid);
}

async fn a_key_that_redeemed_gets_its_account_again(store: Shared) {
    store
        .invite(invitation(1, Role::Client, 2, Some(5)))
        .await
        .unwrap();
    let first = store.redeem([1; 32], asked(1, 7), 7).await.unwrap();
    // The answer was lost, and it is asked again, even when the invitation is over.
    let other = crate::store::Account {
        name: "other".into(),
        ..asked(1, 8)
    };
    assert_eq!(
        store.redeem([1; 32], other.clone(), 8).await.unwrap(),
        first
    );
    assert_eq!(
        store.redeem([1; 32], other.clone(), 5_000).await.unwrap(),
        first
    );
    // It took one use, not two.
    let second = store.redeem([1; 32], asked(2, 9), 9).await.unwrap();
    assert!(matches!(second, Redeemed::Enrolled(_)));
    assert_eq!(store.redeem([1; 32], other, 9).await.unwrap(), first);
}

async fn a_key_of_the_other_role_is_told_so(store: Shared) {
    enrol(&store, 1, Role::Client, None).await;
    store
        .invite(invitation(2, Role::Provider, 1, None))
        .await
        .unwrap();
    let wrong = store.redeem([2; 32], asked(1, 8), 8).await.unwrap();
    assert_eq!(wrong, Redeemed::WrongRole);
    // And takes no use.
    let right = store.redeem([2; 32], asked(2, 8), 8).await.unwrap();
    assert!(matches!(right, Redeemed::Enrolled(_)));
}

async fn the_invitation_says_what_the_account_may(store: Shared) {
    enrol(&store, 1, Role::Client, Some(77)).await;
    enrol(&store, 2, Role::Provider, None).await;
    let client = store.account(key(1)).await.unwrap().unwrap();
    let expected = crate::store::Account {
        quota_bytes: Some(77),
        addresses: vec![],
        ..asked(1, 10)
    };
    assert_eq!(client, expected);
    let provider = store.account(key(2)).await.unwrap().unwrap();
    assert_eq!(
        provider,
        crate::store::Account {
            role: Role::Provider,
            ..asked(2, 10)
        }
    );
    assert_eq!(store.account(key(3)).await.unwrap(), None);
}

async fn accounts_come_in_the_order_of_their_keys(store: Shared) {
    for n in [200, 3, 127, 128, 0] {
        enrol(&store, n, Role::Client, None).await;
    }
    let keys = |accounts: Vec<crate::store::Account>| {
        accounts.iter().map(|a| a.key.0[0]).collect::<Vec<_>>()
    };
    assert_eq!(
        keys(store.accounts(None, 99).await.unwrap()),
        [0, 3, 127, 128, 200]
    );
    assert_eq!(keys(store.accounts(None, 2).await.unwrap()), [0, 3]);
    assert_eq!(
        keys(store.accounts(Some(key(3)), 2).await.unwrap()),
        [127, 128]
    );
    assert_eq!(
        keys(store.accounts(Some(key(4)), 99).await.unwrap()),
        [127, 128, 200]
    );
    assert_eq!(
        keys(store.accounts(Some(key(200)), 99).await.unwrap()),
        [] as [u8; 0]
    );
    assert_eq!(keys(store.accounts(None, 0).await.unwrap()), [] as [u8; 0]);
}

async fn what_is_not_there_is_not_changed(store: Shared) {
    assert!(!store.set_banned(key(1), true).await.unwrap());
    assert!(!store.set_quota(key(1), Some(1)).await.unwrap());
    assert!(!store.heartbeat(key(1), vec![], 1).await.unwrap());
    assert!(!store.has_settled(key(1)).await.unwrap());
    assert_eq!(store.account(key(1)).await.unwrap(), None);
    assert_eq!(store.forget(1_000, 9).await.unwrap(), 0);
    // Who is not enrolled has no allowance.
    let refused = issue(&store, 1, [contract(1, 2, 10, 100, 0)], 0).await;
    assert_eq!(refused, [Issued::Quota { left_bytes: 0 }]);

    enrol(&store, 1, Role::Client, None).await;
    for is_banned in [true, true, false] {
        assert!(store.set_banned(key(1), is_banned).await.unwrap());
        assert_eq!(
            store.account(key(1)).await.unwrap().unwrap().is_banned,
            is_banned
        );
    }
    for quota in [Some(3), Some(0), None] {
        assert!(store.set_quota(key(1), quota).await.unwrap());
        assert_eq!(
            store.account(key(1)).await.unwrap().unwrap().quota_bytes,
            quota
        );
    }
}

async fn heartbeats_never_go_back(store: Shared) {
    enrol(&store, 1, Role::Provider, None).await;
    enrol(&store, 2, Role::Client, None).await;
    let beat = async |address: &str, now_s| {
        assert!(
            store
                .heartbeat(key(1), vec![address.into()], now_s)
                .await
                .unwrap()
        );
        let account = store.account(key(1)).await.unwrap().unwrap();
        (account.heartbeat_s, account.addresses.concat())
    };
    assert_eq!(beat("a:1", 50).await, (50, "a:1".into()));
    assert_eq!(beat("b:1", 50).await, (50, "b:1".into()));
    assert_eq!(beat("c:1", 49).await, (50, "b:1".into()));
    assert_eq!(beat("c:1", 51).await, (51, "c:1".into()));
    // A client has none.
    assert!(
        store
            .heartbeat(key(2), vec!["a:1".into()], 50)
            .await
            .unwrap()
    );
    let client = store.account(key(2)).await.unwrap().unwrap();
    assert_eq!((client.heartbeat_s, client.addresses), (0, vec![]));
}

async fn a_contract_that_comes_again_is_the_first_one(store: Shared) {
    enrol(&store, 1, Role::Client, Some(25)).await;
    let first = contract(1, 2, 10, 100, 0);
    let again = NewContract {
        form: other_form(&first),
        bytes: 20,
        ..first.clone()
    };
    assert_eq!(
        issue(&store, 1, [first.clone()], 0).await,
        [Issued::Kept(first.form)]
    );
    assert_eq!(
        issue(&store, 1, [again.clone()], 0).await,
        [Issued::Kept(first.form)]
    );
    // Within one request, too; and it took its bytes once.
    let second = contract(2, 2, 15, 100, 0);
    let twice = [
        second.clone(),
        again,
        NewContract {
            form: other_form(&second),
            ..second.clone()
        },
    ];
    let kept = [
        Issued::Kept(second.form),
        Issued::Kept(first.form),
        Issued::Kept(second.form),
    ];
    assert_eq!(issue(&store, 1, &twice, 0).await, kept);
    let full = issue(&store, 1, [contract(3, 2, 1, 100, 0)], 0).await;
    assert_eq!(full, [Issued::Quota { left_bytes: 0 }]);
}

async fn an_allowance_is_used_to_the_byte_and_not_beyond(store: Shared) {
    enrol(&store, 1, Role::Client, Some(100)).await;
    // 50 and 6 of grace, then 44: that is 100.
    let (a, b) = (contract(1, 2, 50, 100, 5), contract(2, 2, 45, 100, 0));
    let answers = issue(&store, 1, [a.clone(), b], 0).await;
    assert_eq!(
        answers,
        [Issued::Kept(a.form), Issued::Quota { left_bytes: 44 }]
    );
    let c = contract(3, 2, 44, 100, 0);
    assert_eq!(
        issue(&store, 1, [c.clone()], 0).await,
        [Issued::Kept(c.form)]
    );
    let d = contract(4, 2, 1, 100, 0);
    assert_eq!(
        issue(&store, 1, [d.clone()], 0).await,
        [Issued::Quota { left_bytes: 0 }]
    );
    // A smaller one behind one that does not fit is kept.
    store.set_quota(key(1), Some(101)).await.unwrap();
    let answers = issue(&store, 1, [contract(5, 2, 2, 100, 0), d.clone()], 0).await;
    assert_eq!(
        answers,
        [Issued::Quota { left_bytes: 1 }, Issued::Kept(d.form)]
    );
    // Less than was given out already is nothing, and none is all.
    store.set_quota(key(1), Some(3)).await.unwrap();
    let e = contract(6, 2, 1 << 40, 100, 0);
    assert_eq!(
        issue(&store, 1, [e.clone()], 0).await,
        [Issued::Quota { left_bytes: 0 }]
    );
    store.set_quota(key(1), None).await.unwrap();
    assert_eq!(
        issue(&store, 1, [e.clone()], 0).await,
        [Issued::Kept(e.form)]
    );
}

async fn what_was_settled_is_not_reserved_twice(store: Shared) {
    enrol(&store, 1, Role::Client, Some(100)).await;
    let a = contract(1, 2, 60, 100, 0);
    issue(&store, 1, [a.clone()], 0).await;
    let left = async |now_s| match issue(&store, 1, [contract(9, 2, 1_000, 100, 0)], now_s).await[..]
    {
        [Issued::Quota { left_bytes }] => left_bytes,
        _ => panic!("kept"),
    };
    assert_eq!(left(0).await, 40);
    settle(&store, &a, 25).await;
    assert_eq!(left(0).await, 40);
    settle(&store, &a, 60).await;
    assert_eq!(left(0).await, 40);
    // What was settled stays taken when the contract is over.
    assert_eq!(left(100).await, 40);
}

async fn a_reservation_ends_with_its_contract(store: Shared) {
    enrol(&store, 1, Role::Client, Some(100)).await;
    let a = contract(1, 2, 80, 90, 10);
    issue(&store, 1, [a.clone()], 0).await;
    settle(&store, &a, 30).await;
    let b = contract(2, 2, 70, 200, 0);
    // 80 and 9 of grace; it ends at 100.
    assert_eq!(
        issue(&store, 1, [b.clone()], 99).await,
        [Issued::Quota { left_bytes: 11 }]
    );
    assert_eq!(
        issue(&store, 1, [b.clone()], 100).await,
        [Issued::Kept(b.form)]
    );
    // A late receipt still counts, and then the allowance is overdrawn, not the receipt lost.
    assert_eq!(settle(&store, &a, 89).await, Settled::Total(89));
    assert_eq!(sum(&store, 1).await, 89);
    let c = contract(3, 2, 1, 300, 0);
    assert_eq!(
        issue(&store, 1, [c], 150).await,
        [Issued::Quota { left_bytes: 0 }]
    );
}

async fn totals_rise_and_count_once(store: Shared) {
    enrol(&store, 1, Role::Client, None).await;
    enrol(&store, 2, Role::Provider, None).await;
    let (a, b) = (contract(1, 2, 100, 100, 0), contract(2, 2, 100, 100, 0));
    issue(&store, 1, [a.clone(), b.clone()], 0).await;
    assert_eq!(settle(&store, &a, 10).await, Settled::Total(10));
    assert_eq!(settle(&store, &a, 10).await, Settled::Total(10));
    assert_eq!(settle(&store, &a, 30).await, Settled::Total(30));
    assert_eq!(settle(&store, &a, 20).await, Settled::Total(30));
    assert_eq!((sum(&store, 1).await, sum(&store, 2).await), (30, 30));
    // Several at once, in any order, of one contract and of others.
    let batch = [(&a, 50), (&b, 7), (&a, 40), (&b, 7), (&b, 9)];
    let batch = batch.map(|(of, total)| receipt(of, total)).to_vec();
    let totals = [50, 7, 50, 7, 9].map(Settled::Total);
    assert_eq!(store.settle(batch.clone()).await.unwrap(), totals);
    let totals = [50, 9, 50, 9, 9].map(Settled::Total);
    assert_eq!(store.settle(batch).await.unwrap(), totals);
    assert_eq!((sum(&store, 1).await, sum(&store, 2).await), (59, 59));
    assert_eq!(store.settle(vec![]).await.unwrap(), []);
}

async fn grace_is_given_on_what_was_settled(store: Shared) {
    enrol(&store, 1, Role::Client, None).await;
    let a = contract(1, 2, 100, 100, 0);
    issue(&store, 1, [a.clone()], 0).await;
    assert!(!store.has_settled(key(1)).await.unwrap());
    settle(&store, &a, 0).await;
    assert!(!store.has_settled(key(1)).await.unwrap());
    settle(&store, &a, 1).await;
    assert!(store.has_settled(key(1)).await.unwrap());
    assert_eq!(store.forget(1_000, 9).await.unwrap(), 1);
    assert!(store.has_settled(key(1)).await.unwrap());
}

async fn a_contract_proves_itself_to_a_store_that_lost_it(store: Shared) {
    enrol(&store, 1, Role::Client, Some(1_000)).await;
    let a = contract(1, 2, 100, 100, 0);
    assert_eq!(settle(&store, &a, 0).await, Settled::Total(0));
    assert_eq!(settle(&store, &a, 40).await, Settled::Total(40));
    assert_eq!(settle(&store, &a, 40).await, Settled::Total(40));
    assert_eq!(settle(&store, &a, 60).await, Settled::Total(60));
    // The provider may come later than its sum.
    enrol(&store, 2, Role::Provider, None).await;
    assert_eq!((sum(&store, 1).await, sum(&store, 2).await), (0, 60));
    let again = NewContract {
        form: other_form(&a),
        ..a.clone()
    };
    assert_eq!(issue(&store, 1, [again], 0).await, [Issued::Kept(a.form)]);
}

async fn what_is_forgotten_stays_counted_and_counts_no_more(store: Shared) {
    enrol(&store, 1, Role::Client, Some(1_000)).await;
    enrol(&store, 2, Role::Provider, None).await;
    let contracts = [100, 101, 102, 103].map(|end| contract(end, 2, 10, u64::from(end), 0));
    issue(&store, 1, &contracts, 0).await;
    for contract in &contracts {
        settle(&store, contract, 5).await;
    }
    // Before 100: none. Before 103: three, two and one of them.
    assert_eq!(store.forget(100, 9).await.unwrap(), 0);
    assert_eq!(store.forget(103, 2).await.unwrap(), 2);
    assert_eq!(settle(&store, &contracts[2], 6).await, Settled::Total(6));
    assert_eq!(store.forget(103, 2).await.unwrap(), 1);
    assert_eq!(store.forget(103, 2).await.unwrap(), 0);
    assert_eq!((sum(&store, 1).await, sum(&store, 2).await), (21, 21));
    for contract in &contracts[..3] {
        assert_eq!(settle(&store, contract, 9).await, Settled::Unknown);
    }
    assert_eq!(settle(&store, &contracts[3], 9).await, Settled::Total(9));
    // A smaller time does not bring back what was forgotten.
    assert_eq!(store.forget(50, 9).await.unwrap(), 0);
    assert_eq!(settle(&store, &contracts[2], 9).await, Settled::Unknown);
    assert_eq!((sum(&store, 1).await, sum(&store, 2).await), (25, 25));
    // Nothing is reserved for what is forgotten, whatever the clock says.
    let all = contract(1, 2, 1_000 - 25 - 1, 100, 0);
    assert_eq!(
        issue(&store, 1, [all.clone()], 0).await,
        [Issued::Kept(all.form)]
    );
}

async fn an_invitation_is_forgotten_after_its_end_and_accounts_stay(store: Shared) {
    for n in 1..=3 {
        store
            .invite(invitation(n, Role::Client, 9, None))
            .await
            .unwrap();
    }
    let redeem = async |n: u8, who| store.redeem([n; 32], asked(who, 10), 10).await.unwrap();
    assert!(matches!(redeem(1, 7).await, Redeemed::Enrolled(_)));
    // They expire at 1,000: before that, none is forgotten; then contracts have the first turn.
    assert_eq!(store.forget(1_000, 9).await.unwrap(), 0);
    assert!(matches!(redeem(2, 8).await, Redeemed::Enrolled(_)));
    let contracts = [contract(1, 2, 10, 100, 0)];
    issue(&store, 7, &contracts, 0).await;
    assert_eq!(store.forget(1_001, 2).await.unwrap(), 2);
    assert_eq!(redeem(1, 7).await, Redeemed::Invalid);
    assert!(matches!(redeem(3, 9).await, Redeemed::Enrolled(_)));
    assert_eq!(store.forget(1_001, 9).await.unwrap(), 2);
    assert_eq!(redeem(3, 9).await, Redeemed::Invalid);
    assert_eq!(store.accounts(None, 9).await.unwrap().len(), 3);
}

async fn a_heartbeat_of_a_clock_that_was_wrong_does_not_stay(store: Shared) {
    enrol(&store, 1, Role::Provider, None).await;
    let beat = async |address: &str, now_s| {
        let beat = store.heartbeat(key(1), vec![address.into()], now_s).await;
        beat.unwrap();
        let account = store.account(key(1)).await.unwrap().unwrap();
        (account.heartbeat_s, account.addresses.concat())
    };
    let wrong_s = 5_000 + HEARTBEAT_AHEAD_MAX_S;
    assert_eq!(beat("a:1", wrong_s).await, (wrong_s, "a:1".into()));
    // Another replica's clock may be ahead by so much, and by no second more.
    assert_eq!(beat("b:1", 5_000).await, (wrong_s, "a:1".into()));
    assert_eq!(beat("b:1", 4_999).await, (4_999, "b:1".into()));
}
