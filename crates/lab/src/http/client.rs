//! The measuring client.
//!
//! A deadline bounds the whole transfer, connecting included: every wait is given what is left of it. The *longest gap* of a
//! download runs from the request, or a read, to the next read; that of an upload likewise from write to write, the answer
//! included. It counts what the socket hands out, so its grain is the scheduler's, and a sender's buffer can hide a short
//! outage from an upload's writes: only the answer's arrival tells then.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::head::{Head, read_head};
use crate::content;
use crate::error::{Context, LabError, Result};
use crate::socks;

const READ_BYTES: usize = 64 * 1024;

/// A finished download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Bytes of the body.
    pub bytes: u64,
    /// Their SHA-256 in hex, to be compared with [`content::sha256`].
    pub sha256: String,
    /// From connecting to the last byte.
    pub elapsed: Duration,
    /// The longest time without a byte.
    pub longest_gap: Duration,
}

/// A finished upload. The server's digest has been compared with that of what was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Bytes of the body.
    pub bytes: u64,
    /// Their SHA-256 in hex, as the server counts.
    pub sha256: String,
    /// From connecting to the server's answer.
    pub elapsed: Duration,
    /// The longest time without progress.
    pub longest_gap: Duration,
}

/// What is left of a transfer's time, and how it has moved.
struct Meter {
    what: String,
    began: Instant,
    deadline: Duration,
    moved: Instant,
    longest_gap: Duration,
}

impl Meter {
    fn start(what: String, deadline: Duration) -> Self {
        let began = Instant::now();
        Self {
            what,
            began,
            deadline,
            moved: began,
            longest_gap: Duration::ZERO,
        }
    }

    fn left(&self) -> Result<Duration> {
        let left = self.deadline.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            Err(self.timed_out())
        } else {
            Ok(left)
        }
    }

    fn timed_out(&self) -> LabError {
        LabError::TimedOut {
            what: self.what.clone(),
            within: self.deadline,
        }
    }

    fn progress(&mut self) {
        let now = Instant::now();
        self.longest_gap = self.longest_gap.max(now.duration_since(self.moved));
        self.moved = now;
    }

    fn connect(&mut self, address: SocketAddr, proxy: Option<SocketAddr>) -> Result<TcpStream> {
        let left = self.left()?;
        let stream = match proxy {
            Some(proxy) => socks::connect(proxy, address, left)?,
            None => {
                TcpStream::connect_timeout(&address, left).map_err(|error| self.error(error))?
            }
        };
        stream.set_nodelay(true).context(|| self.what.clone())?;
        self.progress();
        Ok(stream)
    }

    /// Arms the socket's timeouts with what is left.
    fn arm(&self, stream: &TcpStream) -> Result<()> {
        let left = Some(self.left()?);
        stream
            .set_read_timeout(left)
            .and_then(|()| stream.set_write_timeout(left))
            .context(|| self.what.clone())
    }

    fn error(&self, source: io::Error) -> LabError {
        let is_timeout = matches!(
            source.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        );
        if is_timeout && self.left().is_err() {
            self.timed_out()
        } else {
            LabError::Io {
                what: self.what.clone(),
                source,
            }
        }
    }

    fn protocol(&self, why: impl Into<String>) -> LabError {
        LabError::Protocol {
            what: self.what.clone(),
            why: why.into(),
        }
    }

    /// Reads the answer's head; anything but 200 is an error.
    fn answer_head(&mut self, reader: &mut BufReader<&TcpStream>) -> Result<Head> {
        self.arm(reader.get_ref())?;
        let head = read_head(reader).map_err(|error| self.error(error))?;
        let head = head.ok_or_else(|| self.protocol("closed without an answer"))?;
        self.progress();
        match head.first_line.split_ascii_whitespace().nth(1) {
            Some("200") => Ok(head),
            _ => Err(self.protocol(head.first_line)),
        }
    }
}

/// Downloads `GET /bytes/n` from `address`. Gives up `deadline` after the call.
///
/// # Errors
/// [`LabError::TimedOut`] before the body began, [`LabError::Incomplete`] for a body that ended or whose time ran out,
/// [`LabError::Protocol`] for an answer other than 200 with `n` bytes.
pub fn download(address: SocketAddr, n: u64, deadline: Duration) -> Result<Download> {
    download_over(address, None, n, deadline)
}

/// As [`download`], through the SOCKS5 proxy at `proxy`.
///
/// # Errors
/// As [`download`]; [`LabError::Io`] also if the proxy refuses.
pub fn download_via(
    proxy: SocketAddr,
    address: SocketAddr,
    n: u64,
    deadline: Duration,
) -> Result<Download> {
    download_over(address, Some(proxy), n, deadline)
}

fn download_over(
    address: SocketAddr,
    proxy: Option<SocketAddr>,
    n: u64,
    deadline: Duration,
) -> Result<Download> {
    let mut meter = Meter::start(format!("download of {n} bytes from {address}"), deadline);
    let stream = meter.connect(address, proxy)?;
    meter.arm(&stream)?;
    let request =
        format!("GET /bytes/{n} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    (&stream)
        .write_all(request.as_bytes())
        .map_err(|error| meter.error(error))?;
    let mut reader = BufReader::with_capacity(READ_BYTES, &stream);
    let head = meter.answer_head(&mut reader)?;
    if head.content_length != Some(n) {
        return Err(meter.protocol(format!("content-length {:?}", head.content_length)));
    }

    let mut hash = Sha256::new();
    let mut received = 0;
    while received < n {
        let incomplete = || LabError::Incomplete {
            what: format!("download from {address}"),
            received,
            wanted: n,
        };
        meter.arm(&stream).map_err(|_| incomplete())?;
        let block = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            block => block.map_err(|_| incomplete())?,
        };
        if block.is_empty() {
            return Err(incomplete());
        }
        meter.progress();
        let used = block
            .len()
            .min(usize::try_from(n - received).unwrap_or(usize::MAX));
        hash.update(&block[..used]);
        received += used as u64;
        reader.consume(used);
    }
    let elapsed = meter.began.elapsed();
    Ok(Download {
        bytes: received,
        sha256: content::hex(hash),
        elapsed,
        longest_gap: meter.longest_gap,
    })
}

/// Uploads the content's first `n` bytes to `PUT /upload` at `address`. Gives up `deadline` after the call.
///
/// # Errors
/// As [`download`]; [`LabError::Protocol`] also if the server's digest or count is not that of what was sent.
pub fn upload(address: SocketAddr, n: u64, deadline: Duration) -> Result<Upload> {
    let mut meter = Meter::start(format!("upload of {n} bytes to {address}"), deadline);
    let stream = meter.connect(address, None)?;
    meter.arm(&stream)?;
    let request = format!(
        "PUT /upload HTTP/1.1\r\nHost: {address}\r\nContent-Length: {n}\r\nConnection: close\r\n\r\n"
    );
    (&stream)
        .write_all(request.as_bytes())
        .map_err(|error| meter.error(error))?;

    let mut hash = Sha256::new();
    let mut sent = 0;
    content::blocks(n, |block| {
        hash.update(block);
        let mut rest = block;
        while !rest.is_empty() {
            let incomplete = || LabError::Incomplete {
                what: format!("upload to {address}"),
                received: sent,
                wanted: n,
            };
            meter.arm(&stream).map_err(|_| incomplete())?;
            let written = match (&stream).write(rest) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                written => written.map_err(|_| incomplete())?,
            };
            if written == 0 {
                return Err(incomplete());
            }
            meter.progress();
            sent += written as u64;
            rest = &rest[written..];
        }
        Ok(())
    })?;

    let mut reader = BufReader::new(&stream);
    let head = meter.answer_head(&mut reader)?;
    let mut text = String::new();
    let mut body = reader.take(head.content_length.unwrap_or(0).min(256));
    body.read_to_string(&mut text)
        .map_err(|error| meter.error(error))?;
    let sha256 = content::hex(hash);
    if text.trim() != format!("{sha256} {n}") {
        return Err(meter.protocol(format!("sent {sha256} {n}, the server got {}", text.trim())));
    }
    Ok(Upload {
        bytes: n,
        sha256,
        elapsed: meter.began.elapsed(),
        longest_gap: meter.longest_gap,
    })
}
