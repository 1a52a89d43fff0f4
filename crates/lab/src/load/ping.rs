//! Echo requests, one each interval, for as long as it lasts.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::echo::{Echo, EchoLoad};
use super::{Arrivals, Pace};
use crate::error::{LabError, Result};
use crate::probe::EchoSocket;

/// What the ping of most systems carries.
const BODY_BYTES: usize = 56;

/// A running series of echo requests; dropping it stops it.
#[derive(Debug)]
pub struct PingLoad {
    load: EchoLoad,
}

impl PingLoad {
    /// Pings `target` with 56 bytes each `interval`, in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for no interval, [`LabError::Io`] if no socket can be had (neither root nor in
    /// `net.ipv4.ping_group_range`). Errors of the running load are figures.
    pub fn start(target: IpAddr, interval: Duration) -> Result<Self> {
        if interval.is_zero() {
            return Err(LabError::Invalid("pings without an interval".into()));
        }
        let echo = Socket(EchoSocket::open(target, BODY_BYTES)?);
        let load = EchoLoad::start("lab-ping-load", echo, BODY_BYTES, |start| {
            Pace::new(start, interval)
        })?;
        Ok(Self { load })
    }

    /// Requests made, those included that a socket refused.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.load.counters.sent()
    }

    /// Requests that the socket refused, and ICMP errors that came back.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.load.counters.errors()
    }

    /// The answers so far, and those to come.
    #[must_use]
    pub fn answers(&self) -> Arrivals {
        self.load.answers.clone()
    }
}

struct Socket(EchoSocket);

impl Echo for Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    fn send(&mut self, number: u64, body: &[u8]) -> io::Result<()> {
        // The header's number is 16 bits wide and wraps; the stamp's does not.
        self.0.send((number & 0xffff) as u16, body)
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        Ok(self.0.receive()?.map(|(_, body)| body))
    }
}
