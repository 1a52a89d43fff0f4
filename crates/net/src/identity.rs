//! Who we are: one Ed25519 key, as a TLS raw public key (RFC 7250).
//!
//! There are no certificates and no authorities: a peer *is* its key. Two more
//! secrets are derived from it, so that they survive a restart without being
//! stored: the key of QUIC's stateless resets (a restarted provider tells its
//! old clients at once that it knows them no longer, RFC 9000 §10.3) and that of
//! address validation tokens (RFC 9000 §8.1). HKDF with a label each keeps them
//! apart (RFC 5869).

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use aws_lc_rs::{hkdf, hmac, rand};
use quell_core::contract::seal;
use quell_wire::contract::Signature;
use quell_wire::key::{PublicKey, SecretKey};
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroize as _;

use crate::error::NetError;
use crate::signer::{Held, Signer};

/// SubjectPublicKeyInfo of an Ed25519 key without the key (RFC 8410 §4).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// PKCS #8 of an Ed25519 key without the seed (RFC 8410 §7).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Keeps keys towards providers apart from everything else that is derived.
const FRESH_KEY_LABEL: &[u8] = b"quell client key v1";

/// A key pair, and what is derived from it.
#[derive(Clone)]
pub struct Identity {
    /// The private key; of one that is held elsewhere, what is derived comes from this.
    secret: SecretKey,
    public: PublicKey,
    held: Option<Held>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// The identity that `secret` stands for.
    ///
    /// # Errors
    /// The cryptographic library refuses the seed.
    pub fn from_secret(secret: &SecretKey) -> Result<Self, NetError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(secret.as_bytes())
            .map_err(|error| NetError::Key(error.to_string()))?;
        let public = pair.public_key().as_ref();
        let public = public
            .try_into()
            .map_err(|_| NetError::Key("a public key of the wrong length".to_owned()))?;
        Ok(Self {
            secret: secret.clone(),
            public: PublicKey(public),
            held: None,
        })
    }

    /// The identity of a key that is held elsewhere. Signs once, for what is derived: see [`Signer`].
    ///
    /// # Errors
    /// It does not sign, or not for its public key.
    pub fn from_signer(signer: Arc<dyn Signer>) -> Result<Self, NetError> {
        let (held, root) = Held::try_new(signer)?;
        Ok(Self {
            secret: SecretKey::from_bytes(extract(&root)?),
            public: held.public_key(),
            held: Some(held),
        })
    }

    /// Signs in the name of this key.
    ///
    /// # Errors
    /// A key that is held elsewhere cannot be used.
    pub fn sign(&self, message: &[u8]) -> Result<Signature, NetError> {
        match &self.held {
            Some(held) => held.sign(message),
            None => Ok(seal::sign(&self.secret, message)),
        }
    }

    /// A new identity from the system's random numbers.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> Result<Self, NetError> {
        let mut seed = [0; 32];
        rand::fill(&mut seed).map_err(|error| NetError::Key(error.to_string()))?;
        Self::from_secret(&SecretKey::from_bytes(seed))
    }

    /// The key that this client uses towards one provider from one day on (days since 1970
    /// UTC): neither two providers nor one on two days can tell by it that they serve the
    /// same client. Derived, so that it is the same after a restart that kept nothing else.
    ///
    /// # Errors
    /// The cryptographic library refuses the seed.
    pub fn towards(&self, provider: &PublicKey, day: u32) -> Result<Self, NetError> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let mut sum = hmac::Context::with_key(&key);
        sum.update(FRESH_KEY_LABEL);
        sum.update(&provider.0);
        sum.update(&day.to_be_bytes());
        let mut seed = [0; 32];
        let tag = sum.sign();
        seed.iter_mut()
            .zip(tag.as_ref())
            .for_each(|(to, from)| *to = *from);
        let secret = SecretKey::from_bytes(seed);
        seed.zeroize();
        Self::from_secret(&secret)
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The secret half, to be stored; of a key that is held elsewhere a stand-in, which signs nothing for it.
    pub fn secret_key(&self) -> &SecretKey {
        &self.secret
    }

    pub(crate) fn certified_key(&self) -> Result<Arc<CertifiedKey>, NetError> {
        let spki = CertificateDer::from(spki_of(&self.public));
        if let Some(held) = &self.held {
            return Ok(Arc::new(CertifiedKey::new(
                vec![spki],
                Arc::new(held.clone()),
            )));
        }
        let pkcs8 = [PKCS8_PREFIX.as_slice(), self.secret.as_bytes()].concat();
        let signer = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8))?;
        Ok(Arc::new(CertifiedKey::new(vec![spki], signer)))
    }

    pub(crate) fn reset_key(&self) -> Result<hmac::Key, NetError> {
        let key = self.derive(b"quell stateless reset")?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }

    pub(crate) fn token_key(&self) -> Result<hkdf::Prk, NetError> {
        let key = self.derive(b"quell address validation token")?;
        Ok(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&key))
    }

    /// Feeds the check value in our connection IDs: after a restart our own old
    /// IDs must still look like ours, or no reset would be sent for them.
    pub(crate) fn connection_id_key(&self) -> Result<u64, NetError> {
        let key = self.derive(b"quell connection id")?;
        Ok(key
            .iter()
            .take(8)
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn derive(&self, label: &[u8]) -> Result<[u8; 32], NetError> {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"quell").extract(self.secret.as_bytes());
        let mut key = [0; 32];
        let labels = [label];
        let okm = prk.expand(&labels, hkdf::HKDF_SHA256);
        okm.and_then(|okm| okm.fill(&mut key))
            .map_err(|error| NetError::Key(error.to_string()))?;
        Ok(key)
    }
}

/// 32 even bytes of a signature.
fn extract(signature: &[u8; 64]) -> Result<[u8; 32], NetError> {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"quell").extract(signature);
    let mut root = [0; 32];
    let labels = [b"quell signer root v1".as_slice()];
    let okm = prk.expand(&labels, hkdf::HKDF_SHA256);
    okm.and_then(|okm| okm.fill(&mut root))
        .map_err(|error| NetError::Key(error.to_string()))?;
    Ok(root)
}

/// The SubjectPublicKeyInfo of `key`, as it crosses in the handshake.
pub(crate) fn spki_of(key: &PublicKey) -> Vec<u8> {
    let PublicKey(bytes) = key;
    [SPKI_PREFIX.as_slice(), bytes].concat()
}

/// The Ed25519 key in a SubjectPublicKeyInfo; `None` for any other kind.
pub(crate) fn key_of_spki(spki: &[u8]) -> Option<PublicKey> {
    let bytes = spki.strip_prefix(SPKI_PREFIX.as_slice())?;
    Some(PublicKey(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_public_key_is_that_of_rfc_8032() {
        // RFC 8032 §7.1, test 1
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let bytes = |text: &str| -> [u8; 32] {
            let pairs = text.as_bytes().chunks(2);
            let bytes: Vec<_> = pairs
                .map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap())
                .collect();
            bytes.try_into().unwrap()
        };
        let identity = Identity::from_secret(&SecretKey::from_bytes(bytes(seed))).unwrap();
        assert_eq!(identity.public_key(), PublicKey(bytes(public)));
        let signer = identity
            .certified_key()
            .unwrap()
            .key
            .public_key()
            .unwrap()
            .to_vec();
        assert_eq!(signer, spki_of(&identity.public_key()));
    }

    #[test]
    fn derived_keys_are_stable_and_differ() {
        let identity = Identity::from_secret(&SecretKey::from_bytes([7; 32])).unwrap();
        assert_eq!(
            identity.derive(b"a").unwrap(),
            identity.derive(b"a").unwrap()
        );
        assert_ne!(
            identity.derive(b"a").unwrap(),
            identity.derive(b"b").unwrap()
        );
        let other = Identity::from_secret(&SecretKey::from_bytes([8; 32])).unwrap();
        assert_ne!(identity.derive(b"a").unwrap(), other.derive(b"a").unwrap());
    }

    #[test]
    fn a_key_survives_its_der_form_and_nothing_else_is_taken_for_one() {
        let key = PublicKey([9; 32]);
        let spki = spki_of(&key);
        assert_eq!(key_of_spki(&spki), Some(key));
        assert_eq!(key_of_spki(&spki[..43]), None);
        assert_eq!(key_of_spki(&[spki.as_slice(), &[0]].concat()), None);
        assert_eq!(key_of_spki(&[0; 44]), None);
    }

    #[test]
    fn debug_hides_the_secret() {
        let identity = Identity::from_secret(&SecretKey::from_bytes([0xab; 32])).unwrap();
        assert!(!format!("{identity:?}").contains("171"));
        assert!(!format!("{identity:?}").to_lowercase().contains("abab"));
    }
}
