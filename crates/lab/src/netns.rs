//! Network namespaces that leave nothing behind.
//!
//! A namespace of the kernel lives as long as a process is in it or something holds a reference. Tools keep one alive by a
//! mount under `/var/run/netns`, which stays when they crash. Here the only reference is a file descriptor: a thread of its
//! own unshares, opens its `/proc/thread-self/ns/net`, and that descriptor (close-on-exec) is the [`Namespace`]. When the
//! process ends, however it ends, the kernel closes it, destroys the namespace, and with it each veth end inside and thus
//! the other end too.
//!
//! Work inside happens on threads that enter by `setns`, never on the caller's, so that no caller finds itself somewhere
//! else. Threads started inside stay inside; sockets stay where they were opened, whoever uses them later.
//!
//! Only the network is separate: files, processes and `/sys` are the host's. `/proc/sys/net` is that of the thread that looks,
//! which is why [`sysctl`] works without a mount, and why interface counters come by netlink and not from `/sys`.

mod bottleneck;
mod iface;
mod route;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::future::Future;
use std::panic;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::geteuid;

use crate::child::{Child, Spawner};
use crate::error::{Context, LabError, Result};

pub use iface::{Iface, IfaceCounters, veth};
pub use route::{Destination, Route, RouteTarget, SilentDrop};

/// Why namespaces cannot be made here, in words for a skipped test; `None`: they can.
#[must_use]
pub fn unavailable() -> Option<String> {
    if !geteuid().is_root() {
        return Some("needs root".into());
    }
    Namespace::new("probe")
        .err()
        .map(|error| format!("needs network namespaces: {error}"))
}

/// The reference that keeps a namespace alive, shared by all that act in it.
#[derive(Debug)]
pub(crate) struct Entry {
    label: String,
    fd: File,
}

impl Entry {
    fn enter(&self) -> Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .context(|| format!("entering namespace {}", self.label))
    }

    fn thread(&self) -> thread::Builder {
        thread::Builder::new().name(format!("in-{}", self.label))
    }

    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = || self.enter().map(|()| work());
            let thread = self
                .thread()
                .spawn_scoped(scope, inside)
                .context(|| format!("thread in {}", self.label))?;
            thread
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }

    /// Runs netlink requests inside, on a runtime that lives for this call only.
    fn netlink<T, Work, Answer>(&self, what: impl Fn() -> String + Sync, work: Work) -> Result<T>
    where
        T: Send,
        Work: FnOnce(rtnetlink::Handle) -> Answer + Send,
        Answer: Future<Output = Result<T, rtnetlink::Error>>,
    {
        self.run(|| {
            let what = || format!("{} in namespace {}", what(), self.label);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .build()
                .context(what)?;
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection().context(what)?;
                tokio::spawn(connection);
                work(handle).await.context(what)
            })
        })?
    }
}

/// A network namespace. It is destroyed when this, its [`Iface`]s, and all threads, sockets and processes in it are gone.
#[derive(Debug)]
pub struct Namespace {
    entry: Arc<Entry>,
    spawner: Spawner,
}

impl Namespace {
    /// Makes a fresh one, with its loopback up. IPv6 addresses are usable at once, and router advertisements are ignored.
    /// `label` is for people: it appears in errors and thread names.
    ///
    /// # Errors
    /// Not root (`CAP_SYS_ADMIN`), or a limit of the kernel.
    pub fn new(label: &str) -> Result<Self> {
        let what = format!("new network namespace {label}");
        let (spawner, fd) = Spawner::start(label, move || {
            unshare(CloneFlags::CLONE_NEWNET).context(|| what)?;
            own_namespace()
        })?;
        let namespace = Self::with(label, spawner, fd);
        namespace.iface("lo")?.up()?;
        for family in ["all", "default"] {
            for setting in ["accept_dad", "accept_ra"] {
                // A kernel without IPv6 has no such key, and needs none.
                match sysctl(
                    &namespace,
                    &format!("net.ipv6.conf.{family}.{setting}"),
                    "0",
                ) {
                    Err(LabError::Io { source, .. })
                        if source.kind() == std::io::ErrorKind::NotFound => {}
                    done => done?,
                }
            }
        }
        Ok(namespace)
    }

    /// The namespace that the calling thread is in, as it is.
    ///
    /// # Errors
    /// The system refused.
    pub fn current(label: &str) -> Result<Self> {
        let fd = own_namespace()?;
        let (spawner, ()) = Spawner::start(label, || Ok(()))?;
        Ok(Self::with(label, spawner, fd))
    }

    fn with(label: &str, spawner: Spawner, fd: File) -> Self {
        Self {
            entry: Arc::new(Entry {
                label: label.into(),
                fd,
            }),
            spawner,
        }
    }

    /// The label it was made with.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.entry.label
    }

    /// Runs `work` on a fresh thread inside and returns its value. A panic in `work` goes on in the caller.
    ///
    /// # Errors
    /// The thread could not be started or could not enter; `work` has not run then.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.entry.run(work)
    }

    /// Runs `work` on a thread inside and does not wait for it. The namespace lives on until it ends.
    ///
    /// # Errors
    /// The thread could not be started. One that cannot enter gives its error on joining.
    pub fn spawn_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let entry = Arc::clone(&self.entry);
        let thread = self
            .entry
            .thread()
            .spawn(move || entry.enter().map(|()| work()));
        thread.context(|| format!("thread in {}", self.entry.label))
    }

    /// Starts a process inside. Its standard input is taken for the lifeline; see [`child`](crate::child).
    ///
    /// # Errors
    /// The program could not be started.
    pub fn spawn(&self, command: Command) -> Result<Child> {
        self.spawner.spawn(command)
    }

    /// An interface that exists.
    ///
    /// # Errors
    /// [`LabError::NoInterface`].
    pub fn iface(&self, name: &str) -> Result<Iface> {
        Iface::find(&self.entry, name)
    }
}

fn own_namespace() -> Result<File> {
    File::open("/proc/thread-self/ns/net").context(|| "/proc/thread-self/ns/net".into())
}

/// Sets a kernel parameter inside, such as `net.ipv4.ip_forward` to `1`. Only keys below `net.` belong to a namespace.
///
/// # Errors
/// [`LabError::Invalid`] for any other key; else what the system says.
pub fn sysctl(namespace: &Namespace, key: &str, value: &str) -> Result<()> {
    let path = sysctl_path(key)?;
    namespace
        .run(|| fs::write(&path, value))?
        .context(|| format!("{key} = {value} in {}", namespace.label()))
}

/// Reads a kernel parameter inside.
///
/// # Errors
/// As [`sysctl`].
pub fn sysctl_value(namespace: &Namespace, key: &str) -> Result<String> {
    let path = sysctl_path(key)?;
    let text = namespace
        .run(|| fs::read_to_string(&path))?
        .context(|| format!("{key} in {}", namespace.label()))?;
    Ok(text.trim().to_owned())
}

/// Keys are held to `net.` and plain words: any other would change the host, or leave `/proc/sys`.
fn sysctl_path(key: &str) -> Result<String> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    match key.strip_prefix("net.") {
        Some(rest) if rest.split('.').all(is_word) => {
            Ok(format!("/proc/sys/net/{}", rest.replace('.', "/")))
        }
        Some(_) | None => Err(LabError::Invalid(format!("{key} is not a network sysctl"))),
    }
}
