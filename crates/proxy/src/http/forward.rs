//! A request in absolute form, and its answer, hop by hop.
//!
//! Each request has a flow of its own: a pool of kept connections would tell two sites' servers apart for nobody, and what
//! is not CONNECT is rare. What belongs to one hop stays on it (RFC 9110 §7.6.1): the fields that `Connection` names, the
//! known ones whether it names them or not, and everything that speaks to a proxy. The destination is told its own name,
//! the one of the request line, whatever `Host` said (RFC 9112 §3.2.2). Framing is hyper's, anew on each hop; a length that
//! stood beside chunks is not passed on (RFC 9112 §6.3).
//!
//! No `Via` is added, though RFC 9110 §7.6.3 asks for one: who goes through a tunnel does not tell the server so.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRAILER,
};
use hyper::header::{PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri, Version};
use hyper_util::rt::TokioIo;

use super::{Answer, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::books::Refusal;
use crate::flows::Open;
use crate::inner;

/// Fields of one hop that have no name in the library.
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Sends the request through a flow, and gives the answer as soon as its head is there.
///
/// # Errors
/// [`Refusal::BadAnswer`]; [`Refusal::HostExhausted`].
pub(super) async fn forward(open: Open, mut request: Request<Incoming>) -> Result<Answer, Refusal> {
    make_own(&mut request).ok_or(Refusal::Malformed)?;
    let (outer, inner) = inner::pair().map_err(|_| Refusal::HostExhausted)?;
    open.attach_inner(outer);
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(inner))
        .await
        .map_err(|_| Refusal::BadAnswer)?;
    // It ends with the body of the answer, or when nobody waits for one.
    tokio::task::spawn_local(connection);
    let answer = sender.send_request(request).await;
    let mut answer = answer.map_err(|_| Refusal::BadAnswer)?;
    strip(answer.headers_mut());
    *answer.version_mut() = Version::HTTP_11;
    Ok(answer.map(|body| body.boxed()))
}

/// The request as the destination gets it.
fn make_own(request: &mut Request<Incoming>) -> Option<()> {
    let host = request.uri().authority()?;
    // Without what stands before an @: a password is not for the Host field.
    let host = match host.port() {
        Some(port) => format!("{}:{port}", host.host()),
        None => host.host().to_owned(),
    };
    let host = HeaderValue::from_str(&host).ok()?;
    let path = request.uri().path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    *request.version_mut() = Version::HTTP_11;
    strip(request.headers_mut());
    request.headers_mut().insert(HOST, host);
    Some(())
}

/// Removes what belongs to one hop.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // The length is not for a peer to take away, and Host is ours.
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
        .collect();
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_belongs_to_one_hop_stays_on_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("connection", "x-too , host, content-length"),
            ("host", "a.test"),
            ("x-mine", "1"),
            ("x-too", "1"),
            ("keep-alive", "1"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic secret"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("upgrade", "h2c"),
            ("cookie", "kept"),
            ("content-length", "3"),
        ] {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "cookie", "host"]);
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        strip(&mut headers);
        assert!(!headers.contains_key(TRANSFER_ENCODING) && !headers.contains_key(CONTENT_LENGTH));
    }
}
