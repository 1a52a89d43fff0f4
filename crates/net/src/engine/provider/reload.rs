//! A small task beside the provider's engine that takes other settings to the core, which says what becomes of them.

use std::rc::Rc;

use quell_core::config::{ConfigError, ProviderConfig};
use quell_core::provider::{Reloaded, Roster};
use tokio::sync::{mpsc, oneshot};

use super::{ProviderEngine, Shared};
use crate::engine::now;
use crate::error::NetError;

/// Orders that may wait: one is under way, one more is a person who is impatient.
const ORDERS_MAX: usize = 2;

/// Other settings, and who waits for what became of them.
pub(super) struct Order {
    config: ProviderConfig,
    roster: Roster,
    answer: oneshot::Sender<Result<Reloaded, ConfigError>>,
}

/// Gives a running provider other settings.
#[derive(Debug, Clone)]
pub struct Reloader(mpsc::Sender<Order>);

impl Reloader {
    /// Takes on what may change of `config` while it runs, and `roster`: see [`quell_core::provider::Provider::on_reload`].
    ///
    /// # Errors
    /// [`NetError::Stopped`]; within: the first setting outside its range, and then nothing changed.
    pub async fn reload(
        &self,
        config: ProviderConfig,
        roster: Roster,
    ) -> Result<Result<Reloaded, ConfigError>, NetError> {
        let (answer, answered) = oneshot::channel();
        let order = Order {
            config,
            roster,
            answer,
        };
        let sent = self.0.send(order).await;
        sent.map_err(|_| NetError::Stopped)?;
        answered.await.map_err(|_| NetError::Stopped)
    }
}

impl ProviderEngine {
    /// The way to give it other settings while it runs; the last call counts.
    pub fn reloader(&mut self) -> Reloader {
        let (asks, orders) = mpsc::channel(ORDERS_MAX);
        self.policy.orders = Some(orders);
        Reloader(asks)
    }
}

impl Shared {
    pub(super) async fn follow_orders(self: Rc<Self>, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            let done = self
                .core
                .borrow_mut()
                .on_reload(order.config, order.roster, now());
            self.wake_ready();
            // Whoever asked may have gone.
            let _ = order.answer.send(done);
        }
    }
}
