//! The server of the control socket, on a thread of its own.
//!
//! Each conversation goes *reading → answering → writing → closed*, every step
//! under [`IO_TIMEOUT`]; a failed step leads to an error in words and to closed.
//! The number of conversations is bounded by a semaphore; the one too many gets
//! its refusal from the accept loop itself, which never waits for a peer.
//!
//! The handler's future runs as a task of its own, so that a panic in it becomes
//! an answer ("failed inside quell") and the server lives on. It must not block
//! the thread: it asks the engine over a channel and awaits.
//!
//! A failing `accept` (no descriptors left) is retried after a pause: without
//! one, the loop would burn a core just when the machine is short of everything.

use std::future::Future;
use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::socket::{self, SocketFiles};
use super::{CONNECTIONS_MAX, ControlError, IO_TIMEOUT, REQUEST_BYTES_MAX, Reply, Request};

/// What a handler says: a JSON value, or words why there is none.
pub type Answer = Result<serde_json::Value, String>;

/// A handler's answer in the making.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Answers requests. Called on the control thread: it must not block.
pub type Handler = Arc<dyn Fn(Request) -> AnswerFuture + Send + Sync>;

/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a dropped server waits for its thread. Only a handler that blocks
/// the thread against its contract needs longer, and must not hang the exit.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// The bounds of the conversations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) connections_max: usize,
    pub(super) io_timeout: Duration,
}

/// A served control socket. Dropping it ends the service and removes the file.
#[derive(Debug)]
pub struct Server {
    files: SocketFiles,
    /// Dropping it tells the thread to stop.
    stop: Option<oneshot::Sender<()>>,
    stopped: mpsc::Receiver<()>,
}

impl Server {
    /// The socket that is served.
    pub fn path(&self) -> &Path {
        self.files.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Never sends: the thread's end shows as a disconnect.
        if self.stopped.recv_timeout(STOP_WAIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the control thread is blocked by its handler and was left behind");
        }
    }
}

/// Serves `path` until the returned guard is dropped.
///
/// The socket has mode 0600 from birth; its folder is created if need be. What a
/// dead process left under that name is replaced.
///
/// # Errors
/// [`ControlError::AlreadyRunning`] when a living process serves the path, and
/// whatever keeps the socket from being put in place.
pub fn serve(path: &Path, handler: Handler) -> Result<Server, ControlError> {
    let limits = Limits {
        connections_max: CONNECTIONS_MAX,
        io_timeout: IO_TIMEOUT,
    };
    serve_within(path, handler, limits)
}

pub(super) fn serve_within(
    path: &Path,
    handler: Handler,
    limits: Limits,
) -> Result<Server, ControlError> {
    let (listener, files) = socket::bind(path)?;
    listener
        .set_nonblocking(true)
        .map_err(ControlError::io("serve", path))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ControlError::io("serve", path))?;
    let listener = {
        let _inside = runtime.enter();
        UnixListener::from_std(listener).map_err(ControlError::io("serve", path))?
    };
    let (stop, stopping) = oneshot::channel();
    let (stopped_tx, stopped) = mpsc::channel();
    thread::Builder::new()
        .name("quell-control".into())
        .spawn(move || {
            runtime.block_on(accept(listener, handler, limits, stopping));
            drop(runtime);
            drop(stopped_tx);
        })
        .map_err(ControlError::io("serve", path))?;
    Ok(Server {
        files,
        stop: Some(stop),
        stopped,
    })
}

async fn accept(
    listener: UnixListener,
    handler: Handler,
    limits: Limits,
    mut stopping: oneshot::Receiver<()>,
) {
    let slots = Arc::new(Semaphore::new(limits.connections_max));
    loop {
        let accepted = tokio::select! {
            _ = &mut stopping => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => match Arc::clone(&slots).try_acquire_owned() {
                Ok(slot) => {
                    let handler = Arc::clone(&handler);
                    tokio::spawn(async move {
                        converse(stream, handler, limits.io_timeout).await;
                        drop(slot);
                    });
                }
                Err(_) => refuse(stream, limits.connections_max),
            },
            Err(error) => {
                tracing::warn!(%error, "control socket: accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Tells one too many so, without waiting: a fresh socket's buffer holds the line.
fn refuse(stream: UnixStream, connections_max: usize) {
    let words = format!("busy: {connections_max} requests are being answered, try again");
    let sent = stream
        .into_std()
        .and_then(|mut stream| stream.write_all(&line(Err(words))));
    if let Err(error) = sent {
        tracing::debug!(%error, "control socket: a refusal was not delivered");
    }
}

async fn converse(mut stream: UnixStream, handler: Handler, io_timeout: Duration) {
    let answer = match timeout(io_timeout, read_request(&mut stream)).await {
        Ok(Ok(request)) => answer(request, handler, io_timeout).await,
        Ok(Err(words)) => Err(words),
        Err(_) => Err(format!("no whole request within {io_timeout:?}")),
    };
    let written = timeout(io_timeout, stream.write_all(&line(answer))).await;
    if !matches!(written, Ok(Ok(()))) {
        tracing::debug!("control socket: the asker left before its answer");
    }
}

/// Reads one line. The end of the stream ends it as well, for the sake of shell tools.
async fn read_request(stream: &mut UnixStream) -> Result<Request, String> {
    let mut bytes = Vec::new();
    let one_more = REQUEST_BYTES_MAX as u64 + 1;
    BufReader::new(stream.take(one_more))
        .read_until(b'\n', &mut bytes)
        .await
        .map_err(|error: io::Error| format!("the request broke off: {error}"))?;
    if bytes.len() > REQUEST_BYTES_MAX {
        return Err(format!(
            "the request is too long: allowed are at most {REQUEST_BYTES_MAX} bytes"
        ));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        format!(r#"not a request: {error}; a request is one line such as {{"command":"status"}}"#)
    })
}

async fn answer(request: Request, handler: Handler, io_timeout: Duration) -> Answer {
    let mut work = tokio::spawn(async move { handler(request).await });
    match timeout(io_timeout, &mut work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err("the request failed inside quell; its log says why".into()),
        Err(_) => {
            work.abort();
            Err(format!("the engine gave no answer within {io_timeout:?}"))
        }
    }
}

fn line(answer: Answer) -> Vec<u8> {
    let reply = match answer {
        Ok(value) => Reply::Ok(value),
        Err(words) => Reply::Error(words),
    };
    // A JSON value always serializes; the literal keeps the protocol if it ever does not.
    let mut line = serde_json::to_vec(&reply)
        .unwrap_or_else(|_| br#"{"error":"the answer cannot be written"}"#.to_vec());
    line.push(b'\n');
    line
}
