//! Contracts, receipts and sums, with any number of servers at them.
//!
//! What keeps them right under concurrency:
//!
//! - Who issues holds the account's row: allowances are given out by one server at a time. What is taken and reserved is
//!   then read in one statement, hence in one snapshot: a receipt moves bytes from one to the other, never out of both.
//! - Who settles holds the contracts' rows, taken in the order of their ids, then adds to the sums in the order of their
//!   keys: two that settle wait for each other and cannot lock each other out.
//! - Who forgets raises the mark first, and passes over rows that someone holds. Who makes a contract's record from its
//!   own word holds the mark, shared: nothing is forgotten and made again.
//!
//! Should PostgreSQL see a deadlock all the same, the transaction is run again by the caller.

use std::collections::BTreeMap;

use quell_wire::contract::{CONTRACT_LEN, SignedContract};
use quell_wire::key::PublicKey;
use sqlx::{PgConnection, Row as _};

use super::{Done, array, failed, number, signed};
use crate::store::{Issued, NewContract, Settled, Settlement};

type Id = [u8; 16];
type Form = [u8; CONTRACT_LEN];

pub(super) async fn issue(
    connection: &mut PgConnection,
    account: PublicKey,
    contracts: &[NewContract],
    now_s: u64,
) -> Done<Vec<Issued>> {
    let mut left = left(connection, account, now_s).await?;
    let ids: Vec<_> = contracts
        .iter()
        .map(|contract| contract.id.0.to_vec())
        .collect();
    let mut known = forms(connection, &ids).await?;
    let mut outcomes = Vec::with_capacity(contracts.len());
    let mut new = Vec::with_capacity(contracts.len());
    for contract in contracts {
        if let Some(form) = known.get(&contract.id.0) {
            outcomes.push(Issued::Kept(*form));
            continue;
        }
        let allowed = contract.bytes.saturating_add(contract.grace_bytes);
        if let Some(left_bytes) = left {
            let Some(rest) = left_bytes.checked_sub(allowed) else {
                outcomes.push(Issued::Quota { left_bytes });
                continue;
            };
            // One that has ended already reserves nothing.
            if now_s < contract.ends_s {
                left = Some(rest);
            }
        }
        known.insert(contract.id.0, contract.form);
        outcomes.push(Issued::Kept(contract.form));
        new.push(contract);
    }
    if insert(connection, account, &new).await? < new.len() {
        // A receipt was faster, and made a record of one of them: what is kept is what it says.
        let kept = forms(connection, &ids).await?;
        for (outcome, contract) in outcomes.iter_mut().zip(contracts) {
            if let (Issued::Kept(form), Some(kept)) = (outcome, kept.get(&contract.id.0)) {
                *form = *kept;
            }
        }
    }
    Ok(outcomes)
}

/// Holds the account, and says what is left of its allowance; none for no bound.
async fn left(connection: &mut PgConnection, account: PublicKey, now_s: u64) -> Done<Option<u64>> {
    let lock = "SELECT quota_bytes FROM quell.accounts WHERE key = $1 FOR NO KEY UPDATE";
    let row = sqlx::query(lock).bind(account.0.as_slice());
    let Some(row) = row.fetch_optional(&mut *connection).await.map_err(failed)? else {
        // Who is not enrolled has no allowance.
        return Ok(Some(0));
    };
    let Some(quota) = row.try_get::<Option<i64>, _>(0).map_err(failed)? else {
        return Ok(None);
    };
    let taken = "SELECT LEAST(9223372036854775807,
        COALESCE((SELECT settled_bytes FROM quell.sums WHERE key = $1), 0)::numeric
        + COALESCE((SELECT SUM(allowed - settled) FROM quell.contracts
            WHERE account = $1 AND ends_s > $2 AND settled < allowed), 0))::bigint";
    let row = sqlx::query(taken)
        .bind(account.0.as_slice())
        .bind(signed(now_s));
    let row = row.fetch_one(connection).await.map_err(failed)?;
    Ok(Some(quota.unsigned_abs().saturating_sub(number(&row, 0)?)))
}

async fn forms(connection: &mut PgConnection, ids: &[Vec<u8>]) -> Done<BTreeMap<Id, Form>> {
    let select = "SELECT id, form FROM quell.contracts WHERE id = ANY($1)";
    let rows = sqlx::query(select).bind(ids).fetch_all(connection).await;
    let rows = rows.map_err(failed)?;
    rows.iter()
        .map(|row| Ok((array(row, 0)?, array(row, 1)?)))
        .collect()
}

/// How many of them were not there.
async fn insert(
    connection: &mut PgConnection,
    account: PublicKey,
    contracts: &[&NewContract],
) -> Done<usize> {
    if contracts.is_empty() {
        return Ok(0);
    }
    let insert = "INSERT INTO quell.contracts
        SELECT id, $2, provider, allowed, ends_s, 0, form, NULL
        FROM UNNEST($1::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[])
            AS new (id, provider, allowed, ends_s, form)
        ORDER BY id ON CONFLICT DO NOTHING";
    let all = || contracts.iter();
    let allowed = all().map(|c| signed(c.bytes.saturating_add(c.grace_bytes)));
    let insert = sqlx::query(insert)
        .bind(all().map(|c| c.id.0.to_vec()).collect::<Vec<_>>())
        .bind(account.0.as_slice())
        .bind(all().map(|c| c.provider.0.to_vec()).collect::<Vec<_>>())
        .bind(allowed.collect::<Vec<_>>())
        .bind(all().map(|c| signed(c.ends_s)).collect::<Vec<_>>())
        .bind(all().map(|c| c.form.to_vec()).collect::<Vec<_>>());
    let inserted = insert.execute(connection).await.map_err(failed)?;
    Ok(usize::try_from(inserted.rows_affected()).unwrap_or(usize::MAX))
}

/// A contract that is held until the transaction ends.
struct Held<'s> {
    account: Option<PublicKey>,
    provider: PublicKey,
    settled: u64,
    /// The receipt that raised it.
    receipt: Option<&'s Settlement>,
}

pub(super) async fn settle(
    connection: &mut PgConnection,
    settlements: &[Settlement],
) -> Done<Vec<Settled>> {
    let ids: Vec<_> = settlements.iter().map(|s| s.contract.0.to_vec()).collect();
    let mut held = hold(connection, &ids).await?;
    let mut forgotten_before_s = None;
    let is_missing = |held: &BTreeMap<Id, _>, s: &Settlement| !held.contains_key(&s.contract.0);
    if settlements
        .iter()
        .any(|settlement| is_missing(&held, settlement))
    {
        let select = "SELECT before_s FROM quell.forgotten FOR SHARE";
        let row = sqlx::query(select).fetch_one(&mut *connection).await;
        let before_s = number(&row.map_err(failed)?, 0)?;
        forgotten_before_s = Some(before_s);
        for settlement in settlements {
            if is_missing(&held, settlement) && settlement.bytes_total > 0 {
                insert_proven(connection, settlement, before_s).await?;
            }
        }
        held = hold(connection, &ids).await?;
    }
    let mut sums = BTreeMap::<PublicKey, u64>::new();
    let mut outcomes = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let Some(contract) = held.get_mut(&settlement.contract.0) else {
            // Nothing was had under it, or it is forgotten.
            let is_known = proven(settlement, forgotten_before_s.unwrap_or(0)).is_some();
            outcomes.push(if is_known {
                Settled::Total(0)
            } else {
                Settled::Unknown
            });
            continue;
        };
        let more = settlement.bytes_total.saturating_sub(contract.settled);
        if more > 0 {
            contract.settled = settlement.bytes_total;
            contract.receipt = Some(settlement);
            for payee in [Some(contract.provider), contract.account]
                .into_iter()
                .flatten()
            {
                let sum = sums.entry(payee).or_default();
                *sum = sum.saturating_add(more);
            }
        }
        outcomes.push(Settled::Total(contract.settled));
    }
    raise(connection, &held).await?;
    credit(connection, &sums).await?;
    Ok(outcomes)
}

async fn hold<'s>(connection: &mut PgConnection, ids: &[Vec<u8>]) -> Done<BTreeMap<Id, Held<'s>>> {
    let select = "SELECT id, account, provider, settled FROM quell.contracts
        WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE";
    let rows = sqlx::query(select).bind(ids).fetch_all(connection).await;
    let mut held = BTreeMap::new();
    for row in &rows.map_err(failed)? {
        let account: Option<Vec<u8>> = row.try_get(1).map_err(failed)?;
        let contract = Held {
            account: account.map(|_| array(row, 1)).transpose()?.map(PublicKey),
            provider: PublicKey(array(row, 2)?),
            settled: number(row, 3)?,
            receipt: None,
        };
        held.insert(array(row, 0)?, contract);
    }
    Ok(held)
}

/// When it ends and what it allows, of a contract that is not kept; none when it may have been forgotten, since then its
/// receipts may have been counted.
fn proven(settlement: &Settlement, forgotten_before_s: u64) -> Option<(u64, u64)> {
    let terms = SignedContract::decode(&settlement.contract_form)
        .ok()?
        .terms;
    let ends_s = terms.not_after_s.saturating_add(u64::from(terms.grace_s));
    let allowed = terms.bytes.saturating_add(terms.grace_bytes);
    (ends_s >= forgotten_before_s).then_some((ends_s, allowed))
}

async fn insert_proven(
    connection: &mut PgConnection,
    settlement: &Settlement,
    forgotten_before_s: u64,
) -> Done<()> {
    let Some((ends_s, allowed)) = proven(settlement, forgotten_before_s) else {
        return Ok(());
    };
    let insert = "INSERT INTO quell.contracts VALUES ($1, NULL, $2, $3, $4, 0, $5, NULL)
        ON CONFLICT DO NOTHING";
    let insert = sqlx::query(insert)
        .bind(settlement.contract.0.as_slice())
        .bind(settlement.provider.0.as_slice())
        .bind(signed(allowed))
        .bind(signed(ends_s))
        .bind(settlement.contract_form.as_slice());
    insert.execute(connection).await.map(drop).map_err(failed)
}

async fn raise(connection: &mut PgConnection, held: &BTreeMap<Id, Held<'_>>) -> Done<()> {
    let (mut ids, mut totals, mut receipts) = (Vec::new(), Vec::new(), Vec::new());
    for (id, contract) in held {
        if let Some(receipt) = contract.receipt {
            ids.push(id.to_vec());
            totals.push(signed(contract.settled));
            receipts.push(receipt.form.to_vec());
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let update = "UPDATE quell.contracts c SET settled = new.settled, receipt = new.receipt
        FROM UNNEST($1::bytea[], $2::bigint[], $3::bytea[]) AS new (id, settled, receipt)
        WHERE c.id = new.id";
    let update = sqlx::query(update).bind(ids).bind(totals).bind(receipts);
    update.execute(connection).await.map(drop).map_err(failed)
}

async fn credit(connection: &mut PgConnection, sums: &BTreeMap<PublicKey, u64>) -> Done<()> {
    if sums.is_empty() {
        return Ok(());
    }
    let insert = "INSERT INTO quell.sums AS s
        SELECT key, more FROM UNNEST($1::bytea[], $2::bigint[]) AS new (key, more) ORDER BY key
        ON CONFLICT (key) DO UPDATE SET settled_bytes = LEAST(9223372036854775807,
            s.settled_bytes::numeric + EXCLUDED.settled_bytes)::bigint";
    let insert = sqlx::query(insert)
        .bind(sums.keys().map(|key| key.0.to_vec()).collect::<Vec<_>>())
        .bind(sums.values().map(|more| signed(*more)).collect::<Vec<_>>());
    insert.execute(connection).await.map(drop).map_err(failed)
}

pub(super) async fn forget(
    connection: &mut PgConnection,
    ended_before_s: u64,
    max: usize,
) -> Done<usize> {
    let mark = "UPDATE quell.forgotten SET before_s = $1 WHERE before_s < $1";
    let mark = sqlx::query(mark).bind(signed(ended_before_s));
    mark.execute(&mut *connection).await.map_err(failed)?;
    let delete = "DELETE FROM quell.contracts WHERE id IN (
        SELECT id FROM quell.contracts WHERE ends_s < $1
        ORDER BY ends_s, id LIMIT $2 FOR UPDATE SKIP LOCKED)";
    let delete = sqlx::query(delete)
        .bind(signed(ended_before_s))
        .bind(i64::try_from(max).unwrap_or(i64::MAX));
    let deleted = delete.execute(&mut *connection).await.map_err(failed)?;
    let contracts = usize::try_from(deleted.rows_affected()).unwrap_or(usize::MAX);
    let left = max.saturating_sub(contracts);
    let delete = "DELETE FROM quell.invitations WHERE hash IN (
        SELECT hash FROM quell.invitations WHERE expires_s < $1
        ORDER BY hash LIMIT $2 FOR UPDATE SKIP LOCKED)";
    let delete = sqlx::query(delete)
        .bind(signed(ended_before_s))
        .bind(i64::try_from(left).unwrap_or(i64::MAX));
    let deleted = delete.execute(connection).await.map_err(failed)?;
    let invitations = usize::try_from(deleted.rows_affected()).unwrap_or(usize::MAX);
    Ok(contracts.saturating_add(invitations))
}
