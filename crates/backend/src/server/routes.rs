//! `/v1` for clients and providers, `/healthz` and the description.
//!
//! Each handler has the same shape: prove who asks, ask the rules, answer. [`routes`] is the one list of what is served: the
//! router is built of it, and the test of the description reads it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post, put};
use hyper::StatusCode;
use serde::Deserialize;

use super::answer::{Denied, json, with_body};
use super::counters::count;
use super::gate::{self, asked, signed};
use super::limits::jittered;
use super::{App, admin, openapi};
use crate::api::{
    ContractsRequest, EnrolRequest, HeartbeatRequest, ReceiptsRequest, RefusalCode, Role,
};
use crate::wall_s;

/// Most bytes of an enrolment or a heartbeat: names and addresses of the longest kind fit.
const SMALL_BYTES_MAX: usize = 8 * 1_024;
/// Most bytes of a request for contracts: 16 bindings of 224 characters and their frame.
const CONTRACTS_BYTES_MAX: usize = 16 * 1_024;
/// Most bytes of a batch of receipts: 256 times 432 characters and their frame.
const RECEIPTS_BYTES_MAX: usize = 192 * 1_024;

type Answer = Result<Response, Denied>;

/// A method, a path, and who answers.
pub(super) type Route = (&'static str, &'static str, MethodRouter<Arc<App>>);

/// Everything that is served.
pub(super) fn routes() -> Vec<Route> {
    vec![
        ("get", gate::HEALTH, get(healthz)),
        ("get", "/openapi.json", get(openapi::describe)),
        ("post", "/v1/enrol", post(enrol)),
        ("get", "/v1/catalog", get(catalog)),
        ("post", "/v1/contracts", post(contracts)),
        ("post", "/v1/receipts", post(receipts)),
        ("post", "/v1/heartbeat", post(heartbeat)),
        ("post", "/v1/admin/invitations", post(admin::invite)),
        ("get", "/v1/admin/accounts", get(admin::accounts)),
        ("post", "/v1/admin/accounts/{key}/ban", post(admin::ban)),
        ("post", "/v1/admin/accounts/{key}/unban", post(admin::unban)),
        ("put", "/v1/admin/accounts/{key}/quota", put(admin::quota)),
        ("get", "/v1/admin/providers", get(admin::providers)),
        (
            "post",
            "/v1/admin/providers/{key}/reset",
            post(admin::reset),
        ),
        ("get", "/v1/admin/server", get(admin::server)),
    ]
}

pub(super) fn router(app: &Arc<App>) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, (_, path, answers)| {
            router.route(path, answers)
        })
        .fallback(nowhere)
        .method_not_allowed_fallback(otherwise)
        .layer(from_fn_with_state(Arc::clone(app), gate::door))
        .with_state(Arc::clone(app))
}

async fn nowhere() -> Response {
    let words = "there is nothing at this path";
    Denied::new(StatusCode::NOT_FOUND, RefusalCode::Other, words).into_response()
}

async fn otherwise() -> Response {
    let words = "this path is not asked by this method";
    Denied::new(StatusCode::METHOD_NOT_ALLOWED, RefusalCode::Other, words).into_response()
}

/// Counts what the rules refused, and what the store had no answer to.
pub(super) fn counted<T, E: Into<Denied>>(app: &App, answer: Result<T, E>) -> Result<T, Denied> {
    answer.map_err(|error| {
        let denied = error.into();
        match &denied {
            Denied::Refused(..) => count(&app.counters.requests_refused),
            Denied::Later(..) => count(&app.counters.requests_failed),
        }
        denied
    })
}

async fn healthz(State(app): State<Arc<App>>) -> Response {
    if app.health.is_well().await {
        return with_body(StatusCode::OK, "{\"status\":\"ok\"}".into());
    }
    let wait = jittered(Duration::from_secs(5), Duration::from_secs(5));
    Denied::unavailable("the store gives no answer", wait).into_response()
}

async fn enrol(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (key, question) = asked::<EnrolRequest>(&app, request, SMALL_BYTES_MAX).await?;
    let answer = app.service.enrol(key, &question, wall_s()).await;
    Ok(json(StatusCode::OK, &counted(&app, answer)?))
}

async fn contracts(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (key, question) = asked::<ContractsRequest>(&app, request, CONTRACTS_BYTES_MAX).await?;
    let answer = app.service.contracts(key, &question, wall_s()).await;
    Ok(json(StatusCode::OK, &counted(&app, answer)?))
}

async fn receipts(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (key, question) = asked::<ReceiptsRequest>(&app, request, RECEIPTS_BYTES_MAX).await?;
    let answer = app.service.receipts(key, &question).await;
    Ok(json(StatusCode::OK, &counted(&app, answer)?))
}

async fn heartbeat(State(app): State<Arc<App>>, request: Request) -> Answer {
    let proven = signed(&app, request, SMALL_BYTES_MAX).await?;
    let (key, said_s) = (proven.key, proven.time_s);
    let question: HeartbeatRequest = gate::read(&app, &proven.body)?;
    if !app.catalog.is_news(&key, said_s) {
        count(&app.counters.requests_refused);
        let words = "a word of this provider that was signed later has been heard";
        return Err(Denied::new(
            StatusCode::UNAUTHORIZED,
            RefusalCode::Clock,
            words,
        ));
    }
    let account = app.service.heartbeat(key, &question, wall_s()).await;
    let account = counted(&app, account)?;
    let (in_service, reason) =
        app.catalog
            .on_heartbeat(&account, question.addresses, question.draining, said_s);
    let answer = app.service.heartbeat_answer(in_service, reason);
    Ok(json(StatusCode::OK, &answer))
}

/// What a long poll says.
#[derive(Debug, Deserialize)]
struct CatalogQuery {
    after: Option<String>,
    #[serde(default)]
    wait_s: u64,
}

async fn catalog(State(app): State<Arc<App>>, request: Request) -> Answer {
    let gate::Proven { key, head, .. } = signed(&app, request, 0).await?;
    let Ok(Query(query)) = Query::<CatalogQuery>::try_from_uri(&head.uri) else {
        let words = "the query is `after`, a version, and `wait_s`, a number of seconds";
        let code = RefusalCode::Malformed;
        return Err(Denied::new(StatusCode::BAD_REQUEST, code, words));
    };
    counted(&app, app.service.admit(key, Role::Client).await)?;
    let mut published = app.catalog.subscribe();
    let mut closing = app.closing.clone();
    let is_new = |published: &Arc<crate::catalog::Published>| {
        !published.version.is_empty() && Some(&published.version) != query.after.as_ref()
    };
    let wait = Duration::from_secs(query.wait_s).min(app.wait_max);
    let body = {
        let changed = published.wait_for(is_new);
        tokio::select! {
            biased;
            changed = tokio::time::timeout(wait, changed) => match changed {
                Ok(Ok(published)) => Some(published.body.clone()),
                Ok(Err(_)) | Err(_) => None,
            },
            _stops = closing.wait_for(|closing| *closing) => None,
        }
    };
    match body {
        Some(body) => Ok(with_body(StatusCode::OK, body)),
        None if app.catalog.subscribe().borrow().version.is_empty() => {
            let wait = jittered(Duration::from_secs(1), Duration::from_secs(4));
            Err(Denied::unavailable("the catalog is not there yet", wait))
        }
        None => Ok(StatusCode::NOT_MODIFIED.into_response()),
    }
}
