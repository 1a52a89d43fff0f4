//! What threads share: the standard library's, or loom's where the build asks for it.
//!
//! With `--cfg quell_loom` every shared word and lock of this folder is loom's, which
//! runs a test under each order of steps that the memory model allows. Nothing else of
//! the code differs, so what is proven is what runs. Locks stand on paths that are
//! walked a few times a minute; what a packet asks is an atomic.

#[cfg(quell_loom)]
pub(super) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};
#[cfg(not(quell_loom))]
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// The lock's content, also after a panic of another thread: what it guards here is
/// changed by single stores that leave no half of a state behind.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
