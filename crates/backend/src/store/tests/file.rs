//! What is redb's alone: the file, its version, its lock, its groups, a full disk.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, TableDefinition};

use super::disk::Disk;
use super::{asked, block_on, contract, key, receipt};
use crate::api::Role;
use crate::store::redb::RedbStore;
use crate::store::{Invitation, Issued, Settled, Store, StoreError};

fn invitation() -> Invitation {
    Invitation {
        hash: [1; 32],
        role: Role::Client,
        uses_left: 9,
        expires_s: 100,
        quota_bytes: None,
    }
}

async fn enrol(store: &dyn Store, n: u8) -> Result<(), StoreError> {
    store.invite(invitation()).await?;
    store.redeem([1; 32], asked(n, 1), 1).await.map(drop)
}

fn refused(path: &Path) -> String {
    match RedbStore::open(path) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_holds_what_was_answered_and_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backend.redb");
    let of = contract(1, 2, 100, 100, 0);
    let store = RedbStore::open(&path).unwrap();
    block_on(async {
        enrol(&store, 1).await.unwrap();
        store.issue(key(1), vec![of.clone()], 1).await.unwrap();
        store.settle(vec![receipt(&of, 40)]).await.unwrap();
    });
    drop(store);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let store = RedbStore::open(&path).unwrap();
    block_on(async {
        let account = store.account(key(1)).await.unwrap().unwrap();
        assert_eq!(account.settled_bytes, 40);
        let again = store.settle(vec![receipt(&of, 30)]).await.unwrap();
        assert_eq!(again, [Settled::Total(40)]);
    });
}

#[test]
fn a_file_that_is_in_use_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backend.redb");
    let store = RedbStore::open(&path).unwrap();
    let words = refused(&path);
    assert!(
        words.contains("backend.redb: another process has it open"),
        "{words}"
    );
    drop(store);
    RedbStore::open(&path).unwrap();
}

#[test]
fn a_first_start_that_was_cut_off_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backend.redb");
    let new = format!("backend.redb.{}.new", std::process::id());
    std::fs::write(folder.path().join(new), "half of a file").unwrap();
    drop(RedbStore::open(&path).unwrap());
    drop(RedbStore::open(&path).unwrap());
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1);
    let words = refused(&folder.path().join("no folder/backend.redb"));
    assert!(
        words.contains("no folder/backend.redb: No such file"),
        "{words}"
    );
}

#[test]
fn a_file_of_another_version_or_program_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backend.redb");
    drop(RedbStore::open(&path).unwrap());
    let meta = TableDefinition::<&str, u64>::new("meta");
    for version in [0, 2] {
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction
            .open_table(meta)
            .unwrap()
            .insert("version", version)
            .unwrap();
        transaction.commit().unwrap();
        drop(database);
        let words = refused(&path);
        let expected = format!("it is of version {version}, this program reads version 1");
        assert!(words.contains(&expected), "{words}");
    }

    let path = folder.path().join("other.redb");
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let other = TableDefinition::<&str, u64>::new("other");
    transaction
        .open_table(other)
        .unwrap()
        .insert("a", 1)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let words = refused(&path);
    assert!(
        words.contains("it is another program's database"),
        "{words}"
    );

    let path = folder.path().join("text");
    let text = "no database at all, but what somebody wrote. ".repeat(999);
    std::fs::write(&path, &text).unwrap();
    let words = refused(&path);
    assert!(words.contains("cannot be read"), "{words}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn one_record_that_cannot_be_read_is_not_the_others_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backend.redb");
    let store = RedbStore::open(&path).unwrap();
    block_on(enrol(&store, 1)).unwrap();
    drop(store);
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let accounts = TableDefinition::<&[u8; 32], &[u8]>::new("accounts");
    let mut table = transaction.open_table(accounts).unwrap();
    table.insert(&[2; 32], [1, 2, 3].as_slice()).unwrap();
    drop(table);
    transaction.commit().unwrap();
    drop(database);

    let store = Arc::new(RedbStore::open(&path).unwrap());
    block_on(async {
        let quota = |n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.set_quota(key(n), Some(5)).await })
        };
        let asked: Vec<_> = [1, 2, 1, 2, 1].into_iter().map(quota).collect();
        let mut found = Vec::new();
        for answer in asked {
            found.push(match answer.await.unwrap() {
                Ok(there) => there,
                Err(StoreError::Damaged(_)) => false,
                Err(StoreError::Unavailable(words)) => panic!("{words}"),
            });
        }
        assert_eq!(found, [true, false, true, false, true]);
        assert!(matches!(
            store.account(key(2)).await,
            Err(StoreError::Damaged(_))
        ));
        let account = store.account(key(1)).await.unwrap().unwrap();
        assert_eq!(account.quota_bytes, Some(5));
    });
}

#[test]
fn what_waits_together_is_flushed_together() {
    let disk = Disk::default();
    let store = Arc::new(RedbStore::with_opener(disk.opener()).unwrap());
    block_on(async {
        enrol(store.as_ref(), 1).await.unwrap();
        let before = disk.flushes();
        store.set_banned(key(1), false).await.unwrap();
        let alone = disk.flushes() - before;
        let issue = |id| {
            let store = Arc::clone(&store);
            let contracts = vec![contract(id, 2, 10, 100, 0)];
            tokio::spawn(async move { store.issue(key(1), contracts, 1).await })
        };
        let asked: Vec<_> = (0..64).map(issue).collect();
        for answer in asked {
            assert!(matches!(
                answer.await.unwrap().unwrap()[..],
                [Issued::Kept(_)]
            ));
        }
        let together = disk.flushes() - before - alone;
        assert!(
            together <= alone * 64 / 4,
            "{together} flushes, {alone} alone"
        );
    });
}

#[test]
fn a_full_disk_is_told_of_and_taken_up_again_when_there_is_room() {
    let disk = Disk::default();
    let store = RedbStore::with_opener(disk.opener()).unwrap();
    let batch = |n: u8| vec![contract(n, 2, 10, 100, 0)];
    block_on(async {
        enrol(&store, 1).await.unwrap();
        disk.set_room(Some(disk.used()));
        let mut kept = Vec::new();
        let mut words = String::new();
        for n in 0..=255 {
            // Each a large record, so that the room is soon gone.
            let name = format!("{n}").repeat(5_000);
            let account = crate::store::Account {
                name,
                ..asked(n, 1)
            };
            store
                .invite(Invitation {
                    hash: [n; 32],
                    uses_left: 99,
                    ..invitation()
                })
                .await
                .ok();
            match store.redeem([1; 32], account, 1).await {
                Ok(_) => kept.push(n),
                Err(error) => words = error.to_string(),
            }
        }
        assert!(words.contains("the store does not answer"), "{words}");
        assert!(store.issue(key(1), batch(1), 1).await.is_err() || !kept.is_empty());
        disk.set_room(None);
        let issued = store.issue(key(1), batch(2), 1).await.unwrap();
        assert!(matches!(issued[..], [Issued::Kept(_)]));
        for n in kept {
            assert!(store.account(key(n)).await.unwrap().is_some(), "{n}");
        }
    });
}
