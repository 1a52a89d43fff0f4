//! The text form of Ed25519 keys: bech32m (BIP 350) over the 32 raw bytes.
//!
//! `quellpub1…` is a public key, `quellsec1…` a secret one: what a file or a line of configuration holds shows at a
//! glance, and one in the other's place is refused by name. The checksum finds any four wrong characters (BIP 173),
//! so a mistyped key is an error at once and not a peer that never answers. All upper case is read too (BIP 173 allows
//! it for QR codes), mixed case is not; white space around the text is ignored, since files end in a line feed.
//!
//! Nothing here judges whether 32 bytes are a *useful* key; signature verification does.
//!
//! A secret key has neither `Display` nor `PartialEq`, its `Debug` hides it, an error about a text never repeats the
//! text, and the bytes are erased when it is dropped. [`SecretKey::to_text`] is the one way out.

use std::fmt;
use std::str::FromStr;

use bech32::primitives::decode::{CharError, UncheckedHrpstring, UncheckedHrpstringError};
use bech32::{Bech32m, Hrp};
use zeroize::Zeroize;

use crate::registry::{PUBLIC_KEY_HRP, SECRET_KEY_HRP};

/// Bytes of a key, of either kind.
pub const KEY_BYTES: usize = 32;

/// Which key a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// May be shown to anyone.
    Public,
    /// Must stay with its owner.
    Secret,
}

impl KeyKind {
    /// The human-readable part of its text.
    #[must_use]
    pub const fn hrp(self) -> &'static str {
        match self {
            Self::Public => PUBLIC_KEY_HRP,
            Self::Secret => SECRET_KEY_HRP,
        }
    }

    fn of_hrp(hrp: Hrp) -> Option<Self> {
        // `Hrp` compares without regard to case.
        let is = |kind: &Self| Hrp::parse(kind.hrp()).is_ok_and(|known| known == hrp);
        [Self::Public, Self::Secret].into_iter().find(is)
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Secret => "secret",
        })
    }
}

/// Why a text is not the key that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is a key of the other kind.
    #[error("this is a {found} key, a {wanted} one is wanted")]
    WrongKind {
        /// What the text is.
        found: KeyKind,
        /// What was asked for.
        wanted: KeyKind,
    },
    /// It does not begin as a key of quell does.
    #[error("not a quell key: a {wanted} key begins with `{hrp}1`", hrp = wanted.hrp())]
    UnknownPrefix {
        /// What was asked for.
        wanted: KeyKind,
    },
    /// A character that bech32 does not use.
    #[error("a key has no character `{character}` in it")]
    BadCharacter {
        /// The character.
        character: char,
    },
    /// Upper and lower case in one text.
    #[error("the key mixes upper and lower case")]
    MixedCase,
    /// The checksum is wrong: a character is mistyped, missing or too many.
    #[error("the key's checksum is wrong: a character is mistyped, missing or too many")]
    Checksum,
    /// The checksum holds, and yet there are not 32 bytes.
    #[error("the key holds {bytes} bytes, {KEY_BYTES} are wanted")]
    Length {
        /// How many bytes there are.
        bytes: usize,
    },
    /// Bits beyond the 32 bytes are set: another text of the same key, which would make two names for one.
    #[error("the key's last character is not the one its bytes call for")]
    Padding,
}

fn parse(text: &str, wanted: KeyKind) -> Result<[u8; KEY_BYTES], KeyError> {
    let unchecked = UncheckedHrpstring::new(text.trim_ascii()).map_err(|error| {
        if let UncheckedHrpstringError::Char(CharError::InvalidChar(character)) = error {
            KeyError::BadCharacter { character }
        } else if error == UncheckedHrpstringError::Char(CharError::MixedCase) {
            KeyError::MixedCase
        } else {
            KeyError::UnknownPrefix { wanted }
        }
    })?;
    let found = KeyKind::of_hrp(unchecked.hrp()).ok_or(KeyError::UnknownPrefix { wanted })?;
    if found != wanted {
        return Err(KeyError::WrongKind { found, wanted });
    }
    let checked = unchecked
        .validate_and_remove_checksum::<Bech32m>()
        .map_err(|_| KeyError::Checksum)?;
    let bytes = checked.byte_iter().len();
    if bytes != KEY_BYTES {
        return Err(KeyError::Length { bytes });
    }
    checked
        .validate_segwit_padding()
        .map_err(|_| KeyError::Padding)?;
    let mut key = [0; KEY_BYTES];
    key.iter_mut()
        .zip(checked.byte_iter())
        .for_each(|(to, from)| *to = from);
    Ok(key)
}

fn write_text(out: &mut impl fmt::Write, kind: KeyKind, key: &[u8; KEY_BYTES]) -> fmt::Result {
    let hrp = Hrp::parse(kind.hrp()).map_err(|_| fmt::Error)?;
    bech32::encode_to_fmt::<Bech32m, _>(out, hrp, key).map_err(|_| fmt::Error)
}

/// A public key. Its text form is what `Display` writes and `FromStr` reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; KEY_BYTES]);

impl PublicKey {
    /// The raw key (RFC 8032 §5.1.5).
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The text form, `quellpub1…`.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(f, KeyKind::Public, &self.0)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        parse(text, KeyKind::Public).map(Self)
    }
}

/// A secret key: the 32-byte seed of RFC 8032. Erased when dropped.
#[derive(Clone)]
pub struct SecretKey([u8; KEY_BYTES]);

impl SecretKey {
    /// The key of a seed.
    #[must_use]
    pub const fn from_bytes(seed: [u8; KEY_BYTES]) -> Self {
        Self(seed)
    }

    /// The seed. Whoever copies it has a copy to erase.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The text form, `quellsec1…`, for the key file and nothing else.
    #[must_use]
    pub fn to_text(&self) -> String {
        // A `String` cannot refuse a write and the prefix is a constant that a test parses.
        let mut text = String::with_capacity(SECRET_KEY_HRP.len() + 64);
        let written = write_text(&mut text, KeyKind::Secret, &self.0);
        debug_assert!(written.is_ok());
        text
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(hidden)")
    }
}

impl FromStr for SecretKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        parse(text, KeyKind::Secret).map(Self)
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn text(hrp: &str, bytes: &[u8]) -> String {
        bech32::encode::<Bech32m>(Hrp::parse(hrp).unwrap(), bytes).unwrap()
    }

    #[test]
    fn one_kind_in_the_other_ones_place_is_named() {
        let public = PublicKey(KEY).to_text();
        let secret = SecretKey::from_bytes(KEY).to_text();
        let error = public.parse::<SecretKey>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "this is a public key, a secret one is wanted"
        );
        let error = secret.parse::<PublicKey>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "this is a secret key, a public one is wanted"
        );
        // The kind shows before the checksum is looked at: a damaged secret key is still called one.
        let damaged = secret.replacen("sec1", "sec1q", 1);
        assert!(matches!(
            damaged.parse::<PublicKey>(),
            Err(KeyError::WrongKind { .. })
        ));
    }

    #[test]
    fn what_is_no_key_says_what_it_should_be() {
        for wrong in [
            "",
            "1",
            "hello",
            "quellpub",
            "quellpub1",
            text("bc", &KEY).as_str(),
        ] {
            let error = wrong.parse::<PublicKey>().unwrap_err();
            let expected: &[KeyError] = if wrong == "hello" {
                &[KeyError::BadCharacter { character: 'o' }]
            } else if wrong == "quellpub" {
                &[KeyError::BadCharacter { character: 'b' }]
            } else {
                &[
                    KeyError::UnknownPrefix {
                        wanted: KeyKind::Public,
                    },
                    KeyError::Checksum,
                ]
            };
            assert!(expected.contains(&error), "{wrong}: {error}");
        }
        let error = text("bc", &KEY).parse::<SecretKey>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "not a quell key: a secret key begins with `quellsec1`"
        );
    }

    #[test]
    fn thirty_two_bytes_and_no_other_number() {
        for (bytes, ok) in [(31, false), (32, true), (33, false), (0, false)] {
            let parsed = text(PUBLIC_KEY_HRP, &vec![7; bytes]).parse::<PublicKey>();
            assert_eq!(
                parsed,
                if ok {
                    Ok(PublicKey(KEY))
                } else {
                    Err(KeyError::Length { bytes })
                }
            );
        }
    }

    #[test]
    fn an_endless_text_is_refused() {
        let endless = format!("quellpub1{}", "q".repeat(1 << 20));
        assert_eq!(endless.parse::<PublicKey>(), Err(KeyError::Checksum));
    }

    #[test]
    fn any_one_wrong_character_is_found() {
        const ALPHABET: &str = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
        let right = PublicKey(KEY).to_text();
        for at in PUBLIC_KEY_HRP.len() + 1..right.len() {
            for character in ALPHABET.chars().filter(|&c| !right[at..].starts_with(c)) {
                let mut wrong = right.clone();
                wrong.replace_range(at..=at, &character.to_string());
                assert_eq!(
                    wrong.parse::<PublicKey>(),
                    Err(KeyError::Checksum),
                    "{wrong}"
                );
            }
        }
    }

    #[test]
    fn plain_bech32_is_not_bech32m() {
        let old =
            bech32::encode::<bech32::Bech32>(Hrp::parse(PUBLIC_KEY_HRP).unwrap(), &KEY).unwrap();
        assert_eq!(old.parse::<PublicKey>(), Err(KeyError::Checksum));
    }

    #[test]
    fn bits_beyond_the_bytes_are_zero() {
        use bech32::{ByteIterExt, Fe32, Fe32IterExt};
        // 32 bytes end in the middle of a character of five bits; its low four belong to no byte.
        let mut elements: Vec<Fe32> = KEY.into_iter().bytes_to_fes().collect();
        let last = elements.pop().unwrap();
        elements.push(Fe32::try_from(last.to_u8() | 1).unwrap());
        let hrp = Hrp::parse(PUBLIC_KEY_HRP).unwrap();
        let padded: String = elements
            .into_iter()
            .with_checksum::<Bech32m>(&hrp)
            .chars()
            .collect();
        assert_eq!(padded.parse::<PublicKey>(), Err(KeyError::Padding));
    }

    #[test]
    fn case_and_white_space() {
        let lower = PublicKey(KEY).to_text();
        let upper = lower.to_uppercase();
        assert_eq!(upper.parse(), Ok(PublicKey(KEY)));
        assert_eq!(format!(" {lower}\r\n").parse(), Ok(PublicKey(KEY)));
        let mixed = format!("{}{}", &lower[..12], &upper[12..]);
        assert_eq!(mixed.parse::<PublicKey>(), Err(KeyError::MixedCase));
        let spaced = format!("{} {}", &lower[..12], &lower[12..]);
        assert_eq!(
            spaced.parse::<PublicKey>(),
            Err(KeyError::BadCharacter { character: ' ' })
        );
    }

    #[test]
    fn a_secret_key_does_not_show_itself() {
        let secret = SecretKey::from_bytes(KEY);
        assert_eq!(
            format!("{secret:?}{secret:#?}"),
            "SecretKey(hidden)SecretKey(hidden)"
        );
        // Errors about a damaged secret key repeat none of it but one character that no key has.
        let text = secret.to_text();
        for damaged in [
            text.replace("sec1", "sec2"),
            format!("{text}q"),
            text.to_uppercase() + "q",
        ] {
            let message = damaged.parse::<SecretKey>().unwrap_err().to_string();
            assert!(!message.contains(&damaged[12..24]), "{message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in any::<[u8; 32]>()) {
            prop_assert_eq!(PublicKey(bytes).to_text().parse(), Ok(PublicKey(bytes)));
            let secret: SecretKey = SecretKey::from_bytes(bytes).to_text().parse().unwrap();
            prop_assert_eq!(secret.as_bytes(), &bytes);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,120}", tail in "[a-z0-9]{0,80}") {
            for text in [text.clone(), format!("quellpub1{tail}"), format!("quellpub1{tail}{text}")] {
                prop_assert!(text.parse::<PublicKey>().is_err());
            }
        }
    }
}
