//! Who comes in, and whether who asks may.
//!
//! The key that signs a request is the account. Enrolling it costs one use of an invitation, once: the same key again gets
//! its account as it was, whatever else the request says, so that an answer that was lost costs nothing.

use std::net::{Ipv6Addr, SocketAddr};

use quell_wire::key::PublicKey;

use super::Service;
use super::invitation::InvitationText;
use super::refuse::{ServiceError, refusal};
use crate::api::{
    ADDRESSES_MAX, EnrolAnswer, EnrolRequest, HeartbeatAnswer, HeartbeatRequest, NAME_CHARS_MAX,
    Refusal, RefusalCode, Role,
};
use crate::store::{Account, Redeemed, is_later};

/// Longest address, in bytes: a DNS name (RFC 1035 §2.3.4), a colon and a port.
const ADDRESS_BYTES_MAX: usize = 253 + 6;

impl Service {
    /// Enrols the key that signed the request.
    ///
    /// # Errors
    /// A refusal: `Malformed`, `Invitation`, `WrongRole` or `Banned`; or the store's.
    pub async fn enrol(
        &self,
        who: PublicKey,
        request: &EnrolRequest,
        now_s: u64,
    ) -> Result<EnrolAnswer, ServiceError> {
        check_name(&request.name)?;
        check_addresses(&request.addresses)?;
        let invalid = || {
            let words = "the invitation is none, was used up, or has expired";
            refusal(RefusalCode::Invitation, words)
        };
        let text = InvitationText::parse(&request.invitation).ok_or_else(invalid)?;
        let account = Account {
            key: who,
            role: Role::Client,
            name: request.name.clone(),
            addresses: request.addresses.clone(),
            enrolled_s: now_s,
            is_banned: false,
            quota_bytes: None,
            settled_bytes: 0,
            heartbeat_s: 0,
        };
        match self.store.redeem(text.hash(), account, now_s).await? {
            Redeemed::Enrolled(account) if account.is_banned => Err(banned().into()),
            Redeemed::Enrolled(account) => Ok(EnrolAnswer {
                role: account.role,
                name: account.name,
                trusted_keys: self.keys.trusted_texts(),
            }),
            Redeemed::Invalid => Err(invalid().into()),
            Redeemed::WrongRole => {
                let words = "the key is enrolled already, in the other role";
                Err(refusal(RefusalCode::WrongRole, words).into())
            }
        }
    }

    /// The account of who asks, if it may ask as `role`.
    ///
    /// # Errors
    /// A refusal: `Unknown`, `Banned` or `WrongRole`; or the store's.
    pub async fn admit(&self, who: PublicKey, role: Role) -> Result<Account, ServiceError> {
        let Some(account) = self.store.account(who).await? else {
            return Err(refusal(RefusalCode::Unknown, "the key is not enrolled").into());
        };
        if account.is_banned {
            return Err(banned().into());
        }
        if account.role != role {
            let words = match role {
                Role::Client => "this is asked by clients, the key is a provider's",
                Role::Provider => "this is asked by providers, the key is a client's",
            };
            return Err(refusal(RefusalCode::WrongRole, words).into());
        }
        Ok(account)
    }

    /// Writes that a provider lives, and where. What there is to answer is known to who watches providers, see
    /// [`Self::heartbeat_answer`].
    ///
    /// # Errors
    /// A refusal: `Malformed`, `Unknown`, `Banned` or `WrongRole`; or the store's.
    pub async fn heartbeat(
        &self,
        who: PublicKey,
        request: &HeartbeatRequest,
        now_s: u64,
    ) -> Result<Account, ServiceError> {
        check_addresses(&request.addresses)?;
        if request.addresses.is_empty() {
            let words = "a provider without an address cannot be reached";
            return Err(refusal(RefusalCode::Malformed, words).into());
        }
        let mut account = self.admit(who, Role::Provider).await?;
        let addresses = request.addresses.clone();
        self.store.heartbeat(who, addresses, now_s).await?;
        if is_later(account.heartbeat_s, now_s) {
            account.heartbeat_s = now_s;
            account.addresses.clone_from(&request.addresses);
        }
        Ok(account)
    }

    /// The answer to a heartbeat.
    #[must_use]
    pub fn heartbeat_answer(&self, in_service: bool, reason: String) -> HeartbeatAnswer {
        let next_s = self.config.heartbeat_interval.as_secs();
        HeartbeatAnswer {
            trusted_keys: self.keys.trusted_texts(),
            in_service,
            reason,
            next_s: u32::try_from(next_s).unwrap_or(u32::MAX),
        }
    }
}

fn banned() -> Refusal {
    refusal(RefusalCode::Banned, "the account is banned")
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let chars = name.chars().take(NAME_CHARS_MAX + 1).count();
    if (1..=NAME_CHARS_MAX).contains(&chars) && !name.contains(char::is_control) {
        return Ok(());
    }
    let words = format!("a name has 1 to {NAME_CHARS_MAX} characters, none a control character");
    Err(refusal(RefusalCode::Malformed, words))
}

fn check_addresses(addresses: &[String]) -> Result<(), Refusal> {
    if addresses.len() > ADDRESSES_MAX {
        let words = format!("{ADDRESSES_MAX} addresses are the most");
        return Err(refusal(RefusalCode::Limit, words));
    }
    if addresses.iter().all(|address| is_address(address)) {
        return Ok(());
    }
    let words = "an address is `host:port`, with the port in 1 to 65535";
    Err(refusal(RefusalCode::Malformed, words))
}

fn is_address(text: &str) -> bool {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return address.port() != 0;
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    // A DNS name (RFC 1123 §2.1), as far as its characters go; `::1:443` would be another thing to each reader.
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.len() <= ADDRESS_BYTES_MAX
        && !host.is_empty()
        && host.bytes().all(is_name_byte)
        && host.parse::<Ipv6Addr>().is_err()
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port != 0)
}
