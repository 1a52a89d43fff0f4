//! A private key that is held elsewhere: a keystore, a secure element, another process.
//!
//! The key signs and is never seen. It signs the TLS handshake of each dial, with the engine's thread waiting: a keystore
//! takes tens of milliseconds, and dials are seconds apart. What else is derived from a private key (stateless resets,
//! connection IDs, keys towards single providers) comes from one signature over a fixed text, taken when the identity is
//! made. Ed25519 signs the same text with the same bytes (RFC 8032 §5.1.6), so all of it is the same after a restart; with a
//! keystore that does otherwise, keys towards providers are others in each process, and contracts that were kept for the
//! earlier ones are not used.

use std::fmt;
use std::io;
use std::sync::Arc;

use quell_core::contract::seal;
use quell_wire::contract::Signature;
use quell_wire::key::PublicKey;
use rustls::sign::SigningKey;
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

use crate::error::NetError;

/// What is signed for everything that is derived. TLS signs texts that begin with 64 spaces (RFC 8446 §4.4.3) and quell
/// others with tags of their own, so this is none of them.
const DERIVATION_TEXT: &[u8] = b"quell derived secrets v1";

/// Holds an Ed25519 private key.
pub trait Signer: Send + Sync {
    /// The public half.
    fn public_key(&self) -> PublicKey;

    /// Signs with Ed25519 (RFC 8032). May wait; the caller does, too.
    ///
    /// # Errors
    /// The key cannot be used at the moment: the dial that needed it fails, and the next one asks again.
    fn sign(&self, message: &[u8]) -> io::Result<[u8; 64]>;
}

/// A signer that is shared, and known to sign for its public key.
#[derive(Clone)]
pub(crate) struct Held(Arc<dyn Signer>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0.public_key()).finish()
    }
}

impl Held {
    /// The signer, and its signature over what everything else is derived from.
    ///
    /// # Errors
    /// It does not sign, or not for its public key.
    pub(crate) fn try_new(signer: Arc<dyn Signer>) -> Result<(Self, [u8; 64]), NetError> {
        let held = Self(signer);
        let Signature(root) = held.sign(DERIVATION_TEXT)?;
        Ok((held, root))
    }

    pub(crate) fn public_key(&self) -> PublicKey {
        self.0.public_key()
    }

    /// Signs, and sees that the signature is one: a wrong one would be told by the provider as a bare alert.
    ///
    /// # Errors
    /// It does not sign, or not for its public key.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Signature, NetError> {
        let signed = self.0.sign(message);
        let signature = signed.map_err(|error| NetError::Key(format!("the signer: {error}")))?;
        let signature = Signature(signature);
        if seal::is_signed(&self.0.public_key(), message, &signature) {
            return Ok(signature);
        }
        let words = "the signer signs with another key than its public one".to_owned();
        Err(NetError::Key(words))
    }
}

impl SigningKey for Held {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn rustls::sign::Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ED25519);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn rustls::sign::Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl rustls::sign::Signer for Held {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = Self::sign(self, message);
        let Signature(bytes) = signature.map_err(|error| Error::General(error.to_string()))?;
        Ok(bytes.to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use quell_wire::key::SecretKey;

    use super::*;
    use crate::identity::Identity;

    /// A key in this process, in the part of a keystore; it may name another public half than its own.
    struct Keystore {
        secret: SecretKey,
        named: PublicKey,
    }

    impl Signer for Keystore {
        fn public_key(&self) -> PublicKey {
            self.named
        }

        fn sign(&self, message: &[u8]) -> io::Result<[u8; 64]> {
            let Signature(bytes) = seal::sign(&self.secret, message);
            Ok(bytes)
        }
    }

    fn keystore(tag: u8, named: u8) -> Arc<dyn Signer> {
        let secret = |tag| SecretKey::from_bytes([tag; 32]);
        Arc::new(Keystore {
            secret: secret(tag),
            named: seal::public_key(&secret(named)),
        })
    }

    #[test]
    fn an_identity_of_a_signer_is_its_key_and_the_same_in_each_process() {
        let [one, again, other] = [1, 1, 2].map(|tag| {
            let identity = Identity::from_signer(keystore(tag, tag)).unwrap();
            let towards = identity.towards(&PublicKey([9; 32]), 20_000).unwrap();
            (identity.public_key(), towards.public_key())
        });
        assert_eq!(one, again);
        assert_ne!(one.0, other.0);
        assert_ne!(one.1, other.1);
        let known = Identity::from_secret(&SecretKey::from_bytes([1; 32])).unwrap();
        assert_eq!(one.0, known.public_key());
    }

    #[test]
    fn a_signer_with_another_key_than_it_names_is_refused() {
        let error = Identity::from_signer(keystore(1, 2)).unwrap_err();
        assert!(error.to_string().contains("another key"), "{error}");
    }
}
