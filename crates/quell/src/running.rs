//! A client or a provider that runs: its thread, its handle, its control socket.
//!
//! The engine has a thread of its own with a current-thread runtime; everything
//! of it lives and ends there. Whoever holds [`Running`] asks for a status, tells
//! it to stop, waits for its end. Dropping it stops the engine and waits; neither that nor a stop with a deadline needs a
//! runtime of the caller's, or minds one.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quell_net::engine::{Asked, Handle};
use serde::Serialize;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::spawn_local;

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
    ending: Arc<Ending>,
}

/// How often a thread without a runtime looks again: whether there is room for a request, or an answer.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The thread's end, for threads that wait for it.
#[derive(Default)]
struct Ending {
    over: Mutex<bool>,
    news: Condvar,
}

/// Says that the thread has ended, however it did.
struct Ends(Arc<Ending>);

impl Drop for Ends {
    fn drop(&mut self) {
        *self.0.over.lock() = true;
        self.0.news.notify_all();
    }
}

impl<R: Send + 'static> Running<R> {
    /// Runs `body` on a thread of its own, within a `LocalRuntime`. It reports
    /// through the sender once the engine stands, and runs it to its end.
    ///
    /// It is a task like those of QUIC, not what the runtime blocks on: a task that another one woke runs next, where the
    /// latter would have to wait for a look at the system's poll.
    pub(crate) fn start<F, B>(name: &str, body: B) -> Result<Self, Error>
    where
        F: Future<Output = Result<(), Error>> + 'static,
        B: FnOnce(mpsc::Sender<Started<R>>) -> F + Send + 'static,
    {
        let (tell, told) = mpsc::channel();
        let (life, alive) = watch::channel(());
        let ending = Arc::new(Ending::default());
        let ends = Ends(Arc::clone(&ending));
        let run = move || {
            // Locals go in the reverse of this order: who waits finds all of it gone.
            let _ends = ends;
            let _life = life;
            quell_net::slice::shorten();
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default());
            let runtime = runtime.map_err(|source| Error::System {
                doing: "start a runtime",
                source,
            })?;
            match runtime.block_on(async { spawn_local(body(tell)).await }) {
                Ok(ended) => ended,
                Err(lost) => match lost.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Nobody aborts it.
                    Err(_) => Err(Error::EngineLost),
                },
            }
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
                ending,
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

    /// As [`Running::status`], with this thread, for `limit` at most.
    ///
    /// # Errors
    /// It has stopped; [`Error::Silent`].
    pub(crate) fn status_within(&self, limit: Duration) -> Result<R, Error> {
        let until = Instant::now() + limit;
        let mut asked: Option<Asked<R>> = None;
        while Instant::now() < until {
            match &mut asked {
                None => asked = self.handle.try_status()?,
                Some(answer) => {
                    if let Some(status) = answer.try_answer()? {
                        return Ok(status);
                    }
                }
            }
            thread::sleep(LOOK_AGAIN);
        }
        Err(Error::Silent { limit })
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

    /// As [`Running::stop`], with this thread, for `limit` at most. What has not ended by then is left to itself.
    ///
    /// # Errors
    /// Why it had ended before; [`Error::Overdue`].
    pub(crate) fn stop_within(&self, limit: Duration) -> Result<(), Error> {
        if self.stop_until(Some(Instant::now() + limit)) {
            return self.join();
        }
        // Whoever drops this is not to wait for it either.
        drop(self.thread.lock().take());
        Err(Error::Overdue { limit })
    }

    /// Whether it has ended, by itself or before `until`.
    fn stop_until(&self, until: Option<Instant>) -> bool {
        let is_late = || until.is_some_and(|until| Instant::now() >= until);
        while !self.handle.try_stop() {
            if is_late() {
                return false;
            }
            thread::sleep(LOOK_AGAIN);
        }
        let mut over = self.ending.over.lock();
        while !*over && !is_late() {
            match until {
                Some(until) => drop(self.ending.news.wait_until(&mut over, until)),
                None => self.ending.news.wait(&mut over),
            }
        }
        *over
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
        self.stop_until(None);
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
                Command::Drain => Err(format!("a {role} has nobody to tell: stop it")),
                Command::Reload => Err(format!("this {role} reads no file again")),
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
