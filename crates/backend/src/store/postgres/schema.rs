//! The tables, and how a database comes to have them.
//!
//! Each step is a script that is run once, in the order of their numbers; the number of the last one is kept in the
//! database. All steps that are missing run in one transaction, under an advisory lock: servers that start at once wait
//! for the first, and then find nothing to do. A database that is ahead of the program is refused, so that an old server
//! does not write what a new one would misread.

use sqlx::{PgPool, Row as _};

use super::failed;
use crate::store::StoreError;

/// The scripts, the first of them number 1.
const STEPS: [&str; 1] = [include_str!("0001.sql")];
/// Names the lock among all advisory locks of the database: "quell" in ASCII.
const LOCK: i64 = 0x71_75_65_6c_6c;

/// Brings the database to the version of this program.
pub(super) async fn migrate(pool: &PgPool) -> Result<(), StoreError> {
    let mut transaction = pool.begin().await.map_err(failed)?;
    let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK);
    lock.execute(&mut *transaction).await.map_err(failed)?;
    let begin = "CREATE SCHEMA IF NOT EXISTS quell;
        CREATE TABLE IF NOT EXISTS quell.version (version BIGINT NOT NULL)";
    let begin = sqlx::raw_sql(begin).execute(&mut *transaction);
    begin.await.map_err(failed)?;
    let version = "SELECT COALESCE(MAX(version), 0) FROM quell.version";
    let version = sqlx::query(version).fetch_one(&mut *transaction).await;
    let version: i64 = version.map_err(failed)?.try_get(0).map_err(failed)?;
    let done = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(missing) = STEPS.get(done..) else {
        return Err(StoreError::Damaged(format!(
            "the database is of version {version}, this program reads version {}",
            STEPS.len()
        )));
    };
    for (step, number) in missing.iter().zip(version.saturating_add(1)..) {
        let ran = sqlx::raw_sql(*step).execute(&mut *transaction).await;
        ran.map_err(failed)?;
        let insert = sqlx::query("INSERT INTO quell.version VALUES ($1)").bind(number);
        insert.execute(&mut *transaction).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}
