//! The host's stream of one flow: bytes between the kernel and smoltcp's buffers, and how its end is told.
//!
//! Bytes are moved without a stop in between: `try_read` reads into the send buffer, `try_write` writes out of the receive
//! buffer. To read for every acknowledgement would be a system call for two segments, so the send buffer is filled when a
//! quarter of it is free.
//!
//! A host stream that is dropped before both directions ended in order is reset, never closed as if all had been said:
//! whatever ends a flow's task, the far end is not told a lie.

use std::io;

use bytes::{Buf, Bytes};
use smoltcp::socket::tcp::{Socket, State};
use socket2::SockRef;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;

/// A byte stream of the host, that never waits by itself.
pub trait HostStream {
    /// Reads what is there; 0 is the end.
    ///
    /// # Errors
    /// The stream's; `WouldBlock` when nothing is there yet.
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes what there is room for.
    ///
    /// # Errors
    /// The stream's; `WouldBlock` when there is no room yet.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Resolves when one of the two may go on.
    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>>;

    /// Tells the far end that all was said.
    ///
    /// # Errors
    /// The stream's.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Makes the coming drop a reset instead of an end in order.
    fn reset(&self);
}

impl HostStream for TcpStream {
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::try_read(self, buffer)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }

    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> {
        Self::ready(self, interest)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        SockRef::from(self).shutdown(std::net::Shutdown::Write)
    }

    fn reset(&self) {
        // A socket that cannot be told closes in order, which is the lesser evil beside staying open.
        let _ = self.set_zero_linger();
    }
}

/// The host's stream, and what went through it.
#[derive(Debug)]
pub(crate) struct Host<S: HostStream> {
    pub(crate) stream: S,
    /// What was read before the relay began.
    said: Bytes,
    /// The host's side has said everything.
    pub(crate) read_ended: bool,
    /// It was told that the peer has.
    pub(crate) write_ended: bool,
    /// The last write found the host's buffer full.
    pub(crate) write_blocked: bool,
}

impl<S: HostStream> Drop for Host<S> {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.stream.reset();
        }
    }
}

impl<S: HostStream> Host<S> {
    pub(crate) fn new(stream: S, said: Bytes) -> Self {
        Self {
            stream,
            said,
            read_ended: false,
            write_ended: false,
            write_blocked: false,
        }
    }

    /// Whether both directions have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.read_ended && self.write_ended
    }

    /// Whether there is a quarter of the send buffer to read into.
    pub(crate) fn wants_read(&self, socket: &Socket<'_>) -> bool {
        let free = socket.send_capacity() - socket.send_queue();
        !self.read_ended && socket.may_send() && free >= socket.send_capacity() / 4
    }

    /// Writes what the peer sent, and passes its end on.
    pub(crate) fn write_from(&mut self, socket: &mut Socket<'_>) -> io::Result<bool> {
        let mut moved = false;
        self.write_blocked = false;
        while socket.can_recv() {
            // Only a socket that may not receive refuses, and it can.
            let Ok(written) = socket.recv(|data| match self.stream.try_write(data) {
                Ok(written) => (written, Ok(written)),
                Err(error) => (0, Err(error)),
            }) else {
                break;
            };
            match written {
                Ok(_) => moved = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.write_blocked = true;
                    return Ok(moved);
                }
                Err(error) => return Err(error),
            }
        }
        if !self.write_ended && has_sent_all(socket) {
            self.stream.shutdown_write()?;
            self.write_ended = true;
            moved = true;
        }
        Ok(moved)
    }

    /// Reads what the host's side sends, and passes its end on.
    pub(crate) fn read_into(&mut self, socket: &mut Socket<'_>) -> io::Result<bool> {
        let mut moved = false;
        while socket.can_send() && self.said.has_remaining() {
            let Ok(taken) = socket.send_slice(&self.said) else {
                break;
            };
            self.said.advance(taken);
            moved = true;
        }
        while socket.can_send() {
            let Ok(read) = socket.send(|room| match self.stream.try_read(room) {
                Ok(read) => (read, Ok(read)),
                Err(error) => (0, Err(error)),
            }) else {
                break;
            };
            match read {
                Ok(0) => {
                    self.read_ended = true;
                    socket.close();
                    return Ok(true);
                }
                Ok(_) => moved = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }
}

/// Whether the peer has ended its direction, and all of it was taken out of the buffer.
fn has_sent_all(socket: &Socket<'_>) -> bool {
    let has_ended = match socket.state() {
        State::CloseWait | State::Closing | State::LastAck | State::TimeWait => true,
        State::Closed
        | State::Listen
        | State::SynSent
        | State::SynReceived
        | State::Established
        | State::FinWait1
        | State::FinWait2 => false,
    };
    has_ended && socket.recv_queue() == 0
}
