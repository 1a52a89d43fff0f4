//! A UDP relay that impairs what it carries, for kernels without netem.
//!
//! ```text
//! client ──▶ listen ══ up: Link ══▶ upstream socket of that client ──▶ target
//!        ◀──        ══ down: Link ══                               ◀──
//! ```
//!
//! The links are [`quell_sim::link::Link`]s: the relay is the thin shell that gives them real datagrams and real time. All
//! clients share the two links, as users of one access line do; each has a socket of its own towards the target, so that the
//! target tells them apart and answers find their way. It looks to the target like a NAT, and
//! [`Relay::rebind_upstream`] does what a NAT that lost its table does: the same flows go on from other ports. And it stands
//! where an attacker on the path stands: [`Relay::forge`] answers a client in the target's name.
//!
//! One thread does it all. It sleeps in `ppoll` until a datagram comes or the next one is due, with a timer slack of 1 ns, so
//! that a delay is kept to tens of microseconds; the datagrams of a turn are read in batches, and the links are locked for a
//! batch, not for each datagram.
//!
//! What it does not carry over: the ECN field and segmentation offload. A sender that validates ECN finds it bleached and
//! goes on without.
//!
//! Books: [`RelayStats`] holds the links' counters, which add up by themselves; a datagram that a link delivered and a socket
//! refused is a `socket_errors`, and one of a client beyond the bound, which no link saw, a `clients_refused`.

#[cfg(test)]
mod tests;
mod worker;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use quell_sim::duplex::Duplex;
use quell_sim::link::{LinkConfig, LinkCounters};

use crate::error::{Context, LabError, Result};
use crate::stop::Stop;
use worker::{Packet, Worker};

/// The default bound of the clients of a [`Relay`].
pub const CLIENTS_MAX: usize = 1024;

/// How long a command waits for the worker, which is never busy for longer than a batch.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of a [`Relay`].
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Where clients send to (port 0: any).
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub target: SocketAddr,
    /// From the clients to the target.
    pub up: LinkConfig,
    /// From the target to the clients.
    pub down: LinkConfig,
    /// Of all random draws.
    pub seed: u64,
    /// Bound of the clients, each of which costs a socket; at most [`CLIENTS_MAX`], which is the default.
    pub clients_max: usize,
}

impl RelayConfig {
    /// Perfect links, seed 1.
    #[must_use]
    pub fn new(listen: SocketAddr, target: SocketAddr) -> Self {
        let link = LinkConfig::default();
        Self {
            listen,
            target,
            up: link,
            down: link,
            seed: 1,
            clients_max: CLIENTS_MAX,
        }
    }
}

/// What a [`Relay`] has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// The link from the clients to the target.
    pub up: LinkCounters,
    /// The link back.
    pub down: LinkCounters,
    /// Clients seen and carried.
    pub clients: u64,
    /// Datagrams of clients beyond the bound, or for which no socket could be had.
    pub clients_refused: u64,
    /// Datagrams that a socket refused to send, and errors that came back, such as a target's closed port.
    pub socket_errors: u64,
}

/// What the worker and the guard share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    stop: Stop,
    is_frozen: AtomicBool,
}

#[derive(Debug)]
struct State {
    links: Duplex<Packet>,
    clients: u64,
    clients_refused: u64,
    socket_errors: u64,
}

/// What the worker is asked for; it answers when it is done.
#[derive(Debug)]
enum Command {
    /// New upstream ports.
    Rebind(mpsc::Sender<Result<()>>),
    /// Another's answer to a client.
    Forge(Forgery),
}

/// Makes an answer to a client's datagram, or lets it pass.
type Forge = Box<dyn FnMut(&[u8]) -> Option<Vec<u8>> + Send>;

/// A forger at work, until it has answered once.
struct Forgery {
    forge: Forge,
    done: mpsc::Sender<()>,
}

impl fmt::Debug for Forgery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forgery").finish_non_exhaustive()
    }
}

/// A running relay; dropping it stops it and closes its sockets. A client that still sends is then refused by the host, as it
/// is where a process was killed.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts to relay, in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`LabError::Link`] for settings that make no sense, [`LabError::Invalid`] for a bound of 0 or above [`CLIENTS_MAX`],
    /// [`LabError::Io`] if the address cannot be had.
    pub fn start(config: RelayConfig) -> Result<Self> {
        config.up.validate()?;
        config.down.validate()?;
        if !(1..=CLIENTS_MAX).contains(&config.clients_max) {
            return Err(LabError::Invalid(format!(
                "clients_max {} is not in 1..={CLIENTS_MAX}",
                config.clients_max
            )));
        }
        let links = Duplex::new(config.up, config.down, config.seed);
        let state = State {
            links,
            clients: 0,
            clients_refused: 0,
            socket_errors: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            stop: Stop::new()?,
            is_frozen: AtomicBool::new(false),
        });
        let (commands, asked) = mpsc::channel();
        let worker = Worker::open(&config, Arc::clone(&shared), asked)?;
        let address = worker.address()?;
        let thread = thread::Builder::new()
            .name("lab-relay".into())
            .spawn(move || worker.run());
        let thread = thread.context(|| "relay thread".into())?;
        Ok(Self {
            address,
            shared,
            commands,
            thread: Some(thread),
        })
    }

    /// Where clients send to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the link from the clients to the target; see [`quell_sim::link::Link::set_config`].
    ///
    /// # Errors
    /// [`LabError::Link`]; nothing has changed then.
    pub fn set_up(&self, config: LinkConfig) -> Result<()> {
        config.validate()?;
        self.change(|state| state.links.a_to_b.set_config(config));
        Ok(())
    }

    /// Changes the link from the target to the clients.
    ///
    /// # Errors
    /// As [`Relay::set_up`].
    pub fn set_down(&self, config: LinkConfig) -> Result<()> {
        config.validate()?;
        self.change(|state| state.links.b_to_a.set_config(config));
        Ok(())
    }

    /// Cuts or heals the link from the clients to the target.
    pub fn set_up_blackhole(&self, blackhole: bool) {
        self.change(|state| state.links.a_to_b.set_blackhole(blackhole));
    }

    /// Cuts or heals the link from the target to the clients.
    pub fn set_down_blackhole(&self, blackhole: bool) {
        self.change(|state| state.links.b_to_a.set_blackhole(blackhole));
    }

    /// Cuts both ways silently; what is in flight is lost.
    pub fn cut(&self) {
        self.change(|state| state.links.set_blackhole(true));
    }

    /// Heals both ways.
    pub fn heal(&self) {
        self.change(|state| state.links.set_blackhole(false));
    }

    /// Stops, as a process does that is stopped (SIGSTOP): nothing is read, what comes waits in the sockets' buffers and is
    /// lost beyond them. What is being carried at the moment still passes.
    pub fn freeze(&self) {
        self.set_frozen(true);
    }

    /// Goes on, with what has waited.
    pub fn thaw(&self) {
        self.set_frozen(false);
    }

    fn set_frozen(&self, is_frozen: bool) {
        self.shared.is_frozen.store(is_frozen, Ordering::Release);
        self.shared.stop.wake();
    }

    /// Gives every client's flow another source port towards the target. What the target still sends to an old port is lost.
    /// Returns when the new ports are in use.
    ///
    /// # Errors
    /// [`LabError::Io`] if a socket cannot be had, [`LabError::ThreadGone`] if the relay has ended by itself.
    pub fn rebind_upstream(&self) -> Result<()> {
        let (answer, done) = mpsc::channel();
        self.command(Command::Rebind(answer))?;
        done.recv_timeout(COMMAND_TIMEOUT)
            .map_err(|_| self.gone())?
    }

    /// Answers a client in the target's name, which knows nothing of it: every datagram of a client is shown to `forge` as it
    /// comes, until one is answered. It goes on to the target all the same; the answer passes by the link. Returns when it is
    /// sent. A later forger takes the place of one that has not answered yet.
    ///
    /// # Errors
    /// [`LabError::TimedOut`] if nothing was answered for 5 s, [`LabError::ThreadGone`] if the relay has ended by itself.
    pub fn forge(
        &self,
        forge: impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<()> {
        let (done, forged) = mpsc::channel();
        let forge = Box::new(forge);
        self.command(Command::Forge(Forgery { forge, done }))?;
        forged
            .recv_timeout(COMMAND_TIMEOUT)
            .map_err(|error| match error {
                mpsc::RecvTimeoutError::Timeout => LabError::TimedOut {
                    what: format!("a forged answer of the relay on {}", self.address),
                    within: COMMAND_TIMEOUT,
                },
                mpsc::RecvTimeoutError::Disconnected => self.gone(),
            })
    }

    fn command(&self, command: Command) -> Result<()> {
        self.commands.send(command).map_err(|_| self.gone())?;
        self.shared.stop.wake();
        Ok(())
    }

    fn gone(&self) -> LabError {
        LabError::ThreadGone {
            what: format!("relay on {}", self.address),
        }
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> RelayStats {
        let state = self.shared.state.lock();
        RelayStats {
            up: state.links.a_to_b.counters(),
            down: state.links.b_to_a.counters(),
            clients: state.clients,
            clients_refused: state.clients_refused,
            socket_errors: state.socket_errors,
        }
    }

    /// The worker need not be woken: a change makes nothing due earlier than it was.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock());
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
