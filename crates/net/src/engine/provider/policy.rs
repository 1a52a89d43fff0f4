//! Small tasks beside the provider's engine that concern whom its clients may speak to.
//!
//! One tells the core the addresses of the host: once before the engine runs, so that no packet is judged without them, and
//! then whenever they changed. The other answers what `quell why` asks. Neither decides anything, and neither is on a
//! packet's way.
//!
//! Addresses that cannot be read at the start keep the provider from starting: it would be open to its own network. Later
//! the ones that are known stay.

use std::rc::Rc;

use quell_core::provider::rules::{Asked, Explanation};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::reload::Order;
use super::{News, ProviderEngine, Shared};
use crate::error::NetError;
use crate::host::{self, HostWatch};

/// Questions that may wait.
const QUESTIONS_MAX: usize = 16;

type Question = (Asked, oneshot::Sender<Explanation>);

/// Asks a running provider whom its clients may speak to.
#[derive(Debug, Clone)]
pub struct Judge(mpsc::Sender<Question>);

impl Judge {
    /// Whether a client may send what is asked, and why.
    ///
    /// # Errors
    /// The provider has stopped.
    pub async fn explain(&self, asked: Asked) -> Result<Explanation, NetError> {
        let (answer, answered) = oneshot::channel();
        let sent = self.0.send((asked, answer)).await;
        sent.map_err(|_| NetError::Stopped)?;
        answered.await.map_err(|_| NetError::Stopped)
    }
}

/// What the tasks begin with.
#[derive(Default)]
pub(super) struct Policy {
    /// What tells of changes, and the interface whose link is the clients'.
    host: Option<(HostWatch, Option<String>)>,
    questions: Option<mpsc::Receiver<Question>>,
    /// Other settings: see `reload`.
    pub(super) orders: Option<mpsc::Receiver<Order>>,
}

impl Policy {
    /// Starts the tasks, which end when the set is dropped.
    pub(super) fn start(&mut self, shared: &Rc<Shared>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let Some((watch, tun)) = self.host.take() {
            let shared = Rc::clone(shared);
            tasks.spawn_local(async move { shared.follow_host(watch, tun).await });
        }
        if let Some(questions) = self.questions.take() {
            let shared = Rc::clone(shared);
            tasks.spawn_local(async move { shared.answer(questions).await });
        }
        if let Some(orders) = self.orders.take() {
            tasks.spawn_local(Rc::clone(shared).follow_orders(orders));
        }
        tasks
    }
}

impl ProviderEngine {
    /// Denies clients the addresses of this host and its links, as they are at any moment. `tun` is the interface that is
    /// the provider's own, if it has one: the host is not told to be on a link with its clients.
    ///
    /// # Errors
    /// The addresses cannot be read.
    pub fn watch_host(&mut self, tun: Option<&str>) -> Result<(), NetError> {
        let watch = HostWatch::new();
        let host = host::addresses(tun).map_err(NetError::HostAddresses)?;
        self.shared.core.borrow_mut().on_host_addresses(host);
        self.policy.host = Some((watch, tun.map(str::to_owned)));
        Ok(())
    }

    /// The way to ask whom clients may speak to; the last call counts.
    pub fn judge(&mut self) -> Judge {
        let (asks, questions) = mpsc::channel(QUESTIONS_MAX);
        self.policy.questions = Some(questions);
        Judge(asks)
    }
}

impl Shared {
    async fn follow_host(&self, mut watch: HostWatch, tun: Option<String>) {
        loop {
            watch.changed().await;
            match host::addresses(tun.as_deref()) {
                Ok(host) => self.core.borrow_mut().on_host_addresses(host),
                Err(error) => self.note(News::HostUnread, &error),
            }
            watch.settle().await;
        }
    }

    async fn answer(&self, mut questions: mpsc::Receiver<Question>) {
        while let Some((asked, answer)) = questions.recv().await {
            // Whoever asked may have gone.
            let _ = answer.send(self.core.borrow().explain(&asked));
        }
    }
}
