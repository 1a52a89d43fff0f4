//! Echo requests (RFC 792, RFC 4443), as the `ping` of a bare machine that has none.
//!
//! The unprivileged ping socket is tried first and the raw one next. They differ in three ways, all met here: a raw IPv4
//! socket hands out the IP header, sees every echo on the machine (requests too), and leaves identifier and checksum to us,
//! while the kernel sets them on a ping socket. The ICMPv6 checksum is always the kernel's.
//!
//! Requests leave on a fixed schedule, whatever comes back. An answer counts as long as the run lasts, that is until all are
//! in or `timeout` after the last request.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::{PAYLOAD_BYTES_MAX, payload};
use crate::content;
use crate::error::{Context, LabError, Result};
use crate::stop::wait_readable;

/// Type, code, checksum, identifier, sequence number.
const HEADER_BYTES: usize = 8;

/// Content that each request is given for itself, so that no two carry the same.
const OFFSET_STEP: u64 = 1 << 17;

static NEXT_IDENTIFIER: AtomicU16 = AtomicU16::new(1);

/// What came of a [`ping`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PingReport {
    /// Requests made.
    pub sent: u16,
    /// Of those, the ones that the system refused to send, or that met an ICMP error.
    pub errors: u16,
    /// Requests answered with the right payload.
    pub received: u16,
    /// Further right answers to a request already answered.
    pub duplicates: u32,
    /// Answers with a wrong payload or an unknown number.
    pub corrupted: u32,
    /// Of the first right answer to each, in the order of arrival.
    pub round_trips: Vec<Duration>,
}

impl PingReport {
    /// Requests without a right answer.
    #[must_use]
    pub fn lost(&self) -> u16 {
        self.sent - self.received
    }

    /// The fastest round trip.
    #[must_use]
    pub fn round_trip_min(&self) -> Option<Duration> {
        self.round_trips.iter().min().copied()
    }

    /// The slowest round trip.
    #[must_use]
    pub fn round_trip_max(&self) -> Option<Duration> {
        self.round_trips.iter().max().copied()
    }

    /// The mean round trip.
    #[must_use]
    pub fn round_trip_mean(&self) -> Option<Duration> {
        let count = u32::try_from(self.round_trips.len())
            .ok()
            .filter(|count| *count > 0)?;
        Some(self.round_trips.iter().sum::<Duration>() / count)
    }
}

/// Sends `count` echo requests with `payload_len` bytes each to `destination`, one each `interval`.
///
/// # Errors
/// [`LabError::Invalid`] for a payload above 65,507 bytes, [`LabError::Io`] if no socket can be had (neither root nor in
/// `net.ipv4.ping_group_range`). Silence and refusals are no errors but figures of the report.
pub fn ping(
    destination: IpAddr,
    payload_len: usize,
    count: u16,
    interval: Duration,
    timeout: Duration,
) -> Result<PingReport> {
    if payload_len > PAYLOAD_BYTES_MAX {
        return Err(LabError::Invalid(format!(
            "a payload of {payload_len} bytes exceeds {PAYLOAD_BYTES_MAX}"
        )));
    }
    let mut run = Run::open(destination, payload_len, count)?;
    let began = Instant::now();
    let mut last_sent = began;
    loop {
        let now = Instant::now();
        let next_at = began + interval * u32::from(run.report.sent);
        let all_sent = run.report.sent == count;
        if !all_sent && now >= next_at {
            last_sent = now;
            run.send(now)?;
            continue;
        }
        let until = if all_sent {
            last_sent + timeout
        } else {
            next_at
        };
        if all_sent && (now >= until || run.report.received + run.report.errors >= count) {
            return Ok(run.report);
        }
        wait_readable(
            &[run.socket.as_fd()],
            Some(until.saturating_duration_since(now)),
        )?;
        run.receive();
    }
}

/// One request on its way.
#[derive(Debug, Clone, Copy)]
struct Request {
    sent_at: Instant,
    answered: bool,
}

struct Run {
    socket: Socket,
    is_raw: bool,
    is_v6: bool,
    identifier: u16,
    payload_len: usize,
    requests: Vec<Request>,
    buffer: Vec<u8>,
    report: PingReport,
}

impl Run {
    fn open(destination: IpAddr, payload_len: usize, count: u16) -> Result<Self> {
        let what = || format!("ping socket towards {destination}");
        let (domain, protocol) = match destination {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let (socket, is_raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (
                Socket::new(domain, Type::RAW, Some(protocol)).context(what)?,
                true,
            ),
        };
        socket.set_nonblocking(true).context(what)?;
        // The default holds three of the longest messages, and a raw socket is handed everybody's.
        crate::buffers::enlarge(&socket);
        socket
            .connect(&SocketAddr::new(destination, 0).into())
            .context(what)?;
        Ok(Self {
            socket,
            is_raw,
            is_v6: destination.is_ipv6(),
            identifier: NEXT_IDENTIFIER.fetch_add(1, Ordering::Relaxed)
                ^ (std::process::id() as u16),
            payload_len,
            requests: Vec::with_capacity(count.into()),
            // An IPv4 header with all its options comes before the message on a raw socket.
            buffer: vec![0; 60 + HEADER_BYTES + PAYLOAD_BYTES_MAX + 1],
            report: PingReport::default(),
        })
    }

    fn send(&mut self, now: Instant) -> Result<()> {
        let number = self.report.sent;
        let mut message = vec![if self.is_v6 { 128 } else { 8 }, 0, 0, 0];
        message.extend_from_slice(&self.identifier.to_be_bytes());
        message.extend_from_slice(&number.to_be_bytes());
        message.extend_from_slice(&payload(u64::from(number) * OFFSET_STEP, self.payload_len)?);
        if !self.is_v6 {
            let sum = checksum(&message).to_be_bytes();
            message[2..4].copy_from_slice(&sum);
        }
        self.requests.push(Request {
            sent_at: now,
            answered: false,
        });
        self.report.sent += 1;
        if (&self.socket).write(&message).is_err() {
            self.report.errors += 1;
        }
        Ok(())
    }

    fn receive(&mut self) {
        // Bounded by what can be outstanding, so that a flood of strangers' echoes does not hold up the schedule.
        for _ in 0..=self.requests.len() {
            match (&self.socket).read(&mut self.buffer) {
                Ok(len) => self.judge(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An ICMP error about one of the requests; it does not tell which.
                Err(_) => {
                    self.report.errors = self.report.errors.saturating_add(1).min(self.report.sent)
                }
            }
        }
    }

    fn judge(&mut self, len: usize) {
        let now = Instant::now();
        let bytes = &self.buffer[..len];
        let header_len = match bytes.first() {
            Some(first) if self.is_raw && !self.is_v6 => usize::from(first & 0x0f) * 4,
            Some(_) | None => 0,
        };
        let message = bytes
            .get(header_len..)
            .and_then(<[u8]>::split_first_chunk::<HEADER_BYTES>);
        let Some((header, body)) = message else {
            return;
        };
        let reply = if self.is_v6 { 129 } else { 0 };
        let identifier = u16::from_be_bytes([header[4], header[5]]);
        if header[0] != reply || (self.is_raw && identifier != self.identifier) {
            return;
        }
        let number = u16::from_be_bytes([header[6], header[7]]);
        let mut expected = vec![0; self.payload_len];
        content::fill(u64::from(number) * OFFSET_STEP, &mut expected);
        match self.requests.get_mut(usize::from(number)) {
            Some(request) if body == expected => {
                if request.answered {
                    self.report.duplicates += 1;
                } else {
                    request.answered = true;
                    self.report.received += 1;
                    self.report
                        .round_trips
                        .push(now.duration_since(request.sent_at));
                }
            }
            Some(_) | None => self.report.corrupted += 1,
        }
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(message: &[u8]) -> u16 {
    let mut sum: u32 = message
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The example of RFC 1071 §3.
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        assert_eq!(checksum(&[0x01]), !0x0100);
        // It holds for the longest message: no sum overflows.
        assert_eq!(
            checksum(&vec![0xff; PAYLOAD_BYTES_MAX + HEADER_BYTES + 1]),
            0
        );
    }
}
