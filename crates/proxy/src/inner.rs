//! A flow whose near end is a task of the proxy: the HTTP it forwards, and DNS over TCP.
//!
//! A relay moves bytes out of and into a stream of the host. For a task of ours that is a pair of connected sockets: one
//! more pass through the kernel, for what is rare (nearly all of the web is CONNECT). Such a pair knows no reset; a flag
//! beside it tells an end in order from a flow that broke.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use quell_stack::{HostStream, spare};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::UnixStream;

/// The relay's end.
#[derive(Debug)]
pub(crate) struct Outer {
    stream: UnixStream,
    is_broken: Arc<AtomicBool>,
}

/// The task's end.
#[derive(Debug)]
pub(crate) struct Inner {
    stream: UnixStream,
    is_broken: Arc<AtomicBool>,
}

/// Both ends.
///
/// # Errors
/// The host is out of file descriptors.
pub(crate) fn pair() -> io::Result<(Outer, Inner)> {
    let (outer, inner) = UnixStream::pair()?;
    let (outer, inner) = (spare(outer)?, spare(inner)?);
    let is_broken = Arc::new(AtomicBool::new(false));
    let outer = Outer {
        stream: outer,
        is_broken: Arc::clone(&is_broken),
    };
    let inner = Inner {
        stream: inner,
        is_broken,
    };
    Ok((outer, inner))
}

impl HostStream for Outer {
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.try_read(buffer)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.try_write(bytes)
    }

    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> {
        self.stream.ready(interest)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)
    }

    fn reset(&self) {
        self.is_broken.store(true, Ordering::Release);
    }
}

impl AsyncRead for Inner {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let is_end = matches!(polled, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if is_end && buffer.remaining() > 0 && self.is_broken.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        polled
    }
}

impl AsyncWrite for Inner {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
