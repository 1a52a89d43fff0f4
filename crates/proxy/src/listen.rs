//! A listener, and the connections that come to it.
//!
//! Each connection has a task of its own, at most `connections_max` at once; one beyond is reset, which a browser shows as
//! such, where one left in the kernel's queue would hang. A host that is out of file descriptors is no reason to end, nor
//! to turn in a circle: connections wait in the kernel's queue, and a moment later accepting is tried again. One that was
//! accepted out of what is left to the rest of the process ([`spare`]) waits here, and those behind it in the queue.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::time::Duration;

use quell_stack::spare;
use tokio::net::{TcpListener, TcpStream};

use crate::books::{Asked, Event, Live, Refusal};
use crate::common::Common;
use crate::error::ProxyError;

/// How long accepting rests when the host has nothing to spare.
const REST: Duration = Duration::from_millis(100);

/// A bound listener.
pub(crate) struct Listener {
    listener: StdListener,
    address: SocketAddr,
}

/// An application's connection, counted for as long as it lives.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// Held by whoever has the stream, to be counted.
    pub(crate) place: Rc<Place>,
}

/// A connection's place among those that there may be.
pub(crate) struct Place {
    common: Rc<Common>,
    live: Option<Live>,
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.live.take());
        let common = &self.common;
        common.books.set_connections(common.connections.count());
    }
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    /// [`ProxyError::Bind`].
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, ProxyError> {
        let bound = || {
            let listener = StdListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bound().map_err(|source| ProxyError::Bind { address, source })
    }

    /// Where; with the port that the system chose.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts for as long as the proxy lives, and serves each connection in a task of its own.
    pub(crate) async fn accept_for_ever<F>(
        self,
        common: Rc<Common>,
        serve: impl Fn(Rc<Common>, Connection) -> F,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let Ok(listener) = TcpListener::from_std(self.listener) else {
            return;
        };
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                defer(&common).await;
                continue;
            };
            let Some(stream) = settle(&common, stream).await else {
                continue;
            };
            if common.connections.count() >= common.limits.connections_max {
                Asked::new(&common.books).refuse(Refusal::ConnectionsFull);
                // A socket that cannot be told so is closed in order.
                let _ = stream.set_zero_linger();
                continue;
            }
            let place = Rc::new(Place {
                common: Rc::clone(&common),
                live: Some(common.connections.clone()),
            });
            common.books.set_connections(common.connections.count());
            let served = serve(Rc::clone(&common), Connection { stream, place });
            tokio::task::spawn_local(served);
        }
    }
}

async fn defer(common: &Common) {
    common.books.note(Event::AcceptDeferred);
    tokio::time::sleep(REST).await;
}

/// The stream, when it has a descriptor that it may keep: at once, or as soon as a copy gets one. `None` when it is lost
/// over that.
async fn settle(common: &Common, stream: TcpStream) -> Option<TcpStream> {
    let mut stream = stream;
    let mut settled = spare(&stream).is_ok();
    while !settled {
        defer(common).await;
        // The copy has the lowest free number.
        let held = stream.into_std().ok()?;
        let copy = held.try_clone().and_then(spare);
        settled = copy.is_ok();
        stream = TcpStream::from_std(copy.unwrap_or(held)).ok()?;
    }
    Some(stream)
}
