//! TCP connections of HTTP clients, made the underlay's way.
//!
//! Without a mark they are hyper-util's, which races the address families. With one, the addresses are tried one after the
//! other: the caller bounds the time of a question, and a control plane has few addresses.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tower_service::Service;

use crate::Underlay;

/// How long one of several addresses may take: two fit into a question's 5 s.
const ADDRESS_PATIENCE: Duration = Duration::from_millis(2_000);

/// Why there is no connection.
type ConnectError = Box<dyn Error + Send + Sync>;

/// Makes connections.
#[derive(Debug, Clone)]
pub struct Connector {
    plain: HttpConnector,
    underlay: Underlay,
}

impl Connector {
    /// Connections over `underlay`, without Nagle's delay.
    #[must_use]
    pub fn new(underlay: Underlay) -> Self {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_nodelay(true);
        Self { plain, underlay }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.plain.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if self.underlay.is_plain() {
            let connecting = self.plain.call(uri);
            return Box::pin(async move { connecting.await.map_err(Into::into) });
        }
        let underlay = self.underlay.clone();
        Box::pin(async move { connect(&underlay, &uri).await.map_err(Into::into) })
    }
}

async fn connect(underlay: &Underlay, uri: &Uri) -> io::Result<TokioIo<TcpStream>> {
    let host = uri.host().ok_or(io::ErrorKind::InvalidInput)?;
    // A URI has an IPv6 address in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_https = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let addresses = underlay.resolve(host, port).await?;
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match timeout(ADDRESS_PATIENCE, connect_to(underlay, address)).await {
            Ok(Ok(stream)) => return Ok(TokioIo::new(stream)),
            Ok(Err(error)) => refused = error,
            Err(_) => refused = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(refused)
}

async fn connect_to(underlay: &Underlay, address: SocketAddr) -> io::Result<TcpStream> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    underlay.prepare(&socket)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    TcpSocket::from_std_stream(socket.into())
        .connect(address)
        .await
}
