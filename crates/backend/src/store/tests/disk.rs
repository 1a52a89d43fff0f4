//! A disk that may be full, and that may lose what was not flushed.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::RngExt as _;
use rand::rngs::StdRng;
use redb::StorageBackend;

use crate::store::StoreError;
use crate::store::redb::open_database;

#[derive(Debug, Clone)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Length(length) => to.resize(*length, 0),
            Self::Write(at, bytes) => {
                let end = at + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*at..end].copy_from_slice(bytes);
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// What survives.
    flushed: Vec<u8>,
    /// What is read.
    seen: Vec<u8>,
    /// What happened since the last flush.
    pending: Vec<Change>,
    /// After how many further changes and flushes the power fails; none for never.
    steps_left: Option<u64>,
    is_dead: bool,
    /// Room, in bytes; none for no bound.
    room: Option<usize>,
    flushes: u64,
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.steps_left {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => self.is_dead = true,
            }
        }
        self.alive()
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_dead {
            return Err(io::Error::other("the power is gone"));
        }
        Ok(())
    }

    fn has_room(&self, end: usize) -> io::Result<()> {
        if self.room.is_some_and(|room| end > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// A disk; each copy is the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub(super) fn opener(
        &self,
    ) -> Box<dyn Fn() -> Result<redb::Database, StoreError> + Send + Sync> {
        let disk = self.clone();
        Box::new(move || {
            let alive = disk.0.lock().alive();
            alive.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            open_database(|builder| builder.create_with_backend(disk.clone()))
        })
    }

    pub(super) fn fail_after(&self, steps: u64) {
        self.0.lock().steps_left = Some(steps);
    }

    pub(super) fn set_room(&self, room: Option<usize>) {
        self.0.lock().room = room;
    }

    pub(super) fn used(&self) -> usize {
        self.0.lock().seen.len()
    }

    pub(super) fn flushes(&self) -> u64 {
        self.0.lock().flushes
    }

    /// The power goes, if it has not, before anyone can tidy up.
    pub(super) fn fail(&self) {
        self.0.lock().is_dead = true;
    }

    /// The power comes back: of what was not flushed, any part is there, and one write may be there in part.
    pub(super) fn restart(&self, rng: &mut StdRng) {
        let mut state = self.0.lock();
        let pending = std::mem::take(&mut state.pending);
        let kept_of_ten = rng.random_range(0..=10);
        let last = pending.len().saturating_sub(1);
        for (place, change) in pending.into_iter().enumerate() {
            if rng.random_range(0..10) >= kept_of_ten {
                continue;
            }
            match change {
                Change::Write(at, mut bytes) if place == last && rng.random_bool(0.5) => {
                    bytes.truncate(rng.random_range(0..=bytes.len()));
                    Change::Write(at, bytes).apply(&mut state.flushed);
                }
                Change::Write(..) | Change::Length(_) => change.apply(&mut state.flushed),
            }
        }
        state.seen = state.flushed.clone();
        state.is_dead = false;
        state.steps_left = None;
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let state = self.0.lock();
        state.alive()?;
        Ok(state.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        state.alive()?;
        let at = usize::try_from(offset).unwrap();
        let bytes = state.seen.get(at..at + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step()?;
        let length = usize::try_from(len).unwrap();
        state.has_room(length)?;
        let change = Change::Length(length);
        change.apply(&mut state.seen);
        state.pending.push(change);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step()?;
        state.flushed = state.seen.clone();
        state.pending.clear();
        state.flushes += 1;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step()?;
        let at = usize::try_from(offset).unwrap();
        state.has_room(at + data.len())?;
        let change = Change::Write(at, data.to_vec());
        change.apply(&mut state.seen);
        state.pending.push(change);
        Ok(())
    }
}
