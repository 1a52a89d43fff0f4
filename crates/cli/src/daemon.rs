//! What `up` and `provide` share: logs, descriptors, signals, and a good end.
//!
//! A flow through an egress or a proxy without privileges is a file descriptor, and the usual soft limit of 1,024 is there
//! for programs that use `select`, which this one does not. The hard limit is the administrator's word on how many there
//! may be; up to there the process may go without asking. A library leaves its host program's limits alone, so it is done
//! here.

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use quell::config::LogLevel;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::level_filters::LevelFilter;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::{Failure, notify};

/// Sets the log's level; what knows its filter is made at its start.
type SetLevel = Box<dyn Fn(EnvFilter) + Send + Sync>;

static SET_LEVEL: OnceLock<SetLevel> = OnceLock::new();

/// Writes events of `level` and above to standard error.
pub(crate) fn start_log(level: LogLevel) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .with_target(false)
        .with_filter_reloading();
    let handle = log.reload_handle();
    // A second call in one process keeps the first's settings.
    if log.try_init().is_ok() {
        let set = move |filter| {
            // It fails only where the log is gone.
            let _ = handle.reload(filter);
        };
        let _ = SET_LEVEL.set(Box::new(set));
    }
}

/// Writes events of another level and above from here on.
pub(crate) fn set_log_level(level: LogLevel) {
    if let Some(set) = SET_LEVEL.get() {
        set(filter(level));
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    EnvFilter::default().add_directive(level.into())
}

/// Lets the process open as many files as the system allows it. Where that is refused, fewer flows fit, and who is refused
/// is counted.
pub(crate) fn raise_file_limit() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard) else {
        return;
    };
    warn!(soft, hard, %error, "cannot raise the limit of open files");
}

/// Waits for SIGINT, SIGTERM, or until `ended` resolves; then `stop`s, and again at a
/// second signal: who stops in good order is then told not to. What is `beside` it is polled until then; it ends only
/// where it cannot begin.
///
/// # Errors
/// Why it ended by itself, or why what is beside it did not begin.
pub(crate) fn run_until_stopped<E, S>(
    ended: impl Future<Output = ()>,
    stop: impl Fn() -> S,
    beside: impl Future<Output = io::Result<()>>,
) -> Result<(), Failure>
where
    E: Into<anyhow::Error>,
    S: Future<Output = Result<(), E>>,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            () = signals.next() => {}
            () = ended => {}
            failed = beside => failed?,
        }
        notify::stopping();
        let mut stopped = pin!(stop());
        let done = tokio::select! {
            done = &mut stopped => done,
            () = signals.next() => {
                let (first, second) = tokio::join!(stopped, stop());
                first.and(second)
            }
        };
        Ok::<_, io::Error>(done)
    })?;
    done.map_err(|error| Failure::Failed(error.into()))
}

/// Resolves at the first signal that says stop. To be called within a runtime.
///
/// # Errors
/// The system takes no handler.
pub(crate) fn told_to_stop() -> io::Result<impl Future<Output = ()> + Send> {
    let mut signals = Signals::new()?;
    Ok(async move { signals.next().await })
}

/// Whether this process belongs to a terminal: then a hangup says that the terminal is gone, else that the file changed.
pub(crate) fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The signals that say stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: match has_terminal() {
                true => Some(signal(SignalKind::hangup())?),
                false => None,
            },
        })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => info!("interrupted, stopping"),
            _ = self.terminate.recv() => info!("told to stop"),
            _ = hangup => info!("the terminal is gone, stopping"),
        }
    }
}
