//! The host socket of one flow: bytes between the kernel and smoltcp's buffers, and how its end is told.
//!
//! Bytes are moved without a stop in between: `try_read` reads into the send buffer, `try_write` writes out of the receive
//! buffer. To read for every acknowledgement would be a system call for two segments, so the send buffer is filled when a
//! quarter of it is free.
//!
//! A host socket that is dropped before both directions ended in order is reset, never closed as if all had been said:
//! whatever ends a flow's task, the far end is not told a lie.

use std::io;

use smoltcp::socket::tcp::{Socket, State};
use socket2::SockRef;
use tokio::net::TcpStream;

/// The host socket, and what went through it.
pub(super) struct Outside {
    pub(super) stream: TcpStream,
    /// The far end has said everything.
    pub(super) read_ended: bool,
    /// It was told that the client has.
    pub(super) write_ended: bool,
    /// The last write found the host's buffer full.
    pub(super) write_blocked: bool,
}

impl Drop for Outside {
    fn drop(&mut self) {
        if !self.has_ended() {
            // A socket that cannot be told closes in order, which is the lesser evil beside staying open.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl Outside {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            read_ended: false,
            write_ended: false,
            write_blocked: false,
        }
    }

    /// Whether both directions have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.read_ended && self.write_ended
    }

    /// Whether there is a quarter of the send buffer to read into.
    pub(super) fn wants_read(&self, socket: &Socket<'_>) -> bool {
        let free = socket.send_capacity() - socket.send_queue();
        !self.read_ended && socket.may_send() && free >= socket.send_capacity() / 4
    }

    /// Writes what the client sent, and passes its end on.
    pub(super) fn write_from(&mut self, socket: &mut Socket<'_>) -> io::Result<bool> {
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
            SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)?;
            self.write_ended = true;
            moved = true;
        }
        Ok(moved)
    }

    /// Reads what the far end sends, and passes its end on.
    pub(super) fn read_into(&mut self, socket: &mut Socket<'_>) -> io::Result<bool> {
        let mut moved = false;
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

/// Whether the client has ended its direction, and all of it was taken out of the buffer.
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
