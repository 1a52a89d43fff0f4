//! The control plane of a drill: an HTTP server on the loopback that answers, or does not, as it is told.
//!
//! A connection is a question, as the client asks it, and is counted when it is accepted. To refuse is to close it at
//! once: for who asks, that fails as fast as a closed port, and can be counted. Silence reads the question and says
//! nothing until the asker gives up.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Connections that are served at a time; one client asks one question at a time.
const CONNECTIONS_MAX: usize = 16;
/// How often a thread that waits looks whether it is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// No question is longer than its head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What a question meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// 200 after this time.
    Answers(Duration),
    /// Closed at once.
    Refuses,
    /// Nothing.
    Silent,
    /// 503, and perhaps when to come again.
    Unavailable(Option<Duration>),
    /// 500 to this part of questions, evenly; 200 after the time to the others.
    Fails(f64, Duration),
}

#[derive(Debug)]
struct Shared {
    mode: Mutex<Mode>,
    stop: AtomicBool,
    questions: AtomicU64,
    /// Of those that came while a part of them fails.
    sorted: AtomicU64,
    open: AtomicUsize,
}

/// A running backend; dropping it stops it.
#[derive(Debug)]
pub(super) struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    pub(super) fn start(mode: Mode) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            mode: Mutex::new(mode),
            stop: AtomicBool::new(false),
            questions: AtomicU64::new(0),
            sorted: AtomicU64::new(0),
            open: AtomicUsize::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("drill-backend".to_owned())
            .spawn(move || accept(&listener, &of_thread))?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on questions meet this.
    pub(super) fn set(&self, mode: Mode) {
        *self
            .shared
            .mode
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Questions so far.
    pub(super) fn questions(&self) -> u64 {
        self.shared.questions.load(Ordering::Relaxed)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            thread::sleep(LOOK_INTERVAL);
            continue;
        };
        shared.questions.fetch_add(1, Ordering::Relaxed);
        let mode = *shared.mode.lock().unwrap_or_else(PoisonError::into_inner);
        if mode == Mode::Refuses || shared.open.load(Ordering::Acquire) >= CONNECTIONS_MAX {
            continue;
        }
        shared.open.fetch_add(1, Ordering::AcqRel);
        let of_thread = Arc::clone(shared);
        let started = thread::Builder::new()
            .name("drill-question".to_owned())
            .spawn(move || {
                // Who asks may go at any time; that ends the question and nothing else.
                let _ = serve(stream, mode, &of_thread);
                of_thread.open.fetch_sub(1, Ordering::AcqRel);
            });
        if started.is_err() {
            shared.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn serve(mut stream: TcpStream, mode: Mode, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK_INTERVAL))?;
    if !read_head(&mut stream, shared)? {
        return Ok(());
    }
    let (status, more, wait) = match mode {
        Mode::Refuses => return Ok(()),
        Mode::Silent => return until_gone(&mut stream, shared),
        Mode::Answers(time) => ("200 OK", String::new(), time),
        Mode::Unavailable(retry_after) => {
            let more = retry_after.map_or(String::new(), |time| {
                format!("Retry-After: {}\r\n", time.as_secs())
            });
            ("503 Service Unavailable", more, Duration::ZERO)
        }
        Mode::Fails(part, time) => match shared.is_to_fail(part) {
            true => ("500 Internal Server Error", String::new(), Duration::ZERO),
            false => ("200 OK", String::new(), time),
        },
    };
    rest(wait, shared);
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

impl Shared {
    /// Whether the next question of a row is one of the part that fails: as evenly as whole questions allow.
    fn is_to_fail(&self, part: f64) -> bool {
        let number = self.sorted.fetch_add(1, Ordering::Relaxed) as f64;
        ((number + 1.0) * part).floor() > (number * part).floor()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// Whether a whole head came.
fn read_head(stream: &mut TcpStream, shared: &Shared) -> io::Result<bool> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if shared.is_stopped() || head.len() > HEAD_BYTES_MAX {
            return Ok(false);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(bytes) => head.extend_from_slice(buffer.get(..bytes).unwrap_or_default()),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn until_gone(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let mut buffer = [0; 1024];
    while !shared.is_stopped() {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn rest(time: Duration, shared: &Shared) {
    let end = Instant::now() + time;
    while !shared.is_stopped() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK_INTERVAL));
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

    fn ask(backend: &Backend, within: Duration) -> Option<String> {
        let mut stream = TcpStream::connect(backend.address()).unwrap();
        stream.set_read_timeout(Some(within)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").ok()?;
        let mut text = String::new();
        match stream.read_to_string(&mut text) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(text),
        }
    }

    #[test]
    fn a_question_meets_what_was_said() {
        let second = Duration::from_secs(1);
        let backend = Backend::start(Mode::Answers(Duration::ZERO)).unwrap();
        let said = ask(&backend, second).unwrap();
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        backend.set(Mode::Unavailable(Some(Duration::from_secs(7))));
        let said = ask(&backend, second).unwrap();
        assert!(said.contains(" 503 ") && said.contains("Retry-After: 7\r\n"));
        backend.set(Mode::Refuses);
        assert_eq!(ask(&backend, second), None);
        backend.set(Mode::Silent);
        assert_eq!(ask(&backend, Duration::from_millis(100)), None);
        assert_eq!(backend.questions(), 4);
    }

    #[test]
    fn a_part_fails_evenly() {
        let backend = Backend::start(Mode::Fails(0.5, Duration::ZERO)).unwrap();
        let said: Vec<_> = (0..4)
            .map(|_| {
                ask(&backend, Duration::from_secs(1))
                    .unwrap()
                    .contains(" 500 ")
            })
            .collect();
        assert_eq!(said, [false, true, false, true]);
    }
}
