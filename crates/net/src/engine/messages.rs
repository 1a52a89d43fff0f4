//! The embedder's messages on their way into an engine and out of it.
//!
//! ```text
//! Messages::send    → [bounded channel] → Mailbox → core (its lane's window)
//! Messages::receive ← [bounded channel] ← Mailbox ← core (its lane's credit)
//! ```
//!
//! Both ways are bounded and push back: a message that the lane does not take
//! waits in the mailbox and the next ones in the channel, and what the embedder
//! does not take stays in the core, where it holds the peer back through credit.

use bytes::Bytes;
use quell_core::send::Backpressure;
use tokio::sync::{mpsc, oneshot};

use crate::error::NetError;

/// Messages in a channel. Each may be a mebibyte; more would be memory that
/// nobody asked for.
const MESSAGES_MAX: usize = 4;

/// The embedder's end. `A` says who is at the other end of the tunnel: nothing for
/// a client, the client's key for a provider.
pub struct Messages<A> {
    outgoing: mpsc::Sender<Outgoing<A>>,
    incoming: mpsc::Receiver<(A, Bytes)>,
}

/// A message that is to be sent, and where its fate is awaited.
pub(super) struct Outgoing<A> {
    pub(super) to: A,
    pub(super) message: Bytes,
    pub(super) taken: oneshot::Sender<Result<(), Backpressure>>,
}

impl<A> Messages<A> {
    /// Hands a message over; resolves when its lane has taken it, not when it has
    /// arrived. Of messages to one peer, each arrives once and after those before
    /// it, or the session says that it does not know.
    ///
    /// # Errors
    /// Longer than half the window, no session, or an engine that has stopped. A
    /// provider does not wait for room in one client's window and says so.
    pub async fn send(&self, to: A, message: Bytes) -> Result<(), NetError> {
        let (taken, fate) = oneshot::channel();
        let outgoing = Outgoing { to, message, taken };
        let sent = self.outgoing.send(outgoing).await;
        sent.map_err(|_| NetError::Stopped)?;
        let fate = fate.await.map_err(|_| NetError::Stopped)?;
        fate.map_err(NetError::Message)
    }

    /// The next message and who sent it; `None` when the engine has ended.
    /// Cancelling it loses nothing.
    pub async fn receive(&mut self) -> Option<(A, Bytes)> {
        self.incoming.recv().await
    }
}

/// The engine's end. Without an embedder it stays silent for ever.
pub(super) struct Mailbox<A> {
    outgoing: mpsc::Receiver<Outgoing<A>>,
    incoming: mpsc::Sender<(A, Bytes)>,
}

pub(super) fn pair<A>() -> (Messages<A>, Mailbox<A>) {
    let (to_engine, outgoing) = mpsc::channel(MESSAGES_MAX);
    let (to_embedder, incoming) = mpsc::channel(MESSAGES_MAX);
    let messages = Messages {
        outgoing: to_engine,
        incoming,
    };
    let mailbox = Mailbox {
        outgoing,
        incoming: to_embedder,
    };
    (messages, mailbox)
}

impl<A> Mailbox<A> {
    /// The next message to send. Cancelling it loses nothing.
    pub(super) async fn next(&mut self) -> Outgoing<A> {
        match self.outgoing.recv().await {
            Some(outgoing) => outgoing,
            None => std::future::pending().await,
        }
    }

    /// A handle that delivers.
    pub(super) fn sender(&self) -> mpsc::Sender<(A, Bytes)> {
        self.incoming.clone()
    }
}

/// Hands on what `next` yields while the embedder takes it.
pub(super) fn deliver<A>(
    to: &mpsc::Sender<(A, Bytes)>,
    mut next: impl FnMut() -> Option<(A, Bytes)>,
) {
    while let Ok(place) = to.try_reserve() {
        match next() {
            Some(message) => place.send(message),
            None => return,
        }
    }
}

/// Resolves when the embedder takes messages again; never if it is gone.
pub(super) async fn room<A>(to: &mpsc::Sender<(A, Bytes)>) {
    if to.reserve().await.is_err() {
        std::future::pending::<()>().await;
    }
}
