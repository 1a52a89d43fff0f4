//! Datagrams at a rate to an echo server, such as [`crate::probe::udp_echo_server`], and what comes back.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::echo::{Echo, EchoLoad};
use super::{Arrivals, Pace};
use crate::error::{Context, LabError, Result};
use crate::probe::{PAYLOAD_BYTES_MAX, connected};
use crate::socks::Association;

/// How long a proxy may take to grant a way, which it may do only when its own path stands.
const ASSOCIATE_TIMEOUT: Duration = Duration::from_secs(20);

/// A running UDP load; dropping it stops it.
#[derive(Debug)]
pub struct UdpLoad {
    load: EchoLoad,
}

impl UdpLoad {
    /// Sends datagrams of `payload_bytes` (16..=65,507) to `echo`, so many that the payloads make `bit_s`, in the calling
    /// thread's network namespace.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for another size or a rate of 0, [`LabError::Io`] if no socket can be had. Errors of the
    /// running load are figures.
    pub fn start(echo: SocketAddr, payload_bytes: usize, bit_s: u64) -> Result<Self> {
        check(payload_bytes, bit_s)?;
        let socket = connected(echo)?;
        crate::buffers::enlarge(&socket);
        socket
            .set_nonblocking(true)
            .context(|| format!("UDP load to {echo}"))?;
        let echo = Socket {
            socket,
            buffer: vec![0; payload_bytes + 1],
        };
        Self::over(echo, payload_bytes, bit_s)
    }

    /// As [`UdpLoad::start`], through the SOCKS5 proxy at `proxy`.
    ///
    /// # Errors
    /// As [`UdpLoad::start`]; [`LabError::Io`] also if the proxy refuses, or does not answer within 20 s.
    pub fn via(
        proxy: SocketAddr,
        echo: SocketAddr,
        payload_bytes: usize,
        bit_s: u64,
    ) -> Result<Self> {
        check(payload_bytes, bit_s)?;
        let echo = Association::open(proxy, echo, ASSOCIATE_TIMEOUT)?;
        Self::over(echo, payload_bytes, bit_s)
    }

    fn over(echo: impl Echo, payload_bytes: usize, bit_s: u64) -> Result<Self> {
        let load = EchoLoad::start("lab-udp-load", echo, payload_bytes, |start| {
            Pace::of_rate(start, payload_bytes, bit_s)
        })?;
        Ok(Self { load })
    }

    /// Datagrams made, those included that a socket refused.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.load.counters.sent()
    }

    /// Datagrams that the socket refused, and ICMP errors that came back.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.load.counters.errors()
    }

    /// Datagrams that answered nothing.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.load.counters.strays()
    }

    /// The answers so far, and those to come.
    #[must_use]
    pub fn answers(&self) -> Arrivals {
        self.load.answers.clone()
    }
}

fn check(payload_bytes: usize, bit_s: u64) -> Result<()> {
    if payload_bytes > PAYLOAD_BYTES_MAX || bit_s == 0 {
        return Err(LabError::Invalid(format!(
            "a load of {bit_s} bit/s in datagrams of {payload_bytes} bytes"
        )));
    }
    Ok(())
}

struct Socket {
    socket: UdpSocket,
    /// A byte longer than any answer, so that one that is too long is seen.
    buffer: Vec<u8>,
}

impl Echo for Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, _number: u64, body: &[u8]) -> io::Result<()> {
        self.socket.send(body).map(|_| ())
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let len = self.socket.recv(&mut self.buffer)?;
        Ok(Some(&self.buffer[..len]))
    }
}

impl Echo for Association {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }

    fn send(&mut self, _number: u64, body: &[u8]) -> io::Result<()> {
        self.send(body)
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        // One from elsewhere has no stamp, and is a stray.
        Ok(Some(self.receive()?.unwrap_or_default()))
    }
}
