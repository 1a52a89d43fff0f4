//! What `up` and `provide` share: logs, descriptors, signals, and a good end.
//!
//! A flow through an egress or a proxy without privileges is a file descriptor, and the usual soft limit of 1,024 is there
//! for programs that use `select`, which this one does not. The hard limit is the administrator's word on how many there
//! may be; up to there the process may go without asking. A library leaves its host program's limits alone, so it is done
//! here.

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::pin;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use quell::config::LogLevel;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::level_filters::LevelFilter;
use tracing::{info, warn};

use crate::{Failure, notify};

/// Writes events of `level` and above to standard error.
pub(crate) fn start_log(level: LogLevel) {
    let filter = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .with_target(false);
    // A second call in one process keeps the first's settings.
    let _ = log.try_init();
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
/// second signal: who stops in good order is then told not to.
///
/// # Errors
/// Why it ended by itself.
pub(crate) fn run_until_stopped<E, S>(
    ended: impl Future<Output = ()>,
    stop: impl Fn() -> S,
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

/// The signals that say stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => info!("interrupted, stopping"),
            _ = self.terminate.recv() => info!("told to stop"),
        }
    }
}
