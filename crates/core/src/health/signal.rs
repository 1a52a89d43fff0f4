//! The degraded signal as those see it who only listen.
//!
//! One health of the control plane is shared by everything in a process that
//! paces itself by it (DESIGN §5). Listeners hold a [`Signal`], a handle that
//! they cannot write, and look at it when they have a decision to make: there is
//! no subscription, so nothing has to be told and nothing can be missed.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::send::{AlwaysHealthy, Degraded};

/// A shared handle on something that knows whether the control plane is degraded.
#[derive(Clone)]
pub struct Signal(Arc<dyn Degraded + Send + Sync>);

impl Signal {
    /// A handle on `source`.
    pub fn new(source: Arc<dyn Degraded + Send + Sync>) -> Self {
        Self(source)
    }
}

impl Default for Signal {
    /// Never degraded.
    fn default() -> Self {
        Self(Arc::new(AlwaysHealthy))
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signal")
    }
}

impl Degraded for Signal {
    fn is_degraded(&self, now: Instant) -> bool {
        self.0.is_degraded(now)
    }
}
