//! What the user of a drill does: real TCP through the client's SOCKS5 proxy, to sinks on the loopback behind the exits.
//!
//! ```text
//!   user thread ── SOCKS5 ──> client ══ relay ══> exit ──> sink thread
//!               connection n: its number, then content whose every byte is known by its place
//! ```
//!
//! A connection says its number first, so that a sink knows whose bytes it counts. One that breaks is followed by
//! another half a second later, as a person's program would do; and a program that waits for answers gives a connection
//! up when none has come for two seconds. What it gave up counts as broken. Bytes of the ones that did not break must all arrive, each
//! once and in its place: the sink compares every byte with what belongs there.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quell_lab::{content, socks};
use quell_sim::scenario::Work;

/// How often a thread that waits looks whether it is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long a connection may take to stand.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// How long a user waits before another connection.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);
/// How long a user who is owed an answer waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a sink goes on reading when all is over.
const LINGER_TIME: Duration = Duration::from_secs(5);
/// Connections that a sink serves at a time.
const CONNECTIONS_MAX: usize = 256;
/// Headers of IP and TCP: a work's lengths are those of IP packets.
const HEADER_BYTES: u16 = 40;
const NUMBER_BYTES: usize = 8;
const BUFFER_BYTES: usize = 64 * 1024;

/// When what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Course {
    from: Duration,
    until: Duration,
    every: Duration,
    write_bytes: usize,
    answer_bytes: usize,
}

impl Course {
    /// Over a drill of `duration`.
    fn of(work: &Work, duration: Duration) -> Self {
        let payload = |len: u16| usize::from(len.saturating_sub(HEADER_BYTES)).max(1);
        match work {
            Work::Messages {
                every,
                len_bytes,
                answer_bytes,
            } => Self {
                from: *every / 2,
                until: duration,
                every: *every,
                write_bytes: payload(*len_bytes),
                answer_bytes: match answer_bytes {
                    0 => 0,
                    len => payload(*len),
                },
            },
            Work::Burst {
                at,
                packets,
                len_bytes,
            } => Self {
                from: *at,
                until: *at + Duration::from_millis(1),
                every: Duration::from_secs(1),
                write_bytes: payload(*len_bytes) * usize::try_from(*packets).unwrap_or(usize::MAX),
                answer_bytes: 0,
            },
            Work::Stream {
                at,
                until,
                bits_per_s,
                len_bytes,
            } => Self {
                from: *at,
                until: *until,
                every: Duration::from_secs_f64(
                    f64::from(*len_bytes) * 8.0 / (*bits_per_s).max(1) as f64,
                ),
                write_bytes: payload(*len_bytes),
                answer_bytes: 0,
            },
        }
    }
}

/// What was written, and what of it arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Connections that stood.
    pub(super) connections: u64,
    /// Of them, those that broke.
    pub(super) broken: u64,
    /// Bytes that were written to connections that did not break.
    pub(super) sent_bytes: u64,
    /// Bytes of those that arrived.
    pub(super) arrived_bytes: u64,
    /// Bytes that arrived in another's place: doubled, changed, or after a gap.
    pub(super) misplaced_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    sent: u64,
    arrived: u64,
    broken: bool,
}

#[derive(Debug, Default)]
struct Books {
    connections: BTreeMap<u64, Connection>,
    misplaced: u64,
    /// The first arrival after this moment is wanted.
    watch_from: Option<Instant>,
    first: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shared {
    books: Mutex<Books>,
    stop: AtomicBool,
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// All that the user does, running; dropping it ends it.
pub(super) struct Works {
    shared: Arc<Shared>,
    users: Vec<JoinHandle<()>>,
    sinks: Vec<(SocketAddr, JoinHandle<()>)>,
}

impl Works {
    /// Starts all `works`, whose times count from `start`.
    pub(super) fn start(
        works: &[Work],
        duration: Duration,
        socks5: SocketAddr,
        start: Instant,
    ) -> io::Result<Self> {
        let mut all = Self {
            shared: Arc::default(),
            users: Vec::new(),
            sinks: Vec::new(),
        };
        for (index, work) in works.iter().enumerate() {
            let course = Course::of(work, duration);
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let sink = listener.local_addr()?;
            let shared = Arc::clone(&all.shared);
            let thread = thread::Builder::new().name("drill-sink".to_owned());
            let thread = thread.spawn(move || accept(&listener, course, &shared))?;
            all.sinks.push((sink, thread));
            let user = User {
                course,
                start,
                socks5,
                sink,
                // Connections of one work have numbers of their own.
                number: (index as u64) << 32,
                shared: Arc::clone(&all.shared),
            };
            let thread = thread::Builder::new().name("drill-user".to_owned());
            all.users.push(thread.spawn(move || user.run())?);
        }
        Ok(all)
    }

    /// From here on the first arrival is wanted.
    pub(super) fn watch(&self, from: Instant) {
        let mut books = self.shared.books();
        (books.watch_from, books.first) = (Some(from), None);
    }

    /// How long after [`Works::watch`] something arrived.
    pub(super) fn first_after(&self) -> Option<Duration> {
        let books = self.shared.books();
        let (from, first) = books.watch_from.zip(books.first)?;
        Some(first.saturating_duration_since(from))
    }

    /// Ends what is written, waits until all of it has arrived or `within` is over, and adds up.
    pub(super) fn settle(mut self, within: Duration) -> Totals {
        self.shared.stop.store(true, Ordering::Release);
        for user in self.users.drain(..) {
            let _panicked = user.join();
        }
        let end = Instant::now() + within;
        while self.totals().arrived_bytes < self.totals().sent_bytes && Instant::now() < end {
            thread::sleep(LOOK_INTERVAL);
        }
        self.totals()
    }

    fn totals(&self) -> Totals {
        let books = self.shared.books();
        let mut totals = Totals {
            misplaced_bytes: books.misplaced,
            ..Totals::default()
        };
        for connection in books.connections.values() {
            totals.connections += 1;
            if connection.broken {
                totals.broken += 1;
            } else {
                totals.sent_bytes += connection.sent;
                totals.arrived_bytes += connection.arrived;
            }
        }
        totals
    }
}

impl Drop for Works {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for user in self.users.drain(..) {
            let _panicked = user.join();
        }
        for (address, thread) in self.sinks.drain(..) {
            // Wakes the thread that accepts.
            let _ = TcpStream::connect(address);
            let _panicked = thread.join();
        }
    }
}

/// One work's user.
struct User {
    course: Course,
    start: Instant,
    socks5: SocketAddr,
    sink: SocketAddr,
    number: u64,
    shared: Arc<Shared>,
}

/// A connection that stands.
struct Open {
    stream: TcpStream,
    number: u64,
    sent: u64,
    /// Since when an answer is owed.
    owed_since: Option<Instant>,
}

impl User {
    fn run(mut self) {
        let mut next = self.start + self.course.from;
        let end = self.start + self.course.until;
        let mut open = None;
        while !self.shared.is_stopped() && next < end {
            if !self.sleep_until(next) {
                break;
            }
            if open.is_none() {
                open = self.connect();
                if open.is_none() {
                    self.sleep_until(Instant::now() + RECONNECT_INTERVAL);
                    // Deadlines that passed without a connection are let go.
                    next = next.max(Instant::now());
                    continue;
                }
            }
            if let Some(connection) = &mut open
                && let Err(_broken) = self.write(connection)
            {
                self.on_broken(connection.number);
                open = None;
                self.sleep_until(Instant::now() + RECONNECT_INTERVAL);
            }
            next = (next + self.course.every).max(Instant::now().min(end));
        }
        if let Some(connection) = open {
            let _ = connection.stream.shutdown(Shutdown::Write);
        }
    }

    /// Whether it slept so long, and was not told to end.
    fn sleep_until(&self, at: Instant) -> bool {
        while !self.shared.is_stopped() {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK_INTERVAL));
        }
        false
    }

    fn connect(&mut self) -> Option<Open> {
        let stream = socks::connect(self.socks5, self.sink, CONNECT_TIME).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_write_timeout(Some(LOOK_INTERVAL)).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_millis(1)))
            .ok()?;
        let number = self.number;
        self.number += 1;
        self.shared
            .books()
            .connections
            .insert(number, Connection::default());
        let mut open = Open {
            stream,
            number,
            sent: 0,
            owed_since: None,
        };
        let said = self.write_all(&mut open.stream, &number.to_le_bytes(), |_| ());
        if said.is_err() {
            self.on_broken(number);
            return None;
        }
        Some(open)
    }

    fn write(&self, open: &mut Open) -> io::Result<()> {
        let mut block = vec![0; self.course.write_bytes];
        content::fill(open.sent, &mut block);
        let (shared, number) = (&self.shared, open.number);
        let mut sent = 0;
        let written = self.write_all(&mut open.stream, &block, |bytes| {
            sent += bytes;
            let mut books = shared.books();
            if let Some(connection) = books.connections.get_mut(&number) {
                connection.sent += bytes;
            }
        });
        open.sent += sent;
        written?;
        let now = Instant::now();
        if self.course.answer_bytes > 0 {
            open.owed_since.get_or_insert(now);
        }
        if self.take_answers(&mut open.stream)? {
            open.owed_since = None;
        }
        match open.owed_since {
            Some(since) if now.saturating_duration_since(since) > PATIENCE => {
                Err(io::ErrorKind::TimedOut.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes all of it, however long that takes, unless told to end; `took` hears what the system took.
    fn write_all(
        &self,
        stream: &mut TcpStream,
        bytes: &[u8],
        mut took: impl FnMut(u64),
    ) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() && !self.shared.is_stopped() {
            match stream.write(left) {
                Ok(written) => {
                    took(written as u64);
                    left = left.get(written..).unwrap_or_default();
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether any came.
    fn take_answers(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let mut came = false;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => came = true,
                Err(error) if is_timeout(&error) => return Ok(came),
                Err(error) => return Err(error),
            }
        }
    }

    fn on_broken(&self, number: u64) {
        let mut books = self.shared.books();
        if let Some(connection) = books.connections.get_mut(&number) {
            connection.broken = true;
        }
    }
}

fn accept(listener: &TcpListener, course: Course, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for stream in listener.incoming() {
        threads.retain(|thread| !thread.is_finished());
        if shared.is_stopped() {
            break;
        }
        let Ok(stream) = stream else {
            thread::sleep(LOOK_INTERVAL);
            continue;
        };
        if threads.len() >= CONNECTIONS_MAX {
            continue;
        }
        let of_thread = Arc::clone(shared);
        let thread = thread::Builder::new().name("drill-stream".to_owned());
        // A connection that breaks is its user's affair.
        let started = thread.spawn(move || drop(take(stream, course, &of_thread)));
        threads.extend(started.ok());
    }
    for thread in threads {
        let _panicked = thread.join();
    }
}

/// Reads a connection to its end, compares, and answers. Goes on for a while when told to end: what is under way comes.
fn take(mut stream: TcpStream, course: Course, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_INTERVAL))?;
    let mut number = Vec::new();
    let (mut arrived, mut answered) = (0_u64, 0_u64);
    let (mut buffer, mut expected) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let answer = vec![0; course.answer_bytes];
    let mut ends_at: Option<Instant> = None;
    loop {
        if shared.is_stopped() {
            let end = *ends_at.get_or_insert(Instant::now() + LINGER_TIME);
            if Instant::now() >= end {
                return Ok(());
            }
        }
        let bytes = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => buffer.get(..bytes).unwrap_or_default(),
            Err(error) if is_timeout(&error) => continue,
            Err(error) => return Err(error),
        };
        let head = NUMBER_BYTES.saturating_sub(number.len()).min(bytes.len());
        let (head, body) = bytes.split_at(head);
        number.extend_from_slice(head);
        let Some(id) = <[u8; NUMBER_BYTES]>::try_from(number.as_slice()).ok() else {
            continue;
        };
        let expected = expected.get_mut(..body.len()).unwrap_or_default();
        content::fill(arrived, expected);
        let wrong = body
            .iter()
            .zip(expected.iter())
            .filter(|(a, b)| a != b)
            .count();
        arrived += body.len() as u64;
        note(
            shared,
            u64::from_le_bytes(id),
            body.len() as u64,
            wrong as u64,
        );
        if course.answer_bytes > 0 {
            let due = arrived / course.write_bytes as u64;
            while answered < due {
                stream.write_all(&answer)?;
                answered += 1;
            }
        }
    }
}

fn note(shared: &Shared, number: u64, bytes: u64, wrong: u64) {
    let now = Instant::now();
    let mut books = shared.books();
    books.misplaced += wrong;
    if let Some(connection) = books.connections.get_mut(&number) {
        connection.arrived += bytes;
    }
    if bytes > 0 && books.first.is_none() && books.watch_from.is_some_and(|from| from < now) {
        books.first = Some(now);
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_stream_is_written_at_the_pace_of_its_packets() {
        let work = Work::Stream {
            at: Duration::from_secs(2),
            until: Duration::from_secs(9),
            bits_per_s: 96_000,
            len_bytes: 1_200,
        };
        let course = Course::of(&work, Duration::from_secs(10));
        assert_eq!(course.every, Duration::from_millis(100));
        assert_eq!(course.write_bytes, 1_160);
        let burst = Work::Burst {
            at: Duration::from_secs(2),
            packets: 50,
            len_bytes: 1_200,
        };
        let course = Course::of(&burst, Duration::from_secs(10));
        assert_eq!(course.write_bytes, 50 * 1_160);
        assert!(course.until < course.from + course.every, "once");
    }

    #[test]
    fn a_byte_out_of_its_place_is_counted() {
        let shared = Arc::new(Shared::default());
        shared.books().connections.insert(7, Connection::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let course = Course {
            from: Duration::ZERO,
            until: Duration::ZERO,
            every: Duration::ZERO,
            write_bytes: 100,
            answer_bytes: 0,
        };
        let mut bytes = vec![0; 300];
        content::fill(0, &mut bytes);
        bytes[200] ^= 1;
        out.write_all(&7_u64.to_le_bytes()).unwrap();
        out.write_all(&bytes).unwrap();
        drop(out);
        take(stream, course, &shared).unwrap();
        let books = shared.books();
        assert_eq!(books.connections[&7].arrived, 300);
        assert_eq!(books.misplaced, 1);
    }
}
