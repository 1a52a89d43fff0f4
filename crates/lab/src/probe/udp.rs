//! UDP: an echo server, a verified round trip, and the refusal of a closed port.

use std::borrow::Cow;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{PAYLOAD_BYTES_MAX, UdpService, connected, payload};
use crate::error::{Context, LabError, Result};

/// Part of the content that this process's next datagram carries: each has one of its own.
static NEXT_OFFSET: AtomicU64 = AtomicU64::new(0);

/// A running echo server; dropping it stops it.
#[derive(Debug)]
pub struct UdpEcho {
    service: UdpService,
    echoed: Arc<AtomicU64>,
}

impl UdpEcho {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.service.address
    }

    /// How many datagrams it has sent back.
    #[must_use]
    pub fn echoed(&self) -> u64 {
        self.echoed.load(Ordering::Relaxed)
    }
}

/// Echoes every datagram that comes to `address` (port 0: any), in the calling thread's network namespace.
///
/// # Errors
/// The address cannot be had.
pub fn udp_echo_server(address: SocketAddr) -> Result<UdpEcho> {
    let echoed = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&echoed);
    let service = UdpService::start("lab-udp-echo", address, move |datagram| {
        counter.fetch_add(1, Ordering::Relaxed);
        Some(Cow::Borrowed(&*datagram))
    })?;
    Ok(UdpEcho { service, echoed })
}

/// Sends one datagram of `len` bytes (0..=65,507) from a port of its own to an echo server and returns the time until the
/// same bytes are back.
///
/// # Errors
/// [`LabError::TimedOut`] if nothing came, [`LabError::Protocol`] if other bytes came, [`LabError::Io`] if an ICMP error did.
pub fn udp_round_trip(server: SocketAddr, len: usize, timeout: Duration) -> Result<Duration> {
    let what = || format!("UDP round trip of {len} bytes to {server}");
    let sent = payload(NEXT_OFFSET.fetch_add(1 << 17, Ordering::Relaxed), len)?;
    let socket = connected(server)?;
    let began = Instant::now();
    socket.send(&sent).context(what)?;
    let answer =
        receive(&socket, began, timeout).map_err(|error| failed(error, what(), timeout))?;
    let elapsed = began.elapsed();
    if answer != sent {
        let why = format!("{} bytes came back, not those that were sent", answer.len());
        return Err(LabError::Protocol { what: what(), why });
    }
    Ok(elapsed)
}

/// Sends a byte to a closed port and returns the time until its refusal (ICMP port unreachable) is back.
///
/// # Errors
/// [`LabError::TimedOut`] if no refusal came, [`LabError::Protocol`] if an answer came, [`LabError::Io`] for another error.
pub fn udp_refused(closed: SocketAddr, timeout: Duration) -> Result<Duration> {
    let what = || format!("refusal by {closed}");
    let socket = connected(closed)?;
    let began = Instant::now();
    socket.send(&[0]).context(what)?;
    match receive(&socket, began, timeout) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(began.elapsed()),
        Err(error) => Err(failed(error, what(), timeout)),
        Ok(_) => Err(LabError::Protocol {
            what: what(),
            why: "the port is open".into(),
        }),
    }
}

/// The next datagram, until `timeout` after `began`.
fn receive(socket: &UdpSocket, began: Instant, timeout: Duration) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; PAYLOAD_BYTES_MAX + 1];
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            // A timeout that came a moment early, or a signal: what is left decides.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
}

fn failed(source: io::Error, what: String, within: Duration) -> LabError {
    if source.kind() == io::ErrorKind::TimedOut {
        LabError::TimedOut { what, within }
    } else {
        LabError::Io { what, source }
    }
}
