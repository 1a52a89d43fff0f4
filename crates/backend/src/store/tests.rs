//! What every store has to be, asked of each.
//!
//! | file | what |
//! |---|---|
//! | `conformance` | each sentence of the trait, one by one |
//! | `model` | the same rules, as simple as they can be written: maps, and sums that are added up anew each time |
//! | `sequences` | random operations on a store and the model, which have to answer alike |
//! | `file` | what is redb's alone: the file, its version, its lock, a full disk |
//! | `disk` | a disk that may be full, and may lose what was not flushed |
//! | `crash` | redb over such a disk |
//! | `postgres` | a cluster of its own, and two stores over it at once |

#![allow(clippy::unwrap_used)]

mod conformance;
mod crash;
mod disk;
mod file;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod sequences;

use std::future::Future;

use quell_wire::contract::{
    CONTRACT_LEN, ContractId, ContractTerms, KeyId, RECEIPT_LEN, Signature, SignedContract,
};
use quell_wire::key::PublicKey;

use super::{Account, NewContract, Settlement};
use crate::api::Role;

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

pub(super) fn key(n: u8) -> PublicKey {
    PublicKey([n; 32])
}

/// What a key asks to be enrolled as.
pub(super) fn asked(n: u8, now_s: u64) -> Account {
    Account {
        key: key(n),
        role: Role::Client,
        name: format!("account {n}"),
        addresses: vec![format!("host{n}:6610")],
        enrolled_s: now_s,
        is_banned: false,
        quota_bytes: None,
        settled_bytes: 0,
        heartbeat_s: 0,
    }
}

/// A contract of `bytes` and a tenth of it in grace when `grace_s` is not 0.
pub(super) fn contract(
    id: u8,
    provider: u8,
    bytes: u64,
    not_after_s: u64,
    grace_s: u32,
) -> NewContract {
    let grace_bytes = if grace_s == 0 { 0 } else { bytes / 10 + 1 };
    let terms = ContractTerms {
        key_id: KeyId([7; 8]),
        contract_id: ContractId([id; 16]),
        client_key: key(200),
        provider_key: key(provider),
        bytes,
        not_before_s: 0,
        not_after_s,
        grace_bytes,
        grace_s,
    };
    let signature = Signature([0; 64]);
    NewContract {
        id: terms.contract_id,
        provider: terms.provider_key,
        bytes,
        grace_bytes,
        ends_s: not_after_s + u64::from(grace_s),
        form: SignedContract { terms, signature }.encode(),
    }
}

/// A receipt under it.
pub(super) fn receipt(contract: &NewContract, bytes_total: u64) -> Settlement {
    let mut form = [0; RECEIPT_LEN];
    form[..8].copy_from_slice(&bytes_total.to_be_bytes());
    Settlement {
        contract: contract.id,
        provider: contract.provider,
        bytes_total,
        form,
        contract_form: contract.form,
    }
}

/// A form that is another's.
pub(super) fn other_form(contract: &NewContract) -> [u8; CONTRACT_LEN] {
    let mut form = contract.form;
    form[CONTRACT_LEN - 1] ^= 1;
    form
}

#[test]
fn redb_conforms() {
    for (_, check) in conformance::CHECKS {
        let folder = tempfile::tempdir().unwrap();
        let store = super::redb::RedbStore::open(&folder.path().join("backend.redb")).unwrap();
        block_on(check(std::sync::Arc::new(store)));
    }
}
