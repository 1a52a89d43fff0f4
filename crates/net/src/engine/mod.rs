//! The engines: tasks that carry between TUN, core and QUIC, and decide nothing.
//!
//! One current-thread runtime holds the engine, QUIC's tasks and the core's
//! state, so that nothing on the packet path takes a lock of ours. A turn of an
//! engine is always the same: wait for any input, hand it to the core with the
//! time, drain what the core says, sleep until what the core says.

pub mod client;
mod device;
mod event;

mod link;
mod messages;
mod notes;
pub mod paying;
pub mod provider;
mod sleep;
mod steer;
mod ways;

use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

pub use event::{Event, ExitName, Teller};
pub use messages::Messages;
pub use steer::Steer;

use crate::error::NetError;

/// Requests that may wait at an engine.
const REQUESTS_MAX: usize = 16;

/// How often a turn of an engine hands datagrams to QUIC and lets them leave, before it looks at its inputs again. The core
/// hands over 32 KiB at most at a time: 8 are 256 KiB, 1 ms at 2 Gbit/s.
const HANDOVERS_MAX: usize = 8;

enum Request<S> {
    Status(oneshot::Sender<S>),
    Stop,
}

/// How the rest of the process talks to a running engine.
pub struct Handle<S> {
    requests: mpsc::Sender<Request<S>>,
}

/// An answer on its way.
pub struct Asked<S>(oneshot::Receiver<S>);

impl<S> Asked<S> {
    /// The answer, if it is there.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn try_answer(&mut self) -> Result<Option<S>, NetError> {
        match self.0.try_recv() {
            Ok(status) => Ok(Some(status)),
            Err(oneshot::error::TryRecvError::Empty) => Ok(None),
            Err(oneshot::error::TryRecvError::Closed) => Err(NetError::Stopped),
        }
    }
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
        }
    }
}

impl<S> Handle<S> {
    fn new() -> (Self, mpsc::Receiver<Request<S>>) {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        (Self { requests }, receiver)
    }

    /// What the engine is doing.
    ///
    /// # Errors
    /// It has stopped.
    pub async fn status(&self) -> Result<S, NetError> {
        let (answer, status) = oneshot::channel();
        let asked = self.requests.send(Request::Status(answer)).await;
        asked.map_err(|_| NetError::Stopped)?;
        status.await.map_err(|_| NetError::Stopped)
    }

    /// Asks what the engine is doing, without waiting; `None`: it is asked many things at the moment.
    ///
    /// # Errors
    /// It has stopped.
    pub fn try_status(&self) -> Result<Option<Asked<S>>, NetError> {
        let (answer, status) = oneshot::channel();
        match self.requests.try_send(Request::Status(answer)) {
            Ok(()) => Ok(Some(Asked(status))),
            Err(mpsc::error::TrySendError::Full(_)) => Ok(None),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(NetError::Stopped),
        }
    }

    /// As [`Handle::stop`], without waiting: whether it was told, or has stopped already. An engine that is asked many
    /// things at the moment is to be told again.
    pub fn try_stop(&self) -> bool {
        let told = self.requests.try_send(Request::Stop);
        !matches!(told, Err(mpsc::error::TrySendError::Full(_)))
    }

    /// Ends the engine in good order. It has ended when its `run` returns.
    pub async fn stop(&self) {
        // An engine that is gone already has stopped.
        let _ = self.requests.send(Request::Stop).await;
    }
}

/// The time that the core is told: tokio's, so that it can be paused in tests.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Sleeps until `deadline`, for ever without one.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
