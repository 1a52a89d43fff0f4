//! The far end of a measurement.
//!
//! One thread takes orders, one has the datagrams, and each order has one of its own. All wait in `ppoll` for their socket
//! and for the stop, so that dropping the server ends them within milliseconds.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::order::{ORDER_BYTES, Order};
use super::{ANSWER_TIME, ORDERS_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, TIME_MAX};
use crate::error::{Context, Result};
use crate::load::Worker;
use crate::stop::{Stop, wait_readable, wait_writable};

/// Bytes of a read or a write of a stream.
pub(super) const BLOCK_BYTES: usize = 128 * 1024;
/// How long the listener rests that has no descriptor left: it stays readable.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A running server; dropping it ends everything.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _worker: Worker,
}

impl Server {
    /// Serves on `listen` (port 0: any), TCP and UDP, in the calling thread's network namespace. Where a host has several
    /// addresses, `listen` is to be the one that is asked: on the unspecified one, datagrams are answered from whichever
    /// address the system takes.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(listen: SocketAddr) -> Result<Self> {
        let what = || format!("gauge on {listen}");
        let listener = TcpListener::bind(listen).context(what)?;
        listener.set_nonblocking(true).context(what)?;
        let address = listener.local_addr().context(what)?;
        let socket = UdpSocket::bind(address).context(what)?;
        socket.set_nonblocking(true).context(what)?;
        crate::buffers::enlarge(&socket);
        let worker = Worker::start("lab-gauge", move |stop| serve(&listener, &socket, stop))?;
        Ok(Self {
            address,
            _worker: worker,
        })
    }

    /// Where it serves.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What came with a token.
#[derive(Debug)]
struct Tally {
    is_echoed: bool,
    datagrams: AtomicU64,
    bytes: AtomicU64,
}

/// The tokens that are out.
#[derive(Debug, Default)]
struct Tokens {
    // Seeded by the system: nobody guesses a token while its order lives.
    random: RandomState,
    count: AtomicU64,
    tallies: Mutex<HashMap<u64, Arc<Tally>>>,
}

impl Tokens {
    fn hand_out(&self, is_echoed: bool) -> (u64, Arc<Tally>) {
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.count.fetch_add(1, Ordering::Relaxed));
        let token = hasher.finish();
        let tally = Arc::new(Tally {
            is_echoed,
            datagrams: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        self.tallies.lock().insert(token, Arc::clone(&tally));
        (token, tally)
    }
}

fn serve(listener: &TcpListener, socket: &UdpSocket, stop: &Stop) {
    let (tokens, running) = (Tokens::default(), AtomicUsize::new(0));
    let (tokens, running) = (&tokens, &running);
    thread::scope(|scope| {
        scope.spawn(|| take_datagrams(socket, tokens, stop));
        while !stop.is_asked() {
            if wait_readable(&[stop.fd(), listener.as_fd()], None).is_err() {
                break;
            }
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => {
                    thread::sleep(ACCEPT_PAUSE);
                    continue;
                }
            };
            if running.fetch_add(1, Ordering::Relaxed) >= ORDERS_MAX {
                running.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            scope.spawn(move || {
                // An order that broke off is its asker's to see.
                let _broken = Serving { stream, stop }.run(tokens);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
}

fn take_datagrams(socket: &UdpSocket, tokens: &Tokens, stop: &Stop) {
    let mut buffer = vec![0; PAYLOAD_BYTES_MAX + 1];
    let mut last: Option<(u64, Arc<Tally>)> = None;
    while !stop.is_asked() {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else {
            // An ICMP error of an answer is nobody's; what else there may be passes, or ends with the stop.
            if wait_readable(&[stop.fd(), socket.as_fd()], None).is_err() {
                return;
            }
            continue;
        };
        let datagram = &buffer[..len];
        if len < PAYLOAD_BYTES_MIN {
            continue;
        }
        let Some(token) = datagram
            .first_chunk()
            .map(|bytes| u64::from_be_bytes(*bytes))
        else {
            continue;
        };
        // Most belong to the order of the one before. A tally that only this holds is of an order that has ended.
        let is_last = |of: &&(u64, Arc<Tally>)| of.0 == token && Arc::strong_count(&of.1) > 1;
        let tally = match last.as_ref().filter(is_last) {
            Some((_, tally)) => tally,
            None => {
                let found = tokens.tallies.lock().get(&token).cloned();
                let Some(tally) = found else {
                    continue;
                };
                &last.insert((token, tally)).1
            }
        };
        tally.datagrams.fetch_add(1, Ordering::Relaxed);
        tally.bytes.fetch_add(len as u64, Ordering::Relaxed);
        if tally.is_echoed {
            let _full = socket.send_to(datagram, from);
        }
    }
}

struct Serving<'a> {
    stream: TcpStream,
    stop: &'a Stop,
}

impl Serving<'_> {
    fn run(mut self, tokens: &Tokens) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        self.stream.set_nodelay(true)?;
        let mut order = [0; ORDER_BYTES];
        self.read_whole(&mut order, ANSWER_TIME)?;
        match Order::decode(&order) {
            None => Err(io::ErrorKind::InvalidData.into()),
            Some(Order::Sink) => self.sink(),
            Some(Order::Source(time)) => self.source(time),
            Some(Order::Count) => self.tally(tokens, false),
            Some(Order::Echo) => self.tally(tokens, true),
        }
    }

    fn sink(&mut self) -> io::Result<()> {
        let (mut buffer, mut total) = (vec![0; BLOCK_BYTES], 0_u64);
        let until = Instant::now() + TIME_MAX + ANSWER_TIME;
        loop {
            match self.read(&mut buffer, until)? {
                0 => break,
                bytes => total += bytes as u64,
            }
        }
        self.write_whole(&total.to_be_bytes(), Instant::now() + ANSWER_TIME)
    }

    fn source(&mut self, time: Duration) -> io::Result<()> {
        let (block, until) = (vec![0; BLOCK_BYTES], Instant::now() + time);
        while Instant::now() < until {
            match self.write_whole(&block, until) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => break,
                done => done?,
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        // What the other end still reads must not be lost by a reset.
        while self.read(&mut [0; 64], Instant::now() + ANSWER_TIME)? > 0 {}
        Ok(())
    }

    /// Hands a token out, and says what came with it when a byte comes.
    fn tally(&mut self, tokens: &Tokens, is_echoed: bool) -> io::Result<()> {
        let (token, tally) = tokens.hand_out(is_echoed);
        let done = self.tell(token, &tally);
        tokens.tallies.lock().remove(&token);
        done
    }

    fn tell(&mut self, token: u64, tally: &Tally) -> io::Result<()> {
        self.write_whole(&token.to_be_bytes(), Instant::now() + ANSWER_TIME)?;
        let until = Instant::now() + TIME_MAX + ANSWER_TIME;
        while self.read(&mut [0], until)? > 0 {
            let counted = [&tally.datagrams, &tally.bytes];
            for counter in counted {
                let figure = counter.load(Ordering::Relaxed).to_be_bytes();
                self.write_whole(&figure, Instant::now() + ANSWER_TIME)?;
            }
        }
        Ok(())
    }

    fn read_whole(&mut self, mut bytes: &mut [u8], within: Duration) -> io::Result<()> {
        let until = Instant::now() + within;
        while !bytes.is_empty() {
            match self.read(bytes, until)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => bytes = &mut bytes[read..],
            }
        }
        Ok(())
    }

    /// What comes next; 0: nothing more will.
    fn read(&mut self, buffer: &mut [u8], until: Instant) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = self.left(until)?;
                    let fds = [self.stream.as_fd(), self.stop.fd()];
                    wait_readable(&fds, Some(left)).map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn write_whole(&mut self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = self.left(until)?;
                    wait_writable(self.stream.as_fd(), self.stop, Some(left))
                        .map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The time that is left; an error when there is none, or a stop was asked for.
    fn left(&self, until: Instant) -> io::Result<Duration> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.stop.is_asked() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}
