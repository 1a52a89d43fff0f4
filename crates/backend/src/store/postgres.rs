//! The store for any number of servers: PostgreSQL.
//!
//! Each operation is one transaction that holds the rows it decides by (`books` says which, and why that is enough), so
//! that servers over one database need to know nothing of each other. A transaction that PostgreSQL breaks off because it
//! met another one is run again, a few times; one that cannot be run at all is `Unavailable`. What commits is durable as
//! far as the database's own `synchronous_commit` goes, which is on unless its operator chose otherwise.
//!
//! The connection is without TLS: the database is on the same machine, by a socket, or in a network that is trusted.

mod accounts;
mod books;
mod schema;

use std::str::FromStr as _;
use std::time::Duration;

use quell_wire::key::PublicKey;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow, PgSslMode};
use sqlx::{PgPool, Row as _};

use super::{
    Account, Answer, Invitation, Issued, NewContract, Redeemed, Settled, Settlement, Store,
    StoreError,
};

type Done<T> = Result<T, StoreError>;

/// Connections of one server: more than PostgreSQL has cores for wait in it instead of here.
const CONNECTIONS_MAX: u32 = 16;
/// How long an operation waits for a connection. Below the timeouts of who asks, so that it is told why.
const CONNECTION_WAIT: Duration = Duration::from_secs(3);
/// Longest statement, as PostgreSQL reads it; and how long one waits for another's rows.
const LIMITS: [(&str, &str); 2] = [("statement_timeout", "10s"), ("lock_timeout", "5s")];
/// How often a transaction is run that PostgreSQL breaks off for another's sake.
const RUNS_MAX: usize = 4;
/// `serialization_failure` and `deadlock_detected` (PostgreSQL's appendix A).
const BROKEN_OFF: [&str; 2] = ["40001", "40P01"];

/// A store in PostgreSQL.
pub struct PostgresStore {
    pool: PgPool,
}

/// Runs a transaction until it was not broken off, at most [`RUNS_MAX`] times.
macro_rules! transaction {
    ($pool:expr, |$transaction:ident| $body:expr) => {{
        let mut runs = 1;
        loop {
            let mut $transaction = $pool.begin().await.map_err(failed)?;
            let done = match $body {
                Ok(done) => $transaction.commit().await.map_err(failed).map(|()| done),
                Err(error) => Err(error),
            };
            match done {
                Err(StoreError::Unavailable(words))
                    if runs < RUNS_MAX && words.starts_with(AGAIN) =>
                {
                    runs += 1;
                }
                done => break done,
            }
        }
    }};
}

impl PostgresStore {
    /// Connects to `postgres://user:password@host/database`, and brings its tables to this program's version.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the address is none or nobody answers there; [`StoreError::Damaged`] when the
    /// database is of a later version.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(failed)?;
        let options = options.ssl_mode(PgSslMode::Disable).options(LIMITS);
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(CONNECTION_WAIT)
            .connect_with(options)
            .await
            .map_err(failed)?;
        schema::migrate(&pool).await?;
        Ok(Self { pool })
    }
}

/// How the words of an error begin after which the same may be run again at once.
const AGAIN: &str = "broken off: ";

/// An error of the database's, as what it is for who asked.
fn failed(error: sqlx::Error) -> StoreError {
    let code = error.as_database_error().and_then(|error| error.code());
    if code.is_some_and(|code| BROKEN_OFF.contains(&code.as_ref())) {
        return StoreError::Unavailable(format!("{AGAIN}{error}"));
    }
    let is_damage = matches!(
        error,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) | sqlx::Error::Decode(_)
    );
    if is_damage {
        StoreError::Damaged(error.to_string())
    } else {
        StoreError::Unavailable(error.to_string())
    }
}

fn damaged(what: &str) -> StoreError {
    StoreError::Damaged(format!("{what} is none"))
}

/// A number as PostgreSQL has it: 2^63 - 1 stands for all beyond.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(row: &PgRow, column: usize) -> Done<u64> {
    let number: i64 = row.try_get(column).map_err(failed)?;
    u64::try_from(number).map_err(|_| damaged("a number"))
}

fn array<const N: usize>(row: &PgRow, column: usize) -> Done<[u8; N]> {
    let bytes: &[u8] = row.try_get(column).map_err(failed)?;
    bytes.try_into().map_err(|_| damaged("a key or a form"))
}

impl Store for PostgresStore {
    fn invite(&self, invitation: Invitation) -> Answer<'_, ()> {
        Box::pin(async move { accounts::invite(&self.pool, &invitation).await })
    }

    fn redeem(&self, hash: [u8; 32], account: Account, now_s: u64) -> Answer<'_, Redeemed> {
        Box::pin(async move {
            transaction!(self.pool, |transaction| {
                accounts::redeem(&mut transaction, hash, &account, now_s).await
            })
        })
    }

    fn account(&self, key: PublicKey) -> Answer<'_, Option<Account>> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(failed)?;
            accounts::account(&mut connection, key).await
        })
    }

    fn accounts(&self, after: Option<PublicKey>, max: usize) -> Answer<'_, Vec<Account>> {
        Box::pin(accounts::accounts(&self.pool, after, max))
    }

    fn set_banned(&self, key: PublicKey, is_banned: bool) -> Answer<'_, bool> {
        Box::pin(accounts::set_banned(&self.pool, key, is_banned))
    }

    fn set_quota(&self, key: PublicKey, quota_bytes: Option<u64>) -> Answer<'_, bool> {
        Box::pin(accounts::set_quota(&self.pool, key, quota_bytes))
    }

    fn heartbeat(&self, key: PublicKey, addresses: Vec<String>, now_s: u64) -> Answer<'_, bool> {
        Box::pin(async move { accounts::heartbeat(&self.pool, key, &addresses, now_s).await })
    }

    fn issue(
        &self,
        account: PublicKey,
        contracts: Vec<NewContract>,
        now_s: u64,
    ) -> Answer<'_, Vec<Issued>> {
        Box::pin(async move {
            transaction!(self.pool, |transaction| {
                books::issue(&mut transaction, account, &contracts, now_s).await
            })
        })
    }

    fn settle(&self, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>> {
        Box::pin(async move {
            transaction!(self.pool, |transaction| {
                books::settle(&mut transaction, &settlements).await
            })
        })
    }

    fn has_settled(&self, account: PublicKey) -> Answer<'_, bool> {
        Box::pin(async move {
            let select = "SELECT 1 FROM quell.sums WHERE key = $1 AND settled_bytes > 0";
            let row = sqlx::query(select).bind(account.0.as_slice());
            let row = row.fetch_optional(&self.pool).await.map_err(failed)?;
            Ok(row.is_some())
        })
    }

    fn forget(&self, ended_before_s: u64, max: usize) -> Answer<'_, usize> {
        Box::pin(async move {
            transaction!(self.pool, |transaction| {
                books::forget(&mut transaction, ended_before_s, max).await
            })
        })
    }
}
