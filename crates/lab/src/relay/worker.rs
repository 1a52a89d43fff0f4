//! The relay's thread.
//!
//! A turn: what was asked for (new ports, a forger), then all datagrams that are due, then sleep until the next is due or
//! something is readable, then what is readable. A turn reads at most [`BATCH`] datagrams a socket and sends at most
//! [`BATCH`] a link, so that neither direction starves the other; what is left makes the next sleep end at once.
//!
//! Clients are never forgotten while the relay lives: a test's flows are few, and a client that comes back after an hour of
//! silence must meet the same source port, or else the relay would do by itself what `rebind_upstream` is for.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::prctl;
use quell_sim::link::Link;

use super::{Command, Forgery, RelayConfig, Shared, State};
use crate::error::{Context, Result};
use crate::probe::local_towards;
use crate::stop::wait_readable;

const BATCH: usize = 64;

/// A datagram's bytes and the number of its client.
pub(super) type Packet = (usize, Bytes);

#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    upstream: UdpSocket,
}

pub(super) struct Worker {
    listener: UdpSocket,
    target: SocketAddr,
    clients_max: usize,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    forgery: Option<Forgery>,
    /// A client's number is its place here.
    flows: Vec<Flow>,
    numbers: HashMap<SocketAddr, usize>,
    buffer: Vec<u8>,
    /// Datagrams of a turn, on their way between a socket and a link.
    batch: Vec<Packet>,
}

impl Worker {
    pub(super) fn open(
        config: &RelayConfig,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
    ) -> Result<Self> {
        let listener =
            UdpSocket::bind(config.listen).context(|| format!("relay on {}", config.listen))?;
        prepare(&listener).context(|| "relay socket".into())?;
        Ok(Self {
            listener,
            target: config.target,
            clients_max: config.clients_max,
            shared,
            commands,
            forgery: None,
            flows: Vec::new(),
            numbers: HashMap::new(),
            buffer: vec![0; 1 << 16],
            batch: Vec::with_capacity(BATCH),
        })
    }

    pub(super) fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context(|| "relay socket".into())
    }

    pub(super) fn run(mut self) {
        // Without it the kernel may be 50 µs late by default; the relay works all the same.
        let _coarse = prctl::set_timerslack(1);
        while !self.shared.stop.is_asked() {
            self.shared.stop.clear();
            self.obey();
            if let Err(error) = self.turn() {
                tracing::warn!(%error, "a relay ends");
                return;
            }
        }
    }

    fn turn(&mut self) -> Result<()> {
        if self.shared.is_frozen.load(Ordering::Acquire) {
            return wait_readable(&[self.shared.stop.fd()], None).map(drop);
        }
        let sleep = self.deliver();
        let ready = self.wait(sleep)?;
        self.read(&ready);
        Ok(())
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Rebind(answer) => {
                    let _gone = answer.send(self.rebind());
                }
                Command::Forge(forgery) => self.forgery = Some(forgery),
            }
        }
    }

    fn rebind(&mut self) -> Result<()> {
        let fresh: io::Result<Vec<_>> = self
            .flows
            .iter()
            .map(|_| open_upstream(self.target))
            .collect();
        let fresh = fresh.context(|| format!("new relay sockets towards {}", self.target))?;
        for (flow, upstream) in self.flows.iter_mut().zip(fresh) {
            flow.upstream = upstream;
        }
        Ok(())
    }

    /// Lets the forger answer the datagram of `len` bytes that lies in the buffer.
    fn forge(&mut self, len: usize, client: SocketAddr) {
        let Some(forgery) = &mut self.forgery else {
            return;
        };
        let Some(answer) = (forgery.forge)(&self.buffer[..len]) else {
            return;
        };
        let sent = self.listener.send_to(&answer, client);
        let _gone = forgery.done.send(());
        self.forgery = None;
        self.count_errors(u64::from(sent.is_err()));
    }

    /// Sends what is due. Returns how long nothing else will be; `None`: nothing is in flight.
    fn deliver(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let (mut up, mut down) = (std::mem::take(&mut self.batch), Vec::new());
        let next = {
            let mut state = self.shared.state.lock();
            take_due(&mut state.links.a_to_b, now, &mut up);
            take_due(&mut state.links.b_to_a, now, &mut down);
            state.links.poll_timeout()
        };
        let mut errors = 0;
        for (number, bytes) in up.drain(..) {
            let sent = self
                .flows
                .get(number)
                .map(|flow| flow.upstream.send(&bytes));
            errors += u64::from(!matches!(sent, Some(Ok(_))));
        }
        for (number, bytes) in down {
            let sent = self
                .flows
                .get(number)
                .map(|flow| self.listener.send_to(&bytes, flow.client));
            errors += u64::from(!matches!(sent, Some(Ok(_))));
        }
        self.batch = up;
        self.count_errors(errors);
        next.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Sleeps. Returns which sockets are readable: 0 is the stop event, 1 the listener, then the flows.
    fn wait(&self, sleep: Option<Duration>) -> Result<Vec<usize>> {
        let mut fds = vec![self.shared.stop.fd(), self.listener.as_fd()];
        fds.extend(self.flows.iter().map(|flow| flow.upstream.as_fd()));
        wait_readable(&fds, sleep)
    }

    fn read(&mut self, ready: &[usize]) {
        for index in ready {
            match index {
                0 => {}
                1 => self.read_clients(),
                flow => self.read_target(flow - 2),
            }
        }
    }

    fn read_clients(&mut self) {
        let mut refused = 0;
        for _ in 0..BATCH {
            let Ok((len, client)) = self.listener.recv_from(&mut self.buffer) else {
                break;
            };
            self.forge(len, client);
            match self.number_of(client) {
                Some(number) => self
                    .batch
                    .push((number, Bytes::copy_from_slice(&self.buffer[..len]))),
                None => refused += 1,
            }
        }
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        let State {
            links,
            clients,
            clients_refused,
            ..
        } = &mut *state;
        *clients = self.flows.len() as u64;
        *clients_refused += refused;
        for packet in self.batch.drain(..) {
            let len = packet.1.len();
            links.a_to_b.send(packet, len, now);
        }
    }

    fn read_target(&mut self, number: usize) {
        let Some(flow) = self.flows.get(number) else {
            return;
        };
        let mut errors = 0;
        for _ in 0..BATCH {
            match flow.upstream.recv(&mut self.buffer) {
                Ok(len) => self
                    .batch
                    .push((number, Bytes::copy_from_slice(&self.buffer[..len]))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => errors += 1,
            }
        }
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        state.socket_errors += errors;
        for packet in self.batch.drain(..) {
            let len = packet.1.len();
            state.links.b_to_a.send(packet, len, now);
        }
    }

    /// The client's number; `None`: it is one too many, or no socket can be had for it.
    fn number_of(&mut self, client: SocketAddr) -> Option<usize> {
        if let Some(number) = self.numbers.get(&client) {
            return Some(*number);
        }
        if self.flows.len() >= self.clients_max {
            return None;
        }
        let upstream = open_upstream(self.target).ok()?;
        let number = self.flows.len();
        self.flows.push(Flow { client, upstream });
        self.numbers.insert(client, number);
        Some(number)
    }

    fn count_errors(&self, errors: u64) {
        if errors > 0 {
            self.shared.state.lock().socket_errors += errors;
        }
    }
}

fn take_due(link: &mut Link<Packet>, now: Instant, into: &mut Vec<Packet>) {
    for _ in 0..BATCH {
        let Some(packet) = link.poll(now) else { return };
        into.push(packet);
    }
}

fn open_upstream(target: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((local_towards(target.ip()), 0))?;
    socket.connect(target)?;
    prepare(&socket)?;
    Ok(socket)
}

fn prepare(socket: &UdpSocket) -> io::Result<()> {
    crate::buffers::enlarge(socket);
    socket.set_nonblocking(true)
}
