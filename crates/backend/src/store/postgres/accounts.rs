//! Invitations and accounts.
//!
//! A redemption holds its invitation's row until it commits, so that two servers do not both take the last use. Two
//! invitations redeemed for one key at once meet at the account's row: one makes it, the other finds it and takes no use.

use quell_wire::key::PublicKey;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgPool, Postgres, Row as _, Transaction};

use super::{Done, array, damaged, failed, number, signed};
use crate::api::Role;
use crate::store::{Account, HEARTBEAT_AHEAD_MAX_S, Invitation, Redeemed, StoreError};

fn role_number(role: Role) -> i16 {
    match role {
        Role::Client => 0,
        Role::Provider => 1,
    }
}

fn role(number: i16) -> Result<Role, StoreError> {
    match number {
        0 => Ok(Role::Client),
        1 => Ok(Role::Provider),
        _ => Err(damaged("a role")),
    }
}

pub(super) async fn invite(pool: &PgPool, invitation: &Invitation) -> Done<()> {
    let insert = "INSERT INTO quell.invitations VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    let insert = sqlx::query(insert)
        .bind(invitation.hash.as_slice())
        .bind(role_number(invitation.role))
        .bind(i64::from(invitation.uses_left))
        .bind(signed(invitation.expires_s))
        .bind(invitation.quota_bytes.map(signed));
    insert.execute(pool).await.map(drop).map_err(failed)
}

pub(super) async fn redeem(
    transaction: &mut Transaction<'_, Postgres>,
    hash: [u8; 32],
    asked: &Account,
    now_s: u64,
) -> Done<Redeemed> {
    let Some(invitation) = locked_invitation(transaction, hash).await? else {
        return Ok(Redeemed::Invalid);
    };
    if let Some(known) = account(transaction, asked.key).await? {
        return Ok(known_as(known, invitation.role));
    }
    if now_s >= invitation.expires_s || invitation.uses_left == 0 {
        return Ok(Redeemed::Invalid);
    }
    let made = invitation.account(asked, 0);
    let insert =
        "INSERT INTO quell.accounts VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
    let insert = sqlx::query(insert)
        .bind(made.key.0.as_slice())
        .bind(role_number(made.role))
        .bind(&made.name)
        .bind(&made.addresses)
        .bind(signed(made.enrolled_s))
        .bind(made.is_banned)
        .bind(made.quota_bytes.map(signed))
        .bind(signed(made.heartbeat_s));
    let inserted = insert.execute(&mut **transaction).await.map_err(failed)?;
    if inserted.rows_affected() > 0 {
        let take = "UPDATE quell.invitations SET uses_left = uses_left - 1 WHERE hash = $1";
        let take = sqlx::query(take).bind(hash.as_slice());
        take.execute(&mut **transaction).await.map_err(failed)?;
    }
    let account = account(transaction, asked.key).await?;
    let account = account.ok_or_else(|| damaged("an account that was just made"))?;
    Ok(known_as(account, invitation.role))
}

fn known_as(account: Account, role: Role) -> Redeemed {
    if account.role == role {
        Redeemed::Enrolled(account)
    } else {
        Redeemed::WrongRole
    }
}

async fn locked_invitation(
    connection: &mut PgConnection,
    hash: [u8; 32],
) -> Done<Option<Invitation>> {
    let select = "SELECT role, uses_left, expires_s, quota_bytes FROM quell.invitations
        WHERE hash = $1 FOR UPDATE";
    let row = sqlx::query(select).bind(hash.as_slice());
    let Some(row) = row.fetch_optional(connection).await.map_err(failed)? else {
        return Ok(None);
    };
    let uses_left: i64 = row.try_get(1).map_err(failed)?;
    let quota_bytes: Option<i64> = row.try_get(3).map_err(failed)?;
    Ok(Some(Invitation {
        hash,
        role: role(row.try_get(0).map_err(failed)?)?,
        uses_left: u32::try_from(uses_left).map_err(|_| damaged("an invitation's uses"))?,
        expires_s: number(&row, 2)?,
        quota_bytes: quota_bytes.map(|bytes| bytes.unsigned_abs()),
    }))
}

const ACCOUNT: &str =
    "SELECT a.key, a.role, a.name, a.addresses, a.enrolled_s, a.is_banned, a.quota_bytes,
    COALESCE(s.settled_bytes, 0), a.heartbeat_s
    FROM quell.accounts a LEFT JOIN quell.sums s ON s.key = a.key WHERE a.key = $1";
const ACCOUNTS: &str =
    "SELECT a.key, a.role, a.name, a.addresses, a.enrolled_s, a.is_banned, a.quota_bytes,
    COALESCE(s.settled_bytes, 0), a.heartbeat_s
    FROM quell.accounts a LEFT JOIN quell.sums s ON s.key = a.key
    WHERE $1::bytea IS NULL OR a.key > $1 ORDER BY a.key LIMIT $2";

fn read(row: &PgRow) -> Done<Account> {
    let quota_bytes: Option<i64> = row.try_get(6).map_err(failed)?;
    Ok(Account {
        key: PublicKey(array(row, 0)?),
        role: role(row.try_get(1).map_err(failed)?)?,
        name: row.try_get(2).map_err(failed)?,
        addresses: row.try_get(3).map_err(failed)?,
        enrolled_s: number(row, 4)?,
        is_banned: row.try_get(5).map_err(failed)?,
        quota_bytes: quota_bytes.map(|bytes| bytes.unsigned_abs()),
        settled_bytes: number(row, 7)?,
        heartbeat_s: number(row, 8)?,
    })
}

pub(super) async fn account(
    connection: &mut PgConnection,
    key: PublicKey,
) -> Done<Option<Account>> {
    let row = sqlx::query(ACCOUNT).bind(key.0.as_slice());
    let row = row.fetch_optional(connection).await.map_err(failed)?;
    row.as_ref().map(read).transpose()
}

pub(super) async fn accounts(
    pool: &PgPool,
    after: Option<PublicKey>,
    max: usize,
) -> Done<Vec<Account>> {
    let rows = sqlx::query(ACCOUNTS)
        .bind(after.map(|key| key.0.to_vec()))
        .bind(i64::try_from(max).unwrap_or(i64::MAX));
    let rows = rows.fetch_all(pool).await.map_err(failed)?;
    rows.iter().map(read).collect()
}

pub(super) async fn set_banned(pool: &PgPool, key: PublicKey, is_banned: bool) -> Done<bool> {
    let update = "UPDATE quell.accounts SET is_banned = $2 WHERE key = $1";
    let update = sqlx::query(update).bind(key.0.as_slice()).bind(is_banned);
    let updated = update.execute(pool).await.map_err(failed)?;
    Ok(updated.rows_affected() > 0)
}

pub(super) async fn set_quota(pool: &PgPool, key: PublicKey, quota: Option<u64>) -> Done<bool> {
    let update = "UPDATE quell.accounts SET quota_bytes = $2 WHERE key = $1";
    let update = sqlx::query(update)
        .bind(key.0.as_slice())
        .bind(quota.map(signed));
    let updated = update.execute(pool).await.map_err(failed)?;
    Ok(updated.rows_affected() > 0)
}

pub(super) async fn heartbeat(
    pool: &PgPool,
    key: PublicKey,
    addresses: &[String],
    now_s: u64,
) -> Done<bool> {
    let update = "UPDATE quell.accounts SET
        addresses = CASE WHEN role = 1 AND (heartbeat_s <= $3 OR heartbeat_s - $3 > $4)
            THEN $2 ELSE addresses END,
        heartbeat_s = CASE WHEN role = 1 AND (heartbeat_s <= $3 OR heartbeat_s - $3 > $4)
            THEN $3 ELSE heartbeat_s END
        WHERE key = $1";
    let update = sqlx::query(update)
        .bind(key.0.as_slice())
        .bind(addresses)
        .bind(signed(now_s))
        .bind(signed(HEARTBEAT_AHEAD_MAX_S));
    let updated = update.execute(pool).await.map_err(failed)?;
    Ok(updated.rows_affected() > 0)
}
