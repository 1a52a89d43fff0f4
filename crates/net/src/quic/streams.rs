//! The two halves of a stream: the control stream is the only one that there is.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use quinn_proto::{ReadError, ReadableError, StreamId, WriteError};

use super::connection::Connection;
use super::waiting::For;

/// The way to write. The stream ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SendStream {
    connection: Connection,
    id: StreamId,
}

/// The way to read.
#[derive(Debug)]
pub(crate) struct RecvStream {
    connection: Connection,
    id: StreamId,
}

/// The stream or its connection is over: nothing more can be written or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over;

impl SendStream {
    pub(super) fn new(connection: &Connection, id: StreamId) -> Self {
        Self {
            connection: connection.clone(),
            id,
        }
    }

    /// Writes all of `chunk`.
    ///
    /// # Errors
    /// The peer stopped the stream, or the connection is over.
    pub(crate) async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), Over> {
        let mut chunks = [chunk];
        poll_fn(|cx| {
            if self.connection.is_over() {
                return Poll::Ready(Err(Over));
            }
            let mut state = self.connection.shared().state.borrow_mut();
            let written = state.proto.send_stream(self.id).write_chunks(&mut chunks);
            let is_blocked = match written {
                Ok(_) => !chunks[0].is_empty(),
                Err(WriteError::Blocked) => true,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return Poll::Ready(Err(Over));
                }
            };
            if is_blocked {
                state.waiting.ask(For::Writable, cx);
            }
            drop(state);
            self.connection.flush();
            if is_blocked {
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            }
        })
        .await
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if let Ok(mut state) = self.connection.shared().state.try_borrow_mut() {
            // What is over needs no end.
            let _ = state.proto.send_stream(self.id).finish();
            state.wake_driver();
        }
    }
}

impl RecvStream {
    pub(super) fn new(connection: &Connection, id: StreamId) -> Self {
        Self {
            connection: connection.clone(),
            id,
        }
    }

    /// The next bytes in their order, at most `len_max`; `None` at the stream's end. Cancelling it loses nothing.
    ///
    /// # Errors
    /// The peer reset the stream, or the connection is over.
    pub(crate) async fn read_chunk(&mut self, len_max: usize) -> Result<Option<Bytes>, Over> {
        poll_fn(|cx| {
            let mut state = self.connection.shared().state.borrow_mut();
            let mut stream = state.proto.recv_stream(self.id);
            let mut chunks = match stream.read(true) {
                Ok(chunks) => chunks,
                Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                    return Poll::Ready(Err(Over));
                }
            };
            let next = chunks.next(len_max);
            // New credit may have to be told.
            let transmits = chunks.finalize().should_transmit();
            let read = match next {
                Ok(chunk) => Some(Ok(chunk.map(|chunk| chunk.bytes))),
                Err(ReadError::Reset(_)) => Some(Err(Over)),
                Err(ReadError::Blocked) => None,
            };
            if transmits {
                state.wake_driver();
            }
            if let Some(read) = read {
                return Poll::Ready(read);
            }
            state.waiting.ask(For::Readable, cx);
            drop(state);
            if self.connection.is_over() {
                return Poll::Ready(Err(Over));
            }
            Poll::Pending
        })
        .await
    }
}
