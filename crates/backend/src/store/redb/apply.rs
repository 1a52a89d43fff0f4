//! Each change of the store, as steps within a transaction that someone else begins and commits.
//!
//! A step reads what it decides by within the same transaction, so that there is nothing to race with: redb has one
//! writer. An error from here aborts the whole transaction, with whatever else was in it.

use quell_wire::contract::{ContractId, SignedContract};
use quell_wire::key::PublicKey;
use redb::ReadableTable;

use super::failed;
use super::tables::{
    FORGOTTEN_NAME, Record, Tables, decode_account, decode_invitation, encode_account,
    encode_invitation, ends_key, id_of_ends, open_key,
};
use crate::api::Role;
use crate::store::{
    Account, Invitation, Issued, NewContract, Redeemed, Settled, Settlement, StoreError, is_later,
};

type Done<T> = Result<T, StoreError>;

pub(super) fn invite(tables: &mut Tables<'_>, invitation: &Invitation) -> Done<()> {
    let known = tables.invitations.get(&invitation.hash).map_err(failed)?;
    if known.is_some() {
        return Ok(());
    }
    drop(known);
    put_invitation(tables, invitation)
}

fn put_invitation(tables: &mut Tables<'_>, invitation: &Invitation) -> Done<()> {
    let value = encode_invitation(invitation)?;
    let put = tables
        .invitations
        .insert(&invitation.hash, value.as_slice());
    put.map(drop).map_err(failed)
}

pub(super) fn redeem(
    tables: &mut Tables<'_>,
    hash: [u8; 32],
    account: &Account,
    now_s: u64,
) -> Done<Redeemed> {
    let Some(mut invitation) = invitation(tables, hash)? else {
        return Ok(Redeemed::Invalid);
    };
    if let Some(known) = self::account(tables, account.key)? {
        return Ok(if known.role == invitation.role {
            Redeemed::Enrolled(known)
        } else {
            Redeemed::WrongRole
        });
    }
    if now_s >= invitation.expires_s {
        return Ok(Redeemed::Invalid);
    }
    let Some(uses_left) = invitation.uses_left.checked_sub(1) else {
        return Ok(Redeemed::Invalid);
    };
    invitation.uses_left = uses_left;
    put_invitation(tables, &invitation)?;
    let account = invitation.account(account, sum(tables, account.key)?);
    put_account(tables, &account)?;
    Ok(Redeemed::Enrolled(account))
}

fn invitation(tables: &Tables<'_>, hash: [u8; 32]) -> Done<Option<Invitation>> {
    let value = tables.invitations.get(&hash).map_err(failed)?;
    value
        .map(|value| decode_invitation(hash, value.value()))
        .transpose()
}

fn sum(tables: &Tables<'_>, key: PublicKey) -> Done<u64> {
    let value = tables.sums.get(&key.0).map_err(failed)?;
    Ok(value.map_or(0, |value| value.value()))
}

fn account(tables: &Tables<'_>, key: PublicKey) -> Done<Option<Account>> {
    let settled_bytes = sum(tables, key)?;
    let value = tables.accounts.get(&key.0).map_err(failed)?;
    value
        .map(|value| decode_account(key, settled_bytes, value.value()))
        .transpose()
}

fn put_account(tables: &mut Tables<'_>, account: &Account) -> Done<()> {
    let value = encode_account(account)?;
    let put = tables.accounts.insert(&account.key.0, value.as_slice());
    put.map(drop).map_err(failed)
}

/// Changes an account, and says whether there is one.
pub(super) fn change(
    tables: &mut Tables<'_>,
    key: PublicKey,
    change: impl FnOnce(&mut Account),
) -> Done<bool> {
    let Some(mut account) = account(tables, key)? else {
        return Ok(false);
    };
    change(&mut account);
    put_account(tables, &account)?;
    Ok(true)
}

pub(super) fn issue(
    tables: &mut Tables<'_>,
    key: PublicKey,
    contracts: &[NewContract],
    now_s: u64,
) -> Done<Vec<Issued>> {
    let account = account(tables, key)?;
    let mut left = match account {
        // Who is not enrolled has no allowance.
        None => Some(0),
        Some(Account {
            quota_bytes: None, ..
        }) => None,
        Some(Account {
            quota_bytes: Some(quota),
            settled_bytes,
            ..
        }) => {
            let taken = settled_bytes.saturating_add(reserved(tables, key, now_s)?);
            Some(quota.saturating_sub(taken))
        }
    };
    let mut outcomes = Vec::with_capacity(contracts.len());
    for contract in contracts {
        if let Some(known) = record(tables, contract.id)? {
            outcomes.push(Issued::Kept(known.form));
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
        let record = Record {
            account: Some(key),
            provider: contract.provider,
            allowed,
            ends_s: contract.ends_s,
            settled: 0,
            form: contract.form,
            receipt: None,
        };
        put_record(tables, contract.id, &record)?;
        outcomes.push(Issued::Kept(contract.form));
    }
    Ok(outcomes)
}

/// What the account's contracts that have not ended may still cost it, in bytes.
fn reserved(tables: &Tables<'_>, account: PublicKey, now_s: u64) -> Done<u64> {
    let from = open_key(account, now_s.saturating_add(1), ContractId([0; 16]));
    let to = open_key(account, u64::MAX, ContractId([u8::MAX; 16]));
    let mut sum = 0u64;
    for entry in tables
        .open
        .range::<&[u8; 56]>(&from..=&to)
        .map_err(failed)?
    {
        sum = sum.saturating_add(entry.map_err(failed)?.1.value());
    }
    Ok(sum)
}

fn record(tables: &Tables<'_>, id: ContractId) -> Done<Option<Record>> {
    let value = tables.contracts.get(&id.0).map_err(failed)?;
    value.map(|value| Record::decode(value.value())).transpose()
}

/// Writes a contract and what follows from it in the other tables; its account and its end do not change.
fn put_record(tables: &mut Tables<'_>, id: ContractId, record: &Record) -> Done<()> {
    let value = record.encode();
    tables
        .contracts
        .insert(&id.0, value.as_slice())
        .map_err(failed)?;
    tables
        .ends
        .insert(&ends_key(record.ends_s, id), ())
        .map_err(failed)?;
    if let Some(account) = record.account {
        let key = open_key(account, record.ends_s, id);
        match record.reserved() {
            0 => tables.open.remove(&key).map_err(failed)?,
            reserved => tables.open.insert(&key, reserved).map_err(failed)?,
        };
    }
    Ok(())
}

pub(super) fn settle(tables: &mut Tables<'_>, settlements: &[Settlement]) -> Done<Vec<Settled>> {
    settlements
        .iter()
        .map(|settlement| settle_one(tables, settlement))
        .collect()
}

fn settle_one(tables: &mut Tables<'_>, settlement: &Settlement) -> Done<Settled> {
    let id = settlement.contract;
    let known = match record(tables, id)? {
        Some(known) => Some(known),
        None => proven(tables, settlement)?,
    };
    let Some(mut record) = known else {
        return Ok(Settled::Unknown);
    };
    let more = settlement.bytes_total.saturating_sub(record.settled);
    if more > 0 {
        record.settled = settlement.bytes_total;
        record.receipt = Some(settlement.form);
        put_record(tables, id, &record)?;
        credit(tables, record.provider, more)?;
        if let Some(account) = record.account {
            credit(tables, account, more)?;
        }
    }
    Ok(Settled::Total(record.settled))
}

/// The record of a contract that is not kept, by its own word; none when it may have been forgotten, since then its
/// receipts may have been counted.
fn proven(tables: &Tables<'_>, settlement: &Settlement) -> Done<Option<Record>> {
    let forgotten = tables.meta.get(FORGOTTEN_NAME).map_err(failed)?;
    let forgotten_before_s = forgotten.map_or(0, |value| value.value());
    let Ok(contract) = SignedContract::decode(&settlement.contract_form) else {
        return Ok(None);
    };
    let terms = contract.terms;
    let ends_s = terms.not_after_s.saturating_add(u64::from(terms.grace_s));
    Ok((ends_s >= forgotten_before_s).then_some(Record {
        account: None,
        provider: settlement.provider,
        allowed: terms.bytes.saturating_add(terms.grace_bytes),
        ends_s,
        settled: 0,
        form: settlement.contract_form,
        receipt: None,
    }))
}

fn credit(tables: &mut Tables<'_>, key: PublicKey, bytes: u64) -> Done<()> {
    let sum = sum(tables, key)?.saturating_add(bytes);
    tables.sums.insert(&key.0, sum).map(drop).map_err(failed)
}

pub(super) fn forget(tables: &mut Tables<'_>, ended_before_s: u64, max: usize) -> Done<usize> {
    let forgotten = tables.meta.get(FORGOTTEN_NAME).map_err(failed)?;
    let before_s = forgotten.map_or(0, |value| value.value());
    if ended_before_s > before_s {
        tables
            .meta
            .insert(FORGOTTEN_NAME, ended_before_s)
            .map_err(failed)?;
    }
    let until = ends_key(ended_before_s, ContractId([0; 16]));
    let ended = tables
        .ends
        .range::<&[u8; 24]>(..&until)
        .map_err(failed)?
        .take(max);
    let ended = ended.map(|entry| entry.map(|(key, _)| *key.value()));
    let ended = ended.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    for key in &ended {
        let id = id_of_ends(key);
        if let Some(record) = record(tables, id)?
            && let Some(account) = record.account
        {
            let key = open_key(account, record.ends_s, id);
            tables.open.remove(&key).map_err(failed)?;
        }
        tables.contracts.remove(&id.0).map_err(failed)?;
        tables.ends.remove(key).map_err(failed)?;
    }
    let invitations = forget_invitations(tables, ended_before_s, max.saturating_sub(ended.len()))?;
    Ok(ended.len() + invitations)
}

/// Looks at all of them: an operator made each, so that there are few beside contracts. One that cannot be read stays,
/// so that who redeems it is told.
fn forget_invitations(tables: &mut Tables<'_>, before_s: u64, max: usize) -> Done<usize> {
    let mut expired = Vec::new();
    for entry in tables.invitations.iter().map_err(failed)? {
        if expired.len() >= max {
            break;
        }
        let (hash, value) = entry.map_err(failed)?;
        let invitation = decode_invitation(*hash.value(), value.value());
        if invitation.is_ok_and(|invitation| invitation.expires_s < before_s) {
            expired.push(*hash.value());
        }
    }
    for hash in &expired {
        tables.invitations.remove(hash).map_err(failed)?;
    }
    Ok(expired.len())
}

/// Writes that a provider lives; what comes late changes nothing.
pub(super) fn heartbeat(account: &mut Account, addresses: &[String], now_s: u64) {
    if account.role == Role::Provider && is_later(account.heartbeat_s, now_s) {
        account.heartbeat_s = now_s;
        account.addresses = addresses.to_vec();
    }
}
