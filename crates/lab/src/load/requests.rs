//! Short HTTP requests, some at a time, each over a connection of its own.
//!
//! A browser's way of using a tunnel, and the one that shows what new connections come to: each worker opens a connection,
//! asks [`Server`](crate::http::Server) which address it comes from, notes how that went, and after a pause asks again. The
//! answer tells which exit the connection took. A request ends with an answer, with an error of its connection, or when its
//! time is over; what is open when the load is dropped is nobody's failure and is not noted.
//!
//! All workers share one thread with one runtime, in the namespace that the load was started in. The newest
//! [`ENTRIES_MAX`] requests are kept: half an hour of the eight workers of the default.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::arrivals::ENTRIES_MAX;
use crate::error::{Context as _, LabError, Result};
use crate::socks;

const REQUEST: &[u8] = b"GET /address HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n";

/// An answer is a head of four lines and an address.
const ANSWER_BYTES_MAX: u64 = 1_024;

/// Settings of an [`HttpLoad`].
#[derive(Debug, Clone, Copy)]
pub struct HttpLoadConfig {
    /// Requests open at a time. Default 8.
    pub workers: usize,
    /// A worker's pause between two requests. Default 50 ms.
    pub pause: Duration,
    /// How long a request may take. Default 10 s: three retries of a TCP's SYN fit.
    pub patience: Duration,
    /// The SOCKS5 proxy that they go through. Default none.
    pub proxy: Option<SocketAddr>,
}

impl Default for HttpLoadConfig {
    fn default() -> Self {
        Self {
            workers: 8,
            pause: Duration::from_millis(50),
            patience: Duration::from_secs(10),
            proxy: None,
        }
    }
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// When its connection was begun.
    pub began: Instant,
    /// When its answer, or its failure, was complete.
    pub ended: Instant,
    /// The address that the server saw, or what kind of error the request ended in.
    pub answer: Result<IpAddr, io::ErrorKind>,
}

/// Running requests; dropping it stops them.
#[derive(Debug)]
pub struct HttpLoad {
    record: Arc<Mutex<VecDeque<Asked>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpLoad {
    /// Asks `server` again and again, in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`LabError::Invalid`] without workers, [`LabError::Io`] if no thread can be had. Failures of requests are figures.
    pub fn start(server: SocketAddr, config: HttpLoadConfig) -> Result<Self> {
        if config.workers == 0 {
            return Err(LabError::Invalid("requests without a worker".into()));
        }
        let record = Arc::<Mutex<VecDeque<_>>>::default();
        let (noted, (stop, stopped)) = (Arc::clone(&record), oneshot::channel());
        let work = move || {
            if let Err(error) = run(server, config, &noted, stopped) {
                tracing::warn!(%error, "the requests end");
            }
        };
        let thread = thread::Builder::new()
            .name("lab-http-load".into())
            .spawn(work)
            .context(|| "thread lab-http-load".into())?;
        Ok(Self {
            record,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The requests that have ended so far, in the order of their ends.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.record.lock().iter().copied().collect()
    }
}

impl Drop for HttpLoad {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn run(
    server: SocketAddr,
    config: HttpLoadConfig,
    record: &Arc<Mutex<VecDeque<Asked>>>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut workers = JoinSet::new();
        for _ in 0..config.workers {
            workers.spawn(work(server, config, Arc::clone(record)));
        }
        // The sender is never used, only dropped. Dropping the set ends the workers, whatever they wait for.
        let _dropped = stopped.await;
    });
    Ok(())
}

async fn work(server: SocketAddr, config: HttpLoadConfig, record: Arc<Mutex<VecDeque<Asked>>>) {
    loop {
        let began = Instant::now();
        let answer = tokio::time::timeout(config.patience, ask(server, config.proxy)).await;
        let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        note(
            &record,
            Asked {
                began,
                ended: Instant::now(),
                answer: answer.map_err(|error| error.kind()),
            },
        );
        tokio::time::sleep(config.pause).await;
    }
}

fn note(record: &Mutex<VecDeque<Asked>>, asked: Asked) {
    let mut record = record.lock();
    if record.len() == ENTRIES_MAX {
        record.pop_front();
    }
    record.push_back(asked);
}

async fn ask(server: SocketAddr, proxy: Option<SocketAddr>) -> io::Result<IpAddr> {
    let mut stream = match proxy {
        Some(proxy) => socks::connect_async(proxy, server).await?,
        None => TcpStream::connect(server).await?,
    };
    stream.write_all(REQUEST).await?;
    let mut answer = String::new();
    let mut stream = stream.take(ANSWER_BYTES_MAX);
    stream.read_to_string(&mut answer).await?;
    address_in(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The address that a good answer consists of; one that broke off has none.
fn address_in(answer: &str) -> Option<IpAddr> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let body = body.strip_suffix('\n')?;
    head.starts_with("HTTP/1.1 200 ")
        .then(|| body.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::http::Server;
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    const LONG: Duration = Duration::from_secs(20);

    fn until(load: &HttpLoad, count: usize) -> Vec<Asked> {
        let began = Instant::now();
        loop {
            let asked = load.asked();
            if asked.len() >= count || began.elapsed() > LONG {
                return asked;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn any() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn each_request_is_noted_with_the_address_it_came_from() {
        let server = Server::start(any()).unwrap();
        let before = Instant::now();
        let load = HttpLoad::start(server.address(), HttpLoadConfig::default()).unwrap();
        let asked = until(&load, 16);
        drop(load);
        assert!(asked.len() >= 16);
        for asked in asked {
            assert_eq!(asked.answer, Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)));
            assert!(before <= asked.began && asked.began < asked.ended);
        }
    }

    #[test]
    fn a_refusal_and_a_silence_are_failures_by_name_and_a_stop_is_none() {
        let closed = TcpListener::bind(any()).unwrap().local_addr().unwrap();
        let load = HttpLoad::start(closed, HttpLoadConfig::default()).unwrap();
        let refused = until(&load, 1)[0].answer;
        assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));

        let silent = TcpListener::bind(any()).unwrap();
        let to = silent.local_addr().unwrap();
        let impatient = HttpLoadConfig {
            patience: Duration::from_millis(100),
            ..HttpLoadConfig::default()
        };
        let load = HttpLoad::start(to, impatient).unwrap();
        let asked = until(&load, 1)[0];
        assert_eq!(asked.answer, Err(io::ErrorKind::TimedOut));
        assert!(asked.ended - asked.began >= impatient.patience);

        let patient = HttpLoad::start(to, HttpLoadConfig::default()).unwrap();
        thread::sleep(Duration::from_millis(20));
        let began = Instant::now();
        assert!(patient.asked().is_empty());
        drop(patient);
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "a stop waits for nobody"
        );
    }

    #[test]
    fn an_answer_that_broke_off_names_no_address() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n";
        assert_eq!(
            address_in(&format!("{head}1.2.3.4\n")),
            Some(IpAddr::from([1, 2, 3, 4]))
        );
        for broken in ["1.2.3.4", "1.2.3\n", "", "\n"] {
            assert_eq!(address_in(&format!("{head}{broken}")), None);
        }
        assert_eq!(address_in("HTTP/1.1 503 no\r\n\r\n1.2.3.4\n"), None);
    }
}
