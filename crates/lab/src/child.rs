//! Processes that live in a namespace and do not outlive the process that started them.
//!
//! Three nets, one below the other:
//!
//! 1. [`Child`] is a guard: its drop kills the process and reaps it.
//! 2. The child's standard input is a pipe whose other end the guard holds, the *lifeline*. It reads end-of-file when the
//!    parent is gone, however it went. Any program that ends with its input is covered.
//! 3. A program of ours calls [`die_with_parent`] first thing: it asks the kernel for SIGKILL when its parent dies.
//!
//! The third cannot be set from outside: between fork and exec only `pre_exec` runs code of ours, which is unsafe, and this
//! crate has no unsafe code. The kernel means by "parent" the *thread* that forked. Therefore each namespace has one thread
//! that starts all its children and lives as long as the [`Namespace`](crate::netns::Namespace): dropping the namespace ends
//! those children too.

use std::os::unix::process::parent_id;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::kill;
use nix::unistd::Pid;

pub use nix::sys::signal::Signal;

use crate::error::{Context, LabError, Result};

/// Tells a child which process is its parent, so that [`die_with_parent`] sees one that died before it asked.
const PARENT_VARIABLE: &str = "QUELL_LAB_PARENT";

/// How often a wait with a time limit looks: short against any process start, long against the cost of looking.
const WAIT_STEP: Duration = Duration::from_millis(2);

/// In a process started by [`Namespace::spawn`](crate::netns::Namespace::spawn): asks the kernel to kill it when its parent
/// dies, and returns true. In any other process it does nothing and returns false. To be called at the start of `main`.
///
/// # Errors
/// [`LabError::ParentGone`] if the parent died before this call: the caller is to exit.
pub fn die_with_parent() -> Result<bool> {
    let Some(parent) = std::env::var(PARENT_VARIABLE)
        .ok()
        .and_then(|pid| pid.parse::<u32>().ok())
    else {
        return Ok(false);
    };
    prctl::set_pdeathsig(Signal::SIGKILL).context(|| "PR_SET_PDEATHSIG".into())?;
    // Asked for after the signal was set: whichever way the race with the parent's death went, one of the two catches it.
    if parent_id() == parent {
        Ok(true)
    } else {
        Err(LabError::ParentGone)
    }
}

/// A running process; dropping it kills it.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    name: String,
    lifeline: Option<ChildStdin>,
}

impl Child {
    /// Starts `command` on the calling thread, in its network namespace, with the lifeline as its standard input. To a
    /// program that asks for [`die_with_parent`] that thread is the parent: it is to live as long as the child.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::piped())
            .env(PARENT_VARIABLE, std::process::id().to_string());
        let mut process = command.spawn().context(|| format!("starting {name}"))?;
        let lifeline = process.stdin.take();
        Ok(Self {
            process,
            name,
            lifeline,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its standard output, once, if the command piped it.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    /// Its standard error, once, if the command piped it.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.process.stderr.take()
    }

    /// Ends its standard input, for programs that end with it.
    pub fn close_lifeline(&mut self) {
        self.lifeline = None;
    }

    /// Sends it a signal; one that has ended gets none.
    ///
    /// # Errors
    /// The system refused.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // Looked at first: once reaped, the number may be another process's.
        if self.try_wait()?.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.id())
            .map_err(|_| LabError::Invalid(format!("pid {}", self.id())))?;
        kill(Pid::from_raw(pid), signal).context(|| format!("{signal} to {}", self.name))
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The system refused.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.process
            .try_wait()
            .context(|| format!("waiting for {}", self.name))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`LabError::TimedOut`] if it still runs after `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if began.elapsed() >= timeout {
                return Err(LabError::TimedOut {
                    what: format!("end of {}", self.name),
                    within: timeout,
                });
            }
            thread::sleep(WAIT_STEP);
        }
    }

    /// Asks it to end (SIGTERM and the end of its input), waits for `grace`, then kills it. Returns how it ended.
    ///
    /// # Errors
    /// The system refused.
    pub fn stop(mut self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.close_lifeline();
        match self.wait(grace) {
            Err(LabError::TimedOut { .. }) => {
                self.signal(Signal::SIGKILL)?;
                self.process
                    .wait()
                    .context(|| format!("waiting for {}", self.name))
            }
            ended => ended,
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only for a process that has ended and was reaped, which is what is wanted.
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The one thread of a namespace that starts its children; see the [module](self).
#[derive(Debug)]
pub(crate) struct Spawner {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    label: String,
}

impl Spawner {
    /// Starts the thread. `enter` runs on it first; its value is returned.
    pub(crate) fn start<T: Send + 'static>(
        label: &str,
        enter: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<(Self, T)> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (answer, entered) = mpsc::channel();
        let work = move || {
            let result = enter();
            let stays = result.is_ok();
            if answer.send(result).is_ok() && stays {
                queue.into_iter().for_each(|job| job());
            }
        };
        let thread = thread::Builder::new()
            .name(format!("ns-{label}"))
            .spawn(work);
        let thread = thread.context(|| format!("thread of namespace {label}"))?;
        let spawner = Self {
            jobs: Some(jobs),
            thread: Some(thread),
            label: label.into(),
        };
        let value = entered.recv().map_err(|_| spawner.gone())??;
        Ok((spawner, value))
    }

    /// Starts `command` on the thread and waits until it stands.
    pub(crate) fn spawn(&self, command: Command) -> Result<Child> {
        let (answer, started) = mpsc::channel();
        let job = Box::new(move || {
            // A caller that is gone drops the receiver, and the child with it, which kills it.
            let _gone = answer.send(Child::start(command));
        });
        self.jobs
            .as_ref()
            .ok_or_else(|| self.gone())?
            .send(job)
            .map_err(|_| self.gone())?;
        started.recv().map_err(|_| self.gone())?
    }

    fn gone(&self) -> LabError {
        LabError::ThreadGone {
            what: format!("namespace {}", self.label),
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
