//! The bodies of `/v1`, as JSON, for both sides of it.
//!
//! Signed forms (contract, receipt, binding) travel in base64 (RFC 4648 §4), keys as bech32m text, ids in hex.
//! Unknown fields are skipped, so that a server may say more than a client knows; lists are bounded here, and who
//! reads one refuses a longer one. Who asks is told by a signature in the headers, never by a field of a body.
//!
//! ```text
//! POST /v1/enrol          EnrolRequest     -> EnrolAnswer       signed by the key that enrols
//! GET  /v1/catalog        ?after=V&wait_s  -> CatalogAnswer     signed by a client; 304 when nothing changed in time
//! POST /v1/contracts      ContractsRequest -> ContractsAnswer   signed by a client
//! POST /v1/receipts       ReceiptsRequest  -> ReceiptsAnswer    signed by a provider
//! POST /v1/heartbeat      HeartbeatRequest -> HeartbeatAnswer   signed by a provider
//! POST /v1/admin/invitations InviteRequest -> InviteAnswer      with the operator's token
//! ```

use serde::{Deserialize, Serialize};

/// Most contracts in one request.
pub const CONTRACTS_MAX: usize = 16;
/// Most receipts in one request.
pub const RECEIPTS_MAX: usize = 256;
/// Most exits in a catalog.
pub const EXITS_MAX: usize = 4_096;
/// Most addresses of one exit.
pub const ADDRESSES_MAX: usize = 4;
/// Longest name of an account, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// Most signing keys that are trusted at a time: the one in use, and the one before or after it.
pub const TRUSTED_KEYS_MAX: usize = 2;

/// What an account is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Has packets to carry.
    Client,
    /// Carries them.
    Provider,
}

/// An invitation is redeemed. The key that signs the request is the one that is enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolRequest {
    /// The invitation's text.
    pub invitation: String,
    /// What people are to call the account; 1 to [`NAME_CHARS_MAX`] characters, none a control character.
    pub name: String,
    /// Of a provider: where clients reach it, `host:port`, at most [`ADDRESSES_MAX`]. Empty for a client.
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// The account stands. The same request again gives the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolAnswer {
    /// What the invitation was for.
    pub role: Role,
    /// What the account is called.
    pub name: String,
    /// Whose contracts to trust.
    pub trusted_keys: Vec<String>,
}

/// The exits that are in service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogAnswer {
    /// Names this state of the catalog; opaque. Sent back in `after` to be told of the next.
    pub version: String,
    /// When it was made, in seconds since 1970 UTC.
    pub issued_s: u64,
    /// At most [`EXITS_MAX`], in the order of their keys.
    pub exits: Vec<CatalogExit>,
}

/// One exit of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogExit {
    /// Its key.
    pub public_key: String,
    /// What people call it.
    pub name: String,
    /// Where it is reached, `host:port`, 1 to [`ADDRESSES_MAX`].
    pub addresses: Vec<String>,
}

/// Contracts are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractsRequest {
    /// 16 bytes in hex, chosen at random by the client. The same again gives the same contracts, so that an answer
    /// that was lost costs nothing.
    pub request_id: String,
    /// 1 to [`CONTRACTS_MAX`].
    pub wants: Vec<ContractWant>,
}

/// One contract that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractWant {
    /// [`quell_wire::contract::SignedBinding`] in base64: which fresh key, for which provider.
    pub binding: String,
    /// How many bytes would be welcome. The server may allow fewer.
    pub bytes: u64,
}

/// One outcome for each want, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractsAnswer {
    /// As many as there were wants.
    pub outcomes: Vec<ContractOutcome>,
}

/// What became of one want.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContractOutcome {
    /// [`quell_wire::contract::SignedContract`] in base64.
    Signed(String),
    /// None, and why.
    Refused(Refusal),
}

/// Why something was not granted. It is an answer, not a failure: asking again at once gives the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs.
    pub code: RefusalCode,
    /// For people.
    pub words: String,
}

/// Why, for programs. A code that is not known is read as [`RefusalCode::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The body or a form in it is none.
    Malformed,
    /// The request's signature is missing or does not hold.
    Unsigned,
    /// The request was signed at another time than now: one of the clocks is wrong.
    Clock,
    /// The key is not enrolled.
    Unknown,
    /// The account is banned.
    Banned,
    /// The account is of the other role.
    WrongRole,
    /// The invitation does not exist, was used up, or has expired.
    Invitation,
    /// The account's allowance is spent or reserved.
    Quota,
    /// The provider is not one of this backend's, or is banned.
    Provider,
    /// Too much at once.
    Limit,
    /// A signature in a form does not hold.
    Signature,
    /// It is for another provider, client or backend.
    Misdirected,
    /// Its time is over, or has not come.
    Expired,
    /// It says more than its contract allows.
    Exceeds,
    /// Anything else.
    #[serde(other)]
    Other,
}

/// Receipts are filed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptsRequest {
    /// 1 to [`RECEIPTS_MAX`].
    pub receipts: Vec<FiledReceipt>,
}

/// A receipt, with the contract that it is under: a backend needs no memory of what it signed to verify it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiledReceipt {
    /// [`quell_wire::contract::SignedContract`] in base64.
    pub contract: String,
    /// [`quell_wire::contract::SignedReceipt`] in base64.
    pub receipt: String,
}

/// One outcome for each receipt, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptsAnswer {
    /// As many as there were receipts.
    pub outcomes: Vec<ReceiptOutcome>,
}

/// What became of one receipt. Either way the provider is done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptOutcome {
    /// The contract's total is durable at this many bytes: the receipt's own, or more by a later one.
    Settled {
        /// Bytes in all.
        bytes_total: u64,
    },
    /// It counts for nothing, and why.
    Refused(Refusal),
}

/// A provider says that it lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatRequest {
    /// Where clients reach it, `host:port`, 1 to [`ADDRESSES_MAX`].
    pub addresses: Vec<String>,
    /// Sessions that are up.
    pub sessions: u32,
    /// It takes no new sessions and is about to stop.
    #[serde(default)]
    pub draining: bool,
}

/// What the backend thinks of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// Whose contracts to trust; at most [`TRUSTED_KEYS_MAX`].
    pub trusted_keys: Vec<String>,
    /// Whether it is in the catalog.
    pub in_service: bool,
    /// Why, in words.
    pub reason: String,
    /// After how many seconds the next is welcome.
    pub next_s: u32,
}

/// How long an invitation lasts when nothing else is said, in seconds: 7 days.
pub const INVITATION_LASTS_S: u64 = 7 * 86_400;

/// An operator wants an invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// What it is for.
    pub role: Role,
    /// How many keys may enrol with it.
    #[serde(default = "one")]
    pub uses: u32,
    /// How long it lasts, in seconds.
    #[serde(default = "week")]
    pub lasts_s: u64,
    /// The allowance of the accounts that it makes, in bytes; none for no bound.
    #[serde(default)]
    pub quota_bytes: Option<u64>,
}

fn one() -> u32 {
    1
}

fn week() -> u64 {
    INVITATION_LASTS_S
}

/// The text of an invitation, which is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteAnswer {
    /// What is handed to whoever is invited.
    pub invitation: String,
    /// Until when it can be redeemed, in seconds since 1970 UTC.
    pub expires_s: u64,
}
