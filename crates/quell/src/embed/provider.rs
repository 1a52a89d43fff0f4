//! A provider of an embedder's, piece by piece.
//!
//! As a client's builder; a device of one's own stands in the place of the egress: it gets the clients' packets, and gives
//! those for them.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use quell_backend::ask::Backend;
use quell_net::Protect;
use quell_net::engine::client::Device;
use quell_net::identity::Identity;
use quell_underlay::Underlay;
use quell_wire::key::SecretKey;

use super::key_of;
use crate::config::{Config, ProviderFile, RoleFile as _, refuse_own_key};
use crate::error::Error;
use crate::plane;
use crate::provider::{Parts, Provider};

/// Gathers what a provider is started with: see [`Provider::builder`].
#[derive(Default)]
#[must_use]
pub struct ProviderBuilder {
    config: Option<Config>,
    key: Option<SecretKey>,
    device: Option<Device>,
    protect: Option<Protect>,
    backend: Option<Arc<dyn Backend>>,
    is_controlled: bool,
}

impl ProviderBuilder {
    /// Its settings, from a text, a file or code. There are none by default.
    pub fn config(mut self, config: impl Into<Config>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Its private key, in the place of the file that the configuration names.
    pub fn key(mut self, key: SecretKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Where clients' packets go, in the place of the configuration's egress.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// Shows the UDP socket to `hook` before its first byte.
    pub fn protect(
        mut self,
        hook: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.protect = Some(Protect::new(hook));
        self
    }

    /// A control plane of one's own, in the place of `backend.url`.
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Lets it answer on the control socket of the configuration, which `quell status` asks. By default there is none.
    pub fn control_socket(mut self) -> Self {
        self.is_controlled = true;
        self
    }

    /// Starts it, on a thread of its own.
    ///
    /// # Errors
    /// A piece is missing or not allowed ([`Error::NoConfig`], [`Error::NoKey`], [`Error::Config`]), or the egress, the
    /// port, the control socket or what is kept is not to be had.
    pub fn start(self) -> Result<Provider, Error> {
        let file = provider_file(self.config)?.try_new()?;
        let key = key_of(self.key, &file.private_key_file)?;
        let identity = Identity::from_secret(&key)?;
        refuse_own_key(identity.public_key(), &file.peers())?;
        let backend = match (self.backend, &file.backend.url) {
            (Some(backend), _) => Some(backend),
            (None, Some(url)) => {
                let timeout = file.backend.attempt_timeout;
                Some(plane::over_http(url, key, timeout, Underlay::default())?)
            }
            (None, None) => None,
        };
        let parts = Parts {
            identity,
            plane: backend,
            device: self.device,
            protect: self.protect,
            is_controlled: self.is_controlled,
        };
        Provider::launch(&file, parts)
    }
}

fn provider_file(config: Option<Config>) -> Result<ProviderFile, Error> {
    match config.ok_or(Error::NoConfig)? {
        Config::Provider(file) => Ok(*file),
        Config::Client(_) => Err(Error::WrongRole {
            wanted: "provider",
            found: "client",
        }),
    }
}
