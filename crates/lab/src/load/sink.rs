//! A sink of streams: it reads what comes and counts it.
//!
//! One thread serves the listener and all streams, in `ppoll`. A turn reads each stream that has something once, so that one
//! that is fast does not starve the others.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Arrivals, Worker};
use crate::error::{Context, Result};
use crate::stop::{Stop, wait_readable};

/// Bound of the streams open at a time.
pub(super) const STREAMS_MAX: usize = 64;

const READ_BYTES: usize = 64 * 1024;

/// How long the listener rests that has no descriptor left: it stays readable.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A running sink; dropping it stops it and closes its streams.
#[derive(Debug)]
pub struct TcpSink {
    address: SocketAddr,
    arrivals: Arrivals,
    counters: Arc<Counters>,
    _worker: Worker,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
}

impl TcpSink {
    /// Listens on `listen` (port 0: any), in the calling thread's network namespace, for up to 64 streams at a time.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(listen: SocketAddr) -> Result<Self> {
        let what = || format!("TCP sink on {listen}");
        let listener = TcpListener::bind(listen).context(what)?;
        listener.set_nonblocking(true).context(what)?;
        let address = listener.local_addr().context(what)?;
        let (arrivals, counters) = (Arrivals::default(), Arc::<Counters>::default());
        let mut run = Run {
            listener,
            streams: Vec::new(),
            buffer: vec![0; READ_BYTES],
            arrivals: arrivals.clone(),
            counters: Arc::clone(&counters),
        };
        let worker = Worker::start("lab-tcp-sink", move |stop| run.until(stop))?;
        Ok(Self {
            address,
            arrivals,
            counters,
            _worker: worker,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes of all streams.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.clone()
    }

    /// Streams accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counters.accepted.load(Ordering::Relaxed)
    }

    /// Streams closed at once because of the bound, or lost while being accepted.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.counters.refused.load(Ordering::Relaxed)
    }

    /// Streams that came to their end: everything that was written to them has been counted.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.counters.ended.load(Ordering::Relaxed)
    }

    /// Streams that broke off.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.counters.failed.load(Ordering::Relaxed)
    }
}

struct Run {
    listener: TcpListener,
    streams: Vec<TcpStream>,
    buffer: Vec<u8>,
    arrivals: Arrivals,
    counters: Arc<Counters>,
}

impl Run {
    fn until(&mut self, stop: &Stop) {
        while !stop.is_asked() {
            let mut fds = vec![stop.fd(), self.listener.as_fd()];
            fds.extend(self.streams.iter().map(AsFd::as_fd));
            let ready = match wait_readable(&fds, None) {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::warn!(%error, "a TCP sink ends");
                    return;
                }
            };
            // From the last on, so that taking one out moves none that is still to be read.
            for index in ready.iter().filter_map(|place| place.checked_sub(2)).rev() {
                if !self.read(index) {
                    self.streams.swap_remove(index);
                }
            }
            if ready.contains(&1) {
                self.accept();
            }
        }
    }

    fn accept(&mut self) {
        let accepted = self.listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(true)?;
            Ok(stream)
        });
        let counter = match accepted {
            Ok(stream) if self.streams.len() < STREAMS_MAX => {
                self.streams.push(stream);
                &self.counters.accepted
            }
            Ok(_) => &self.counters.refused,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                std::thread::sleep(ACCEPT_PAUSE);
                &self.counters.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the stream goes on.
    fn read(&mut self, index: usize) -> bool {
        match self.streams[index].read(&mut self.buffer) {
            Ok(0) => {
                self.counters.ended.fetch_add(1, Ordering::Relaxed);
                false
            }
            Ok(bytes) => {
                self.arrivals.note(Instant::now(), bytes, None);
                true
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                true
            }
            Err(_) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }
}
