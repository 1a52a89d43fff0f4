//! Every number and name of the protocol, each once.
//!
//! Whoever writes another implementation needs this file, the module docs of [`crate::frame`] and [`crate::control`],
//! and the vectors in `golden/`. A number that was ever released keeps its meaning; a new meaning takes a new number.
//! `registry/tests.rs` holds all of them as literals, so that a change here is a change seen twice.
//!
//! *Growth.* Version 1 knows the frames and messages below and no other: an unknown frame type, flag bit, lane or
//! message type ends the connection, because what cannot be parsed cannot be skipped (frames carry no outer length)
//! and what is skipped may have mattered. A peer sends something new only after the other one has offered the feature
//! for it in HELLO or WELCOME. Unknown *fields* of a control message are skipped.

/// The ALPN protocol name (RFC 7301).
pub const ALPN: &[u8] = b"quell/1";

/// The version in HELLO and WELCOME.
pub const VERSION: u64 = 1;

/// The UDP port of a provider unless configured: 6610, in IANA's unassigned block 6603–6618 (service name registry).
pub const DEFAULT_PORT: u16 = 6610;

/// Human-readable part of a public key's text form (BIP 173).
pub const PUBLIC_KEY_HRP: &str = "quellpub";

/// Human-readable part of a secret key's text form (BIP 173).
pub const SECRET_KEY_HRP: &str = "quellsec";

/// Largest body of a control message in bytes, the length prefix not counted.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 65_536;

/// How many numbers of a lane may be outstanding: the size of the receiver's bitmap.
pub const BITMAP_NUMBERS: u64 = 8_192;

/// Farthest distance `dep` of a PACK: the pack it points to still lies in the receiver's bitmap.
pub const DEP_MAX: u64 = BITMAP_NUMBERS - 1;

/// Payload bytes a lane may send before the first ACK raises its credit, unless HELLO or WELCOME says otherwise: 2 MiB.
pub const FIRST_CREDIT_BYTES: u64 = 2 * 1024 * 1024;

/// Numbers a lane may send before the first ACK raises its credit, unless HELLO or WELCOME says otherwise.
pub const FIRST_CREDIT_NUMBERS: u64 = BITMAP_NUMBERS;

/// Most ranges in one ACK, and in one lane of RESUME and RESUMED. 64 gaps are far more than a window shows under 5 %
/// loss before the lowest are closed, and bound the work that one datagram can ask for.
pub const ACK_RANGES_MAX: usize = 64;

/// Longest `agent` of HELLO in bytes of UTF-8.
pub const AGENT_BYTES_MAX: usize = 64;

/// Longest `words` of ERROR in bytes of UTF-8.
pub const WORDS_BYTES_MAX: usize = 1_024;

/// Longest body of a CONTRACT in bytes. Leaves room for a post-quantum signature (ML-DSA-65: 3,309 bytes).
pub const CONTRACT_BYTES_MAX: usize = 4_096;

/// Longest body of a RECEIPT in bytes, for the same reason as [`CONTRACT_BYTES_MAX`].
pub const RECEIPT_BYTES_MAX: usize = 4_096;

/// Deepest nesting inside an unknown field of a control message. Version 1 itself nests 3 deep.
pub const CBOR_DEPTH_MAX: usize = 16;

/// Lane numbers.
pub mod lane {
    /// The embedder's messages, strictly ordered.
    pub const MESSAGE: u8 = 0;
    /// TCP, each pack waiting for its own flow's predecessor only.
    pub const FLOW: u8 = 1;
}

/// Frame type numbers. 0 stays free, so that a zeroed buffer is never a frame.
pub mod frame {
    /// One numbered unit of a lane.
    pub const PACK: u64 = 0x01;
    /// What a lane's receiver has, and what it will take.
    pub const ACK: u64 = 0x02;
    /// Numbers that will never be sent again.
    pub const SKIP: u64 = 0x03;
    /// One IP packet, never acked nor resent.
    pub const DGRAM: u64 = 0x04;
    /// Asks for a PONG and for the ACKs of the lanes it names.
    pub const PING: u64 = 0x05;
    /// Answers a PING.
    pub const PONG: u64 = 0x06;
}

/// Flag bits of PACK.
pub mod pack_flag {
    /// The pack begins its packet or message.
    pub const FIRST: u8 = 0x01;
    /// The pack ends its packet or message.
    pub const LAST: u8 = 0x02;
    /// The pack waits for no other.
    pub const UNORDERED: u8 = 0x04;
}

/// Flag bits of ACK.
pub mod ack_flag {
    /// A `dup` field follows.
    pub const DUP: u8 = 0x01;
}

/// Bits of `features` in HELLO and WELCOME.
pub mod feature {
    /// HELLO: the client sends CONTRACT and RECEIPT where they are asked for. WELCOME: they are asked for; the provider
    /// carries nothing without, answers a contract that it does not honour with ERROR, and sends a client's last RECEIPT
    /// back after its CONTRACT.
    pub const CONTRACTS: u64 = 0x01;
}

/// Type numbers of control messages, the value of key 0.
pub mod control {
    /// The client's first message.
    pub const HELLO: u64 = 1;
    /// The provider's answer to HELLO.
    pub const WELCOME: u64 = 2;
    /// A signed allowance of bytes.
    pub const CONTRACT: u64 = 3;
    /// A client-signed running total.
    pub const RECEIPT: u64 = 4;
    /// The client gives a flow up.
    pub const FLOW_CLOSE: u64 = 5;
    /// The client takes a suspended session up again.
    pub const RESUME: u64 = 6;
    /// The provider's answer to RESUME.
    pub const RESUMED: u64 = 7;
    /// The sender takes no new work and closes soon.
    pub const GOAWAY: u64 = 8;
    /// A refusal or fault, in words.
    pub const ERROR: u64 = 9;
}

/// A numbered field of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The CBOR map key.
    pub key: u64,
    /// The name in errors and documents.
    pub name: &'static str,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $module:ident { $($name:ident = $key:literal $text:literal),+ $(,)? })+) => {
        /// CBOR keys of the fields, a module for each message. Key 0 is the message type in all of them.
        #[allow(missing_docs, reason = "a table: each constant carries its documented name")]
        pub mod field {
            use super::Field;
            $($(#[$doc])* pub mod $module {
                use super::Field;
                $(pub const $name: Field = Field { key: $key, name: $text };)+
                #[cfg(test)]
                pub(crate) const ALL: &[Field] = &[$($name),+];
            })+

            /// The message type, of every message.
            pub const TYPE: Field = Field { key: 0, name: "type" };

            #[cfg(test)]
            pub(crate) const MODULES: &[(&str, &[Field])] = &[$((stringify!($module), $module::ALL)),+];
        }
    };
}

fields! {
    /// HELLO.
    hello { VERSION = 1 "version", FEATURES = 2 "features", AGENT = 3 "agent", LIMITS = 4 "limits" }
    /// WELCOME.
    welcome {
        VERSION = 1 "version", FEATURES = 2 "features", SESSION_ID = 3 "session_id", IPV4 = 4 "ipv4", IPV6 = 5 "ipv6",
        GATEWAY_IPV4 = 6 "gateway_ipv4", GATEWAY_IPV6 = 7 "gateway_ipv6", MTU = 8 "mtu", LIMITS = 9 "limits",
    }
    /// CONTRACT.
    contract { BYTES = 1 "bytes" }
    /// RECEIPT.
    receipt { BYTES = 1 "bytes" }
    /// FLOW_CLOSE.
    flow_close {
        PROTOCOL = 1 "protocol", SOURCE = 2 "source", SOURCE_PORT = 3 "source_port",
        DESTINATION = 4 "destination", DESTINATION_PORT = 5 "destination_port",
        SEQUENCE = 6 "sequence",
    }
    /// RESUME and RESUMED.
    resume { SESSION_ID = 1 "session_id", EPOCH = 2 "epoch", LANES = 3 "lanes" }
    /// One lane within RESUME and RESUMED; a map without a type.
    resume_lane { LANE = 1 "lane", CUMULATIVE = 2 "cumulative", RANGES = 3 "ranges", CREDIT = 4 "credit" }
    /// GOAWAY.
    goaway { REASON = 1 "reason", DRAIN_MS = 2 "drain_ms" }
    /// ERROR.
    error { CODE = 1 "code", WORDS = 2 "words" }
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal $words:literal;)+) => {
        /// Why a connection, session or request ended: the application error code of CONNECTION_CLOSE (RFC 9000
        /// §19.19), the `code` of ERROR and the `reason` of GOAWAY.
        ///
        /// 0x00–0x0f are ends without a fault of the peer, 0x10–0x1f breaches of the protocol, 0x20–0x2f refusals.
        /// A code that is not listed is to be treated as [`ErrorCode::Internal`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u64)]
        pub enum ErrorCode { $($(#[$doc])* $variant = $code,)+ }

        impl ErrorCode {
            /// All codes, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> u64 {
                self as u64
            }

            /// The code of a number, if it is one of the list.
            #[must_use]
            pub const fn from_code(code: u64) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// A stable name in snake_case, for metrics and machines.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// A sentence for people, without the final stop.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)+ }
            }
        }
    };
}

error_codes! {
    /// An ordinary end.
    NoError = 0x00 "no_error" "closed as asked";
    /// A fault of the sender of this code.
    Internal = 0x01 "internal" "an internal fault of the peer";
    /// The sender drains and ends (GOAWAY).
    ShuttingDown = 0x02 "shutting_down" "the peer is shutting down";
    /// Nothing was carried for longer than the sender waits.
    Idle = 0x03 "idle" "nothing was carried for too long";

    /// A datagram that is not a sequence of frames.
    MalformedFrame = 0x10 "malformed_frame" "a datagram could not be parsed as frames";
    /// A control message that is not the CBOR it should be.
    MalformedControl = 0x11 "malformed_control" "a control message could not be parsed";
    /// A control message above [`CONTROL_MESSAGE_BYTES_MAX`].
    ControlTooLarge = 0x12 "control_too_large" "a control message is larger than 65,536 bytes";
    /// A well-formed message at a time at which it is not allowed.
    WrongState = 0x13 "wrong_state" "a message came that is not allowed in this state";
    /// No HELLO in time after the handshake.
    HelloTimeout = 0x14 "hello_timeout" "no HELLO came in time after the handshake";
    /// More PINGs than a session may send.
    PingFlood = 0x15 "ping_flood" "too many PINGs a second";
    /// A PACK beyond the granted credit.
    CreditExceeded = 0x16 "credit_exceeded" "a pack was sent beyond the granted credit";
    /// An ACK for a number or `tx` that was never sent.
    AckedUnsent = 0x17 "acked_unsent" "something was acknowledged that was never sent";
    /// A number farther ahead than the receiver's bitmap reaches.
    NumberOutOfWindow = 0x18 "number_out_of_window" "a pack's number lies beyond the window of 8,192";
    /// A SKIP that takes an earlier one back.
    SkipBackwards = 0x19 "skip_backwards" "a SKIP contradicts an earlier one";
    /// One number sent with two contents.
    NumberChanged = 0x1a "number_changed" "a pack was resent with other contents";
    /// More FLOW_CLOSE messages than a session may send.
    FlowCloseFlood = 0x1b "flow_close_flood" "too many flows closed a second";

    /// No version in common.
    UnsupportedVersion = 0x20 "unsupported_version" "no protocol version in common";
    /// The client's key is not one that may connect.
    UnknownClient = 0x21 "unknown_client" "this client key may not connect here";
    /// No inner address left.
    AddressesExhausted = 0x22 "addresses_exhausted" "the provider has no inner address left";
    /// The provider's bound of sessions, in total or of this source.
    TooManySessions = 0x23 "too_many_sessions" "the provider holds as many sessions as it may";
    /// A newer connection of the same key took the session over.
    Fenced = 0x24 "fenced" "a newer connection of the same key took over";
    /// The session to resume is not held here.
    SessionGone = 0x25 "session_gone" "the session to resume is gone";
    /// Lane 0 ended: a pack of it ran out of resends, or of time.
    ResendsExhausted = 0x26 "resends_exhausted" "a message could not be delivered, its lane ended";
    /// The provider has carried as many bytes this month as it may.
    MonthUsedUp = 0x27 "month_used_up" "the provider has carried as much as it may this month";
    /// The provider carries for contracts alone, and there is none that allows more.
    ContractRequired = 0x28 "contract_required" "the provider needs a contract to go on";
    /// A CONTRACT is not honoured; the session goes on.
    ContractRefused = 0x29 "contract_refused" "the provider does not honour the contract";
    /// A RECEIPT that no honest client sends, or too many that say nothing new.
    ReceiptRefused = 0x2a "receipt_refused" "a receipt was refused";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}

#[cfg(test)]
mod tests;
