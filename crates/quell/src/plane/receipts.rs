//! A provider's receipts on its disk: the latest of each contract, durable before it gives credit (redb).
//!
//! ```text
//! engine ──Batch──> this thread ──one transaction, synced──> engine: durable, or failed
//! ```
//!
//! The core gives one batch at a time and gathers while it is written, so there is no queue here, and a slow disk makes
//! batches larger. A transaction is there whole or not at all, also after a crash. After an error the file is opened
//! anew for the next batch: redb takes no more writes after one that failed, and a disk that was full may have room.
//!
//! The file belongs to one process; a second one is refused. A file that is none of ours, or of another version, is an
//! error that names it, and stays as it is: it may hold what somebody is owed.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use quell_core::contract::{Batch, Record, Stored};
use quell_wire::contract::{CONTRACT_LEN, RECEIPT_LEN};
use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition,
};
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::warn;

use crate::state_file::{self, StateFileError};

/// The form of the file, and of its records.
const VERSION: u64 = 1;
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
const RECEIPTS: TableDefinition<'static, &[u8; 16], &[u8; RECORD_LEN]> =
    TableDefinition::new("receipts");
/// The name in `meta` of [`Stored::floor_s`]; a file that has none yet has floor 0.
const FLOOR: &str = "floor_s";
/// A contract, a receipt, and how many bytes are filed.
const RECORD_LEN: usize = CONTRACT_LEN + RECEIPT_LEN + 8;
/// Bytes of pages that redb holds in memory; the file of 100,000 contracts has 40 MB.
const CACHE_BYTES: usize = 8 << 20;

/// The receipts are not to be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReceiptsError {
    /// The system refused.
    #[error(transparent)]
    System(#[from] StateFileError),
    /// Another process has the file.
    #[error("another process has {path} open", path = .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("the receipts in {path} are not to be had: {reason}", path = .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Opens the database, anew after an error.
type Opener = Box<dyn Fn() -> Result<Database, String> + Send>;

/// The file.
pub(crate) struct Receipts {
    path: PathBuf,
    opener: Opener,
    database: Option<Database>,
}

impl Receipts {
    /// Opens `receipts-<name>.redb` in `folder`, made where it is not there, and reads all that is in it.
    ///
    /// # Errors
    /// It is not to be had, in use, or none of ours.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<(Self, Stored), ReceiptsError> {
        state_file::make_folder(folder)?;
        let path = folder.join(format!("receipts-{name}.redb"));
        let file = path.clone();
        let opened = Self::over(path, Box::new(move || open_file(&file)))?;
        // A new file is durable with its folder's entry.
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| StateFileError {
            doing: "sync the folder",
            path: folder.to_owned(),
            source,
        })?;
        Ok(opened)
    }

    fn over(path: PathBuf, opener: Opener) -> Result<(Self, Stored), ReceiptsError> {
        let mut receipts = Self {
            path,
            opener,
            database: None,
        };
        let stored = receipts.reopen().and_then(|()| receipts.read_all());
        match stored {
            Ok(stored) => Ok((receipts, stored)),
            Err(reason) if reason == IN_USE => Err(ReceiptsError::InUse {
                path: receipts.path,
            }),
            Err(reason) => Err(ReceiptsError::Unusable {
                path: receipts.path,
                reason,
            }),
        }
    }

    fn reopen(&mut self) -> Result<(), String> {
        if self.database.is_some() {
            return Ok(());
        }
        let database = (self.opener)()?;
        check_version(&database)?;
        self.database = Some(database);
        Ok(())
    }

    fn database(&self) -> Result<&Database, String> {
        self.database
            .as_ref()
            .ok_or_else(|| "it is closed".to_owned())
    }

    fn read_all(&self) -> Result<Stored, String> {
        let read = self.database()?.begin_read().map_err(words)?;
        let table = read.open_table(RECEIPTS).map_err(words)?;
        let mut records = Vec::new();
        for entry in table.iter().map_err(words)? {
            let (_, value) = entry.map_err(words)?;
            records.push(record_of(value.value()));
        }
        let meta = read.open_table(META).map_err(words)?;
        let floor_s = meta.get(FLOOR).map_err(words)?;
        Ok(Stored {
            records,
            floor_s: floor_s.map_or(0, |floor_s| floor_s.value()),
        })
    }

    /// Writes a batch as one transaction, durably.
    ///
    /// # Errors
    /// Why it may not be there; it may be written again.
    pub(crate) fn write(&mut self, batch: &Batch) -> Result<(), String> {
        let written = self.reopen().and_then(|()| self.write_as_is(batch));
        if written.is_err() {
            self.database = None;
        }
        written
    }

    fn write_as_is(&self, batch: &Batch) -> Result<(), String> {
        let write = self.database()?.begin_write().map_err(words)?;
        {
            let mut table = write.open_table(RECEIPTS).map_err(words)?;
            for (id, record) in &batch.records {
                table.insert(&id.0, &bytes_of(record)).map_err(words)?;
            }
            for id in &batch.forgotten {
                table.remove(&id.0).map_err(words)?;
            }
            let mut meta = write.open_table(META).map_err(words)?;
            let before = meta.get(FLOOR).map_err(words)?;
            let before = before.map_or(0, |floor_s| floor_s.value());
            if batch.floor_s > before {
                meta.insert(FLOOR, batch.floor_s).map_err(words)?;
            }
        }
        write.commit().map_err(words)
    }

    /// Serves batches on a thread of its own until nobody gives any; each is answered with whether it is durable.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn serve(
        mut self,
        mut batches: mpsc::Receiver<Batch>,
        written: mpsc::Sender<(u64, bool)>,
    ) -> Result<thread::JoinHandle<()>, StateFileError> {
        let path = self.path.clone();
        let serve = move || {
            while let Some(batch) = batches.blocking_recv() {
                let done = self.write(&batch);
                if let Err(reason) = &done {
                    let file = self.path.display();
                    warn!(%file, reason, "receipts could not be written; who they are of waits at the limit");
                }
                if written.blocking_send((batch.id, done.is_ok())).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("quell-receipts".into());
        thread.spawn(serve).map_err(|source| StateFileError {
            doing: "start a thread for",
            path,
            source,
        })
    }
}

fn open_file(path: &Path) -> Result<Database, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(0o600).open(path).map_err(words)?;
    let opened = FileBackend::new(file).and_then(|backend| {
        Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend)
    });
    opened.map_err(|error| {
        let in_use = matches!(
            error,
            DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch
        );
        if in_use {
            IN_USE.to_owned()
        } else {
            error.to_string()
        }
    })
}

const IN_USE: &str = "another process has it open";

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// One without tables is made so; another's is left alone.
fn check_version(database: &Database) -> Result<(), String> {
    let write = database.begin_write().map_err(words)?;
    let is_new = write.list_tables().map_err(words)?.next().is_none();
    {
        let mut meta = write.open_table(META).map_err(words)?;
        if is_new {
            meta.insert("version", VERSION).map_err(words)?;
        }
        let version = meta
            .get("version")
            .map_err(words)?
            .map(|version| version.value());
        if version != Some(VERSION) {
            return Err(format!(
                "it is of version {}, this program reads version {VERSION}",
                version.map_or("none".to_owned(), |version| version.to_string())
            ));
        }
        write.open_table(RECEIPTS).map_err(words)?;
    }
    write.commit().map_err(words)
}

fn bytes_of(record: &Record) -> [u8; RECORD_LEN] {
    let mut bytes = [0; RECORD_LEN];
    let filed = record.filed_total.to_be_bytes();
    let parts = record.contract.iter().chain(&record.receipt).chain(&filed);
    bytes
        .iter_mut()
        .zip(parts)
        .for_each(|(to, from)| *to = *from);
    bytes
}

fn record_of(bytes: &[u8; RECORD_LEN]) -> Record {
    let mut record = Record {
        contract: [0; CONTRACT_LEN],
        receipt: [0; RECEIPT_LEN],
        filed_total: 0,
    };
    let mut filed = [0; 8];
    let parts = record
        .contract
        .iter_mut()
        .chain(&mut record.receipt)
        .chain(&mut filed);
    parts.zip(bytes).for_each(|(to, from)| *to = *from);
    record.filed_total = u64::from_be_bytes(filed);
    record
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use quell_wire::contract::ContractId;

    use super::*;

    fn record(number: u8, filed_total: u64) -> (ContractId, Record) {
        let record = Record {
            contract: [number; CONTRACT_LEN],
            receipt: [number + 100; RECEIPT_LEN],
            filed_total,
        };
        (ContractId([number; 16]), record)
    }

    fn batch(records: &[(u8, u64)], forgotten: &[u8]) -> Batch {
        Batch {
            id: 7,
            records: records
                .iter()
                .map(|(number, filed)| record(*number, *filed))
                .collect(),
            forgotten: forgotten
                .iter()
                .map(|number| ContractId([*number; 16]))
                .collect(),
            floor_s: 0,
        }
    }

    fn open(folder: &Path) -> (Receipts, Stored) {
        Receipts::open(folder, "exit").unwrap()
    }

    #[test]
    fn what_was_written_is_found_by_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let (mut receipts, first) = open(&home.path().join("deep/state"));
        assert_eq!(first, Stored::default());
        receipts.write(&batch(&[(1, 0), (2, 5)], &[])).unwrap();
        receipts
            .write(&batch(&[(2, u64::MAX), (3, 0)], &[1]))
            .unwrap();
        drop(receipts);
        let (_, stored) = open(&home.path().join("deep/state"));
        assert_eq!(stored.records, [record(2, u64::MAX).1, record(3, 0).1]);
    }

    #[test]
    fn the_floor_is_durable_with_its_batch_and_never_falls() {
        let home = tempfile::tempdir().unwrap();
        let (mut receipts, _) = open(home.path());
        let at = |floor_s, forgotten: &[u8]| Batch {
            floor_s,
            ..batch(&[], forgotten)
        };
        receipts.write(&batch(&[(1, 0), (2, 0)], &[])).unwrap();
        receipts.write(&at(1_900_000_000, &[1])).unwrap();
        receipts.write(&at(7, &[])).unwrap();
        drop(receipts);
        let stored = open(home.path()).1;
        assert_eq!(
            (stored.floor_s, stored.records),
            (1_900_000_000, vec![record(2, 0).1])
        );
    }

    #[test]
    fn a_second_process_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let _first = open(home.path());
        let error = Receipts::open(home.path(), "exit").err().unwrap();
        assert!(matches!(error, ReceiptsError::InUse { .. }), "{error}");
        open(&home.path().join("other"));
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_an_error_and_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("receipts-exit.redb");
        fs::write(&path, "what somebody is owed").unwrap();
        let error = Receipts::open(home.path(), "exit").err().unwrap();
        assert!(matches!(error, ReceiptsError::Unusable { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "what somebody is owed");
        fs::remove_file(&path).unwrap();

        let (receipts, _) = open(home.path());
        let write = receipts.database().unwrap().begin_write().unwrap();
        write
            .open_table(META)
            .unwrap()
            .insert("version", 2)
            .unwrap();
        write.commit().unwrap();
        drop(receipts);
        let error = Receipts::open(home.path(), "exit")
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("version 2, this program reads version 1"),
            "{error}"
        );
    }

    #[test]
    fn batches_are_answered_once_they_are_durable_and_after_a_failure_the_file_is_opened_anew() {
        let home = tempfile::tempdir().unwrap();
        let (mut receipts, _) = open(home.path());
        let path = home.path().join("receipts-exit.redb");
        // The disk takes nothing for a while, from the next opening on.
        let blocked = home.path().join("blocked");
        let gate = blocked.clone();
        receipts.opener = Box::new(move || match gate.exists() {
            true => Err("the disk is full".to_owned()),
            false => open_file(&path),
        });
        receipts.database = None;
        fs::write(&blocked, "").unwrap();
        let (give, batches) = mpsc::channel(1);
        let (tell, mut written) = mpsc::channel(1);
        let thread = receipts.serve(batches, tell).unwrap();
        give.blocking_send(batch(&[(1, 0)], &[])).unwrap();
        assert_eq!(written.blocking_recv(), Some((7, false)));
        fs::remove_file(&blocked).unwrap();
        give.blocking_send(batch(&[(1, 0)], &[])).unwrap();
        assert_eq!(written.blocking_recv(), Some((7, true)));
        drop(give);
        thread.join().unwrap();
        assert_eq!(open(home.path()).1.records, [record(1, 0).1]);
    }
}
