//! One question to a backend: an HTTP GET, and what its answer means.
//!
//! A connection for each question. What is to be known is whether a client that comes
//! anew would be served: name, TCP, TLS and the answer itself. A connection kept from
//! last time knows of none of the first three, and one that a middlebox forgot looks
//! like an outage. At twice a minute the greeting costs some 3.4 KB a minute; a pool
//! would cost timers, and a state of its own that could fail. Names are resolved for
//! each question (case B72).
//!
//! Redirects are not followed: whoever redirects has answered. TLS is 1.3 and trusts
//! what the system trusts, so an authority of one's own works where it is installed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::header::{CONNECTION, HeaderMap, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use quell_underlay::{Connector, Underlay};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

use super::BackendUrl;
use crate::error::NetError;

/// Most bytes that are read of an answer's body. Health pages have a few hundred; the
/// rest of a longer one is left unread, and it counts as the answer it began as.
const BODY_BYTES_MAX: usize = 64 * 1_024;
/// Most bytes of an answer's head, and most fields in it.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
const HEADERS_MAX: usize = 64;
/// What we call ourselves.
const AGENT: &str = concat!("quell/", env!("CARGO_PKG_VERSION"));

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Answered as hoped (2xx).
    Good,
    /// Answered with something else (3xx, 4xx): the backend is there.
    Refused,
    /// Asked too often (429), and how long to stay away.
    Throttled(Duration),
    /// Overloaded (503), and how long to stay away if it said so.
    Unavailable(Option<Duration>),
    /// No answer, or none that can be used; why, in words.
    Failed(String),
}

/// Asks backends.
#[derive(Debug, Clone)]
pub(super) struct Asker(Client<HttpsConnector<Connector>, Empty<Bytes>>);

impl Asker {
    /// Asks `urls`, over `underlay`. The system's authorities are read only where one of them needs it.
    ///
    /// # Errors
    /// They cannot be read, or there are none.
    pub(super) fn new(urls: &[BackendUrl], underlay: &Underlay) -> Result<Self, NetError> {
        let unusable = |why: &dyn std::fmt::Display| NetError::Trust {
            words: why.to_string(),
        };
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?;
        let config = match urls.iter().any(BackendUrl::is_https) {
            true => config
                .with_native_roots()
                .map_err(|error| unusable(&error))?,
            false => config.with_root_certificates(RootCertStore::empty()),
        };
        let config = config.with_no_client_auth();
        Ok(Self::with_tls(config, underlay))
    }

    fn with_tls(config: ClientConfig, underlay: &Underlay) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(underlay.clone()));
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .http1_max_headers(HEADERS_MAX)
            .build(connector);
        Self(client)
    }

    /// Asks once. Takes as long as it takes: the caller bounds it by dropping it.
    pub(super) async fn ask(&self, url: &BackendUrl) -> Answer {
        let request = Request::get(url.uri())
            .header(USER_AGENT, AGENT)
            .header(CONNECTION, "close")
            .body(Empty::new());
        let request = match request {
            Ok(request) => request,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        let response = match self.0.request(request).await {
            Ok(response) => response,
            Err(error) => return Answer::Failed(innermost(&error)),
        };
        let answer = meaning(response.status(), response.headers(), SystemTime::now());
        match read(response).await {
            Ok(()) => answer,
            Err(error) => Answer::Failed(innermost(&error)),
        }
    }
}

/// Reads the body as far as it is of interest: whether it comes.
async fn read(response: Response<hyper::body::Incoming>) -> Result<(), hyper::Error> {
    let mut body = response.into_body();
    let mut bytes: usize = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
        if bytes > BODY_BYTES_MAX {
            break;
        }
    }
    Ok(())
}

fn meaning(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Answer {
    match status.as_u16() {
        200..=299 => Answer::Good,
        429 => Answer::Throttled(retry_after(headers, now).unwrap_or_default()),
        300..=499 => Answer::Refused,
        503 => Answer::Unavailable(retry_after(headers, now)),
        other => Answer::Failed(format!("it answered with status {other}")),
    }
}

/// Seconds, or a date (RFC 9110 §10.2.3); one that is past means at once.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The reason beneath "client error (Connect)".
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut reason = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

#[cfg(test)]
mod tests;
