//! Who asks, told by a signature in the headers of a request: both sides of it.
//!
//! ```text
//! quell-key:        the key, as bech32m text
//! quell-time:       when it was signed, in seconds since 1970 UTC, in digits
//! quell-signature:  base64 of Ed25519 over
//!                   "quell request v1\n" METHOD "\n" path-and-query "\n" time "\n" SHA-256 of the body in hex
//! ```
//!
//! The first line is a tag that no other signed form of quell begins with, so that a signature of one never serves as
//! the other. What is signed is rebuilt from what was read and not taken from the wire: a header that could be written
//! in two ways (a time with a sign or with leading zeros, base64 with loose bits) is refused instead.
//!
//! A request is good for [`SKEW_S`] either way and carries no nonce. Each operation of `/v1` may be repeated without
//! effect (the store's transactions are made so), hence whoever replays a request that was overheard changes nothing,
//! and its answer holds nothing that its first reader did not have. The one that is not so, a heartbeat, which says where
//! a provider is, is refused once a later one was heard: by a server that heard it, which is all that a replay meets
//! within [`SKEW_S`] unless servers are several or have just started. A nonce would cost a server a memory that replicas
//! must share.
//!
//! [`Claim::read`] needs the headers alone and costs no arithmetic of curves, so that a server may refuse before it
//! reads a body; [`Claim::verify`] costs one verification.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use quell_core::contract::seal;
use quell_wire::contract::{SIGNATURE_LEN, Signature};
use quell_wire::key::{PublicKey, SecretKey};
use sha2::{Digest as _, Sha256};

use crate::api::{Refusal, RefusalCode};

/// The header that names the key.
pub const KEY_HEADER: &str = "quell-key";
/// The header that says when.
pub const TIME_HEADER: &str = "quell-time";
/// The header that proves both.
pub const SIGNATURE_HEADER: &str = "quell-signature";
/// How far the two clocks may differ, in seconds: 5 min, as in contracts (DESIGN §7).
pub const SKEW_S: u64 = 300;

/// What every signed request begins with.
const TAG: &str = "quell request v1\n";
/// Characters of a signature in base64, padding included.
const SIGNATURE_TEXT_LEN: usize = SIGNATURE_LEN.div_ceil(3) * 4;
/// Most digits of a time: those of `u64::MAX`.
const TIME_DIGITS_MAX: usize = 20;

/// The headers of a request that is signed, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// Under [`KEY_HEADER`].
    pub key: String,
    /// Under [`TIME_HEADER`].
    pub time: String,
    /// Under [`SIGNATURE_HEADER`].
    pub signature: String,
}

/// Signs a request as `secret` at `now_s`, seconds since 1970 UTC. `target` is the path with its query, exactly as it
/// is sent.
#[must_use]
pub fn sign(secret: &SecretKey, method: &str, target: &str, now_s: u64, body: &[u8]) -> SignedHead {
    let Signature(bytes) = seal::sign(secret, &signed_part(method, target, now_s, body));
    SignedHead {
        key: seal::public_key(secret).to_text(),
        time: now_s.to_string(),
        signature: BASE64.encode(bytes),
    }
}

/// What a request says of its author, unproven. Its time lies within [`SKEW_S`] of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    key: PublicKey,
    time_s: u64,
    signature: Signature,
}

impl Claim {
    /// Reads the three headers, each as it came.
    ///
    /// # Errors
    /// `Unsigned` when one is missing or has another form, `Clock` when it was signed at another time than now.
    pub fn read(
        key: Option<&str>,
        time: Option<&str>,
        signature: Option<&str>,
        now_s: u64,
    ) -> Result<Self, Refusal> {
        let missing = |header| unsigned(&format!("the header `{header}` is missing"));
        let key = key.ok_or_else(|| missing(KEY_HEADER))?;
        let time = time.ok_or_else(|| missing(TIME_HEADER))?;
        let signature = signature.ok_or_else(|| missing(SIGNATURE_HEADER))?;
        let key: PublicKey = key
            .parse()
            .map_err(|error| unsigned(&format!("`{KEY_HEADER}`: {error}")))?;
        let time_s = seconds(time)
            .ok_or_else(|| unsigned(&format!("`{TIME_HEADER}` is no number of seconds")))?;
        let signature = signature_of(signature)
            .ok_or_else(|| unsigned(&format!("`{SIGNATURE_HEADER}` is no signature in base64")))?;
        let apart_s = time_s.abs_diff(now_s);
        if apart_s > SKEW_S {
            let which = if time_s > now_s { "ahead" } else { "behind" };
            return Err(Refusal {
                code: RefusalCode::Clock,
                words: format!(
                    "the request was signed {apart_s} s {which} of this server's clock; allowed are {SKEW_S} s"
                ),
            });
        }
        Ok(Self {
            key,
            time_s,
            signature,
        })
    }

    /// When it was signed, in seconds since 1970 UTC; proven with the rest by [`Claim::verify`].
    #[must_use]
    pub fn time_s(&self) -> u64 {
        self.time_s
    }

    /// The key, once the signature over this request holds.
    ///
    /// # Errors
    /// `Unsigned` when it does not.
    pub fn verify(&self, method: &str, target: &str, body: &[u8]) -> Result<PublicKey, Refusal> {
        let signed = signed_part(method, target, self.time_s, body);
        if seal::is_signed(&self.key, &signed, &self.signature) {
            return Ok(self.key);
        }
        Err(unsigned(
            "the signature does not hold over this method, path, time and body",
        ))
    }
}

fn unsigned(words: &str) -> Refusal {
    Refusal {
        code: RefusalCode::Unsigned,
        words: words.to_owned(),
    }
}

/// One number, one text: `u64::from_str` would take a sign and leading zeros as well.
fn seconds(text: &str) -> Option<u64> {
    let digits = text.len() <= TIME_DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = text == "0" || !text.starts_with('0');
    (digits && plain).then(|| text.parse().ok()).flatten()
}

fn signature_of(text: &str) -> Option<Signature> {
    // A longer text is not decoded at all; loose bits and padding are refused by the engine.
    if text.len() != SIGNATURE_TEXT_LEN {
        return None;
    }
    let bytes = BASE64.decode(text).ok()?;
    Some(Signature(bytes.try_into().ok()?))
}

fn signed_part(method: &str, target: &str, time_s: u64, body: &[u8]) -> Vec<u8> {
    let digest: [u8; 32] = Sha256::digest(body).into();
    let mut text = format!("{TAG}{method}\n{target}\n{time_s}\n");
    for byte in digest {
        text.push_str(&format!("{byte:02x}"));
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const NOW_S: u64 = 1_800_000_000;
    const TARGET: &str = "/v1/catalog?after=a.7&wait_s=30";
    const BODY: &[u8] = br#"{"wants":[]}"#;

    fn secret() -> SecretKey {
        SecretKey::from_bytes([7; 32])
    }

    fn head() -> SignedHead {
        sign(&secret(), "POST", TARGET, NOW_S, BODY)
    }

    fn judge(
        head: &SignedHead,
        method: &str,
        target: &str,
        body: &[u8],
        now_s: u64,
    ) -> Result<PublicKey, RefusalCode> {
        let (key, time) = (Some(head.key.as_str()), Some(head.time.as_str()));
        Claim::read(key, time, Some(&head.signature), now_s)
            .and_then(|claim| claim.verify(method, target, body))
            .map_err(|refusal| refusal.code)
    }

    #[test]
    fn what_was_signed_names_its_author() {
        let key = judge(&head(), "POST", TARGET, BODY, NOW_S);
        assert_eq!(key, Ok(seal::public_key(&secret())));
        // No other form of quell begins like it.
        assert!(
            signed_part("GET", "/", 1, b"").starts_with(b"quell request v1\nGET\n/\n1\ne3b0c442")
        );
    }

    #[test]
    fn five_minutes_pass_and_a_second_more_does_not() {
        for now_s in [NOW_S - SKEW_S, NOW_S, NOW_S + SKEW_S] {
            judge(&head(), "POST", TARGET, BODY, now_s).unwrap();
        }
        for now_s in [NOW_S - SKEW_S - 1, NOW_S + SKEW_S + 1, 0, u64::MAX] {
            let why = judge(&head(), "POST", TARGET, BODY, now_s);
            assert_eq!(why, Err(RefusalCode::Clock), "{now_s}");
        }
    }

    #[test]
    fn a_missing_header_is_named() {
        let SignedHead {
            key,
            time,
            signature,
        } = head();
        for without in 0..3 {
            let of = |index: usize, text: &str| (index != without).then(|| text.to_owned());
            let (key, time, signature) = (of(0, &key), of(1, &time), of(2, &signature));
            let refusal = Claim::read(key.as_deref(), time.as_deref(), signature.as_deref(), NOW_S)
                .unwrap_err();
            assert_eq!(refusal.code, RefusalCode::Unsigned);
            let header = [KEY_HEADER, TIME_HEADER, SIGNATURE_HEADER][without];
            assert!(refusal.words.contains(header), "{}", refusal.words);
        }
    }

    #[test]
    fn a_number_has_one_text() {
        for text in [
            "",
            "+1",
            "-1",
            "01",
            "00",
            " 1",
            "1 ",
            "1e3",
            "18446744073709551616",
        ] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds("18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn a_signature_has_one_text() {
        let text = head().signature;
        signature_of(&text).unwrap();
        let loose = format!("{}B==", &text[..85]);
        assert_ne!(loose, text);
        for other in [
            &text[..87],
            &format!("{text}="),
            &loose,
            &text.replace('=', "A"),
        ] {
            assert_eq!(signature_of(other), None, "{other}");
        }
    }

    /// Every text that differs from `text` in one bit and is text.
    fn flips(text: &str) -> Vec<String> {
        let flip = |bit: usize| {
            let mut bytes = text.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            String::from_utf8(bytes).ok()
        };
        (0..text.len() * 8).filter_map(flip).collect()
    }

    #[test]
    fn each_bit_of_a_header_counts() {
        let good = head();
        let refused = |head: SignedHead| {
            let why = judge(&head, "POST", TARGET, BODY, NOW_S).unwrap_err();
            assert!(
                matches!(why, RefusalCode::Unsigned | RefusalCode::Clock),
                "{head:?}"
            );
        };
        for key in flips(&good.key) {
            refused(SignedHead {
                key,
                ..good.clone()
            });
        }
        for time in flips(&good.time) {
            refused(SignedHead {
                time,
                ..good.clone()
            });
        }
        for signature in flips(&good.signature) {
            refused(SignedHead {
                signature,
                ..good.clone()
            });
        }
    }

    #[test]
    fn each_bit_of_the_request_counts() {
        let good = head();
        let why = Err(RefusalCode::Unsigned);
        for method in flips("POST") {
            assert_eq!(judge(&good, &method, TARGET, BODY, NOW_S), why);
        }
        for target in flips(TARGET) {
            assert_eq!(judge(&good, "POST", &target, BODY, NOW_S), why);
        }
        for bit in 0..BODY.len() * 8 {
            let mut body = BODY.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(judge(&good, "POST", TARGET, &body, NOW_S), why);
        }
    }

    proptest! {
        #[test]
        fn any_request_verifies_as_itself_and_as_no_other(
            seed: [u8; 32],
            target in "/[a-z0-9/?=&]{0,40}",
            body in proptest::collection::vec(any::<u8>(), 0..200),
            bit in 0_usize..1_600,
            now_s in SKEW_S..u64::MAX - SKEW_S,
        ) {
            let secret = SecretKey::from_bytes(seed);
            let head = sign(&secret, "POST", &target, now_s, &body);
            prop_assert_eq!(judge(&head, "POST", &target, &body, now_s), Ok(seal::public_key(&secret)));
            if let Some(byte) = body.get(bit / 8) {
                let mut other = body.clone();
                other[bit / 8] = byte ^ (1 << (bit % 8));
                prop_assert!(judge(&head, "POST", &target, &other, now_s).is_err());
            }
        }

        #[test]
        fn no_header_panics(key in "\\PC{0,90}", time in "\\PC{0,30}", signature in "\\PC{0,100}") {
            let read = Claim::read(Some(&key), Some(&time), Some(&signature), NOW_S);
            prop_assert!(read.is_err());
        }
    }
}
