//! The HTTP client of the control plane: [`Backend`] over HTTP/1.1, with or without TLS.
//!
//! One question, one request, one answer within a time. What an answer means is sorted once, here:
//!
//! ```text
//! no connection, broken off                        Unreachable   ┐
//! nothing within the time                          Timeout       ├ the backend is not well
//! 429, 5xx (with Retry-After, seconds or date)     Unavailable   ┘
//! 4xx with a refusal in it                         Refused         it is well, and says no
//! anything else, a body that is too large or no    Garbled         somebody else answers: a portal,
//!   answer to this question                                        another program, another version
//! ```
//!
//! Nothing is retried but a clock: when the backend refuses because the request was signed at another time than its
//! own, and says its time (`Date`), the difference is kept and the question is asked once more, once. A difference of
//! more than a day is not believed: such a clock is for its owner to set, and nobody is to make us sign for a time
//! that is far off. Redirects are not followed, since a signature is over a path and whoever redirects has answered.
//!
//! One idle connection is kept for a short time, shorter than the server keeps it, since questions come in pairs
//! (contracts, then the catalog) and a handshake costs more than both. Names are resolved for each connection.

mod base;
mod meaning;
mod operator;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use quell_underlay::{Connector, Underlay};
use quell_wire::key::{PublicKey, SecretKey};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::base::{BaseUrl, BaseUrlError};
use self::meaning::{Meaning, meaning};
pub use self::operator::Operator;
use crate::api::{
    self, CatalogAnswer, ContractsAnswer, ContractsRequest, EnrolAnswer, EnrolRequest,
    HeartbeatAnswer, HeartbeatRequest, ReceiptsAnswer, ReceiptsRequest, RefusalCode,
};
use crate::ask::{Answer, AskError, Backend};
use crate::signed::{self, KEY_HEADER, SIGNATURE_HEADER, TIME_HEADER};
use crate::wall_s;

/// Most bytes of a catalog: [`api::EXITS_MAX`] exits of 4 addresses each with the longest names fit.
const CATALOG_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Most bytes of any other answer.
const ANSWER_BYTES_MAX: usize = 256 * 1_024;
/// Most bytes of an answer's head, and most fields in it.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
const HEADERS_MAX: usize = 64;
/// How long a connection is kept for the next question. The server keeps it for 30 s at least.
const IDLE: Duration = Duration::from_secs(20);
/// The largest difference of clocks that is corrected, in seconds.
const CORRECTION_MAX_S: i64 = 86_400;
/// What we call ourselves.
const AGENT: &str = concat!("quell/", env!("CARGO_PKG_VERSION"));

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// TLS is wanted, and there is nobody to trust.
    #[error("the system's certificate authorities are not to be had: {0}")]
    Trust(String),
}

/// A control plane that is reached over HTTP, in the name of one key.
pub struct HttpBackend {
    client: Connections,
    base: BaseUrl,
    secret: SecretKey,
    timeout: Duration,
    /// The server's clock less ours, in seconds, as far as it had to be corrected.
    correction_s: AtomicI64,
}

impl fmt::Debug for HttpBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBackend")
            .field("base", &self.base)
            .field("key", &self.public_key())
            .finish_non_exhaustive()
    }
}

impl HttpBackend {
    /// Asks the backend at `base` as `secret`; an answer that takes longer than `timeout` (and, of the catalog, than
    /// the wait that was asked for) is none. The system's authorities are trusted, so that one of one's own works
    /// where it is installed; they are read only when TLS is wanted.
    ///
    /// # Errors
    /// They cannot be read, or there are none.
    pub fn new(base: BaseUrl, secret: SecretKey, timeout: Duration) -> Result<Self, HttpError> {
        Self::over(base, secret, timeout, Underlay::default())
    }

    /// As [`HttpBackend::new`], by the way of `underlay`: requests stay outside of a tunnel that takes all else.
    ///
    /// # Errors
    /// As those of [`HttpBackend::new`].
    pub fn over(
        base: BaseUrl,
        secret: SecretKey,
        timeout: Duration,
        underlay: Underlay,
    ) -> Result<Self, HttpError> {
        let config = system_trust(&base)?;
        let mut backend = Self::with_tls(base, secret, timeout, config.clone());
        if !underlay.is_plain() {
            backend.client = connections(config, underlay);
        }
        Ok(backend)
    }

    /// As [`HttpBackend::new`], with the TLS settings of the embedder: its own authorities, or a client certificate.
    #[must_use]
    pub fn with_tls(
        base: BaseUrl,
        secret: SecretKey,
        timeout: Duration,
        config: ClientConfig,
    ) -> Self {
        Self {
            client: connections(config, Underlay::default()),
            base,
            secret,
            timeout,
            correction_s: AtomicI64::new(0),
        }
    }

    /// In whose name it asks.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        quell_core::contract::seal::public_key(&self.secret)
    }

    /// By how many seconds requests are dated ahead of this host's clock, since the backend's differs.
    #[must_use]
    pub fn clock_correction_s(&self) -> i64 {
        self.correction_s.load(Ordering::Relaxed)
    }

    /// As if this host's clock went wrong by so much.
    #[cfg(all(test, feature = "server"))]
    pub(crate) fn set_clock_for_tests(&self, ahead_s: i64) {
        self.correction_s.store(ahead_s, Ordering::Relaxed);
    }

    async fn post<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        question: &Q,
    ) -> Result<A, AskError> {
        let body = serde_json::to_vec(question)
            .map_err(|error| AskError::Garbled(format!("the question itself: {error}")))?;
        let bound = (self.timeout, ANSWER_BYTES_MAX);
        match self.ask(Method::POST, path, body.into(), bound).await? {
            Some(bytes) => read(&bytes),
            None => Err(AskError::Garbled("304 to a POST".to_owned())),
        }
    }

    /// The body of a good answer; `None` when nothing changed.
    async fn ask(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
        (timeout, bytes_max): (Duration, usize),
    ) -> Result<Option<Bytes>, AskError> {
        let asked = async {
            let first = self.ask_once(&method, target, &body, bytes_max).await?;
            match first {
                Meaning::Refused { refusal, date_s }
                    if refusal.code == RefusalCode::Clock && self.correct(date_s) =>
                {
                    self.ask_once(&method, target, &body, bytes_max).await
                }
                Meaning::Good(_) | Meaning::Unchanged | Meaning::Refused { .. } => Ok(first),
            }
        };
        let meaning = tokio::time::timeout(timeout, asked)
            .await
            .map_err(|_| AskError::Timeout(timeout))??;
        match meaning {
            Meaning::Good(body) => Ok(Some(body)),
            Meaning::Unchanged => Ok(None),
            Meaning::Refused { refusal, .. } => Err(AskError::Refused(refusal)),
        }
    }

    async fn ask_once(
        &self,
        method: &Method,
        target: &str,
        body: &Bytes,
        bytes_max: usize,
    ) -> Result<Meaning, AskError> {
        let target = self.base.target(target);
        let now_s = wall_s().saturating_add_signed(self.clock_correction_s());
        let head = signed::sign(&self.secret, method.as_str(), &target, now_s, body);
        let request = Request::builder()
            .method(method)
            .uri(self.base.uri(&target))
            .header(USER_AGENT, AGENT)
            .header(CONTENT_TYPE, "application/json")
            .header(KEY_HEADER, head.key)
            .header(TIME_HEADER, head.time)
            .header(SIGNATURE_HEADER, head.signature)
            .body(Full::new(body.clone()))
            .map_err(|error| AskError::Garbled(format!("the question itself: {error}")))?;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| AskError::Unreachable(innermost(&error)))?;
        let (head, body) = received(response, bytes_max).await?;
        meaning(head.status, &head.headers, body, SystemTime::now())
    }

    /// Takes over the backend's clock; whether that makes a difference, so that asking again has a point.
    fn correct(&self, date_s: Option<u64>) -> bool {
        let Some(date_s) = date_s.and_then(|date_s| i64::try_from(date_s).ok()) else {
            return false;
        };
        let Ok(ours_s) = i64::try_from(wall_s()) else {
            return false;
        };
        let correction_s = date_s.saturating_sub(ours_s);
        if !(-CORRECTION_MAX_S..=CORRECTION_MAX_S).contains(&correction_s) {
            return false;
        }
        self.correction_s.swap(correction_s, Ordering::Relaxed) != correction_s
    }
}

/// TLS that trusts the system's authorities, which are read only when TLS is wanted.
fn system_trust(base: &BaseUrl) -> Result<ClientConfig, HttpError> {
    let unusable = |why: &dyn fmt::Display| HttpError::Trust(why.to_string());
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let config = match base.is_https() {
        true => config
            .with_native_roots()
            .map_err(|error| unusable(&error))?,
        false => config.with_root_certificates(RootCertStore::empty()),
    };
    Ok(config.with_no_client_auth())
}

type Connections = Client<HttpsConnector<Connector>, Full<Bytes>>;

fn connections(config: ClientConfig, underlay: Underlay) -> Connections {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(Connector::new(underlay));
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(1)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .http1_max_headers(HEADERS_MAX)
        .build(connector)
}

async fn received(
    response: Response<hyper::body::Incoming>,
    bytes_max: usize,
) -> Result<(hyper::http::response::Parts, Bytes), AskError> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, bytes_max).collect().await;
    match body {
        Ok(body) => Ok((head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(AskError::Garbled(format!(
            "it has more than {bytes_max} bytes"
        ))),
        Err(error) => Err(AskError::Unreachable(innermost(&*error))),
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, AskError> {
    serde_json::from_slice(bytes).map_err(|error| AskError::Garbled(error.to_string()))
}

/// The reason beneath "client error (Connect)".
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut reason = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

/// An error when a list of an answer has another length than it may have.
fn bounded(what: &str, len: usize, range: std::ops::RangeInclusive<usize>) -> Result<(), AskError> {
    if range.contains(&len) {
        return Ok(());
    }
    let (from, to) = range.into_inner();
    Err(AskError::Garbled(format!(
        "it has {len} {what}, allowed are {from} to {to}"
    )))
}

impl Backend for HttpBackend {
    fn enrol<'a>(&'a self, request: &'a EnrolRequest) -> Answer<'a, EnrolAnswer> {
        Box::pin(async move {
            let answer: EnrolAnswer = self.post("/v1/enrol", request).await?;
            bounded(
                "trusted keys",
                answer.trusted_keys.len(),
                1..=api::TRUSTED_KEYS_MAX,
            )?;
            Ok(answer)
        })
    }

    fn catalog<'a>(
        &'a self,
        after: Option<&'a str>,
        wait: Duration,
    ) -> Answer<'a, Option<CatalogAnswer>> {
        Box::pin(async move {
            let mut target = format!("/v1/catalog?wait_s={}", wait.as_secs());
            if let Some(after) = after {
                target.push_str("&after=");
                target.push_str(&base::escaped(after));
            }
            let bound = (self.timeout.saturating_add(wait), CATALOG_BYTES_MAX);
            let Some(bytes) = self.ask(Method::GET, &target, Bytes::new(), bound).await? else {
                return Ok(None);
            };
            let answer: CatalogAnswer = read(&bytes)?;
            bounded("exits", answer.exits.len(), 0..=api::EXITS_MAX)?;
            for exit in &answer.exits {
                let addresses = exit.addresses.len();
                bounded("addresses of an exit", addresses, 1..=api::ADDRESSES_MAX)?;
            }
            Ok(Some(answer))
        })
    }

    fn contracts<'a>(&'a self, request: &'a ContractsRequest) -> Answer<'a, ContractsAnswer> {
        Box::pin(async move {
            let answer: ContractsAnswer = self.post("/v1/contracts", request).await?;
            let wants = request.wants.len();
            bounded("outcomes", answer.outcomes.len(), wants..=wants)?;
            Ok(answer)
        })
    }

    fn receipts<'a>(&'a self, request: &'a ReceiptsRequest) -> Answer<'a, ReceiptsAnswer> {
        Box::pin(async move {
            let answer: ReceiptsAnswer = self.post("/v1/receipts", request).await?;
            let filed = request.receipts.len();
            bounded("outcomes", answer.outcomes.len(), filed..=filed)?;
            Ok(answer)
        })
    }

    fn heartbeat<'a>(&'a self, request: &'a HeartbeatRequest) -> Answer<'a, HeartbeatAnswer> {
        Box::pin(async move {
            let answer: HeartbeatAnswer = self.post("/v1/heartbeat", request).await?;
            bounded(
                "trusted keys",
                answer.trusted_keys.len(),
                1..=api::TRUSTED_KEYS_MAX,
            )?;
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests;
