//! Connections: how many there are, of whom, and how long each may be.
//!
//! ```text
//! accept → a place in all, a place of its source → TLS within header_timeout → heads within header_timeout each
//!        → connection_age_max: ends with the answer under way → AGE_GRACE later: cut
//! ```
//!
//! A connection beyond its places is closed before a byte is read. A proxy of ours has no bound of its own, since all
//! clients come from it. A head that comes a byte at a time ends with `header_timeout`, counted from the connection's start
//! or the last answer; a body, with `body_timeout`; a client that does not read its answer, with the connection's age.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::counters::count;
use super::gate::Peer;
use super::limits::Source;
use super::{App, ServerError, routes};
use crate::config::{TlsFiles, secrets};

/// Most bytes of a request's head, and most fields in it.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
const HEADERS_MAX: usize = 64;
/// How long a connection past its age may still take for the answer under way: the longest long poll, and some.
const AGE_GRACE: Duration = Duration::from_secs(330);
/// How long nothing is accepted after the system refused: it is out of files, and gives one back with a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// TLS with the certificate and the key of these files.
pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServerError> {
    let refuse = |path: &std::path::Path, words: String| ServerError::File {
        path: path.to_owned(),
        words,
    };
    let cert = &files.cert_file;
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refuse(cert, error.to_string()))?;
    let key = secrets::read_secret(&files.key_file)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| refuse(&files.key_file, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// All connections of a server.
pub(super) struct Connections {
    app: Arc<App>,
    tls: Option<TlsAcceptor>,
    router: TowerToHyperService<Router>,
    places: Arc<Semaphore>,
    sources: Arc<Sources>,
    tasks: JoinSet<()>,
}

/// How many connections each source has.
#[derive(Debug, Default)]
struct Sources(Mutex<HashMap<Source, usize>>);

/// A place among the connections of a source, given back when it is dropped.
struct SourcePlace {
    sources: Arc<Sources>,
    source: Source,
}

impl Sources {
    fn take(self: &Arc<Self>, source: Source, max: usize) -> Option<SourcePlace> {
        let mut counts = self.0.lock();
        let count = counts.entry(source).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(SourcePlace {
            sources: Arc::clone(self),
            source,
        })
    }
}

impl Drop for SourcePlace {
    fn drop(&mut self) {
        let mut counts = self.sources.0.lock();
        if let Some(count) = counts.get_mut(&self.source) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.source);
            }
        }
    }
}

/// The places that a connection has.
type Places = (OwnedSemaphorePermit, Option<SourcePlace>);

impl Connections {
    pub(super) fn new(app: Arc<App>, tls: Option<TlsAcceptor>) -> Self {
        Self {
            router: TowerToHyperService::new(routes::router(&app)),
            places: Arc::new(Semaphore::new(app.config.connections_max)),
            sources: Arc::default(),
            tasks: JoinSet::new(),
            app,
            tls,
        }
    }

    /// Takes connections until it is dropped.
    pub(super) async fn accept(&mut self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.start(stream, peer.ip().to_canonical()),
                Err(error) => {
                    warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    fn start(&mut self, stream: TcpStream, peer: IpAddr) {
        let counters = &self.app.counters;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return count(&counters.connections_refused_total);
        };
        let mut of_source = None;
        if !self.app.config.proxies.contains(&peer) {
            let max = self.app.config.connections_per_source;
            of_source = self.sources.take(Source::of(peer), max);
            if of_source.is_none() {
                return count(&counters.connections_refused_source);
            }
        }
        count(&counters.connections);
        // A small answer is not to wait for the next one.
        let _best_effort = stream.set_nodelay(true);
        let (app, tls, router) = (Arc::clone(&self.app), self.tls.clone(), self.router.clone());
        self.tasks.spawn(async move {
            let _places: Places = (place, of_source);
            let Some(tls) = tls else {
                return serve(&app, stream, peer, router).await;
            };
            let greeted = tokio::time::timeout(app.config.header_timeout, tls.accept(stream));
            match greeted.await {
                Ok(Ok(stream)) => serve(&app, stream, peer, router).await,
                Ok(Err(_)) | Err(_) => count(&app.counters.connections_refused_tls),
            }
        });
    }

    /// Waits for what is under way, so long at most, and then cuts it off.
    pub(super) async fn finish(mut self, timeout: Duration) {
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(timeout, ended).await.is_err() {
            let left = self.tasks.len();
            warn!(
                connections = left,
                "cut off, since they did not end in time"
            );
            self.tasks.shutdown().await;
        }
    }
}

/// Serves one connection to its end.
async fn serve(
    app: &Arc<App>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: IpAddr,
    router: TowerToHyperService<Router>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        let answer = router.call(request);
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.config.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut closing = app.closing.clone();
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = tokio::time::sleep(app.config.connection_age_max) => None,
        _stops = closing.wait_for(|closing| *closing) => None,
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(AGE_GRACE, connection).await
        }
    };
    if let Ok(Err(error)) = ended {
        // Without the peer: who it was is not for the log.
        debug!(%error, "a connection ended");
    }
}
