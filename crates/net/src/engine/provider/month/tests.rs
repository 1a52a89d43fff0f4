//! A store that fails and comes back, a full disk, and a disk that takes its time.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use quell_core::provider::limits::Month;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn used(bytes: u64) -> MonthUse {
    let month: Month = "2026-11".parse().unwrap();
    MonthUse { month, bytes }
}

/// Tells what it stored; while `full`, it writes to a disk without room.
#[derive(Debug)]
struct Store {
    full: Arc<AtomicBool>,
    stored: mpsc::Sender<Result<u64, ()>>,
}

impl MonthStore for Store {
    fn store(&mut self, used: MonthUse) -> io::Result<()> {
        let result = if self.full.load(Ordering::SeqCst) {
            File::options()
                .write(true)
                .open("/dev/full")
                .and_then(|mut disk| disk.write_all(b"count"))
        } else {
            Ok(())
        };
        let told = result.as_ref().map(|()| used.bytes).map_err(|_| ());
        self.stored.send(told).unwrap();
        result
    }
}

fn keeper(full: bool) -> (Keeper, Arc<AtomicBool>, mpsc::Receiver<Result<u64, ()>>) {
    let (stored, told) = mpsc::channel();
    let full = Arc::new(AtomicBool::new(full));
    let store = Store {
        full: Arc::clone(&full),
        stored,
    };
    (Keeper::start(Box::new(store), used(5)).unwrap(), full, told)
}

#[test]
fn what_changed_is_kept_and_what_did_not_is_not_written_again() {
    let (mut keeper, _, told) = keeper(false);
    assert_eq!(keeper.report().kept_bytes, 5);
    keeper.note(used(5));
    keeper.note(used(7));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Ok(7));
    keeper.finish(used(9)).unwrap();
    assert_eq!(told.iter().collect::<Vec<_>>(), [Ok(9)]);
}

#[test]
fn a_full_disk_loses_nothing_that_room_does_not_bring_back() {
    let (mut keeper, full, told) = keeper(true);
    keeper.note(used(7));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Err(()));
    while keeper.report().failures == 0 {
        thread::yield_now();
    }
    assert_eq!(keeper.report().kept_bytes, 5);
    full.store(false, Ordering::SeqCst);
    // Nothing was carried since.
    keeper.note(used(7));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Ok(7));
    keeper.finish(used(7)).unwrap();
}

#[test]
fn a_last_count_that_cannot_be_kept_is_an_error_that_names_it() {
    let (keeper, _, _told) = keeper(true);
    let error = keeper.finish(used(1_234)).unwrap_err().to_string();
    assert!(
        error.contains("1234") && error.contains("2026-11"),
        "{error}"
    );
}
