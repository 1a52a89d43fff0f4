//! What all parts of a proxy share.

use std::cell::Cell;
use std::sync::Arc;

use quell_stack::{Ledger, Outbox, Outlet};
use tokio::sync::watch;

use crate::auth::Guard;
use crate::books::{Books, Live};
use crate::config::{ProxyConfig, ProxyLimits};
use crate::dns::Names;
use crate::flows::Flows;
use crate::ports::Ports;
use crate::tunnel::Tunnel;

/// Everything but the listeners; on one thread.
pub(crate) struct Common {
    pub(crate) limits: ProxyLimits,
    pub(crate) guard: Guard,
    pub(crate) outbox: Outbox,
    pub(crate) books: Arc<Books>,
    pub(crate) tunnel: watch::Receiver<Tunnel>,
    pub(crate) flows: Flows,
    pub(crate) ports: Ports,
    pub(crate) names: Names,
    /// Connections of applications.
    pub(crate) connections: Live,
    /// UDP associations.
    pub(crate) associations: Live,
    identification: Cell<u16>,
}

impl Common {
    pub(crate) fn new(
        config: ProxyConfig,
        tunnel: watch::Receiver<Tunnel>,
        outlet: Outlet,
        books: Arc<Books>,
    ) -> Self {
        let ledger: Arc<dyn Ledger> = Arc::<Books>::clone(&books);
        Self {
            guard: Guard::new(config.credentials),
            outbox: Outbox::new(outlet, ledger),
            books,
            tunnel,
            flows: Flows::default(),
            ports: Ports::default(),
            names: Names::new(config.dns_servers, config.limits.dns_cache_max),
            connections: Live::default(),
            associations: Live::default(),
            identification: Cell::new(rand::random()),
            limits: config.limits,
        }
    }

    /// What tells the fragments of one datagram from another's.
    pub(crate) fn next_identification(&self) -> u16 {
        let next = self.identification.get().wrapping_add(1);
        self.identification.set(next);
        next
    }
}
