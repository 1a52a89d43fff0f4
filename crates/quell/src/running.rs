//! A client or a provider that runs: its thread, its handle, its control socket.
//!
//! The engine has a thread of its own with a current-thread runtime; everything
//! of it lives and ends there. Whoever holds [`Running`] asks for a status, tells
//! it to stop, waits for its end. Dropping it stops the engine and waits.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use quell_net::engine::Handle;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::control::{Command, Handler, Request};
use crate::error::Error;

/// What the engine's thread reports once it stands.
type Started<R> = Result<Handle<R>, Error>;

/// A running engine.
pub(crate) struct Running<R: Send + 'static> {
    handle: Handle<R>,
    thread: Mutex<Option<JoinHandle<Result<(), Error>>>>,
    /// Closed by the thread's end.
    alive: watch::Receiver<()>,
}

impl<R: Send + 'static> Running<R> {
    /// Runs `body` on a thread of its own, within a `LocalSet`. It reports
    /// through the sender once the engine stands, and runs it to its end.
    pub(crate) fn start<F, B>(name: &str, body: B) -> Result<Self, Error>
    where
        F: Future<Output = Result<(), Error>>,
        B: FnOnce(mpsc::Sender<Started<R>>) -> F + Send + 'static,
    {
        let (tell, told) = mpsc::channel();
        let (life, alive) = watch::channel(());
        let run = move || {
            let _life = life;
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|source| Error::System {
                doing: "start a runtime",
                source,
            })?;
            LocalSet::new().block_on(&runtime, body(tell))
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|source| Error::System {
            doing: "start a thread",
            source,
        })?;
        match told.recv() {
            Ok(Ok(handle)) => Ok(Self {
                handle,
                thread: Mutex::new(Some(thread)),
                alive,
            }),
            Ok(Err(error)) => Err(error),
            // It ended before it could tell: its result says why.
            Err(mpsc::RecvError) => match thread.join() {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) | Err(_) => Err(Error::EngineLost),
            },
        }
    }

    /// The handle on the engine.
    pub(crate) fn handle(&self) -> &Handle<R> {
        &self.handle
    }

    /// What the engine is doing.
    ///
    /// # Errors
    /// It has stopped.
    pub(crate) async fn status(&self) -> Result<R, Error> {
        Ok(self.handle.status().await?)
    }

    /// Resolves when the engine has ended, by itself or because it was told to.
    pub(crate) async fn ended(&self) {
        let mut alive = self.alive.clone();
        // Nothing is ever sent: the only news is the sender's end.
        while alive.changed().await.is_ok() {}
    }

    /// Tells the engine to stop, and waits for its end.
    ///
    /// # Errors
    /// Why it had ended before.
    pub(crate) async fn stop(&self) -> Result<(), Error> {
        self.handle.stop().await;
        self.ended().await;
        self.join()
    }

    fn join(&self) -> Result<(), Error> {
        match self.thread.lock().take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error::EngineLost),
        }
    }
}

impl<R: Send + 'static> Drop for Running<R> {
    fn drop(&mut self) {
        if self.thread.lock().is_none() {
            return;
        }
        let Ok(runtime) = Builder::new_current_thread().build() else {
            return;
        };
        runtime.block_on(self.handle.stop());
        // Whoever wants the reason of the end calls `stop`.
        let _ = self.join();
    }
}

/// Answers the control socket's questions from an engine, with what `status`
/// makes of its report.
pub(crate) fn answers<R, D>(
    handle: &Handle<R>,
    role: &'static str,
    status: impl Fn(R) -> D + Clone + Send + Sync + 'static,
) -> Handler
where
    R: Send + 'static,
    D: Serialize + 'static,
{
    let handle = handle.clone();
    Arc::new(move |request: Request| {
        let (handle, status) = (handle.clone(), status.clone());
        Box::pin(async move {
            match request.command {
                Command::Status => {
                    let report = handle.status().await.map_err(|error| error.to_string())?;
                    describe(role, status(report))
                }
                Command::Judge(_) => Err(format!("a {role} judges nobody's packets")),
                Command::Stop => {
                    // The answer is on its way before the end takes the socket away.
                    tokio::spawn(async move { handle.stop().await });
                    Ok(serde_json::Value::Null)
                }
            }
        })
    })
}

#[derive(Serialize)]
struct Described<D> {
    role: &'static str,
    version: &'static str,
    #[serde(flatten)]
    status: D,
}

fn describe<D: Serialize>(role: &'static str, status: D) -> Result<serde_json::Value, String> {
    let described = Described {
        role,
        version: env!("CARGO_PKG_VERSION"),
        status,
    };
    serde_json::to_value(described).map_err(|error| error.to_string())
}
