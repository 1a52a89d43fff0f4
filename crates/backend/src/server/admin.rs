//! `/v1/admin` for the operator, whose token is asked for at each request.
//!
//! Answers hold accounts and hosts: keys, names, sums, addresses of providers. None of them holds an address of a client,
//! a destination or a contract.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use hyper::StatusCode;
use quell_core::flap::FlapCounters;
use quell_wire::key::PublicKey;
use serde::{Deserialize, Serialize};

use super::App;
use super::answer::{Denied, json};
use super::counters::Counted;
use super::gate::{operator, read};
use super::routes::counted;
pub(super) use crate::api::{InviteAnswer, InviteRequest};
use crate::api::{RefusalCode, Role};
use crate::catalog::{CatalogCounters, HostReport};
use crate::service::InvitationText;
use crate::service::admin::{ACCOUNTS_MAX, InvitationPlan};
use crate::store::Account;
use crate::wall_s;

/// Most bytes of an operator's question.
const BYTES_MAX: usize = 8 * 1_024;

type Answer = Result<Response, Denied>;

/// Accounts, in the order of their keys.
#[derive(Debug, Serialize)]
pub(super) struct AccountsAnswer {
    pub(super) accounts: Vec<AccountReport>,
    /// What to say as `after` for the next ones; none at the end.
    pub(super) next: Option<String>,
}

/// An account for people and programs.
#[derive(Debug, Serialize)]
pub(super) struct AccountReport {
    pub(super) public_key: String,
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) addresses: Vec<String>,
    pub(super) enrolled_s: u64,
    pub(super) banned: bool,
    pub(super) quota_bytes: Option<u64>,
    pub(super) settled_bytes: u64,
    pub(super) heartbeat_s: u64,
}

impl From<Account> for AccountReport {
    fn from(account: Account) -> Self {
        Self {
            public_key: account.key.to_text(),
            role: account.role,
            name: account.name,
            addresses: account.addresses,
            enrolled_s: account.enrolled_s,
            banned: account.is_banned,
            quota_bytes: account.quota_bytes,
            settled_bytes: account.settled_bytes,
            heartbeat_s: account.heartbeat_s,
        }
    }
}

/// An allowance; null for no bound.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaRequest {
    pub(super) quota_bytes: Option<u64>,
}

/// Providers: each one's state, and what was decided in all.
#[derive(Debug, Serialize)]
pub(super) struct ProvidersAnswer {
    pub(super) version: String,
    pub(super) catalog: CatalogCounters,
    pub(super) flap: FlapCounters,
    pub(super) providers: Vec<HostReport>,
}

/// Done.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    pub(super) done: bool,
}

const DONE: Done = Done { done: true };

/// The server itself.
#[derive(Debug, Serialize)]
pub(super) struct ServerAnswer {
    pub(super) version: String,
    pub(super) trusted_keys: Vec<String>,
    pub(super) counters: Counted,
}

fn key_of(text: &str) -> Result<PublicKey, Denied> {
    text.parse().map_err(|error| {
        let words = format!("the key in the path: {error}");
        Denied::new(StatusCode::BAD_REQUEST, RefusalCode::Malformed, words)
    })
}

pub(super) async fn invite(State(app): State<Arc<App>>, request: Request) -> Answer {
    let body = operator(&app, request, BYTES_MAX).await?;
    let question: InviteRequest = read(&app, &body)?;
    let text = InvitationText::draw(&mut rand::rng());
    let now_s = wall_s();
    let plan = InvitationPlan {
        role: question.role,
        uses: question.uses,
        lasts_s: question.lasts_s,
        quota_bytes: question.quota_bytes,
    };
    counted(&app, app.service.invite(&text, plan, now_s).await)?;
    let answer = InviteAnswer {
        invitation: text.to_text().to_string(),
        expires_s: now_s.saturating_add(question.lasts_s),
    };
    Ok(json(StatusCode::OK, &answer))
}

/// Which accounts.
#[derive(Debug, Deserialize)]
struct AccountsQuery {
    after: Option<String>,
    max: Option<usize>,
}

pub(super) async fn accounts(State(app): State<Arc<App>>, request: Request) -> Answer {
    let uri = request.uri().clone();
    operator(&app, request, 0).await?;
    let Ok(Query(query)) = Query::<AccountsQuery>::try_from_uri(&uri) else {
        let words = "the query is `after`, a key, and `max`, a number";
        let code = RefusalCode::Malformed;
        return Err(Denied::new(StatusCode::BAD_REQUEST, code, words));
    };
    let after = query.after.as_deref().map(key_of).transpose()?;
    let max = query.max.unwrap_or(ACCOUNTS_MAX).clamp(1, ACCOUNTS_MAX);
    let accounts = counted(&app, app.service.accounts(after, max).await)?;
    let is_full = accounts.len() == max;
    let last = accounts.last().map(|account| account.key.to_text());
    let answer = AccountsAnswer {
        next: last.filter(|_| is_full),
        accounts: accounts.into_iter().map(AccountReport::from).collect(),
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn ban(
    State(app): State<Arc<App>>,
    Path(key): Path<String>,
    request: Request,
) -> Answer {
    set_banned(&app, &key, request, true).await
}

pub(super) async fn unban(
    State(app): State<Arc<App>>,
    Path(key): Path<String>,
    request: Request,
) -> Answer {
    set_banned(&app, &key, request, false).await
}

async fn set_banned(app: &App, key: &str, request: Request, is_banned: bool) -> Answer {
    operator(app, request, BYTES_MAX).await?;
    let key = key_of(key)?;
    counted(app, app.service.set_banned(key, is_banned).await)?;
    if is_banned {
        app.catalog.on_banned(&key);
    }
    Ok(json(StatusCode::OK, &DONE))
}

pub(super) async fn quota(
    State(app): State<Arc<App>>,
    Path(key): Path<String>,
    request: Request,
) -> Answer {
    let body = operator(&app, request, BYTES_MAX).await?;
    let (key, question) = (key_of(&key)?, read::<QuotaRequest>(&app, &body)?);
    counted(&app, app.service.set_quota(key, question.quota_bytes).await)?;
    Ok(json(StatusCode::OK, &DONE))
}

pub(super) async fn providers(State(app): State<Arc<App>>, request: Request) -> Answer {
    operator(&app, request, 0).await?;
    let answer = app.catalog.look(|membership| ProvidersAnswer {
        version: membership.version(),
        catalog: membership.counters(),
        flap: membership.flap_counters(),
        providers: membership.report(Instant::now()),
    });
    Ok(json(StatusCode::OK, &answer))
}

/// an operator starts a latch anew.
pub(super) async fn reset(
    State(app): State<Arc<App>>,
    Path(key): Path<String>,
    request: Request,
) -> Answer {
    operator(&app, request, BYTES_MAX).await?;
    let key = key_of(&key)?;
    let now = Instant::now();
    if app.catalog.with(|membership| membership.reset(&key, now)) {
        return Ok(json(StatusCode::OK, &DONE));
    }
    let words = "no such provider is known to the catalog";
    Err(Denied::new(
        StatusCode::FORBIDDEN,
        RefusalCode::Unknown,
        words,
    ))
}

pub(super) async fn server(State(app): State<Arc<App>>, request: Request) -> Answer {
    operator(&app, request, 0).await?;
    let answer = ServerAnswer {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trusted_keys: app.service.keys().trusted_texts(),
        counters: app.counters.counted(),
    };
    Ok(json(StatusCode::OK, &answer))
}
