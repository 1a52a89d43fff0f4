//! The text of an invitation: 160 random bits in bech32m (BIP 350), `quellinv1…`.
//!
//! It is a password that is used once or a few times and cannot be guessed, with the same checksum as keys, so that a
//! typing error is found before anyone is asked. The store keeps its SHA-256 alone: random bits of that number need no
//! slow hash.

use std::fmt;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32m, Hrp};
use rand::CryptoRng;
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize, Zeroizing};

/// The human-readable part of its text.
const HRP: Hrp = Hrp::parse_unchecked("quellinv");
/// Random bytes in it.
pub const INVITATION_BYTES: usize = 20;

/// An invitation. Who has it may enrol; it has no `Display`, and its `Debug` hides it.
#[derive(Clone)]
pub struct InvitationText([u8; INVITATION_BYTES]);

impl InvitationText {
    /// Draws one.
    pub fn draw(rng: &mut impl CryptoRng) -> Self {
        let mut bytes = [0; INVITATION_BYTES];
        rng.fill_bytes(&mut bytes);
        Self(bytes)
    }

    /// Reads one; white space around it is ignored. None when it is none, or is mistyped.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let checked = CheckedHrpstring::new::<Bech32m>(text.trim_ascii()).ok()?;
        if checked.hrp() != HRP || checked.byte_iter().len() != INVITATION_BYTES {
            return None;
        }
        checked.validate_segwit_padding().ok()?;
        let mut bytes = [0; INVITATION_BYTES];
        bytes
            .iter_mut()
            .zip(checked.byte_iter())
            .for_each(|(to, from)| *to = from);
        Some(Self(bytes))
    }

    /// The text, to be shown once to whom it is for.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        // 41 characters are within what bech32 allows; there is nothing else to fail.
        Zeroizing::new(bech32::encode::<Bech32m>(HRP, &self.0).unwrap_or_default())
    }

    /// What the store knows it by.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new_with_prefix(b"quell invitation v1");
        hash.update(self.0);
        hash.finalize().into()
    }
}

impl Drop for InvitationText {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for InvitationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvitationText(hidden)")
    }
}
