//! What a tunnel asks of its caller: to protect a socket, to sign with a key that the caller's keystore holds.
//!
//! Both are interfaces that the caller implements in its own language. They are called on the tunnel's thread, which waits
//! for them; they must not call the tunnel.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::Arc;

use quell::{PublicKey, Signer};

use crate::error::TunnelError;

/// Sees each UDP socket before its first byte: Android's `VpnService.protect`.
#[uniffi::export(with_foreign)]
pub trait Protector: Send + Sync {
    /// Whether the socket may be used.
    fn protect(&self, socket: i32) -> bool;
}

/// Holds an Ed25519 private key that is never seen: a keystore, a secure element.
#[uniffi::export(with_foreign)]
pub trait KeyHolder: Send + Sync {
    /// The public half, in quell's text form.
    fn public_key(&self) -> String;

    /// The 64 bytes of an Ed25519 signature (RFC 8032) over `message`; none of them where the key cannot be used at the
    /// moment: the dial that needed it fails, and the next one asks again.
    fn sign(&self, message: Vec<u8>) -> Vec<u8>;
}

/// What a tunnel asks of its caller; each may be left out.
#[derive(Clone, Default, uniffi::Record)]
pub struct TunnelHooks {
    /// Sees each socket first.
    pub protector: Option<Arc<dyn Protector>>,
    /// Signs, in the place of a secret key in the options.
    pub key_holder: Option<Arc<dyn KeyHolder>>,
}

/// The builder's hook, by a caller's.
pub(crate) fn protecting(
    protector: Arc<dyn Protector>,
) -> impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static {
    move |socket| match protector.protect(socket.as_raw_fd()) {
        true => Ok(()),
        false => Err(io::Error::other("the socket was not protected")),
    }
}

/// A caller's key holder as the library knows one.
pub(crate) struct Holder {
    holder: Arc<dyn KeyHolder>,
    key: PublicKey,
}

impl Holder {
    /// # Errors
    /// Its public key is none.
    pub(crate) fn try_new(holder: Arc<dyn KeyHolder>) -> Result<Self, TunnelError> {
        let key = holder.public_key().parse().map_err(TunnelError::invalid)?;
        Ok(Self { holder, key })
    }
}

impl Signer for Holder {
    fn public_key(&self) -> PublicKey {
        self.key
    }

    fn sign(&self, message: &[u8]) -> io::Result<[u8; 64]> {
        let signature = self.holder.sign(message.to_vec());
        let len = signature.len();
        let wrong = |_| io::Error::other(format!("a signature of {len} bytes, 64 are right"));
        signature.try_into().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use quell::Identity;

    use super::*;

    struct Keystore {
        key: Identity,
        is_locked: bool,
    }

    impl KeyHolder for Keystore {
        fn public_key(&self) -> String {
            self.key.public_key().to_string()
        }

        fn sign(&self, message: Vec<u8>) -> Vec<u8> {
            match self.is_locked {
                true => Vec::new(),
                false => self.key.sign(&message).unwrap().0.to_vec(),
            }
        }
    }

    fn identity(is_locked: bool) -> Result<Identity, String> {
        let key = Identity::generate().unwrap();
        let holder = Holder::try_new(Arc::new(Keystore { key, is_locked })).unwrap();
        Identity::from_signer(Arc::new(holder)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_callers_keystore_is_an_identity_and_a_locked_one_says_so() {
        assert!(identity(false).is_ok());
        let words = identity(true).unwrap_err();
        assert!(words.contains("0 bytes, 64 are right"), "{words}");
    }
}
