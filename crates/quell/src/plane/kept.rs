//! What a client keeps for a start without the control plane: the catalog as it was last, and its contracts.
//!
//! ```text
//! state_dir/client-<name>.json    written when contracts come or go, when the catalog changes, and at the end
//! ```
//!
//! It belongs to one enrolled key; found by another it is not used, since its contracts name keys that are derived from
//! the first. A file that cannot be read is put aside and said so: what is lost with it is a start without the control
//! plane, and bytes that were delivered since the last receipt, which the provider's own copy of that receipt bounds.
//!
//! `clean` says that whoever wrote it ended in order, so that nothing was delivered after the totals in it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quell_backend::api::CatalogAnswer;
use quell_core::contract::wallet::StoredContract;
use quell_wire::key::PublicKey;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::state_file::{StateFile, StateFileError};

/// The form of the file.
const VERSION: u32 = 1;
/// The longest file that is read: the largest catalog and the most contracts fit.
const FILE_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Kept {
    /// The catalog as it was last.
    pub(crate) catalog: Option<CatalogAnswer>,
    /// The contracts.
    pub(crate) contracts: Vec<StoredContract>,
    /// Whoever wrote it ended in order.
    pub(crate) clean: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    account: String,
    clean: bool,
    catalog: Option<CatalogAnswer>,
    contracts: Vec<Contract>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contract {
    contract: String,
    signed_total: u64,
    receipt: Option<String>,
}

/// The file of one enrolled key.
#[derive(Debug)]
pub(crate) struct KeptFile {
    file: StateFile,
    account: String,
}

impl KeptFile {
    /// The file of `name` in `folder`, which is made where it is not there, and what was kept in it.
    ///
    /// # Errors
    /// The folder or the file is not to be had, or cannot be written.
    pub(crate) fn open(
        folder: &Path,
        name: &str,
        account: &PublicKey,
    ) -> Result<(Self, Kept), StateFileError> {
        let file = StateFile::in_folder(folder, &format!("client-{name}"), "json")?;
        let own = Self {
            file,
            account: account.to_string(),
        };
        let kept = own.read()?;
        // A folder that takes no file is found while somebody looks. What is written is what is there, not clean.
        own.write(&Kept {
            clean: false,
            ..kept.clone()
        })?;
        Ok((own, kept))
    }

    fn read(&self) -> Result<Kept, StateFileError> {
        let Some(text) = self.file.read(FILE_BYTES_MAX)? else {
            return Ok(Kept::default());
        };
        match parse(&text) {
            Ok(content) if content.account == self.account => Ok(kept_of(content)),
            Ok(_) => {
                info!(file = %self.file.path().display(), "what is kept is another key's, and is not used");
                Ok(Kept::default())
            }
            Err(reason) => {
                let aside = self.file.put_aside()?;
                warn!(aside = %aside.display(), reason, "what was kept cannot be read, and is put aside");
                Ok(Kept::default())
            }
        }
    }

    /// Replaces what is kept.
    ///
    /// # Errors
    /// The system refuses; the old content stays.
    pub(crate) fn write(&self, kept: &Kept) -> Result<(), StateFileError> {
        let contract = |kept: &StoredContract| Contract {
            contract: STANDARD.encode(kept.contract),
            signed_total: kept.signed_total,
            receipt: kept.receipt.map(|receipt| STANDARD.encode(receipt)),
        };
        let content = Content {
            version: VERSION,
            account: self.account.clone(),
            clean: kept.clean,
            catalog: kept.catalog.clone(),
            contracts: kept.contracts.iter().map(contract).collect(),
        };
        match serde_json::to_vec(&content) {
            Ok(text) => self.file.replace(&text),
            Err(error) => Err(StateFileError {
                doing: "write",
                path: self.file.path().to_owned(),
                source: error.into(),
            }),
        }
    }
}

fn parse(text: &[u8]) -> Result<Content, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("it is too long".to_owned());
    }
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if content.version != VERSION {
        return Err(format!("version {} is unknown", content.version));
    }
    Ok(content)
}

/// What of it has the right form; the wallet looks at the rest.
fn kept_of(content: Content) -> Kept {
    fn form<const N: usize>(text: &str) -> Option<[u8; N]> {
        STANDARD.decode(text).ok()?.try_into().ok()
    }
    let contract = |kept: Contract| {
        Some(StoredContract {
            contract: form(&kept.contract)?,
            signed_total: kept.signed_total,
            receipt: kept.receipt.as_deref().and_then(form),
        })
    };
    Kept {
        catalog: content.catalog,
        contracts: content.contracts.into_iter().filter_map(contract).collect(),
        clean: content.clean,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use quell_backend::api::CatalogExit;

    use super::*;

    fn kept() -> Kept {
        Kept {
            catalog: Some(CatalogAnswer {
                version: "7".to_owned(),
                issued_s: 1_800_000_000,
                exits: vec![CatalogExit {
                    public_key: PublicKey([3; 32]).to_string(),
                    name: "one".to_owned(),
                    addresses: vec!["192.0.2.1:6610".to_owned()],
                }],
            }),
            contracts: vec![
                StoredContract {
                    contract: [1; 192],
                    signed_total: u64::MAX,
                    receipt: Some([2; 132]),
                },
                StoredContract {
                    contract: [4; 192],
                    signed_total: 0,
                    receipt: None,
                },
            ],
            clean: true,
        }
    }

    fn open(folder: &Path, key: u8) -> (KeptFile, Kept) {
        KeptFile::open(folder, "quell0", &PublicKey([key; 32])).unwrap()
    }

    #[test]
    fn what_was_kept_is_found_by_the_next_start_and_is_clean_once() {
        let home = tempfile::tempdir().unwrap();
        let (file, first) = open(home.path(), 1);
        assert_eq!(first, Kept::default());
        file.write(&kept()).unwrap();
        assert_eq!(open(home.path(), 1).1, kept());
        let again = open(home.path(), 1).1;
        assert!(!again.clean, "whoever read it did not end in order yet");
        assert_eq!(again.contracts, kept().contracts);
    }

    #[test]
    fn what_another_key_kept_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        open(home.path(), 1).0.write(&kept()).unwrap();
        assert_eq!(open(home.path(), 2).1, Kept::default());
    }

    #[test]
    fn what_cannot_be_read_is_put_aside_and_forms_that_are_none_are_left_out() {
        let home = tempfile::tempdir().unwrap();
        open(home.path(), 1).0.write(&kept()).unwrap();
        let path = home.path().join("client-quell0.json");
        let good = fs::read_to_string(&path).unwrap();
        for bad in [
            String::new(),
            good[..good.len() - 1].to_owned(),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"clean\"", "\"clear\""),
        ] {
            fs::write(&path, &bad).unwrap();
            assert_eq!(open(home.path(), 1).1, Kept::default());
            assert_eq!(
                fs::read_to_string(home.path().join("client-quell0.bad")).unwrap(),
                bad
            );
        }
        let short = good.replace(&STANDARD.encode([4; 192]), &STANDARD.encode([4; 191]));
        fs::write(&path, short).unwrap();
        assert_eq!(open(home.path(), 1).1.contracts, kept().contracts[..1]);
    }
}
