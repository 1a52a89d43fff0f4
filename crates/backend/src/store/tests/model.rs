//! The rules of a store as plainly as they can be said.

use std::collections::BTreeMap;

use quell_wire::contract::{CONTRACT_LEN, ContractId, SignedContract};
use quell_wire::key::PublicKey;

use crate::api::Role;
use crate::store::{Account, Invitation, Issued, NewContract, Redeemed, Settled, Settlement};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    account: Option<PublicKey>,
    provider: PublicKey,
    allowed: u64,
    ends_s: u64,
    settled: u64,
    form: [u8; CONTRACT_LEN],
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    invitations: BTreeMap<[u8; 32], Invitation>,
    accounts: BTreeMap<PublicKey, Account>,
    sums: BTreeMap<PublicKey, u64>,
    contracts: BTreeMap<ContractId, Kept>,
    forgotten_before_s: u64,
}

impl Model {
    pub(super) fn invite(&mut self, invitation: Invitation) {
        let hash = invitation.hash;
        self.invitations.entry(hash).or_insert(invitation);
    }

    pub(super) fn redeem(&mut self, hash: [u8; 32], account: Account, now_s: u64) -> Redeemed {
        let Some(invitation) = self.invitations.get_mut(&hash) else {
            return Redeemed::Invalid;
        };
        let role = invitation.role;
        if let Some(known) = self.accounts.get(&account.key) {
            return if known.role == role {
                Redeemed::Enrolled(self.account(account.key).unwrap())
            } else {
                Redeemed::WrongRole
            };
        }
        if invitation.uses_left == 0 || invitation.expires_s <= now_s {
            return Redeemed::Invalid;
        }
        invitation.uses_left -= 1;
        let account = Account {
            role,
            quota_bytes: invitation.quota_bytes,
            addresses: if role == Role::Provider {
                account.addresses
            } else {
                vec![]
            },
            ..account
        };
        let key = account.key;
        self.accounts.insert(key, account);
        Redeemed::Enrolled(self.account(key).unwrap())
    }

    pub(super) fn sum(&self, key: PublicKey) -> u64 {
        self.sums.get(&key).copied().unwrap_or(0)
    }

    pub(super) fn account(&self, key: PublicKey) -> Option<Account> {
        let account = self.accounts.get(&key)?.clone();
        Some(Account {
            settled_bytes: self.sum(key),
            ..account
        })
    }

    pub(super) fn accounts(&self) -> Vec<Account> {
        self.accounts
            .keys()
            .map(|key| self.account(*key).unwrap())
            .collect()
    }

    pub(super) fn change(&mut self, key: PublicKey, change: impl FnOnce(&mut Account)) -> bool {
        self.accounts.get_mut(&key).map(change).is_some()
    }

    pub(super) fn heartbeat(&mut self, key: PublicKey, addresses: Vec<String>, now_s: u64) -> bool {
        self.change(key, |account| {
            if account.role == Role::Provider && account.heartbeat_s <= now_s {
                account.heartbeat_s = now_s;
                account.addresses = addresses;
            }
        })
    }

    /// What is left of an allowance.
    fn left(&self, key: PublicKey, now_s: u64) -> Option<u64> {
        let Some(account) = self.accounts.get(&key) else {
            return Some(0);
        };
        let open = self.contracts.values();
        let open = open.filter(|c| c.account == Some(key) && now_s < c.ends_s);
        let reserved: u64 = open.map(|c| c.allowed.saturating_sub(c.settled)).sum();
        Some(
            account
                .quota_bytes?
                .saturating_sub(self.sum(key) + reserved),
        )
    }

    pub(super) fn issue(
        &mut self,
        key: PublicKey,
        contracts: &[NewContract],
        now_s: u64,
    ) -> Vec<Issued> {
        let issue = |contract: &NewContract| {
            if let Some(known) = self.contracts.get(&contract.id) {
                return Issued::Kept(known.form);
            }
            let allowed = contract.bytes + contract.grace_bytes;
            if let Some(left_bytes) = self.left(key, now_s)
                && left_bytes < allowed
            {
                return Issued::Quota { left_bytes };
            }
            let kept = Kept {
                account: Some(key),
                provider: contract.provider,
                allowed,
                ends_s: contract.ends_s,
                settled: 0,
                form: contract.form,
            };
            self.contracts.insert(contract.id, kept);
            Issued::Kept(contract.form)
        };
        contracts.iter().map(issue).collect()
    }

    pub(super) fn settle(&mut self, settlements: &[Settlement]) -> Vec<Settled> {
        settlements
            .iter()
            .map(|settlement| self.settle_one(settlement))
            .collect()
    }

    fn settle_one(&mut self, settlement: &Settlement) -> Settled {
        let terms = SignedContract::decode(&settlement.contract_form)
            .unwrap()
            .terms;
        let ends_s = terms.not_after_s + u64::from(terms.grace_s);
        if !self.contracts.contains_key(&settlement.contract) {
            if ends_s < self.forgotten_before_s {
                return Settled::Unknown;
            }
            if settlement.bytes_total == 0 {
                return Settled::Total(0);
            }
        }
        let kept = self.contracts.entry(settlement.contract).or_insert(Kept {
            account: None,
            provider: settlement.provider,
            allowed: terms.bytes + terms.grace_bytes,
            ends_s,
            settled: 0,
            form: settlement.contract_form,
        });
        let more = settlement.bytes_total.saturating_sub(kept.settled);
        kept.settled += more;
        let total = kept.settled;
        for payee in [Some(kept.provider), kept.account].into_iter().flatten() {
            *self.sums.entry(payee).or_default() += more;
        }
        Settled::Total(total)
    }

    pub(super) fn forget(&mut self, ended_before_s: u64, max: usize) -> usize {
        self.forgotten_before_s = self.forgotten_before_s.max(ended_before_s);
        let mut ended: Vec<_> = self
            .contracts
            .iter()
            .map(|(id, c)| (c.ends_s, *id))
            .collect();
        ended.retain(|(ends_s, _)| *ends_s < ended_before_s);
        ended.sort();
        ended.truncate(max);
        for (_, id) in &ended {
            self.contracts.remove(id);
        }
        let mut expired: Vec<_> = self.invitations.values().collect();
        expired.retain(|invitation| invitation.expires_s < ended_before_s);
        let expired = expired.into_iter().map(|invitation| invitation.hash);
        let expired: Vec<_> = expired.take(max - ended.len()).collect();
        for hash in &expired {
            self.invitations.remove(hash);
        }
        ended.len() + expired.len()
    }
}
