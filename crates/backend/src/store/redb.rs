//! The store without set-up: one file, one process (redb).
//!
//! Changes go to a thread that commits what waits together (`writer`); reads take a snapshot of the last commit, on
//! the runtime's threads for blocking work, and never wait for a change. What lies in the file, and in which form, is in
//! `tables`, what each change does in `apply`.
//!
//! The file belongs to one process: a second one is refused by redb's lock, which goes with the process that holds it. A
//! file of another version, or one that is no such file, is refused and left as it is. After a crash it is opened as it
//! was at the last commit.

mod apply;
mod tables;
mod writer;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use quell_wire::key::PublicKey;
use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, TableError};
use tokio::sync::mpsc;

use self::tables::{ACCOUNTS, META, SUMS, Tables, VERSION, VERSION_NAME, decode_account};
use self::writer::Opener;
use self::writer::{Order, QUEUE_MAX, Shelf};
use super::{
    Account, Answer, Invitation, Issued, NewContract, Redeemed, Settled, Settlement, Store,
    StoreError,
};

/// Bytes of pages that redb holds in memory: the inner pages of a few million contracts.
const CACHE_BYTES: usize = 64 << 20;

/// A store in a file. Dropping it waits for what was ordered, and gives the file free.
pub struct RedbStore {
    shelf: Arc<Shelf>,
    orders: Option<mpsc::Sender<Box<dyn Order>>>,
    writer: Option<JoinHandle<()>>,
}

impl RedbStore {
    /// Opens the file, or makes it, readable for its owner alone.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the file cannot be read and written, or another process has it;
    /// [`StoreError::Damaged`] when it is no such file, of another version, or broken.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let path = path.to_owned();
        Self::with_opener(Box::new(move || open_file(&path)))
    }

    /// One that is gone with it, for tests of what is built on a store.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        let create =
            |builder: &Builder| builder.create_with_backend(redb::backends::InMemoryBackend::new());
        let opened = Self::with_opener(Box::new(move || open_database(create)));
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn with_opener(opener: Opener) -> Result<Self, StoreError> {
        let shelf = Arc::new(Shelf::open(opener)?);
        let (orders, waiting) = mpsc::channel(QUEUE_MAX);
        let served = Arc::clone(&shelf);
        let writer = std::thread::Builder::new()
            .name("quell-store".into())
            .spawn(move || writer::serve(&served, waiting))
            .map_err(|error| StoreError::Unavailable(format!("no thread for it: {error}")))?;
        Ok(Self {
            shelf,
            orders: Some(orders),
            writer: Some(writer),
        })
    }

    fn change<T, F>(&self, function: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tables<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        Box::pin(async move {
            let gone = || StoreError::Unavailable("its writer has ended".into());
            let (order, answer) = writer::order(function);
            let orders = self.orders.as_ref().ok_or_else(gone)?;
            orders.send(order).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }

    fn read<T, F>(&self, function: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&ReadTransaction) -> Result<T, StoreError> + Send + 'static,
    {
        let shelf = Arc::clone(&self.shelf);
        Box::pin(async move {
            let read = move || {
                let database = shelf.database()?;
                let read = database
                    .begin_read()
                    .map_err(failed)
                    .and_then(|transaction| function(&transaction));
                if let Err(StoreError::Unavailable(_)) = read {
                    shelf.close(database);
                }
                read
            };
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|error| StoreError::Unavailable(error.to_string()))?
        })
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(writer) = self.writer.take() {
            // It ends when its queue is empty; had it died, there would be nothing to wait for.
            let _ = writer.join();
        }
    }
}

/// An error about the file at `path`.
fn named(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(words) => {
            StoreError::Unavailable(format!("{}: {words}", path.display()))
        }
        StoreError::Damaged(words) => StoreError::Damaged(format!("{}: {words}", path.display())),
    }
}

fn open_file(path: &Path) -> Result<Database, StoreError> {
    let io = |error: std::io::Error| named(path, StoreError::Unavailable(error.to_string()));
    if !path.try_exists().map_err(io)? {
        make_file(path).map_err(io)??;
    }
    let file = OpenOptions::new().read(true).write(true).open(path);
    let backend = FileBackend::new(file.map_err(io)?);
    open_database(|builder| builder.create_with_backend(backend?)).map_err(|e| named(path, e))
}

/// Makes the file beside its place, and puts it there when it is whole: a first start that is cut off leaves nothing that
/// the next one would have to refuse. Two that make it at once have a name of their own each; the first one's is kept.
fn make_file(path: &Path) -> std::io::Result<Result<(), StoreError>> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(new);
    if new.try_exists()? {
        std::fs::remove_file(&new)?;
    }
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let backend = FileBackend::new(file);
    if let Err(error) = open_database(|builder| builder.create_with_backend(backend?)) {
        std::fs::remove_file(&new)?;
        return Ok(Err(named(path, error)));
    }
    File::open(&new)?.sync_all()?;
    match std::fs::hard_link(&new, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => std::fs::remove_file(&new)?,
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(Ok(()))
}

/// Opens what `create` gives, and looks whether it is of this version. One without tables is made so.
pub(super) fn open_database(
    create: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
) -> Result<Database, StoreError> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    let database = create(&builder).map_err(not_opened)?;
    match version(&database)? {
        Some(VERSION) => return Ok(database),
        Some(version) => {
            return Err(StoreError::Damaged(format!(
                "it is of version {version}, this program reads version {VERSION}"
            )));
        }
        None => {}
    }
    let transaction = database.begin_write().map_err(failed)?;
    if transaction.list_tables().map_err(failed)?.next().is_some() {
        return Err(StoreError::Damaged(
            "it is another program's database".into(),
        ));
    }
    let mut tables = Tables::open(&transaction).map_err(failed)?;
    tables.meta.insert(VERSION_NAME, VERSION).map_err(failed)?;
    drop(tables);
    transaction.commit().map_err(failed)?;
    Ok(database)
}

fn not_opened(error: DatabaseError) -> StoreError {
    let is_held = matches!(
        error,
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch
    );
    if is_held {
        return StoreError::Unavailable("another process has it open".into());
    }
    failed(error)
}

fn version(database: &Database) -> Result<Option<u64>, StoreError> {
    let transaction = database.begin_read().map_err(failed)?;
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let version = meta.get_owned(VERSION_NAME).map_err(failed)?;
    Ok(Some(version.map_or(0, |version| version.value())))
}

/// An error of redb's, as what it is for who asked.
fn failed(error: impl Into<redb::Error>) -> StoreError {
    let error = error.into();
    let is_foreign = |error: &std::io::Error| error.kind() == std::io::ErrorKind::InvalidData;
    let is_damage = matches!(
        &error,
        redb::Error::Corrupted(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::UpgradeRequired(_)
    ) || matches!(&error, redb::Error::Io(error) if is_foreign(error));
    if is_damage {
        StoreError::Damaged(error.to_string())
    } else {
        StoreError::Unavailable(error.to_string())
    }
}

/// The same error, for another who waits.
fn repeated(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(words) => StoreError::Unavailable(words.clone()),
        StoreError::Damaged(words) => StoreError::Damaged(words.clone()),
    }
}

impl Store for RedbStore {
    fn invite(&self, invitation: Invitation) -> Answer<'_, ()> {
        self.change(move |tables| apply::invite(tables, &invitation))
    }

    fn redeem(&self, hash: [u8; 32], account: Account, now_s: u64) -> Answer<'_, Redeemed> {
        self.change(move |tables| apply::redeem(tables, hash, &account, now_s))
    }

    fn account(&self, key: PublicKey) -> Answer<'_, Option<Account>> {
        self.read(move |transaction| {
            let accounts = transaction.open_table(ACCOUNTS).map_err(failed)?;
            let Some(value) = accounts.get_owned(&key.0).map_err(failed)? else {
                return Ok(None);
            };
            let sums = transaction.open_table(SUMS).map_err(failed)?;
            let sum = sums.get_owned(&key.0).map_err(failed)?;
            decode_account(key, sum.map_or(0, |sum| sum.value()), value.value()).map(Some)
        })
    }

    fn accounts(&self, after: Option<PublicKey>, max: usize) -> Answer<'_, Vec<Account>> {
        self.read(move |transaction| {
            use std::ops::Bound::{Excluded, Unbounded};
            let accounts = transaction.open_table(ACCOUNTS).map_err(failed)?;
            let sums = transaction.open_table(SUMS).map_err(failed)?;
            let from = after.as_ref().map_or(Unbounded, |key| Excluded(&key.0));
            let range = accounts
                .range::<&[u8; 32]>((from, Unbounded))
                .map_err(failed)?;
            let account = |entry: Result<_, redb::StorageError>| {
                let (key, value): (
                    redb::AccessGuard<'_, &[u8; 32]>,
                    redb::AccessGuard<'_, &[u8]>,
                ) = entry.map_err(failed)?;
                let sum = sums.get_owned(key.value()).map_err(failed)?;
                let sum = sum.map_or(0, |sum| sum.value());
                decode_account(PublicKey(*key.value()), sum, value.value())
            };
            range.take(max).map(account).collect()
        })
    }

    fn set_banned(&self, key: PublicKey, is_banned: bool) -> Answer<'_, bool> {
        self.change(move |tables| {
            apply::change(tables, key, |account| account.is_banned = is_banned)
        })
    }

    fn set_quota(&self, key: PublicKey, quota_bytes: Option<u64>) -> Answer<'_, bool> {
        self.change(move |tables| {
            apply::change(tables, key, |account| account.quota_bytes = quota_bytes)
        })
    }

    fn heartbeat(&self, key: PublicKey, addresses: Vec<String>, now_s: u64) -> Answer<'_, bool> {
        self.change(move |tables| {
            apply::change(tables, key, |account| {
                apply::heartbeat(account, &addresses, now_s);
            })
        })
    }

    fn issue(
        &self,
        account: PublicKey,
        contracts: Vec<NewContract>,
        now_s: u64,
    ) -> Answer<'_, Vec<Issued>> {
        self.change(move |tables| apply::issue(tables, account, &contracts, now_s))
    }

    fn settle(&self, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>> {
        self.change(move |tables| apply::settle(tables, &settlements))
    }

    fn has_settled(&self, account: PublicKey) -> Answer<'_, bool> {
        self.read(move |transaction| {
            let sums = transaction.open_table(SUMS).map_err(failed)?;
            let sum = sums.get_owned(&account.0).map_err(failed)?;
            Ok(sum.is_some_and(|sum| sum.value() > 0))
        })
    }

    fn forget(&self, ended_before_s: u64, max: usize) -> Answer<'_, usize> {
        self.change(move |tables| apply::forget(tables, ended_before_s, max))
    }
}
