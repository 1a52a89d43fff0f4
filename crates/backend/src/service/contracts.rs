//! Contracts: who gets how many bytes of whom.
//!
//! A want comes with a key binding: the enrolled key's word that a fresh key is its own, for one provider. The contract
//! names the fresh key alone. It is signed before it is kept, and given out after: a contract that was given out is
//! always on the books.
//!
//! A contract's id follows from the account, the request and the place in it. So the same request again finds what the
//! first one made, and takes nothing from the allowance.
//!
//! What an allowance has no room for is tried once more at what is left of it, when that is a contract's least at least:
//! the last bytes of an allowance can be used, too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quell_core::contract::days::taken_days;
use quell_core::contract::seal;
use quell_wire::contract::{
    BindingTerms, ContractId, ContractTerms, SignedBinding, SignedContract,
};
use quell_wire::key::PublicKey;
use sha2::{Digest as _, Sha256};

use super::Service;
use super::refuse::{ServiceError, refusal};
use crate::api::{
    CONTRACTS_MAX, ContractOutcome, ContractWant, ContractsAnswer, ContractsRequest, Refusal,
    RefusalCode, Role,
};
use crate::store::{Issued, NewContract};

/// A want that holds.
#[derive(Clone, Copy)]
struct Wanted {
    /// Its place in the request.
    place: usize,
    id: ContractId,
    binding: BindingTerms,
    bytes: u64,
}

impl Service {
    /// Signs contracts, one outcome for each want. The same request again gives the same contracts.
    ///
    /// # Errors
    /// A refusal of all of it: `Malformed`, `Limit`, `Unknown`, `Banned` or `WrongRole`; or the store's.
    pub async fn contracts(
        &self,
        who: PublicKey,
        request: &ContractsRequest,
        now_s: u64,
    ) -> Result<ContractsAnswer, ServiceError> {
        let request_id = check(request)?;
        self.admit(who, Role::Client).await?;
        let mut outcomes = Vec::with_capacity(request.wants.len());
        let mut wanted = Vec::with_capacity(request.wants.len());
        for (place, want) in request.wants.iter().enumerate() {
            let id = contract_id(who, request_id, place);
            let judged = match self.judge(who, want, now_s) {
                Ok(binding) => self
                    .is_provider(binding.provider_key)
                    .await?
                    .map(|()| binding),
                Err(refusal) => Err(refusal),
            };
            outcomes.push(judged.as_ref().err().cloned().map(ContractOutcome::Refused));
            if let Ok(binding) = judged {
                let limits = (
                    self.config.contract_bytes_min,
                    self.config.contract_bytes_max,
                );
                let bytes = want.bytes.clamp(limits.0, limits.1);
                wanted.push(Wanted {
                    place,
                    id,
                    binding,
                    bytes,
                });
            }
        }
        self.issue(who, wanted, &mut outcomes, now_s).await?;
        let no_answer = || ContractOutcome::Refused(refusal(RefusalCode::Other, "no contract"));
        let outcomes = outcomes.into_iter().map(|o| o.unwrap_or_else(no_answer));
        Ok(ContractsAnswer {
            outcomes: outcomes.collect(),
        })
    }

    /// Whether a want's binding holds.
    fn judge(
        &self,
        who: PublicKey,
        want: &ContractWant,
        now_s: u64,
    ) -> Result<BindingTerms, Refusal> {
        let malformed = |words: String| refusal(RefusalCode::Malformed, words);
        if want.bytes == 0 {
            return Err(malformed("a contract of 0 bytes is wanted".into()));
        }
        let bytes = STANDARD.decode(&want.binding);
        let bytes = bytes.map_err(|error| malformed(format!("the binding's base64: {error}")))?;
        let binding =
            SignedBinding::decode(&bytes).map_err(|error| malformed(error.to_string()))?;
        let terms = binding.terms;
        if terms.account_key != who {
            let words = "the binding is another account's";
            return Err(refusal(RefusalCode::Misdirected, words));
        }
        if !seal::is_binding_signed(&binding) {
            let words = "the binding's signature does not hold";
            return Err(refusal(RefusalCode::Signature, words));
        }
        if terms.client_key == who {
            return Err(malformed(
                "the binding's key is the account's, and not a fresh one".into(),
            ));
        }
        let days = taken_days(now_s);
        if !days.contains(&terms.day) {
            let words = format!(
                "the binding is of day {}, days {} to {} are accepted",
                terms.day,
                days.start(),
                days.end()
            );
            return Err(refusal(RefusalCode::Expired, words));
        }
        Ok(terms)
    }

    async fn is_provider(&self, key: PublicKey) -> Result<Result<(), Refusal>, ServiceError> {
        let account = self.store.account(key).await?;
        let serves = account.is_some_and(|a| a.role == Role::Provider && !a.is_banned);
        Ok(serves.then_some(()).ok_or_else(|| {
            refusal(
                RefusalCode::Provider,
                "the provider is none of this backend's, or is banned",
            )
        }))
    }

    /// Signs what is wanted, has it kept, and puts the outcomes in their places.
    async fn issue(
        &self,
        who: PublicKey,
        wanted: Vec<Wanted>,
        outcomes: &mut [Option<ContractOutcome>],
        now_s: u64,
    ) -> Result<(), ServiceError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let has_grace = self.config.grace_bytes > 0 && self.store.has_settled(who).await?;
        let mut place = |want: &Wanted, outcome| {
            if let Some(to) = outcomes.get_mut(want.place) {
                *to = Some(outcome);
            }
        };
        let mut smaller = None;
        for (want, issued) in self.keep(who, wanted, has_grace, now_s).await? {
            match issued {
                Issued::Kept(form) => place(&want, ContractOutcome::Signed(STANDARD.encode(form))),
                Issued::Quota { left_bytes } => {
                    if smaller.is_none() && left_bytes >= self.config.contract_bytes_min {
                        let bytes = left_bytes.min(want.bytes);
                        smaller = Some(Wanted { bytes, ..want });
                    }
                    place(&want, ContractOutcome::Refused(no_room(left_bytes)));
                }
            }
        }
        let Some(want) = smaller else { return Ok(()) };
        for (want, issued) in self.keep(who, vec![want], false, now_s).await? {
            if let Issued::Kept(form) = issued {
                place(&want, ContractOutcome::Signed(STANDARD.encode(form)));
            }
        }
        Ok(())
    }

    /// Has contracts kept: each want with what became of it.
    async fn keep(
        &self,
        who: PublicKey,
        wanted: Vec<Wanted>,
        has_grace: bool,
        now_s: u64,
    ) -> Result<Vec<(Wanted, Issued)>, ServiceError> {
        let mut contracts = Vec::with_capacity(wanted.len());
        for want in &wanted {
            contracts.push(self.sign(want, has_grace, now_s)?);
        }
        let issued = self.store.issue(who, contracts, now_s).await?;
        Ok(wanted.into_iter().zip(issued).collect())
    }

    fn sign(&self, want: &Wanted, has_grace: bool, now_s: u64) -> Result<NewContract, Refusal> {
        let config = &self.config;
        let grace_s = u32::try_from(config.grace.as_secs()).unwrap_or(u32::MAX);
        let (grace_bytes, grace_s) = if has_grace {
            (config.grace_bytes.min(want.bytes), grace_s)
        } else {
            (0, 0)
        };
        let not_after_s = now_s.saturating_add(config.contract_lifetime.as_secs());
        let terms = ContractTerms {
            key_id: self.keys.id(),
            contract_id: want.id,
            client_key: want.binding.client_key,
            provider_key: want.binding.provider_key,
            bytes: want.bytes,
            not_before_s: now_s,
            not_after_s,
            grace_bytes,
            grace_s,
        };
        // What is configured is within bounds; a clock at the end of time is not.
        terms
            .check()
            .map_err(|error| refusal(RefusalCode::Other, error.to_string()))?;
        let form: SignedContract = seal::sign_contract(self.keys.secret(), terms);
        Ok(NewContract {
            id: want.id,
            provider: terms.provider_key,
            bytes: terms.bytes,
            grace_bytes,
            ends_s: not_after_s.saturating_add(u64::from(grace_s)),
            form: form.encode(),
        })
    }
}

fn no_room(left_bytes: u64) -> Refusal {
    let words =
        format!("the account's allowance has {left_bytes} bytes left that are not reserved");
    refusal(RefusalCode::Quota, words)
}

/// The request's id, when its form is right.
fn check(request: &ContractsRequest) -> Result<[u8; 16], Refusal> {
    if request.wants.is_empty() {
        return Err(refusal(RefusalCode::Malformed, "nothing is wanted"));
    }
    if request.wants.len() > CONTRACTS_MAX {
        let words = format!("{CONTRACTS_MAX} contracts are the most in one request");
        return Err(refusal(RefusalCode::Limit, words));
    }
    request_id(&request.request_id).ok_or_else(|| {
        let words = "a request's id is 16 bytes in hex";
        refusal(RefusalCode::Malformed, words)
    })
}

fn request_id(text: &str) -> Option<[u8; 16]> {
    let mut id = [0; 16];
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    if pairs.len() != id.len() {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    for (to, &[high, low]) in id.iter_mut().zip(pairs) {
        *to = digit(high)? << 4 | digit(low)?;
    }
    Some(id)
}

fn contract_id(who: PublicKey, request_id: [u8; 16], place: usize) -> ContractId {
    let place = u8::try_from(place).unwrap_or(u8::MAX);
    let mut hash = Sha256::new_with_prefix(who.0);
    hash.update(request_id);
    hash.update([place]);
    let digest: [u8; 32] = hash.finalize().into();
    let mut id = [0; 16];
    id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    ContractId(id)
}
