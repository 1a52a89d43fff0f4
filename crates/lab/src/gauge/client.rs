//! The near end of a measurement: streams.
//!
//! Calls block, in the calling thread's network namespace, for as long as they are told and what the other end takes to
//! answer; a path that is dead ends them with an error.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::order::Order;
use super::server::BLOCK_BYTES;
use super::{ANSWER_TIME, TIME_MAX};
use crate::error::{Context, LabError, Result};
use crate::socks;

/// Bytes of some streams, and the time from the first of them until the other end had all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// How long that took.
    pub took: Duration,
}

impl Transfer {
    /// Megabits (10⁶) a second.
    #[must_use]
    pub fn mbit_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Asks one server.
#[derive(Debug, Clone, Copy)]
pub struct Gauge {
    /// Where the server is.
    pub(super) server: SocketAddr,
    /// The SOCKS5 proxy that leads there.
    proxy: Option<SocketAddr>,
}

impl Gauge {
    /// Measures against the server at `server`.
    #[must_use]
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            proxy: None,
        }
    }

    /// The same through a SOCKS5 proxy. Datagrams go past it: only streams can be measured so.
    #[must_use]
    pub fn through(mut self, proxy: SocketAddr) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// So many streams to the server, each as fast as it goes, for so long.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for no stream, or a time of 0 or above [`TIME_MAX`]; [`LabError::Io`] when a stream breaks.
    pub fn send(&self, streams: usize, time: Duration) -> Result<Transfer> {
        self.transfer(streams, time, Order::Sink, |stream, time| {
            let (block, until) = (vec![0; BLOCK_BYTES], Instant::now() + time);
            while Instant::now() < until {
                stream.write_all(&block)?;
            }
            stream.shutdown(Shutdown::Write)?;
            let mut count = [0; 8];
            stream.read_exact(&mut count)?;
            Ok(u64::from_be_bytes(count))
        })
    }

    /// So many streams from the server.
    ///
    /// # Errors
    /// As [`Gauge::send`].
    pub fn receive(&self, streams: usize, time: Duration) -> Result<Transfer> {
        self.transfer(streams, time, Order::Source(time), |stream, _| {
            let (mut block, mut total) = (vec![0; BLOCK_BYTES], 0_u64);
            loop {
                match stream.read(&mut block)? {
                    0 => return Ok(total),
                    bytes => total += bytes as u64,
                }
            }
        })
    }

    fn transfer(
        &self,
        streams: usize,
        time: Duration,
        order: Order,
        work: impl Fn(&mut TcpStream, Duration) -> std::io::Result<u64> + Sync,
    ) -> Result<Transfer> {
        if streams == 0 {
            return Err(LabError::Invalid("a measurement without a stream".into()));
        }
        check(time)?;
        let what = || format!("measuring against {}", self.server);
        let connected: Result<Vec<_>> = (0..streams).map(|_| self.connect()).collect();
        let connected = connected?;
        let (work, begin) = (&work, &Barrier::new(streams));
        let began = Instant::now();
        let counts = thread::scope(|scope| {
            let run = |mut stream: TcpStream| {
                scope.spawn(move || {
                    begin.wait();
                    stream.write_all(&order.encode())?;
                    work(&mut stream, time)
                })
            };
            let running: Vec<_> = connected.into_iter().map(run).collect();
            let ended = running.into_iter().map(|thread| {
                let gone = || Err(std::io::Error::other("its thread has ended"));
                thread.join().unwrap_or_else(|_| gone())
            });
            ended.collect::<std::io::Result<Vec<_>>>()
        });
        let took = began.elapsed();
        Ok(Transfer {
            bytes: counts.context(what)?.iter().sum(),
            took,
        })
    }

    /// A connection, without an order yet.
    pub(super) fn connect(&self) -> Result<TcpStream> {
        let what = || format!("connecting to the gauge at {}", self.server);
        let stream = match self.proxy {
            Some(proxy) => socks::connect(proxy, self.server, ANSWER_TIME)?,
            None => TcpStream::connect_timeout(&self.server, ANSWER_TIME).context(what)?,
        };
        stream.set_nodelay(true).context(what)?;
        stream.set_read_timeout(Some(ANSWER_TIME)).context(what)?;
        stream.set_write_timeout(Some(ANSWER_TIME)).context(what)?;
        Ok(stream)
    }
}

/// Whether a measurement may take that long.
pub(super) fn check(time: Duration) -> Result<()> {
    if time.is_zero() || time > TIME_MAX {
        return Err(LabError::Invalid(format!(
            "a measurement of {time:?}; it may take up to {TIME_MAX:?}"
        )));
    }
    Ok(())
}
