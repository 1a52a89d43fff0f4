//! The reference server: HTTP around the rules of [`crate::service`] and the decisions of [`crate::catalog`].
//!
//! ```text
//!  accept ──→ TLS? ──→ HTTP/1.1 ──→ door ──────→ routes ──────→ service ──→ store
//!  places of           head in      ramp,        body, clock,
//!  connections         time         source       signature, account
//! ```
//!
//! | file | what |
//! |---|---|
//! | `accept` | connections: how many, of whom, how long |
//! | `limits` | requests: of a source, of an account, after a start |
//! | `gate` | the way of a request to its handler, and why it may end before |
//! | `routes` | `/v1` for clients and providers, `/healthz` |
//! | `admin` | `/v1/admin` for the operator |
//! | `answer` | statuses, refusals, when to come again |
//! | `metrics` | the page for a collector, on a listener of its own |
//! | `work` | what runs beside: the store is read, contracts are forgotten, providers are probed |
//! | `steady` | whether the wall clock is believed, before anything is forgotten by it |
//! | `openapi` | the description of all this, kept true by a test |
//!
//! Any number of servers may run over one PostgreSQL; each probes for itself and has its own catalog versions. What one
//! keeps that another does not see is a provider's word that it drains: the others learn it from the probe.
//!
//! Nothing is logged, counted or answered that names a client's address or holds a body: sources are keys of a table in
//! memory and nothing else.

mod accept;
mod admin;
mod answer;
mod counters;
mod error;
mod gate;
mod limits;
mod metrics;
mod openapi;
mod routes;
mod steady;
#[cfg(test)]
mod tests;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quell_net::scrape::Serving;
use rand::RngExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tracing::info;

use self::counters::Counters;
pub use self::error::ServerError;
use self::limits::Limits;
pub use self::limits::LimitsConfig;
use crate::catalog::Catalog;
use crate::config::{AdminToken, ServerConfig, StoreConfig};
use crate::probe::Prober;
use crate::service::Service;
use crate::store::Store;
use crate::store::redb::RedbStore;

/// What all handlers share.
struct App {
    service: Service,
    catalog: Arc<Catalog>,
    limits: Limits,
    config: LimitsConfig,
    wait_max: std::time::Duration,
    admin_token: Option<AdminToken>,
    counters: Counters,
    health: answer::Health,
    /// True once the server stops: long polls end.
    closing: watch::Receiver<bool>,
}

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    prober: Prober,
    metrics: Option<Serving>,
    refresh_interval: std::time::Duration,
    closing: watch::Sender<bool>,
}

/// Runs a server until `shutdown` ends, and then until what was under way has been answered.
///
/// # Errors
/// It cannot start.
pub async fn run(
    config: ServerConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServerError> {
    Server::start(config).await?.serve(shutdown).await;
    Ok(())
}

impl Server {
    /// Opens the store and listens. Nothing is answered before [`Server::serve`].
    ///
    /// # Errors
    /// The store does not open, the address is taken, or TLS refuses its files.
    pub async fn start(config: ServerConfig) -> Result<Self, ServerError> {
        let store = open(&config.store).await?;
        Self::start_with(config, store).await
    }

    /// As [`Server::start`], over a store of the embedder's; `config.store` is not looked at.
    ///
    /// # Errors
    /// The address is taken, or TLS refuses its files.
    pub async fn start_with(
        config: ServerConfig,
        store: Arc<dyn Store>,
    ) -> Result<Self, ServerError> {
        let tls = config.tls.as_ref().map(accept::acceptor).transpose()?;
        let listen = |source| ServerError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (wait_max, refresh_interval) =
            (config.catalog.wait_max, config.catalog.refresh_interval);
        let catalog = Catalog::new(config.catalog, rand::rng().random());
        let prober = Prober::new(config.probe, Arc::clone(&catalog))?;
        let service = Service::try_new(Arc::clone(&store), config.keys, config.service)?;
        let closing = watch::Sender::new(false);
        let app = App {
            service,
            health: answer::Health::new(store),
            catalog,
            limits: Limits::new(&config.limits, Instant::now()),
            config: config.limits,
            wait_max,
            admin_token: config.admin_token,
            counters: Counters::default(),
            closing: closing.subscribe(),
        };
        let app = Arc::new(app);
        let metrics = config.metrics.map(|address| metrics::serve(&app, address));
        Ok(Self {
            app,
            listener,
            address,
            tls,
            prober,
            metrics: metrics.transpose()?,
            refresh_interval,
            closing,
        })
    }

    /// Where it listens; the port is the one that was given when 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are served, if they are.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Serving::address)
    }

    /// Answers until `shutdown` ends. Then nobody new is let in, long polls are answered at once, and what is under way
    /// has `shutdown_timeout` to end.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) {
        let Self {
            app,
            listener,
            address,
            tls,
            prober,
            metrics,
            refresh_interval,
            closing,
        } = self;
        info!(%address, tls = tls.is_some(), "the backend serves");
        let beside = work::start(&app, prober, refresh_interval);
        let mut connections = accept::Connections::new(Arc::clone(&app), tls);
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = shutdown => {}
        }
        drop(listener);
        info!("the backend stops");
        closing.send_replace(true);
        connections.finish(app.config.shutdown_timeout).await;
        drop(beside);
        drop(metrics);
    }
}

async fn open(store: &StoreConfig) -> Result<Arc<dyn Store>, ServerError> {
    match store {
        StoreConfig::Redb(path) => {
            let path = path.clone();
            let opened = tokio::task::spawn_blocking(move || RedbStore::open(&path)).await;
            let opened = opened.unwrap_or_else(|error| {
                Err(crate::store::StoreError::Unavailable(error.to_string()))
            });
            Ok(Arc::new(opened?))
        }
        #[cfg(feature = "postgres")]
        StoreConfig::Postgres(url) => {
            let store = crate::store::postgres::PostgresStore::connect(url.expose()).await?;
            Ok(Arc::new(store))
        }
        #[cfg(not(feature = "postgres"))]
        StoreConfig::Postgres(_) => Err(ServerError::NoSuchStore("postgres")),
    }
}
