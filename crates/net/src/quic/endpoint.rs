//! An endpoint: one socket, and the connections over it.
//!
//! The receive task holds the endpoint and serves it until the last handle and the last connection are gone, so that a
//! farewell still leaves. Connections know their endpoint weakly: where the thread's tasks are dropped, all goes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use quell_underlay::Underlay;
use quell_wire::key::PublicKey;
use quinn::AsyncUdpSocket as _;
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionEvent, ConnectionHandle, EndpointEvent, Transmit,
    VarInt,
};
use rustc_hash::FxHashMap;
use tokio::task::spawn_local;

use super::connection::{self, Connection};
use crate::endpoint::{SERVER_NAME, any_for, client_config, endpoint_config, server_config};
use crate::engine::now;
use crate::error::NetError;
use crate::identity::Identity;
use crate::socket::{CountingSocket, SocketWatch};
use crate::transport::TransportSettings;

/// A handle on an endpoint.
pub(crate) struct Endpoint {
    shared: Rc<Shared>,
}

/// What the handle, the receive task and first packets share.
pub(super) struct Shared {
    pub(super) socket: Arc<CountingSocket>,
    pub(super) proto: RefCell<quinn_proto::Endpoint>,
    pub(super) connections: RefCell<FxHashMap<ConnectionHandle, Rc<connection::Shared>>>,
    pub(super) incoming: RefCell<VecDeque<quinn_proto::Incoming>>,
    accepting: RefCell<Option<Waker>>,
    idling: RefCell<Option<Waker>>,
    pub(super) receiving: RefCell<Option<Waker>>,
    /// The handle is there.
    is_held: Cell<bool>,
    is_closed: Cell<bool>,
}

/// A first packet that waits for a judgement. Dropped without one, it is ignored.
pub(crate) struct Incoming {
    proto: Option<quinn_proto::Incoming>,
    remote: SocketAddr,
    is_validated: bool,
    shared: Rc<Shared>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// The endpoint that clients connect to: see [`crate::endpoint::listen`]. To be called within a `LocalSet`.
///
/// # Errors
/// The socket cannot be opened, or a setting is out of what QUIC can express.
pub(crate) fn listen(
    identity: &Identity,
    address: SocketAddr,
    transport: &TransportSettings,
    watch: SocketWatch,
) -> Result<Endpoint, NetError> {
    let server = Arc::new(server_config(identity, transport)?);
    let buffer = transport.socket_buffer_bytes;
    let socket = CountingSocket::bind(address, buffer, watch, &Underlay::default())?;
    Endpoint::start(identity, Some(server), socket)
}

/// Starts to connect, over `underlay`: see [`crate::endpoint::connect`]. To be called within a `LocalSet`.
///
/// # Errors
/// The socket cannot be opened, or a setting is out of what QUIC can express.
pub(crate) fn connect(
    identity: &Identity,
    remote: SocketAddr,
    expected: PublicKey,
    transport: &TransportSettings,
    watch: SocketWatch,
    underlay: &Underlay,
) -> Result<(Endpoint, Connection), NetError> {
    let client = client_config(identity, expected, transport)?;
    let buffer = transport.socket_buffer_bytes;
    let socket = CountingSocket::bind(any_for(remote), buffer, watch, underlay)?;
    let endpoint = Endpoint::start(identity, None, socket)?;
    let connection = endpoint.connect(client, remote)?;
    Ok((endpoint, connection))
}

impl Endpoint {
    fn start(
        identity: &Identity,
        server: Option<Arc<quinn_proto::ServerConfig>>,
        socket: Arc<CountingSocket>,
    ) -> Result<Self, NetError> {
        let config = Arc::new(endpoint_config(identity)?);
        let may_discover_mtu = !socket.may_fragment();
        let proto = quinn_proto::Endpoint::new(config, server, may_discover_mtu, None);
        let shared = Rc::new(Shared {
            socket,
            proto: RefCell::new(proto),
            connections: RefCell::default(),
            incoming: RefCell::default(),
            accepting: RefCell::default(),
            idling: RefCell::default(),
            receiving: RefCell::default(),
            is_held: Cell::new(true),
            is_closed: Cell::new(false),
        });
        spawn_local(super::receive::receive(Rc::clone(&shared)));
        Ok(Self { shared })
    }

    fn connect(&self, config: ClientConfig, remote: SocketAddr) -> Result<Connection, NetError> {
        let mut proto = self.shared.proto.borrow_mut();
        let begun = proto.connect(now(), config, remote, SERVER_NAME);
        drop(proto);
        let (handle, connection) = begun.map_err(|error| NetError::Transport(error.to_string()))?;
        let connection = self.shared.insert(handle, connection);
        connection.flush();
        Ok(connection)
    }

    /// The next first packet; `None` when the endpoint was closed. Cancelling it loses nothing.
    pub(crate) async fn accept(&self) -> Option<Incoming> {
        poll_fn(|cx| {
            if let Some(incoming) = self.try_accept() {
                return Poll::Ready(Some(incoming));
            }
            if self.shared.is_closed.get() {
                return Poll::Ready(None);
            }
            self.shared.accepting.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// A first packet that waits already.
    pub(crate) fn try_accept(&self) -> Option<Incoming> {
        let proto = self.shared.incoming.borrow_mut().pop_front()?;
        Some(Incoming {
            remote: proto.remote_address(),
            is_validated: proto.remote_address_validated(),
            proto: Some(proto),
            shared: Rc::clone(&self.shared),
        })
    }

    /// Takes no more connections.
    pub(crate) fn refuse_new(&self) {
        self.shared.proto.borrow_mut().set_server_config(None);
    }

    /// Waits until no connection is left.
    pub(crate) async fn wait_idle(&self) {
        poll_fn(|cx| {
            if self.shared.connections.borrow().is_empty() {
                return Poll::Ready(());
            }
            self.shared.idling.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Closes all connections, and takes no more.
    pub(crate) fn close(&self) {
        self.shared.close();
    }

    /// Where its socket is.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.shared.socket.local_addr()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.is_held.set(false);
        wake(&self.shared.receiving);
    }
}

impl Shared {
    /// Whether anybody has a use for the socket.
    pub(super) fn is_used(&self) -> bool {
        self.is_held.get() || !self.connections.borrow().is_empty()
    }

    /// Closes all connections, and takes no more.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.proto.borrow_mut().set_server_config(None);
        let connections: Vec<_> = self.connections.borrow().values().cloned().collect();
        for connection in connections {
            connection.close(VarInt::from_u32(0), Bytes::new());
        }
        wake(&self.accepting);
    }

    pub(super) fn insert(
        self: &Rc<Self>,
        handle: ConnectionHandle,
        proto: quinn_proto::Connection,
    ) -> Connection {
        let connection = Connection::start(handle, proto, self, &self.socket);
        let shared = Rc::clone(connection.shared());
        self.connections.borrow_mut().insert(handle, shared);
        connection
    }

    /// Takes an event of a connection; what it answers.
    pub(super) fn handle_event(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        if event.is_drained() {
            self.connections.borrow_mut().remove(&handle);
            if self.connections.borrow().is_empty() {
                wake(&self.idling);
                wake(&self.receiving);
            }
        }
        self.proto.borrow_mut().handle_event(handle, event)
    }

    pub(super) fn tell_accepting(&self) {
        wake(&self.accepting);
    }

    /// Sends an answer that belongs to no connection. It has one try: who asked asks again.
    pub(super) fn respond(&self, transmit: &Transmit, contents: &[u8]) {
        let Some(contents) = contents.get(..transmit.size) else {
            return;
        };
        let transmit = connection::udp_transmit(transmit, contents);
        let _ = self.socket.try_send(&transmit);
    }
}

fn wake(place: &RefCell<Option<Waker>>) {
    if let Some(waker) = place.take() {
        waker.wake();
    }
}

impl Incoming {
    /// Where it came from.
    pub(crate) fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    /// Whether the sender is known to be there.
    pub(crate) fn remote_address_validated(&self) -> bool {
        self.is_validated
    }

    /// Begins the handshake.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub(crate) fn accept(mut self) -> Result<Connection, ConnectionError> {
        // It is there until one of the four judgements takes it, and each takes `self`.
        let proto = self.proto.take().ok_or(ConnectionError::LocallyClosed)?;
        let mut answer = Vec::new();
        let begun = self
            .shared
            .proto
            .borrow_mut()
            .accept(proto, now(), &mut answer, None);
        match begun {
            Ok((handle, connection)) => {
                let connection = self.shared.insert(handle, connection);
                connection.flush();
                Ok(connection)
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.shared.respond(&transmit, &answer);
                }
                Err(error.cause)
            }
        }
    }

    /// Has the sender prove that it is there; ignored when it has done so already.
    pub(crate) fn retry(mut self) {
        let mut answer = Vec::new();
        if let Some(proto) = self.proto.take() {
            let asked = self.shared.proto.borrow_mut().retry(proto, &mut answer);
            match asked {
                Ok(transmit) => self.shared.respond(&transmit, &answer),
                Err(error) => self.proto = Some(error.into_incoming()),
            }
        }
    }

    /// Refuses it, and says so.
    pub(crate) fn refuse(mut self) {
        let mut answer = Vec::new();
        if let Some(proto) = self.proto.take() {
            let transmit = self.shared.proto.borrow_mut().refuse(proto, &mut answer);
            self.shared.respond(&transmit, &answer);
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(proto) = self.proto.take() {
            self.shared.proto.borrow_mut().ignore(proto);
        }
    }
}
