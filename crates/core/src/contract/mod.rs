//! Who may have how many bytes of whom, and who says that they were had (DESIGN §7).
//!
//! | file | question |
//! |---|---|
//! | `seal` | is this signature right |
//! | `verify` | is this a contract to honour, a receipt to file |
//! | `account` | may this client have more, and how much |
//! | `grace` | and what while the backend cannot be asked |
//! | `journal` | which receipts are on the disk |
//! | `filing` | which receipts are with the backend |
//! | `books` | all of it, for a provider |
//! | `wallet` | which contracts a client holds, wants, and signs for |
//! | `named` | which contract a refusal is of |
//! | `asked` | how a question to the backend ended |
//! | `days` | for how long a fresh key is one |
//! | `wall` | how late it is between two readings of the clock |
//!
//! The forms are in [`quell_wire::contract`]. Times are wall-clock seconds that the driver hands in, since a contract
//! is between parties that share no other clock; what is decided by them allows for clocks that differ.

pub mod account;
pub mod asked;
pub mod books;
pub mod days;
pub mod filing;
pub mod grace;
pub mod journal;
pub(crate) mod named;
pub mod seal;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod two_party_tests;
pub mod verify;
pub mod wall;
pub mod wallet;

pub use account::{Account, Carried, Meter, Pause, Verdict};
pub use asked::{AskEnd, RefusedFor};
pub use books::{Books, BooksStatus, Restored};
pub use filing::{Filed, FilingRequest};
pub use journal::{Batch, Record, Stored};
pub use verify::{ContractRefusal, ReceiptRefusal, Trusted, Verifier};
pub use wallet::{Wallet, WalletStatus};
