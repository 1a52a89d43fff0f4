//! The near end of a measurement: datagrams.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Gauge, check};
use super::order::Order;
use super::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use crate::error::{Context, LabError, Result};
use crate::load::Pace;

/// How long after its last datagram a path may still deliver some.
const SETTLE_TIME: Duration = Duration::from_millis(300);
/// How long the answer to a datagram may take.
const ECHO_TIME: Duration = Duration::from_secs(1);
/// What is less than this is not slept: a sleep takes longer.
const SLEEP_MIN: Duration = Duration::from_micros(60);

/// Datagrams of one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datagrams {
    /// Those that the system took.
    pub sent: u64,
    /// Those that arrived.
    pub received: u64,
    /// Their payload, in bytes.
    pub received_bytes: u64,
    /// How long they were sent for.
    pub took: Duration,
}

impl Datagrams {
    /// The share of those that were sent and did not arrive, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let lost = self.sent.saturating_sub(self.received);
        lost as f64 / self.sent.max(1) as f64
    }

    /// Datagrams that arrived, a second.
    #[must_use]
    pub fn received_s(&self) -> f64 {
        self.received as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Megabits (10⁶) of payload that arrived, a second.
    #[must_use]
    pub fn mbit_s(&self) -> f64 {
        self.received_bytes as f64 * 8.0 / 1e6 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Round trips of single datagrams, the shortest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundTrips {
    /// Those that came back.
    pub times: Vec<Duration>,
    /// How many did not.
    pub lost: usize,
}

impl RoundTrips {
    /// The mean; `None` when none came back.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let count = u32::try_from(self.times.len()).ok()?;
        self.times.iter().sum::<Duration>().checked_div(count)
    }

    /// What `share` (0 to 1) of them do not exceed; `None` when none came back.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let last = self.times.len().checked_sub(1)?;
        let place = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.times.get(place.min(last)).copied()
    }
}

impl Gauge {
    /// Sends datagrams of `payload_bytes` for so long, `rate_s` a second; `None`: as fast as it goes.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for a payload, a time or a rate out of its range; [`LabError::Io`] when the server is not to be had.
    pub fn datagrams(
        &self,
        payload_bytes: usize,
        rate_s: Option<u64>,
        time: Duration,
    ) -> Result<Datagrams> {
        check(time)?;
        if rate_s == Some(0) {
            return Err(LabError::Invalid("a load of 0 datagrams a second".into()));
        }
        let what = || format!("datagrams to the gauge at {}", self.server);
        let (mut order, socket, mut payload) = self.begin(Order::Count, payload_bytes)?;
        let began = Instant::now();
        let until = began + time;
        let mut pace = rate_s.map(|rate| {
            let interval = 1_000_000_000 / rate.min(1_000_000_000);
            Pace::new(began, Duration::from_nanos(interval))
        });
        let mut sent = 0_u64;
        loop {
            let now = Instant::now();
            if now >= until {
                break;
            }
            if let Some(pace) = &mut pace
                && !pace.take(now)
            {
                let left = pace.left(now);
                if left > SLEEP_MIN {
                    thread::sleep(left);
                }
                continue;
            }
            payload[8..16].copy_from_slice(&sent.to_be_bytes());
            // Refused ones are not sent: the system's queue is full, or a router said no.
            if socket.send(&payload).is_ok() {
                sent += 1;
            }
        }
        let took = began.elapsed();
        thread::sleep(SETTLE_TIME);
        let mut figures = [0; 16];
        order.write_all(&[1]).context(what)?;
        order.read_exact(&mut figures).context(what)?;
        let [received, received_bytes] = [0, 8].map(|at| {
            let bytes = figures[at..].first_chunk().copied().unwrap_or_default();
            u64::from_be_bytes(bytes)
        });
        Ok(Datagrams {
            sent,
            received,
            received_bytes,
            took,
        })
    }

    /// Sends `count` datagrams, one each `interval` unless an answer takes longer, and waits for each to come back.
    ///
    /// # Errors
    /// As [`Gauge::datagrams`].
    pub fn round_trips(
        &self,
        payload_bytes: usize,
        count: u32,
        interval: Duration,
    ) -> Result<RoundTrips> {
        let what = || format!("round trips to the gauge at {}", self.server);
        let (_order, socket, mut payload) = self.begin(Order::Echo, payload_bytes)?;
        let mut trips = RoundTrips::default();
        let mut pace = Pace::new(Instant::now(), interval);
        for number in 0..u64::from(count) {
            let now = Instant::now();
            if !pace.take(now) {
                thread::sleep(pace.left(now));
                pace.take(Instant::now());
            }
            payload[8..16].copy_from_slice(&number.to_be_bytes());
            match round_trip(&socket, &payload).context(what)? {
                Some(time) => trips.times.push(time),
                None => trips.lost += 1,
            }
        }
        trips.times.sort_unstable();
        Ok(trips)
    }

    fn begin(&self, order: Order, payload_bytes: usize) -> Result<(TcpStream, UdpSocket, Vec<u8>)> {
        if !(PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&payload_bytes) {
            return Err(LabError::Invalid(format!(
                "a datagram of {payload_bytes} bytes; it may have {PAYLOAD_BYTES_MIN} to {PAYLOAD_BYTES_MAX}"
            )));
        }
        let what = || format!("the gauge at {}", self.server);
        let mut stream = self.connect()?;
        stream.write_all(&order.encode()).context(what)?;
        let mut payload = vec![0; payload_bytes];
        stream.read_exact(&mut payload[..8]).context(what)?;
        let socket = socket_to(self.server).context(what)?;
        Ok((stream, socket, payload))
    }
}

fn socket_to(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if server.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let socket = UdpSocket::bind(any)?;
    crate::buffers::enlarge(&socket);
    socket.connect(server)?;
    Ok(socket)
}

/// Sends a datagram and waits until it is back; `None`: it was not in time. Older ones that come late are let go.
fn round_trip(socket: &UdpSocket, payload: &[u8]) -> io::Result<Option<Duration>> {
    let mut buffer = vec![0; payload.len() + 1];
    let began = Instant::now();
    if socket.send(payload).is_err() {
        return Ok(None);
    }
    loop {
        let left = ECHO_TIME.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        if let Ok(len) = socket.recv(&mut buffer)
            && buffer.get(..len) == Some(payload)
        {
            return Ok(Some(began.elapsed()));
        }
    }
}
