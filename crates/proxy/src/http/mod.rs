//! The HTTP proxy: CONNECT (RFC 9110 §9.3.6), and requests in absolute form (RFC 9112 §3.2.2).
//!
//! ```text
//! request ─> password? ─┬─ CONNECT host:port ─> dial ─> 200 ─> the stream belongs to a flow
//!                       └─ GET http://host/… ─> dial ─> the request, hop by hop ─> the answer, hop by hop
//! ```
//!
//! Heads are hyper's to read, within [`HEAD_BYTES_MAX`] and [`HEADERS_MAX`], and have to come within `handshake_timeout`. A
//! connection whose CONNECT was granted is no HTTP any more: the socket itself goes to the flow, with what was said behind
//! the request, and no byte passes through hyper.
//!
//! A CONNECT with a body is refused: it has none (RFC 9110 §9.3.6), and the flow would wait, unattended, until an application
//! has said all of it.
//!
//! A refusal has a status and a sentence, which a person at a command line reads.

mod forward;

use std::rc::Rc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hyper::http::uri::{Authority, Scheme};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::books::{Asked, Refusal};
use crate::common::Common;
use crate::dial::{Target, dial};
use crate::flows::Open;
use crate::listen::{Connection, Place};

/// Bytes of a head at most: what browsers send with all of their cookies.
const HEAD_BYTES_MAX: usize = 64 * 1_024;
/// Fields of a head at most.
const HEADERS_MAX: usize = 128;
/// Where `http://` goes without a port.
const HTTP_PORT: u16 = 80;

/// What goes back: the destination's own body, or a sentence.
type Body = BoxBody<Bytes, hyper::Error>;
type Answer = Response<Body>;

/// A connection's life.
pub(crate) async fn serve(common: Rc<Common>, connection: Connection) {
    let Connection { stream, place } = connection;
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(Rc::clone(&common), Rc::clone(&place), request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(common.limits.handshake_timeout)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // What was wrong was answered by hyper, or cannot be.
    let _ = served.await;
}

async fn answer(
    common: Rc<Common>,
    place: Rc<Place>,
    request: Request<Incoming>,
) -> Result<Answer, hyper::Error> {
    let asked = Asked::new(&common.books);
    let password = request.headers().get(PROXY_AUTHORIZATION);
    let is_known = common
        .guard
        .knows_basic(password.map(HeaderValue::as_bytes));
    let answered = if !is_known {
        Err(Refusal::Unauthorized)
    } else if request.method() == Method::CONNECT {
        connect(&common, place, request).await
    } else {
        forward(&common, request).await
    };
    Ok(match answered {
        Ok(answer) => {
            asked.grant();
            answer
        }
        Err(why) => {
            asked.refuse(why);
            refusal(why)
        }
    })
}

async fn connect(
    common: &Rc<Common>,
    place: Rc<Place>,
    mut request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let authority = request.uri().authority().ok_or(Refusal::Malformed)?;
    let port = authority.port_u16().ok_or(Refusal::Malformed)?;
    if !request.body().is_end_stream() {
        return Err(Refusal::Malformed);
    }
    let target = Target::of(authority.host(), port);
    let open = dial(common, &target).await?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::task::spawn_local(hand_over(upgrade, open, place));
    Ok(Response::new(empty()))
}

/// Gives the application's socket to its flow, once the answer was written.
async fn hand_over(upgrade: OnUpgrade, open: Open, place: Rc<Place>) {
    let Ok(upgraded) = upgrade.await else {
        return;
    };
    if let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() {
        open.attach(parts.io.into_inner(), parts.read_buf, place);
    }
}

async fn forward(common: &Rc<Common>, request: Request<Incoming>) -> Result<Answer, Refusal> {
    let uri = request.uri();
    let (scheme, authority) = uri
        .scheme()
        .zip(uri.authority())
        .ok_or(Refusal::Malformed)?;
    if *scheme != Scheme::HTTP {
        return Err(Refusal::UnsupportedCommand);
    }
    let port = port(authority)?;
    let target = Target::of(authority.host(), port);
    let open = dial(common, &target).await?;
    forward::forward(open, request).await
}

/// Where `http://` goes: to the port that is named, if one is. One that is none is not taken for the usual one.
fn port(authority: &Authority) -> Result<u16, Refusal> {
    if let Some(port) = authority.port_u16() {
        return Ok(port);
    }
    let host = authority.as_str().trim_end_matches(':');
    if host.ends_with(authority.host()) {
        Ok(HTTP_PORT)
    } else {
        Err(Refusal::Malformed)
    }
}

/// What is said for a refusal.
const fn words(why: Refusal) -> (StatusCode, &'static str) {
    match why {
        Refusal::Unauthorized => (
            StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            "this proxy wants a user name and a password",
        ),
        Refusal::Malformed => (
            StatusCode::BAD_REQUEST,
            "this is a proxy: it takes CONNECT host:port, and requests for http://host/path",
        ),
        Refusal::UnsupportedCommand | Refusal::UnsupportedAddress => (
            StatusCode::NOT_IMPLEMENTED,
            "this proxy forwards http:// alone; https:// goes through CONNECT",
        ),
        Refusal::NoSession => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the tunnel has no session yet",
        ),
        Refusal::ConnectionsFull | Refusal::FlowsFull | Refusal::AssociationsFull => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the proxy has as many connections as it may have",
        ),
        Refusal::HostExhausted => (
            StatusCode::SERVICE_UNAVAILABLE,
            "this host has no memory, file descriptor or port to spare",
        ),
        Refusal::NoRoute => (
            StatusCode::BAD_GATEWAY,
            "the tunnel does not carry the destination's address family",
        ),
        Refusal::SessionChanged => (
            StatusCode::BAD_GATEWAY,
            "the tunnel's addresses changed meanwhile",
        ),
        Refusal::BadDestination => (
            StatusCode::FORBIDDEN,
            "the destination is no single host, or its port is 0",
        ),
        Refusal::Prohibited => (
            StatusCode::FORBIDDEN,
            "the provider forbids the destination",
        ),
        Refusal::NameNotFound => (StatusCode::BAD_GATEWAY, "there is no such name"),
        Refusal::NameUnanswered => (
            StatusCode::GATEWAY_TIMEOUT,
            "no DNS server answered through the tunnel",
        ),
        Refusal::Refused => (
            StatusCode::BAD_GATEWAY,
            "the destination refused the connection",
        ),
        Refusal::Unreachable => (StatusCode::BAD_GATEWAY, "the destination cannot be reached"),
        Refusal::TimedOut | Refusal::HandshakeTimedOut => (
            StatusCode::GATEWAY_TIMEOUT,
            "the destination did not answer",
        ),
        Refusal::BadAnswer | Refusal::ApplicationGone => (
            StatusCode::BAD_GATEWAY,
            "the destination broke off, or did not speak HTTP",
        ),
    }
}

fn refusal(why: Refusal) -> Answer {
    let (status, words) = words(why);
    let sentence = Full::from(format!("quell: {words}\n"));
    let mut answer = Response::new(sentence.map_err(|never| match never {}).boxed());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        let basic = HeaderValue::from_static("Basic realm=\"quell\", charset=\"UTF-8\"");
        headers.insert(PROXY_AUTHENTICATE, basic);
    }
    answer
}

fn empty() -> Body {
    Full::default().map_err(|never| match never {}).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_an_error_with_a_sentence() {
        for why in Refusal::ALL {
            let (status, words) = words(*why);
            assert!(status.is_client_error() || status.is_server_error());
            assert!(!words.is_empty() && !words.ends_with('.'));
            let asks = refusal(*why).headers().contains_key(PROXY_AUTHENTICATE);
            assert_eq!(asks, *why == Refusal::Unauthorized);
        }
    }
}
