//! Memory for the buffers of a flow: pages of it are there when data came to them.
//!
//! Straight from the system, so that a flow that carries little costs little, and all of it goes back when the flow ends.
//! An allocator would clear it, and keep it.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Two buffers of one flow, side by side.
#[derive(Debug)]
pub struct Memory(MmapMut);

impl Memory {
    /// Room for two buffers of `bytes` each.
    ///
    /// # Errors
    /// The system has no more maps to give.
    pub fn for_two(bytes: usize) -> io::Result<Self> {
        let memory = MmapMut::map_anon(bytes.saturating_mul(2))?;
        // Many flows' maps stand side by side, and a huge page would fill hundreds of them for the first byte. A system
        // that has no huge pages has no such advice.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::NoHugePage);
        Ok(Self(memory))
    }
}

/// The least bytes of a buffer.
pub const BUFFER_BYTES_MIN: usize = 16 * 1024;

/// Bytes of each buffer of the flow that comes when `live` of at most `flows_max` flows are there: all of `bytes` while the
/// table is filled to a sixteenth, a quarter of it up to a quarter, a sixteenth beyond, but [`BUFFER_BYTES_MIN`] at least.
///
/// So a few flows are fast, and a full table takes a sixth of what full buffers would.
#[must_use]
pub fn buffer_bytes(bytes: usize, live: usize, flows_max: usize) -> usize {
    let share = if live < flows_max.div_ceil(16) {
        1
    } else if live < flows_max.div_ceil(4) {
        4
    } else {
        16
    };
    (bytes / share).max(BUFFER_BYTES_MIN)
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
