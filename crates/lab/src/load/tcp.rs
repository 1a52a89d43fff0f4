//! One stream that writes for as long as it lasts: at a rate, or as fast as it goes.
//!
//! The socket does not block: a thread waits for room, for its next deadline, or for the stop, whichever comes first. So a
//! stream whose path is dead ends as soon as it is asked to. Deadlines that passed while there was no room are let go.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Pace, Worker};
use crate::content;
use crate::error::{Context, LabError, Result};
use crate::socks;
use crate::stop::{Stop, wait_readable, wait_writable};

/// How long a stream may take to connect: slow paths have round trips of seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Most bytes of a write.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Writes a second of a paced stream, unless they would be longer than [`WRITE_BYTES_MAX`].
const WRITES_S: u64 = 100;

/// Settings of a [`TcpLoad`].
#[derive(Debug, Clone, Copy)]
pub struct TcpLoadConfig<'a> {
    /// Payload bits per second; [`u64::MAX`], the default: as fast as it goes.
    pub bit_s: u64,
    /// The congestion control, by the kernel's name for it, such as `cubic` or `bbr`; `None`, the default: the system's.
    pub congestion: Option<&'a str>,
    /// The SOCKS5 proxy that the stream goes through, which then is what the congestion control is towards; `None`, the
    /// default: none.
    pub proxy: Option<SocketAddr>,
}

impl Default for TcpLoadConfig<'_> {
    fn default() -> Self {
        Self {
            bit_s: u64::MAX,
            congestion: None,
            proxy: None,
        }
    }
}

/// A running stream; dropping it closes it.
#[derive(Debug)]
pub struct TcpLoad {
    stream: TcpStream,
    sent_bytes: Arc<AtomicU64>,
    failure: Arc<Mutex<Option<io::Error>>>,
    worker: Worker,
}

impl TcpLoad {
    /// Connects to `sink` and writes `bit_s` payload bits per second, in the calling thread's network namespace.
    /// [`u64::MAX`]: as fast as it goes.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for a rate of 0, [`LabError::Io`] if it does not connect within 20 s.
    pub fn start(sink: SocketAddr, bit_s: u64) -> Result<Self> {
        let config = TcpLoadConfig {
            bit_s,
            ..TcpLoadConfig::default()
        };
        Self::with_config(sink, config)
    }

    /// As [`TcpLoad::start`], with settings.
    ///
    /// # Errors
    /// As [`TcpLoad::start`]; [`LabError::Io`] of kind [`io::ErrorKind::NotFound`] if the kernel does not have that congestion
    /// control.
    pub fn with_config(sink: SocketAddr, config: TcpLoadConfig<'_>) -> Result<Self> {
        if config.bit_s == 0 {
            return Err(LabError::Invalid("a stream of 0 bit/s".into()));
        }
        let stream = connect(sink, &config)?;
        let what = || format!("TCP load to {sink}");
        let (sent_bytes, failure) = (Arc::<AtomicU64>::default(), Arc::<Mutex<_>>::default());
        let write_bytes = usize::try_from(config.bit_s / 8 / WRITES_S)
            .unwrap_or(usize::MAX)
            .clamp(1, WRITE_BYTES_MAX);
        let mut block = vec![0; write_bytes];
        content::fill(0, &mut block);
        let is_paced = config.bit_s != u64::MAX;
        let run = Run {
            stream: stream.try_clone().context(what)?,
            pace: is_paced.then(|| Pace::of_rate(Instant::now(), write_bytes, config.bit_s)),
            block,
            sent_bytes: Arc::clone(&sent_bytes),
        };
        let failed = Arc::clone(&failure);
        let worker = Worker::start("lab-tcp-load", move |stop| {
            *failed.lock() = run.until(stop).err();
        })?;
        Ok(Self {
            stream,
            sent_bytes,
            failure,
            worker,
        })
    }

    /// Bytes that the kernel took.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Whether the stream broke off; [`TcpLoad::stop`] says why.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Ends the stream in good order and returns how many bytes the kernel took. It does not wait for their arrival.
    ///
    /// # Errors
    /// [`LabError::Io`] if the stream broke off before.
    pub fn stop(self) -> Result<u64> {
        let Self {
            stream,
            sent_bytes,
            failure,
            worker,
        } = self;
        drop(worker);
        let what = || "TCP load".into();
        if let Some(error) = failure.lock().take() {
            return Err(error).context(what);
        }
        stream.shutdown(Shutdown::Write).context(what)?;
        Ok(sent_bytes.load(Ordering::Relaxed))
    }
}

fn connect(sink: SocketAddr, config: &TcpLoadConfig<'_>) -> Result<TcpStream> {
    let what = || format!("TCP load to {sink}");
    let stream = match config.proxy {
        Some(proxy) => socks::connect(proxy, sink, CONNECT_TIMEOUT)?,
        None => {
            let socket = Socket::new(Domain::for_address(sink), Type::STREAM, Some(Protocol::TCP));
            let socket = socket.context(what)?;
            congest(&socket, config.congestion)?;
            socket
                .connect_timeout(&sink.into(), CONNECT_TIMEOUT)
                .context(what)?;
            socket.into()
        }
    };
    if config.proxy.is_some() {
        congest(&SockRef::from(&stream), config.congestion)?;
    }
    // A paced write is to leave when it is made.
    stream.set_nodelay(true).context(what)?;
    stream.set_nonblocking(true).context(what)?;
    Ok(stream)
}

fn congest(socket: &Socket, congestion: Option<&str>) -> Result<()> {
    let Some(name) = congestion else {
        return Ok(());
    };
    socket
        .set_tcp_congestion(name.as_bytes())
        .context(|| format!("congestion control {name}"))
}

struct Run {
    stream: TcpStream,
    /// `None`: as fast as it goes.
    pace: Option<Pace>,
    block: Vec<u8>,
    sent_bytes: Arc<AtomicU64>,
}

impl Run {
    fn until(mut self, stop: &Stop) -> io::Result<()> {
        while !stop.is_asked() {
            if let Some(pace) = &mut self.pace
                && !pace.take(Instant::now())
            {
                let sleep = pace.left(Instant::now());
                wait_readable(&[stop.fd()], Some(sleep)).map_err(io::Error::other)?;
                continue;
            }
            self.write(stop)?;
        }
        Ok(())
    }

    /// Writes the block, however long it takes, unless asked to stop.
    fn write(&mut self, stop: &Stop) -> io::Result<()> {
        let mut written = 0;
        while written < self.block.len() && !stop.is_asked() {
            match (&self.stream).write(&self.block[written..]) {
                Ok(bytes) => {
                    written += bytes;
                    self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_writable(self.stream.as_fd(), stop, None).map_err(io::Error::other)?;
                    if let Some(pace) = &mut self.pace {
                        pace.next = pace.next.max(Instant::now());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
