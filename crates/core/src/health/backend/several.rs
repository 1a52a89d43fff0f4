//! Several backends of one process, as one signal.
//!
//! A process whose backends fail one by one still has someone to ask; it is degraded
//! when all are. A process without a backend has nobody who could fail it.

use std::sync::Arc;
use std::time::Instant;

use super::BackendHealth;
use crate::send::Degraded;

/// The backends of a process: degraded when all are, and never when there is none.
#[derive(Debug, Clone, Default)]
pub struct Backends(Vec<Arc<BackendHealth>>);

impl Backends {
    /// The backends, in the order in which they are to be asked.
    pub fn new(backends: impl IntoIterator<Item = Arc<BackendHealth>>) -> Self {
        Self(backends.into_iter().collect())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<BackendHealth>> {
        self.0.iter()
    }

    /// The first that is not degraded; where all are, the first.
    pub fn preferred(&self, now: Instant) -> Option<&Arc<BackendHealth>> {
        let well = self.0.iter().find(|backend| !backend.is_degraded(now));
        well.or_else(|| self.0.first())
    }
}

impl Degraded for Backends {
    fn is_degraded(&self, now: Instant) -> bool {
        !self.0.is_empty() && self.0.iter().all(|backend| backend.is_degraded(now))
    }
}
