//! The one thread that writes: what waits is written together, and answered once it is durable.
//!
//! A durable commit costs a flush of the disk, whatever is in it. So everything that waits when a commit ends goes into
//! the next one, up to [`GROUP_MAX`]: under load the flush is shared, alone an order waits for nothing but its own. An
//! order is answered after the commit, never before.
//!
//! ```text
//! orders ─> [bounded queue] ─> begin, run, run, run … commit ─> answers
//!                                   └ one fails ─> abort; damaged: each once more, alone; else all are told
//! ```
//!
//! An error of the file (a full disk) closes the database: redb takes nothing more after one. The next order opens it
//! again, which repairs it; while that fails, each order is told so. What a failed commit had in it may be there or not,
//! all of it or nothing, which is what [`StoreError::Unavailable`] says.

use std::sync::Arc;

use parking_lot::Mutex;
use redb::Database;
use tokio::sync::{mpsc, oneshot};

use super::tables::Tables;
use super::{failed, repeated};
use crate::store::StoreError;

/// Most orders in one transaction: enough that a flush is nothing a piece, few enough that a group of the largest ones
/// (256 receipts each) is a fraction of a second.
pub(super) const GROUP_MAX: usize = 64;
/// Most orders that wait; who comes after them waits for room.
pub(super) const QUEUE_MAX: usize = 256;

/// Opens the database, the first time and again after an error.
pub(super) type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// A database that is opened again after an error.
pub(super) struct Shelf {
    opener: Opener,
    database: Mutex<Option<Arc<Database>>>,
}

impl Shelf {
    /// Opens it, so that what is wrong is known at once.
    pub(super) fn open(opener: Opener) -> Result<Self, StoreError> {
        let database = Mutex::new(Some(Arc::new(opener()?)));
        Ok(Self { opener, database })
    }

    /// The database, opened again if need be.
    pub(super) fn database(&self) -> Result<Arc<Database>, StoreError> {
        let mut held = self.database.lock();
        if let Some(database) = &*held {
            return Ok(Arc::clone(database));
        }
        let database = Arc::new((self.opener)()?);
        *held = Some(Arc::clone(&database));
        Ok(database)
    }

    /// `used` failed: the next who asks gets another.
    pub(super) fn close(&self, used: Arc<Database>) {
        let mut held = self.database.lock();
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &used)) {
            *held = None;
        }
    }

    fn write(&self, group: &mut [Box<dyn Order>]) -> Result<(), StoreError> {
        let database = self.database()?;
        let written = write(&database, group);
        if let Err(StoreError::Unavailable(_)) = written {
            self.close(database);
        }
        written
    }
}

fn write(database: &Database, group: &mut [Box<dyn Order>]) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().map_err(failed)?;
    // After a crash the server is back at once, however large the file; it also commits in two phases, so that which of
    // two states is the last one does not hang on a checksum over what clients chose.
    transaction.set_quick_repair(true);
    let mut tables = Tables::open(&transaction).map_err(failed)?;
    for order in group {
        order.run(&mut tables)?;
    }
    drop(tables);
    transaction.commit().map_err(failed)
}

/// Something to be done in a transaction, and who waits for it.
pub(super) trait Order: Send {
    /// Does it. Called again when the transaction that it was in was aborted.
    fn run(&mut self, tables: &mut Tables<'_>) -> Result<(), StoreError>;
    /// Tells how the transaction ended.
    fn answer(&mut self, end: Result<(), StoreError>);
}

/// An order that is a function.
struct Call<T, F> {
    function: F,
    outcome: Option<T>,
    to: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T, F> Order for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Tables<'_>) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        self.outcome = None;
        self.outcome = Some((self.function)(tables)?);
        Ok(())
    }

    fn answer(&mut self, end: Result<(), StoreError>) {
        let outcome = match (end, self.outcome.take()) {
            (Ok(()), Some(outcome)) => Ok(outcome),
            (Ok(()), None) => Err(StoreError::Unavailable("nothing was done".into())),
            (Err(error), _) => Err(error),
        };
        if let Some(to) = self.to.take() {
            // Who asked may have gone.
            let _ = to.send(outcome);
        }
    }
}

/// An order, and where its answer comes.
pub(super) fn order<T, F>(function: F) -> (Box<dyn Order>, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnMut(&mut Tables<'_>) -> Result<T, StoreError> + Send + 'static,
{
    let (to, answer) = oneshot::channel();
    let call = Call {
        function,
        outcome: None,
        to: Some(to),
    };
    (Box::new(call), answer)
}

/// Writes until nobody can order any more.
pub(super) fn serve(shelf: &Shelf, mut orders: mpsc::Receiver<Box<dyn Order>>) {
    let mut group = Vec::with_capacity(GROUP_MAX);
    while orders.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
        commit(shelf, &mut group);
        group.clear();
    }
}

fn commit(shelf: &Shelf, group: &mut [Box<dyn Order>]) {
    let end = shelf.write(group);
    // One record that cannot be read is not the fault of the others.
    if let (Err(StoreError::Damaged(_)), [_, _, ..]) = (&end, &*group) {
        for order in group {
            let end = shelf.write(std::slice::from_mut(order));
            order.answer(end);
        }
        return;
    }
    for order in group {
        order.answer(match &end {
            Ok(()) => Ok(()),
            Err(error) => Err(repeated(error)),
        });
    }
}
