//! The way of a request to its handler, and why it may end before.
//!
//! The order is that of cost: what is cheap to judge is judged first, and nothing is read, verified or looked up for a
//! request that a cheaper rule refuses.
//!
//! ```text
//! ramp (not /healthz) → source's rate → headers, clock → body within its length and time → signature → account's rate
//! ```

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap};
use hyper::http::request::Parts;
use quell_wire::key::PublicKey;
use serde::de::DeserializeOwned;

use super::App;
use super::answer::Denied;
use super::counters::count;
use super::limits::Source;
use crate::api::RefusalCode;
use crate::signed::{Claim, KEY_HEADER, SIGNATURE_HEADER, TIME_HEADER};
use crate::wall_s;

/// The address of who is at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) std::net::IpAddr);

/// The path that says whether the backend is well.
pub(super) const HEALTH: &str = "/healthz";

/// Every request passes here first.
pub(super) async fn door(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    count(&app.counters.requests);
    let now = Instant::now();
    if request.uri().path() != HEALTH
        && let Err(wait) = app.limits.admit(now)
    {
        count(&app.counters.requests_put_off);
        let words = "the backend has just started and lets everybody in by and by";
        return Denied::unavailable(words, wait).into_response();
    }
    let source = source_of(&app, &request);
    if let Some(source) = source
        && let Err(wait) = app.limits.take_source(source, now)
    {
        count(&app.counters.requests_refused_source);
        let words = "too many requests from this address";
        return Denied::too_many(words, wait).into_response();
    }
    // From here on nothing knows where a request came from.
    request.extensions_mut().remove::<Peer>();
    next.run(request).await
}

/// Who is to be charged: the peer, or whom a proxy of ours names.
fn source_of(app: &App, request: &Request) -> Option<Source> {
    let Peer(peer) = *request.extensions().get::<Peer>()?;
    let is_proxy = |address| app.config.proxies.contains(&address);
    if !is_proxy(peer) {
        return Some(Source::of(peer));
    }
    // The last that is no proxy of ours: what stands before it was written by the client itself.
    let named = request.headers().get_all("x-forwarded-for").iter();
    let named = named.filter_map(|value| value.to_str().ok());
    let addresses: Vec<_> = named
        .flat_map(|value| value.split(','))
        .filter_map(|text| text.trim().parse().ok())
        .collect();
    let named = addresses.into_iter().rev().find(|one| !is_proxy(*one));
    Some(Source::of(named.unwrap_or(peer)))
}

/// A request whose author is proven.
pub(super) struct Proven {
    pub(super) key: PublicKey,
    /// When it was signed, in seconds since 1970 UTC.
    pub(super) time_s: u64,
    pub(super) head: Parts,
    pub(super) body: Bytes,
}

/// A request whose author is proven, and its body.
pub(super) async fn signed(
    app: &App,
    request: Request,
    bytes_max: usize,
) -> Result<Proven, Denied> {
    let (head, body) = request.into_parts();
    let unsigned = |refusal| {
        count(&app.counters.requests_unsigned);
        Denied::refused(refusal)
    };
    let text = |name| text_of(&head.headers, name);
    let claim = Claim::read(
        text(KEY_HEADER),
        text(TIME_HEADER),
        text(SIGNATURE_HEADER),
        wall_s(),
    );
    let claim = claim.map_err(unsigned)?;
    let body = whole(app, &head.headers, body, bytes_max).await?;
    let target = head.uri.path_and_query().map_or("/", |both| both.as_str());
    let verified = claim.verify(head.method.as_str(), target, &body);
    let key = verified.map_err(unsigned)?;
    if let Err(wait) = app.limits.take_account(key, Instant::now()) {
        count(&app.counters.requests_refused_account);
        return Err(Denied::too_many("too many requests of this account", wait));
    }
    Ok(Proven {
        key,
        time_s: claim.time_s(),
        head,
        body,
    })
}

/// As [`signed`], with the question in the body.
pub(super) async fn asked<Q: DeserializeOwned>(
    app: &App,
    request: Request,
    bytes_max: usize,
) -> Result<(PublicKey, Q), Denied> {
    let proven = signed(app, request, bytes_max).await?;
    Ok((proven.key, read(app, &proven.body)?))
}

/// The operator's question: the token is in `Authorization: Bearer`.
pub(super) async fn operator(
    app: &App,
    request: Request,
    bytes_max: usize,
) -> Result<Bytes, Denied> {
    let Some(token) = &app.admin_token else {
        let words = "this server has no admin API: `admin_token_file` is not set";
        return Err(Denied::new(
            StatusCode::NOT_FOUND,
            RefusalCode::Other,
            words,
        ));
    };
    let (head, body) = request.into_parts();
    let given = text_of(&head.headers, AUTHORIZATION.as_str());
    let given = given.and_then(|text| text.strip_prefix("Bearer "));
    if !given.is_some_and(|given| token.is(given.trim())) {
        count(&app.counters.requests_unsigned);
        let words = "`Authorization: Bearer` with the admin's token is missing or wrong";
        return Err(Denied::new(
            StatusCode::UNAUTHORIZED,
            RefusalCode::Unsigned,
            words,
        ));
    }
    whole(app, &head.headers, body, bytes_max).await
}

/// A header that came once, as text.
fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// A body's meaning.
pub(super) fn read<Q: DeserializeOwned>(app: &App, body: &[u8]) -> Result<Q, Denied> {
    serde_json::from_slice(body).map_err(|error| {
        count(&app.counters.requests_malformed);
        Denied::new(
            StatusCode::BAD_REQUEST,
            RefusalCode::Malformed,
            format!("the body: {error}"),
        )
    })
}

/// The whole of a body, if it is not longer than it may be and comes in time.
async fn whole(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Denied> {
    let malformed = |status, words: String| {
        count(&app.counters.requests_malformed);
        Denied::new(status, RefusalCode::Malformed, words)
    };
    let too_large = || {
        let words = format!("the body has more than {bytes_max} bytes");
        malformed(StatusCode::PAYLOAD_TOO_LARGE, words)
    };
    let length = text_of(headers, CONTENT_LENGTH.as_str());
    let length = length.and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large());
    }
    let body = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(app.config.body_timeout, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(malformed(
            StatusCode::BAD_REQUEST,
            "the body broke off".to_owned(),
        )),
        Err(_) => Err(malformed(
            StatusCode::REQUEST_TIMEOUT,
            "the body took too long".to_owned(),
        )),
    }
}
