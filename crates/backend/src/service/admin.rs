//! What the operator may do: invite, ban, set allowances, look; and forgetting, which nobody asks for.
//!
//! A ban holds from the next request on. Contracts that were given out before stay good until they end, since providers
//! verify them offline; what a banned account can still use is bounded by their bytes and life.

use quell_wire::key::PublicKey;

use super::Service;
use super::invitation::InvitationText;
use super::refuse::{ServiceError, refusal};
use crate::api::{RefusalCode, Role};
use crate::store::{Account, Invitation};

/// Most uses of one invitation.
pub const INVITATION_USES_MAX: u32 = 1_000_000;
/// Largest allowance that is not none: 1 EiB.
pub const QUOTA_BYTES_MAX: u64 = 1 << 60;
/// Most accounts in one list.
pub const ACCOUNTS_MAX: usize = 1_000;
/// Contracts that are forgotten in one transaction: it holds up others for milliseconds.
const FORGOTTEN_AT_ONCE: usize = 512;
/// Transactions of one call; the rest goes at the next.
const FORGET_ROUNDS_MAX: usize = 64;

/// What an invitation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvitationPlan {
    /// The role of who enrols.
    pub role: Role,
    /// How many keys may; 1 to [`INVITATION_USES_MAX`].
    pub uses: u32,
    /// For how many seconds from now on.
    pub lasts_s: u64,
    /// The allowance of each account, in bytes; none for no bound.
    pub quota_bytes: Option<u64>,
}

impl Service {
    /// Makes a drawn text an invitation.
    ///
    /// # Errors
    /// A refusal, `Limit`, when the plan is out of its bounds; or the store's.
    pub async fn invite(
        &self,
        text: &InvitationText,
        plan: InvitationPlan,
        now_s: u64,
    ) -> Result<(), ServiceError> {
        if !(1..=INVITATION_USES_MAX).contains(&plan.uses) {
            let words = format!("an invitation has 1 to {INVITATION_USES_MAX} uses");
            return Err(refusal(RefusalCode::Limit, words).into());
        }
        check_quota(plan.quota_bytes)?;
        let invitation = Invitation {
            hash: text.hash(),
            role: plan.role,
            uses_left: plan.uses,
            expires_s: now_s.saturating_add(plan.lasts_s),
            quota_bytes: plan.quota_bytes,
        };
        Ok(self.store.invite(invitation).await?)
    }

    /// Bans an account, or lifts the ban.
    ///
    /// # Errors
    /// A refusal, `Unknown`, when there is none; or the store's.
    pub async fn set_banned(&self, key: PublicKey, is_banned: bool) -> Result<(), ServiceError> {
        let found = self.store.set_banned(key, is_banned).await?;
        found_or_unknown(found)
    }

    /// Changes an allowance. One that is less than what was used refuses all further contracts.
    ///
    /// # Errors
    /// A refusal, `Unknown` or `Limit`; or the store's.
    pub async fn set_quota(
        &self,
        key: PublicKey,
        quota_bytes: Option<u64>,
    ) -> Result<(), ServiceError> {
        check_quota(quota_bytes)?;
        let found = self.store.set_quota(key, quota_bytes).await?;
        found_or_unknown(found)
    }

    /// An account with what it used or carried.
    ///
    /// # Errors
    /// A refusal, `Unknown`, when there is none; or the store's.
    pub async fn usage(&self, key: PublicKey) -> Result<Account, ServiceError> {
        let account = self.store.account(key).await?;
        account.ok_or_else(|| unknown().into())
    }

    /// Accounts in the order of their keys, after one, at most `max` and [`ACCOUNTS_MAX`].
    ///
    /// # Errors
    /// The store's.
    pub async fn accounts(
        &self,
        after: Option<PublicKey>,
        max: usize,
    ) -> Result<Vec<Account>, ServiceError> {
        Ok(self.store.accounts(after, max.min(ACCOUNTS_MAX)).await?)
    }

    /// Forgets contracts, receipts and expired invitations whose retention is over. To be called every few minutes; how
    /// many went.
    ///
    /// # Errors
    /// The store's.
    pub async fn forget(&self, now_s: u64) -> Result<usize, ServiceError> {
        let before_s = now_s.saturating_sub(self.config.retention.as_secs());
        let mut forgotten = 0;
        for _ in 0..FORGET_ROUNDS_MAX {
            let went = self.store.forget(before_s, FORGOTTEN_AT_ONCE).await?;
            forgotten += went;
            if went < FORGOTTEN_AT_ONCE {
                break;
            }
        }
        Ok(forgotten)
    }
}

fn unknown() -> crate::api::Refusal {
    refusal(RefusalCode::Unknown, "there is no such account")
}

fn found_or_unknown(found: bool) -> Result<(), ServiceError> {
    found.then_some(()).ok_or_else(|| unknown().into())
}

fn check_quota(quota_bytes: Option<u64>) -> Result<(), ServiceError> {
    if quota_bytes.is_none_or(|bytes| bytes <= QUOTA_BYTES_MAX) {
        return Ok(());
    }
    let words = "an allowance is 2^60 bytes at most, or none";
    Err(refusal(RefusalCode::Limit, words).into())
}
