//! A series of echo requests, as the `ping` of a bare machine that has none.
//!
//! Requests leave on a fixed schedule, whatever comes back. An answer counts as long as the run lasts, that is until all are
//! in or `timeout` after the last request.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::{EchoSocket, PAYLOAD_BYTES_MAX, payload};
use crate::content;
use crate::error::{LabError, Result};
use crate::socks::Association;
use crate::stop::wait_readable;

/// Content that each request is given for itself, so that no two carry the same.
const OFFSET_STEP: u64 = 1 << 17;

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
    let socket = EchoSocket::open(destination, payload_len)?;
    Run::new(socket, payload_len, count).all(interval, timeout)
}

/// As [`ping`], by datagrams to an echo server through the SOCKS5 proxy at `proxy`: two bytes of number and the payload.
///
/// # Errors
/// As [`ping`]; [`LabError::Io`] also if the proxy refuses, or does not answer within `timeout`.
pub fn udp_ping(
    proxy: SocketAddr,
    server: SocketAddr,
    payload_len: usize,
    count: u16,
    interval: Duration,
    timeout: Duration,
) -> Result<PingReport> {
    if payload_len > PAYLOAD_BYTES_MAX - 2 {
        return Err(LabError::Invalid(format!(
            "a payload of {payload_len} bytes and a number exceed {PAYLOAD_BYTES_MAX}"
        )));
    }
    let way = Numbered {
        way: Association::open(proxy, server, timeout)?,
        message: Vec::with_capacity(payload_len + 2),
    };
    Run::new(way, payload_len, count).all(interval, timeout)
}

/// One request on its way.
#[derive(Debug, Clone, Copy)]
struct Request {
    sent_at: Instant,
    answered: bool,
}

/// A socket whose peer sends back what it is sent, by number.
trait Asker {
    fn fd(&self) -> BorrowedFd<'_>;
    fn send(&mut self, number: u16, body: &[u8]) -> io::Result<()>;
    /// The next answer; `None`: it is of no concern. [`io::ErrorKind::WouldBlock`]: no more.
    fn receive(&mut self) -> io::Result<Option<(u16, &[u8])>>;
}

impl Asker for EchoSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }

    fn send(&mut self, number: u16, body: &[u8]) -> io::Result<()> {
        self.send(number, body)
    }

    fn receive(&mut self) -> io::Result<Option<(u16, &[u8])>> {
        self.receive()
    }
}

/// Datagrams that begin with their number.
struct Numbered {
    way: Association,
    message: Vec<u8>,
}

impl Asker for Numbered {
    fn fd(&self) -> BorrowedFd<'_> {
        self.way.fd()
    }

    fn send(&mut self, number: u16, body: &[u8]) -> io::Result<()> {
        self.message.clear();
        self.message.extend_from_slice(&number.to_be_bytes());
        self.message.extend_from_slice(body);
        self.way.send(&self.message)
    }

    fn receive(&mut self) -> io::Result<Option<(u16, &[u8])>> {
        let answer = self.way.receive()?;
        let answer = answer.and_then(<[u8]>::split_first_chunk);
        Ok(answer.map(|(number, body)| (u16::from_be_bytes(*number), body)))
    }
}

struct Run<S> {
    socket: S,
    payload_len: usize,
    count: u16,
    requests: Vec<Request>,
    report: PingReport,
}

impl<S: Asker> Run<S> {
    fn new(socket: S, payload_len: usize, count: u16) -> Self {
        Self {
            socket,
            payload_len,
            count,
            requests: Vec::with_capacity(count.into()),
            report: PingReport::default(),
        }
    }

    fn all(mut self, interval: Duration, timeout: Duration) -> Result<PingReport> {
        let began = Instant::now();
        let mut last_sent = began;
        loop {
            let now = Instant::now();
            let next_at = began + interval * u32::from(self.report.sent);
            let all_sent = self.report.sent == self.count;
            if !all_sent && now >= next_at {
                last_sent = now;
                self.send(now)?;
                continue;
            }
            let until = if all_sent {
                last_sent + timeout
            } else {
                next_at
            };
            if all_sent && (now >= until || self.report.received + self.report.errors >= self.count)
            {
                return Ok(self.report);
            }
            wait_readable(
                &[self.socket.fd()],
                Some(until.saturating_duration_since(now)),
            )?;
            self.receive();
        }
    }

    fn send(&mut self, now: Instant) -> Result<()> {
        let number = self.report.sent;
        let body = payload(u64::from(number) * OFFSET_STEP, self.payload_len)?;
        self.requests.push(Request {
            sent_at: now,
            answered: false,
        });
        self.report.sent += 1;
        if self.socket.send(number, &body).is_err() {
            self.report.errors += 1;
        }
        Ok(())
    }

    fn receive(&mut self) {
        // Bounded by what can be outstanding, so that a flood of strangers' echoes does not hold up the schedule.
        for _ in 0..=self.requests.len() {
            let (number, body) = match self.socket.receive() {
                Ok(Some(answer)) => answer,
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.report.errors = self.report.errors.saturating_add(1).min(self.report.sent);
                    continue;
                }
            };
            let now = Instant::now();
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
}
