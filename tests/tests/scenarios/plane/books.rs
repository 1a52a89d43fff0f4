//! What lies on the disks of a provider and a client: running totals, by contract.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libtest_mimic::Failed;
use quell_wire::contract::{CONTRACT_LEN, RECEIPT_LEN, SignedContract, SignedReceipt};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;

use super::stage::files;

/// Of each contract, by its id, the bytes that were signed for.
pub(super) type Totals = BTreeMap<[u8; 16], u64>;

const RECEIPTS: TableDefinition<'static, &[u8; 16], &[u8; CONTRACT_LEN + RECEIPT_LEN + 8]> =
    TableDefinition::new("receipts");

/// The receipts of a provider that is not running. They are read from a copy: the provider is to find them as it left them.
pub(super) fn durable(provider: &Path) -> Result<Totals, Failed> {
    let records = records(provider)?.into_iter();
    Ok(records.map(|(id, (_, total))| (id, total)).collect())
}

/// What is durable at a provider that is not running, less what the client signed: of a contract that the client holds what
/// it says, of one that it used up and let go the whole of it.
pub(super) fn durable_beyond_signed(provider: &Path, signed: &Totals) -> Result<Totals, Failed> {
    let beyond = |(id, (contract_bytes, total)): ([u8; 16], (u64, u64))| {
        let signed = signed.get(&id).copied().unwrap_or(contract_bytes);
        (total > signed).then(|| (id, total - signed))
    };
    Ok(records(provider)?.into_iter().filter_map(beyond).collect())
}

/// Of each contract its bytes, and those that its durable receipt is for.
fn records(provider: &Path) -> Result<BTreeMap<[u8; 16], (u64, u64)>, Failed> {
    let named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("receipts-") && name.ends_with(".redb")
    };
    let file = files(provider).into_iter().find(|path| named(path));
    let copy = tempfile::NamedTempFile::new()?;
    std::fs::copy(file.ok_or("no receipts")?, copy.path())?;
    let database = Database::create(copy.path())?;
    let read = database.begin_read()?;
    let table = read.open_table(RECEIPTS)?;
    let mut records = BTreeMap::new();
    for entry in table.iter()? {
        let (id, record) = entry?;
        let (contract, rest) = record.value().split_at(CONTRACT_LEN);
        let contract = SignedContract::decode(contract).map_err(|error| error.to_string())?;
        let receipt = &rest[..RECEIPT_LEN];
        let receipt = SignedReceipt::decode(receipt).map_err(|error| error.to_string())?;
        records.insert(
            *id.value(),
            (contract.terms.bytes, receipt.terms.bytes_total),
        );
    }
    Ok(records)
}

/// What a client keeps for its next start.
pub(super) fn client_state(client: &Path) -> Result<Value, Failed> {
    let file = files(client).into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("client-") && name.ends_with(".json")
    });
    let text = std::fs::read(file.ok_or("nothing is kept")?)?;
    Ok(serde_json::from_slice(&text)?)
}

/// What a client that ended in order signed for, in each contract that it holds. One that was used up, it lets go.
pub(super) fn signed(client: &Path) -> Result<Totals, Failed> {
    let kept = client_state(client)?;
    let contracts = kept["contracts"].as_array().ok_or("no contracts")?;
    let mut totals = Totals::new();
    for one in contracts {
        let contract = STANDARD.decode(one["contract"].as_str().unwrap_or_default())?;
        let contract = SignedContract::decode(&contract).map_err(|error| error.to_string())?;
        let total = one["signed_total"].as_u64().ok_or("no total")?;
        totals.insert(contract.terms.contract_id.0, total);
    }
    Ok(totals)
}

/// No total is less than it was, and none is gone.
pub(super) fn none_fell(before: &Totals, after: &Totals) -> Result<(), Failed> {
    for (id, total) in before {
        let later = after.get(id).copied().unwrap_or(0);
        if later < *total {
            return Err(format!("the total of {id:02x?} fell from {total} to {later}").into());
        }
    }
    Ok(())
}
