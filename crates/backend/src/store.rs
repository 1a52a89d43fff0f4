//! What the reference server keeps, and what happens to it at once or not at all.
//!
//! Each method of [`Store`] is one transaction: when its future answers `Ok`, the change is durable, and when the
//! process or the database dies before, nothing of it is there. Each may be repeated with the same arguments and then
//! answers the same (an answer that was lost on the way is the normal case of a distributed system). A store decides
//! nothing but what needs the transaction: whether an invitation is left, whether a quota still has room, which total
//! is the higher one. Signatures, times and roles were judged before.
//!
//! Two stores: redb in a file, for one server without set-up (feature `server`), and PostgreSQL, for any number of them
//! (feature `postgres`). Both are asked the same questions by one suite.
//!
//! Nothing here says when a client was where: a contract names a fresh key, its account, a provider and sums. Flows,
//! addresses of clients and packets have no place in it.

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "server")]
pub mod redb;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;

use quell_wire::contract::{CONTRACT_LEN, ContractId, RECEIPT_LEN};
use quell_wire::key::PublicKey;

use crate::api::Role;

/// How far the time of a heartbeat may lie ahead of the next one's, in seconds. Replicas' clocks differ by less; a time
/// that lies further ahead was written by a clock that was wrong, and is to hold up no later word of its provider.
pub const HEARTBEAT_AHEAD_MAX_S: u64 = 600;

/// Why a store gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database failed, or is not there. What was asked may have happened or not; it may be asked again.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// What lies in it cannot be read: another version, or damaged.
    #[error("the store holds what cannot be read: {0}")]
    Damaged(String),
}

/// An answer to come.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// What is kept of an invitation: never its text, so that who reads the database cannot enrol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// SHA-256 of the text.
    pub hash: [u8; 32],
    /// What it is for.
    pub role: Role,
    /// How many keys may still enrol with it.
    pub uses_left: u32,
    /// Until when, in seconds since 1970 UTC.
    pub expires_s: u64,
    /// The allowance of accounts that it makes, in bytes; none for no bound.
    pub quota_bytes: Option<u64>,
}

/// Who is enrolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The key, which is the account.
    pub key: PublicKey,
    /// What it is for.
    pub role: Role,
    /// What people call it.
    pub name: String,
    /// Of a provider: where it is reached.
    pub addresses: Vec<String>,
    /// When it was enrolled, in seconds since 1970 UTC.
    pub enrolled_s: u64,
    /// It is refused everything.
    pub is_banned: bool,
    /// The allowance in bytes; none for no bound.
    pub quota_bytes: Option<u64>,
    /// Bytes of settled receipts, in all: of a client what it had, of a provider what it carried. Never falls.
    pub settled_bytes: u64,
    /// Of a provider: when it last said that it lives, in seconds since 1970 UTC; 0 for never.
    pub heartbeat_s: u64,
}

impl Invitation {
    /// The account that a first redemption makes of what was asked for: what it may is the invitation's word.
    #[cfg(feature = "server")]
    fn account(&self, asked: &Account, settled_bytes: u64) -> Account {
        Account {
            key: asked.key,
            role: self.role,
            name: asked.name.clone(),
            addresses: match self.role {
                Role::Client => Vec::new(),
                Role::Provider => asked.addresses.clone(),
            },
            enrolled_s: asked.enrolled_s,
            is_banned: false,
            quota_bytes: self.quota_bytes,
            settled_bytes,
            heartbeat_s: 0,
        }
    }
}

/// Whether a heartbeat of `now_s` comes after the one that is known.
#[cfg(feature = "server")]
pub(crate) fn is_later(known_s: u64, now_s: u64) -> bool {
    now_s >= known_s || known_s - now_s > HEARTBEAT_AHEAD_MAX_S
}

/// How a redemption ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redeemed {
    /// The account, made now or by the same key before.
    Enrolled(Account),
    /// No such invitation, none left of it, or its time is over.
    Invalid,
    /// The key is enrolled already in another role.
    WrongRole,
}

/// A contract as it is to be kept: signed already, but not given out before the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewContract {
    /// Which.
    pub id: ContractId,
    /// For which provider.
    pub provider: PublicKey,
    /// How many bytes it allows, grace not counted.
    pub bytes: u64,
    /// How many more in grace.
    pub grace_bytes: u64,
    /// When it ends, grace included, in seconds since 1970 UTC. From then on what was not settled is not reserved any
    /// longer; a receipt may still come.
    pub ends_s: u64,
    /// The signed form.
    pub form: [u8; CONTRACT_LEN],
}

/// What became of a contract that was to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Issued {
    /// It is kept: this form, which is an earlier one when the same id was issued before.
    Kept([u8; CONTRACT_LEN]),
    /// The account's allowance has no room for it.
    Quota {
        /// What is left of the allowance, in bytes.
        left_bytes: u64,
    },
}

/// A receipt whose signatures hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Under which contract.
    pub contract: ContractId,
    /// By which provider, who files it.
    pub provider: PublicKey,
    /// Bytes in all under the contract.
    pub bytes_total: u64,
    /// The signed form, kept as the proof until its retention is over.
    pub form: [u8; RECEIPT_LEN],
    /// The contract's signed form, from which the record is made again when it is not there (a restored database).
    pub contract_form: [u8; CONTRACT_LEN],
}

/// What became of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The contract's total now, durable: this receipt's or that of a higher one from before.
    Total(u64),
    /// No such contract is kept, and its retention is over.
    Unknown,
}

/// What the reference server keeps.
pub trait Store: Send + Sync + 'static {
    /// Adds an invitation. One with the same hash is left as it is.
    fn invite(&self, invitation: Invitation) -> Answer<'_, ()>;

    /// Takes one use of an invitation and makes the account. A key that redeemed before gets its account again, and
    /// takes no use. The account's role and allowance are the invitation's word, whatever `account` says.
    fn redeem(&self, hash: [u8; 32], account: Account, now_s: u64) -> Answer<'_, Redeemed>;

    /// The account of a key.
    fn account(&self, key: PublicKey) -> Answer<'_, Option<Account>>;

    /// Accounts in the order of their keys, after one, at most `max`.
    fn accounts(&self, after: Option<PublicKey>, max: usize) -> Answer<'_, Vec<Account>>;

    /// Bans an account, or lifts the ban. False when there is none.
    fn set_banned(&self, key: PublicKey, is_banned: bool) -> Answer<'_, bool>;

    /// Changes an allowance. False when there is no such account.
    fn set_quota(&self, key: PublicKey, quota_bytes: Option<u64>) -> Answer<'_, bool>;

    /// Writes that a provider lives, and where. Times never go back, and one that comes late changes nothing, unless the
    /// time that is known lies more than [`HEARTBEAT_AHEAD_MAX_S`] ahead; a client has neither. False when there is no
    /// such account.
    fn heartbeat(&self, key: PublicKey, addresses: Vec<String>, now_s: u64) -> Answer<'_, bool>;

    /// Keeps contracts of an account, each if the allowance has room for it: what is settled, what unsettled contracts
    /// that have not ended reserve, and this one's bytes and grace together do not exceed it.
    fn issue(
        &self,
        account: PublicKey,
        contracts: Vec<NewContract>,
        now_s: u64,
    ) -> Answer<'_, Vec<Issued>>;

    /// Raises totals to what receipts say, and the sums of both accounts by the difference. Exactly once in effect:
    /// a receipt that comes again, or late, changes nothing.
    ///
    /// A contract that is not kept is proven by its signed form: the provider is credited, and the contract kept, with no
    /// account, since its form does not say whose it was. That is a store that was restored from an old copy. Only when it
    /// ended before what was ever asked to be forgotten it is [`Settled::Unknown`]: its receipts may have been counted.
    fn settle(&self, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>>;

    /// Whether the account has a contract of which anything was settled, which is what grace is given on.
    fn has_settled(&self, account: PublicKey) -> Answer<'_, bool>;

    /// Forgets contracts and their receipts that ended before `ended_before_s`, and then invitations that expired before
    /// it, at most `max` in all; accounts and their sums stay. How many went.
    fn forget(&self, ended_before_s: u64, max: usize) -> Answer<'_, usize>;
}
