//! What lies in the file: its tables, and the form of each value.
//!
//! ```text
//! meta         name                      -> number              version of all this; up to where was forgotten
//! invitations  SHA-256 of the text       -> CBOR
//! accounts     key                       -> CBOR
//! sums         key                       -> bytes settled       apart from accounts: each receipt writes two of them
//! contracts    id                        -> fixed form, below
//! open         account ‖ ends ‖ id       -> bytes reserved      what a quota has to count, found by account
//! ends         ends ‖ id                 -> ()                  what is to be forgotten, found by time
//! ```
//!
//! Numbers in keys are big-endian, so that their order is that of the keys. `open` and `ends` follow from `contracts` and
//! are changed in the same transactions. A value begins with its own version: one that is not known, or that does not
//! parse, is damage, and is said to be (`StoreError::Damaged`).

use minicbor::{Decoder, Encoder};
use quell_wire::contract::{CONTRACT_LEN, ContractId, RECEIPT_LEN};
use quell_wire::key::PublicKey;
use redb::{Table, TableDefinition, TableError, WriteTransaction};

use crate::api::Role;
use crate::store::{Account, Invitation, StoreError};

/// The version of the tables; a file of another one is refused.
pub(super) const VERSION: u64 = 1;
/// Where `meta` keeps [`VERSION`].
pub(super) const VERSION_NAME: &str = "version";
/// Where `meta` keeps up to which end contracts were forgotten, in seconds since 1970 UTC.
pub(super) const FORGOTTEN_NAME: &str = "forgotten_before_s";

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const INVITATIONS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("invitations");
pub(super) const ACCOUNTS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("accounts");
pub(super) const SUMS: TableDefinition<'_, &[u8; 32], u64> = TableDefinition::new("sums");
const CONTRACTS: TableDefinition<'_, &[u8; 16], &[u8]> = TableDefinition::new("contracts");
const OPEN: TableDefinition<'_, &[u8; OPEN_LEN], u64> = TableDefinition::new("open");
const ENDS: TableDefinition<'_, &[u8; ENDS_LEN], ()> = TableDefinition::new("ends");

const OPEN_LEN: usize = 32 + 8 + 16;
const ENDS_LEN: usize = 8 + 16;

/// All tables, open within one transaction.
pub(super) struct Tables<'t> {
    pub(super) meta: Table<'t, &'static str, u64>,
    pub(super) invitations: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub(super) accounts: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub(super) sums: Table<'t, &'static [u8; 32], u64>,
    pub(super) contracts: Table<'t, &'static [u8; 16], &'static [u8]>,
    pub(super) open: Table<'t, &'static [u8; OPEN_LEN], u64>,
    pub(super) ends: Table<'t, &'static [u8; ENDS_LEN], ()>,
}

impl<'t> Tables<'t> {
    /// Opens all, making those that are not there.
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, TableError> {
        Ok(Self {
            meta: transaction.open_table(META)?,
            invitations: transaction.open_table(INVITATIONS)?,
            accounts: transaction.open_table(ACCOUNTS)?,
            sums: transaction.open_table(SUMS)?,
            contracts: transaction.open_table(CONTRACTS)?,
            open: transaction.open_table(OPEN)?,
            ends: transaction.open_table(ENDS)?,
        })
    }
}

/// A contract as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Who pays; none when the contract is known by its receipt alone.
    pub(super) account: Option<PublicKey>,
    /// Who is paid.
    pub(super) provider: PublicKey,
    /// What it allows, grace included, in bytes.
    pub(super) allowed: u64,
    /// When it ends, in seconds since 1970 UTC.
    pub(super) ends_s: u64,
    /// What receipts say was had, in bytes.
    pub(super) settled: u64,
    /// The signed contract.
    pub(super) form: [u8; CONTRACT_LEN],
    /// The signed receipt behind `settled`.
    pub(super) receipt: Option<[u8; RECEIPT_LEN]>,
}

const RECORD_VERSION: u8 = 1;
const HAS_ACCOUNT: u8 = 1;
const HAS_RECEIPT: u8 = 2;
const RECORD_LEN: usize = 2 + 32 + 32 + 8 + 8 + 8 + CONTRACT_LEN + RECEIPT_LEN;

impl Record {
    /// What it takes from the quota of its account while it has not ended.
    pub(super) fn reserved(&self) -> u64 {
        self.allowed.saturating_sub(self.settled)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_LEN);
        let account = self.account.map_or(0, |_| HAS_ACCOUNT);
        let receipt = self.receipt.map_or(0, |_| HAS_RECEIPT);
        out.extend([RECORD_VERSION, account | receipt]);
        out.extend(self.account.map_or([0; 32], |key| key.0));
        out.extend(self.provider.0);
        out.extend(self.allowed.to_be_bytes());
        out.extend(self.ends_s.to_be_bytes());
        out.extend(self.settled.to_be_bytes());
        out.extend(self.form);
        out.extend(self.receipt.unwrap_or([0; RECEIPT_LEN]));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("a contract's record is none".into());
        let (&[version, flags], mut rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        if version != RECORD_VERSION || bytes.len() != RECORD_LEN {
            return Err(damaged());
        }
        let account = take(&mut rest).ok_or_else(damaged)?;
        let provider = PublicKey(take(&mut rest).ok_or_else(damaged)?);
        let allowed = u64::from_be_bytes(take(&mut rest).ok_or_else(damaged)?);
        let ends_s = u64::from_be_bytes(take(&mut rest).ok_or_else(damaged)?);
        let settled = u64::from_be_bytes(take(&mut rest).ok_or_else(damaged)?);
        let form = take(&mut rest).ok_or_else(damaged)?;
        let receipt = take(&mut rest).ok_or_else(damaged)?;
        Ok(Self {
            account: (flags & HAS_ACCOUNT != 0).then_some(PublicKey(account)),
            provider,
            allowed,
            ends_s,
            settled,
            form,
            receipt: (flags & HAS_RECEIPT != 0).then_some(receipt),
        })
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*head)
}

/// A key of `open`.
pub(super) fn open_key(account: PublicKey, ends_s: u64, id: ContractId) -> [u8; OPEN_LEN] {
    let bytes = account.0.into_iter().chain(ends_s.to_be_bytes());
    joined(bytes.chain(id.0))
}

/// A key of `ends`.
pub(super) fn ends_key(ends_s: u64, id: ContractId) -> [u8; ENDS_LEN] {
    joined(ends_s.to_be_bytes().into_iter().chain(id.0))
}

/// The contract that a key of `ends` names.
pub(super) fn id_of_ends(key: &[u8; ENDS_LEN]) -> ContractId {
    let mut id = [0; 16];
    id.iter_mut()
        .zip(key.iter().skip(8))
        .for_each(|(to, from)| *to = *from);
    ContractId(id)
}

fn joined<const N: usize>(bytes: impl Iterator<Item = u8>) -> [u8; N] {
    let mut out = [0; N];
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    out
}

const CBOR_VERSION: u8 = 1;
type Encoded = Result<(), minicbor::encode::Error<std::convert::Infallible>>;
type Decoded<T> = Result<T, minicbor::decode::Error>;

fn cbor(write: impl FnOnce(&mut Encoder<Vec<u8>>) -> Encoded) -> Result<Vec<u8>, StoreError> {
    let mut out = Encoder::new(Vec::new());
    // Writing to memory does not fail.
    write(&mut out).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(out.into_writer())
}

fn put_role(out: &mut Encoder<Vec<u8>>, role: Role) -> Encoded {
    out.u8(match role {
        Role::Client => 0,
        Role::Provider => 1,
    })?;
    Ok(())
}

fn take_role(from: &mut Decoder<'_>) -> Decoded<Role> {
    match from.u8()? {
        0 => Ok(Role::Client),
        1 => Ok(Role::Provider),
        _ => Err(minicbor::decode::Error::message("no such role")),
    }
}

fn put_quota(out: &mut Encoder<Vec<u8>>, quota: Option<u64>) -> Encoded {
    match quota {
        Some(bytes) => out.u64(bytes)?,
        None => out.null()?,
    };
    Ok(())
}

fn take_quota(from: &mut Decoder<'_>) -> Decoded<Option<u64>> {
    if from.datatype()? == minicbor::data::Type::Null {
        from.null()?;
        return Ok(None);
    }
    from.u64().map(Some)
}

fn take_version(from: &mut Decoder<'_>, fields: u64) -> Decoded<()> {
    let found = (from.array()?, from.u8()?);
    if found != (Some(fields), CBOR_VERSION) {
        return Err(minicbor::decode::Error::message("another version"));
    }
    Ok(())
}

pub(super) fn encode_invitation(invitation: &Invitation) -> Result<Vec<u8>, StoreError> {
    cbor(|out| {
        out.array(5)?.u8(CBOR_VERSION)?;
        put_role(out, invitation.role)?;
        out.u32(invitation.uses_left)?.u64(invitation.expires_s)?;
        put_quota(out, invitation.quota_bytes)
    })
}

pub(super) fn decode_invitation(hash: [u8; 32], bytes: &[u8]) -> Result<Invitation, StoreError> {
    let read = |from: &mut Decoder<'_>| {
        take_version(from, 5)?;
        Ok(Invitation {
            hash,
            role: take_role(from)?,
            uses_left: from.u32()?,
            expires_s: from.u64()?,
            quota_bytes: take_quota(from)?,
        })
    };
    read(&mut Decoder::new(bytes)).map_err(|error: minicbor::decode::Error| {
        StoreError::Damaged(format!("an invitation: {error}"))
    })
}

/// All of an account but its sum.
pub(super) fn encode_account(account: &Account) -> Result<Vec<u8>, StoreError> {
    cbor(|out| {
        out.array(8)?.u8(CBOR_VERSION)?;
        put_role(out, account.role)?;
        out.str(&account.name)?;
        out.array(account.addresses.len() as u64)?;
        for address in &account.addresses {
            out.str(address)?;
        }
        out.u64(account.enrolled_s)?.bool(account.is_banned)?;
        put_quota(out, account.quota_bytes)?;
        out.u64(account.heartbeat_s)?;
        Ok(())
    })
}

pub(super) fn decode_account(
    key: PublicKey,
    settled_bytes: u64,
    bytes: &[u8],
) -> Result<Account, StoreError> {
    let read = |from: &mut Decoder<'_>| {
        take_version(from, 8)?;
        let role = take_role(from)?;
        let name = from.str()?.to_owned();
        let addresses = from.array_iter::<&str>()?;
        let addresses = addresses
            .map(|a| a.map(str::to_owned))
            .collect::<Result<_, _>>()?;
        Ok(Account {
            key,
            role,
            name,
            addresses,
            enrolled_s: from.u64()?,
            is_banned: from.bool()?,
            quota_bytes: take_quota(from)?,
            settled_bytes,
            heartbeat_s: from.u64()?,
        })
    };
    read(&mut Decoder::new(bytes)).map_err(|error: minicbor::decode::Error| {
        StoreError::Damaged(format!("an account: {error}"))
    })
}
