//! What is answered: bodies, refusals with their status, and when to come again.
//!
//! A refusal is a JSON [`Refusal`] with a status of 4xx, never 429; 429 and 503 say that it is not the question that is
//! wrong but the moment, and always carry `Retry-After`. The client tells the two apart by nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde::Serialize;
use tokio::sync::Mutex;
use tracing::warn;

use super::limits::jittered;
use crate::api::{Refusal, RefusalCode};
use crate::service::ServiceError;
use crate::store::{Store, StoreError};

/// When to come again after the store gave no answer: at least, and as long again at random.
const STORE_WAIT: Duration = Duration::from_secs(5);
/// How long the store may take to show that it lives, and how long that is believed.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);
const HEALTH_AGE_MAX: Duration = Duration::from_secs(1);

/// Why a request got no answer to its question.
#[derive(Debug)]
pub(super) enum Denied {
    /// The question is refused.
    Refused(StatusCode, Refusal),
    /// The moment is wrong: the status, what to say, and when to come again.
    Later(StatusCode, &'static str, Duration),
}

impl Denied {
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self::Refused(status_of(refusal.code), refusal)
    }

    pub(super) fn new(status: StatusCode, code: RefusalCode, words: impl Into<String>) -> Self {
        let words = words.into();
        Self::Refused(status, Refusal { code, words })
    }

    pub(super) fn too_many(words: &'static str, wait: Duration) -> Self {
        Self::Later(StatusCode::TOO_MANY_REQUESTS, words, wait)
    }

    pub(super) fn unavailable(words: &'static str, wait: Duration) -> Self {
        Self::Later(StatusCode::SERVICE_UNAVAILABLE, words, wait)
    }
}

impl From<ServiceError> for Denied {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Refused(refusal) => Self::refused(refusal),
            ServiceError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        warn!(%error, "the store gave no answer");
        let wait = jittered(STORE_WAIT, STORE_WAIT);
        Self::unavailable("the store gave no answer", wait)
    }
}

/// The status of a refusal: 400 for what is none of the forms, 401 for who cannot be told, 403 for the rest.
fn status_of(code: RefusalCode) -> StatusCode {
    match code {
        RefusalCode::Malformed | RefusalCode::Limit => StatusCode::BAD_REQUEST,
        RefusalCode::Unsigned | RefusalCode::Clock => StatusCode::UNAUTHORIZED,
        RefusalCode::Unknown
        | RefusalCode::Banned
        | RefusalCode::WrongRole
        | RefusalCode::Invitation
        | RefusalCode::Quota
        | RefusalCode::Provider
        | RefusalCode::Signature
        | RefusalCode::Misdirected
        | RefusalCode::Expired
        | RefusalCode::Exceeds
        | RefusalCode::Other => StatusCode::FORBIDDEN,
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(status, refusal) => json(status, &refusal),
            Self::Later(status, words, wait) => {
                let refusal = Refusal {
                    code: RefusalCode::Limit,
                    words: words.to_owned(),
                };
                let mut response = json(status, &refusal);
                // Rounded up: a second too late is no harm, one too early is refused again.
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
                response
            }
        }
    }
}

/// A body in JSON.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => with_body(status, bytes.into()),
        Err(error) => {
            warn!(%error, "an answer cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A body that is JSON already.
pub(super) fn with_body(status: StatusCode, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether the store answers, asked at most once a second, whoever wants to know.
pub(super) struct Health {
    store: Arc<dyn Store>,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Health {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            last: Mutex::new(None),
        }
    }

    pub(super) async fn is_well(&self) -> bool {
        // Held while the store is asked: all who ask meanwhile share the answer.
        let mut last = self.last.lock().await;
        if let Some((at, is_well)) = *last
            && at.elapsed() < HEALTH_AGE_MAX
        {
            return is_well;
        }
        let asked = tokio::time::timeout(HEALTH_TIMEOUT, self.store.accounts(None, 1)).await;
        let is_well = matches!(asked, Ok(Ok(_)));
        *last = Some((Instant::now(), is_well));
        is_well
    }
}
