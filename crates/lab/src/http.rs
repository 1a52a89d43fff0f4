//! Just enough HTTP/1.1 (RFC 9112) to move known bytes and measure how they moved.
//!
//! [`Server`] serves the stream of [`content`](crate::content), digests what is uploaded, and shows a short page, to our
//! client as to any other. [`download`] and [`upload`] are the measuring client: they report the digest and the *longest
//! gap*, the longest time in which nothing moved, since an outage shows there and not in the mean rate.
//!
//! One request a connection (`Connection: close`): the end of the connection is the end of the answer, and each transfer
//! shows a handshake of its own. No chunked coding, no TLS. A thread a connection: at the hundred or so that a test opens it
//! is the simplest thing, and a stalled one holds up no other.

mod client;
mod gallery;
mod head;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Download, Upload, download, download_via, upload};
pub use server::{Server, ServerConfig, ServerStats};
