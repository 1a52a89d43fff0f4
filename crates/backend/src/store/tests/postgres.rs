//! PostgreSQL: a cluster of the test's own, and several stores over it at once.
//!
//! Debian's packages put the programs outside of the path, and `initdb` refuses root: so they are looked for where they
//! are, and run as `postgres`, or `nobody`. The cluster lives in a folder that goes with the test, listens on a socket in
//! it alone, and is told by the kernel to stop when the test's thread ends without stopping it.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use super::conformance::CHECKS;
use super::sequences::{agree, sequence};
use super::{asked, block_on, contract, key, receipt};
use crate::api::Role;
use crate::store::postgres::PostgresStore;
use crate::store::{Invitation, Issued, Redeemed, Settled, Store, StoreError};

struct Cluster {
    programs: PathBuf,
    folder: TempDir,
    user: Option<&'static str>,
    server: Option<Child>,
}

/// Where the newest PostgreSQL's programs are.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let whole = |folder: &PathBuf| {
        ["initdb", "postgres"]
            .iter()
            .all(|p| folder.join(p).exists())
    };
    folders.filter(whole).max()
}

/// A user who is not root, by name, with its ids.
fn other_user() -> Option<(&'static str, u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    ["postgres", "nobody"].into_iter().find_map(|name| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        let mut id = || fields.next()?.parse().ok();
        Some((name, id()?, id()?))
    })
}

impl Cluster {
    /// None where there is no PostgreSQL.
    #[allow(clippy::print_stdout)]
    fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: no PostgreSQL");
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix("quell-pg")
            .tempdir()
            .unwrap();
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
            use std::os::unix::fs::MetadataExt as _;
            own.uid() == 0
        });
        let mut user = None;
        if is_root {
            let (name, uid, gid) = other_user().unwrap();
            chown(folder.path(), Some(uid), Some(gid)).unwrap();
            user = Some(name);
        }
        let mut cluster = Self {
            programs,
            folder,
            user,
            server: None,
        };
        let data = cluster.data();
        let mut init = cluster.program("initdb");
        init.args([
            "--username=quell",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
        ]);
        let made = init.args(["--locale=C", "-D"]).arg(&data).output().unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mut server = cluster.program("postgres");
        server
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(cluster.folder.path());
        server.args([
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "deadlock_timeout=50ms",
        ]);
        cluster.server = Some(server.spawn().unwrap());
        for _ in 0..600 {
            let mut ready = cluster.program("pg_isready");
            ready.arg("-h").arg(cluster.folder.path());
            if ready.status().unwrap().success() {
                return Some(cluster);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("PostgreSQL did not start");
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig=INT");
        if let Some(user) = self.user {
            command.args([&format!("--reuid={user}"), "--init-groups"]);
            let gid = other_user().unwrap().2;
            command.arg(format!("--regid={gid}"));
        }
        command.arg("--").arg(self.programs.join(name));
        command.current_dir("/").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn url(&self, database: &str) -> String {
        let socket: &Path = self.folder.path();
        format!(
            "postgres:///{database}?user=quell&host={}",
            socket.display()
        )
    }

    /// An empty database, by its address.
    async fn database(&self, name: &str) -> String {
        use sqlx::{Connection as _, Executor as _};
        let mut connection = sqlx::PgConnection::connect(&self.url("postgres"))
            .await
            .unwrap();
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        connection.execute(create).await.unwrap();
        connection.close().await.unwrap();
        self.url(name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else {
            return;
        };
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "--mode=immediate", "--wait", "-D"])
            .arg(self.data());
        if !stop.status().is_ok_and(|status| status.success()) {
            let _ = server.kill();
        }
        let _ = server.wait();
    }
}

async fn open(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(url).await.unwrap())
}

#[test]
fn postgresql_conforms() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    block_on(async {
        for (name, check) in CHECKS {
            check(open(&cluster.database(name).await).await).await;
        }
    });
}

#[test]
fn postgresql_answers_as_the_model_does() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let mut runner = TestRunner::deterministic();
    block_on(async {
        for case in 0..24 {
            let ops = sequence().new_tree(&mut runner).unwrap().current();
            let url = cluster.database(&format!("case{case}")).await;
            agree(open(&url).await, &ops).await;
        }
    });
}

async fn enrol(store: &dyn Store, n: u8, role: Role, quota_bytes: Option<u64>) {
    let invitation = Invitation {
        hash: [n; 32],
        role,
        uses_left: 1,
        expires_s: 100,
        quota_bytes,
    };
    store.invite(invitation).await.unwrap();
    store.redeem([n; 32], asked(n, 1), 1).await.unwrap();
}

#[test]
fn servers_over_one_database_are_as_right_as_one() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    block_on(async {
        let url = cluster.database("shared").await;
        // They start at once, and one of them makes the tables.
        let (a, b, c) = tokio::join!(open(&url), open(&url), open(&url));
        allowance_is_given_out_once(&a, &b).await;
        an_allowance_waits_for_whoever_gives_it_out(&url, &a).await;
        the_last_use_goes_to_one(&b, &c).await;
        receipts_count_once(&a, &c).await;
    });
}

async fn allowance_is_given_out_once(a: &Arc<PostgresStore>, b: &Arc<PostgresStore>) {
    enrol(a.as_ref(), 1, Role::Client, Some(105)).await;
    let issue = |id: u8| {
        let store = Arc::clone(if id.is_multiple_of(2) { a } else { b });
        // Each id is asked of both.
        let contracts = vec![contract(id / 2, 9, 10, 100, 0)];
        tokio::spawn(async move { store.issue(key(1), contracts, 1).await })
    };
    let asked: Vec<_> = (0..60).map(issue).collect();
    let mut kept = std::collections::BTreeSet::new();
    for (id, answer) in asked.into_iter().enumerate() {
        match answer.await.unwrap().unwrap()[..] {
            [Issued::Kept(_)] => _ = kept.insert(id / 2),
            [Issued::Quota { left_bytes }] => assert!(left_bytes < 105),
            _ => panic!("one answer"),
        }
    }
    assert_eq!(kept.len(), 10);
}

/// Which of several askers comes first is chance; so one stands still in the middle here.
async fn an_allowance_waits_for_whoever_gives_it_out(url: &str, store: &Arc<PostgresStore>) {
    use sqlx::{Connection as _, Executor as _};
    enrol(store.as_ref(), 3, Role::Client, Some(105)).await;
    let mut other = sqlx::PgConnection::connect(url).await.unwrap();
    let mut giving = other.begin().await.unwrap();
    let lock = "SELECT quota_bytes FROM quell.accounts FOR NO KEY UPDATE";
    giving.execute(lock).await.unwrap();
    let asking = {
        let store = Arc::clone(store);
        let contracts = vec![contract(200, 9, 10, 100, 0)];
        tokio::spawn(async move { store.issue(key(3), contracts, 1).await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!asking.is_finished(), "another server is at it");
    giving.rollback().await.unwrap();
    let given = asking.await.unwrap().unwrap();
    assert!(matches!(given[..], [Issued::Kept(_)]));
}

async fn the_last_use_goes_to_one(a: &Arc<PostgresStore>, b: &Arc<PostgresStore>) {
    let invitation = Invitation {
        hash: [77; 32],
        role: Role::Client,
        uses_left: 3,
        expires_s: 100,
        quota_bytes: None,
    };
    a.invite(invitation).await.unwrap();
    let redeem = |n: u8| {
        let store = Arc::clone(if n.is_multiple_of(2) { a } else { b });
        // Each key comes twice.
        tokio::spawn(async move { store.redeem([77; 32], asked(100 + n / 2, 1), 1).await })
    };
    let asked: Vec<_> = (0..20).map(redeem).collect();
    let mut keys = std::collections::BTreeSet::new();
    for answer in asked {
        if let Redeemed::Enrolled(account) = answer.await.unwrap().unwrap() {
            keys.insert(account.key);
        }
    }
    assert_eq!(keys.len(), 3);
}

async fn receipts_count_once(a: &Arc<PostgresStore>, b: &Arc<PostgresStore>) {
    enrol(a.as_ref(), 2, Role::Client, None).await;
    let contracts: Vec<_> = (100..120)
        .map(|id| contract(id, 8, 1_000, 1_000, 0))
        .collect();
    // Half of them are known to the store, the rest by their own word.
    a.issue(key(2), contracts[..10].to_vec(), 1).await.unwrap();
    let settle = |round: usize| {
        let store = Arc::clone(if round.is_multiple_of(2) { a } else { b });
        // Each round in another order.
        let mut batch: Vec<_> = contracts
            .iter()
            .map(|c| receipt(c, round as u64 * 10))
            .collect();
        batch.rotate_left(round * 7 % 20);
        if round.is_multiple_of(3) {
            batch.reverse();
        }
        tokio::spawn(async move { store.settle(batch).await })
    };
    let asked: Vec<_> = (0..30).map(settle).collect();
    let forget = tokio::spawn({
        let store = Arc::clone(b);
        async move { store.forget(500, 100).await }
    });
    for (round, answer) in asked.into_iter().enumerate() {
        for settled in answer.await.unwrap().unwrap() {
            assert!(matches!(settled, Settled::Total(total) if total >= round as u64 * 10));
        }
    }
    forget.await.unwrap().unwrap();
    enrol(b.as_ref(), 8, Role::Provider, None).await;
    let sum = async |n| a.account(key(n)).await.unwrap().unwrap().settled_bytes;
    assert_eq!((sum(2).await, sum(8).await), (10 * 290, 20 * 290));
}

#[test]
fn a_database_that_is_ahead_or_away_is_refused() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    block_on(async {
        let url = cluster.database("ahead").await;
        drop(open(&url).await);
        use sqlx::{Connection as _, Executor as _};
        let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
        connection
            .execute("INSERT INTO quell.version VALUES (2)")
            .await
            .unwrap();
        match PostgresStore::connect(&url).await.err() {
            Some(StoreError::Damaged(words)) => {
                assert_eq!(
                    words,
                    "the database is of version 2, this program reads version 1"
                );
            }
            other => panic!("{other:?}"),
        }
        let away = PostgresStore::connect(&cluster.url("nowhere")).await.err();
        assert!(matches!(away, Some(StoreError::Unavailable(_))), "{away:?}");
        // One that goes away is told of, and nothing hangs.
        let store = open(&cluster.database("gone").await).await;
        drop(cluster);
        let gone = store.account(key(1)).await;
        assert!(matches!(gone, Err(StoreError::Unavailable(_))), "{gone:?}");
    });
}
