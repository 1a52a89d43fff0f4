//! TLS 1.3 with raw public keys on both sides.
//!
//! The client knows its provider's key and accepts no other. The provider takes
//! any well-formed key whose holder signs the handshake, and decides afterwards,
//! in the core, whether it knows the client: so that an unknown client is told
//! so by name instead of by a bare alert. Key exchange prefers X25519MLKEM768,
//! the hybrid that a recorded session of today survives a quantum computer with.

use std::fmt;
use std::sync::Arc;

use quell_wire::key::PublicKey;
use quell_wire::registry;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, ServerConfig,
    SignatureScheme,
};
use thiserror::Error as ThisError;

use crate::error::NetError;
use crate::identity::{Identity, key_of_spki, spki_of};
use crate::quic::Connection;

/// Why a peer's key was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum KeyRefused {
    /// Another key than the configured one.
    #[error("the provider's key is {found}, configured is {expected}")]
    Unexpected {
        /// What was configured.
        expected: PublicKey,
        /// What the provider showed.
        found: PublicKey,
    },
    /// Not an Ed25519 key at all.
    #[error("the peer's key is not an Ed25519 raw public key")]
    NotEd25519,
}

impl From<KeyRefused> for Error {
    fn from(refused: KeyRefused) -> Self {
        // The variants for certificates hide the words behind a debug format.
        Self::General(refused.to_string())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

pub(crate) fn client_config(
    identity: &Identity,
    expected: PublicKey,
) -> Result<ClientConfig, NetError> {
    let provider = provider();
    let verifier = Arc::new(Verifier {
        expected: Some(expected),
        algorithms: provider.signature_verification_algorithms,
    });
    let resolver = AlwaysResolvesClientRawPublicKeys::new(identity.certified_key()?);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![registry::ALPN.to_vec()];
    // No early data (replayable), and a ticket would tie sessions together.
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

pub(crate) fn server_config(identity: &Identity) -> Result<ServerConfig, NetError> {
    let provider = provider();
    let verifier = Arc::new(Verifier {
        expected: None,
        algorithms: provider.signature_verification_algorithms,
    });
    let resolver = AlwaysResolvesServerRawPublicKeys::new(identity.certified_key()?);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![registry::ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The key that the peer of `connection` proved to hold.
pub(crate) fn peer_key(connection: &Connection) -> Option<PublicKey> {
    let identity = connection.peer_identity()?;
    let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    key_of_spki(chain.first()?)
}

struct Verifier {
    expected: Option<PublicKey>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

impl Verifier {
    fn judge(&self, end_entity: &CertificateDer<'_>) -> Result<(), Error> {
        let found = key_of_spki(end_entity).ok_or(KeyRefused::NotEd25519)?;
        match self.expected {
            Some(expected) if spki_of(&expected) != end_entity.as_ref() => {
                Err(KeyRefused::Unexpected { expected, found }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn verify_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &spki, signature, &self.algorithms)
    }

    fn tls12_is_not_spoken() -> Error {
        Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Self::tls12_is_not_spoken())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Self::tls12_is_not_spoken())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
