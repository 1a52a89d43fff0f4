//! The signals that end a demo, a drill or a bench, and what is removed when they come.
//!
//! What they leave in the file system is one folder of keys and sockets. Whoever waits in an act is not waited for: the
//! folder is removed and the process ends, and with it namespaces, children and threads. What just stands and is
//! used ends in good order: it is told of it.

use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

/// Exit code of a program ended by Ctrl-C, as shells report it.
const EXIT_INTERRUPTED: i32 = 130;

/// How long the thread of the signals may take to stand.
const READY_TIME: Duration = Duration::from_secs(5);

/// From the first signal on removes `folder` and ends the process.
///
/// # Errors
/// The system gives no thread, or refuses to tell of signals.
pub(crate) fn remove_and_exit(folder: PathBuf) -> Result<(), Failure> {
    on_signal(move || {
        // Nothing is left to be done about a folder that cannot be removed.
        let _ = std::fs::remove_dir_all(&folder);
        process::exit(EXIT_INTERRUPTED);
    })
}

/// Tells of the first signal.
///
/// # Errors
/// As [`remove_and_exit`].
pub(crate) fn told() -> Result<Receiver<()>, Failure> {
    let (tell, told) = mpsc::channel();
    on_signal(move || {
        // Who does not listen has ended already.
        let _ = tell.send(());
    })?;
    Ok(told)
}

fn on_signal(act: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let (ready, is_ready) = mpsc::channel();
    thread::Builder::new()
        .name("quell-signals".to_owned())
        .spawn(move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
                return;
            };
            let came = runtime.block_on(async {
                let kinds = [
                    SignalKind::interrupt(),
                    SignalKind::terminate(),
                    SignalKind::hangup(),
                ];
                let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal)
                else {
                    return false;
                };
                let _ = ready.send(());
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                true
            });
            if came {
                act();
            }
        })?;
    is_ready
        .recv_timeout(READY_TIME)
        .map_err(|_| Failure::Failed(anyhow!("cannot listen for Ctrl-C")))
}
