//! Keys and configuration files of a client and its exits, as processes on the loopback.
//!
//! They say what they are told and nothing else: all other settings are the defaults, with which a drill's simulated side
//! runs too. Both are read back by the loader that `up` and `provide` have, so what is simulated is what runs.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use quell::config::{self, ClientFile, Config, ProviderFile};
use quell_net::identity::Identity;

use super::{exit_address, network, write_key};

/// The client's role, which names its files.
pub(crate) const CLIENT: &str = "client";

/// The keys, and where the files are.
pub(crate) struct Files {
    folder: PathBuf,
    client: Identity,
    exits: Vec<Identity>,
}

/// What the client's file says.
pub(crate) struct ClientSays<'a> {
    /// Where it finds each exit.
    pub(crate) relays: &'a [SocketAddr],
    /// Where applications find it.
    pub(crate) socks5: SocketAddr,
    /// Where its backend is, and how often it is asked.
    pub(crate) backend: Option<(SocketAddr, Duration)>,
}

impl Files {
    /// Fresh keys of a client and `exits` exits, in `folder`.
    pub(crate) fn new(folder: &Path, exits: usize) -> Result<Self> {
        let exits: Result<Vec<_>, _> = (0..exits).map(|_| Identity::generate()).collect();
        let files = Self {
            folder: folder.to_owned(),
            client: Identity::generate()?,
            exits: exits?,
        };
        write_key(&files.folder, CLIENT, &files.client)?;
        for (exit, identity) in files.exits.iter().enumerate() {
            write_key(&files.folder, &role(exit), identity)?;
        }
        Ok(files)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the file of `exit`, which listens on `listen`.
    pub(crate) fn provider(&self, exit: usize, listen: SocketAddr) -> Result<ProviderFile> {
        let role = role(exit);
        let text = format!(
            "listen = \"{listen}\"\nprivate_key_file = \"{role}.key\"\nrun_dir = \".\"\n\n\
             [[clients]]\nname = \"client\"\npublic_key = \"{client}\"\n\n\
             [addresses]\nipv4_pool = \"10.{network}.0.0/16\"\n\n\
             [egress]\nkind = \"userspace\"\nallow = [\"127.0.0.0/8\"]\n\n\
             [egress.userspace]\nsource_ipv4 = \"{source}\"\n\n[control]\nsocket = \"{role}.sock\"\n",
            client = self.client.public_key(),
            network = network(exit),
            source = exit_address(exit),
        );
        match self.load(&role, &text)? {
            Config::Provider(file) => Ok(*file),
            Config::Client(_) => bail!("{role} is no provider"),
        }
    }

    /// Writes the client's file.
    pub(crate) fn client(&self, says: &ClientSays<'_>) -> Result<ClientFile> {
        let exits = self.exits.iter().zip(says.relays).map(|(identity, relay)| {
            let key = identity.public_key();
            format!("[[provider]]\naddress = \"{relay}\"\npublic_key = \"{key}\"\n\n")
        });
        let backend = says.backend.map_or(String::new(), |(address, interval)| {
            let ms = interval.as_millis();
            format!("[backend]\nurls = [\"http://{address}/\"]\ncheck_interval = \"{ms}ms\"\n\n")
        });
        let text = format!(
            "private_key_file = \"client.key\"\nrun_dir = \".\"\n\n{exits}\
             [proxy]\nsocks5 = \"{socks5}\"\n\n{backend}[control]\nsocket = \"client.sock\"\n",
            exits = exits.collect::<String>(),
            socks5 = says.socks5,
        );
        match self.load(CLIENT, &text)? {
            Config::Client(file) => Ok(*file),
            Config::Provider(_) => bail!("the client is none"),
        }
    }

    fn load(&self, role: &str, text: &str) -> Result<Config> {
        let path = self.folder.join(format!("{role}.toml"));
        fs::write(&path, text)?;
        Ok(config::load_with(&path, &|_| None)?)
    }
}

/// An exit's role, which names its files.
pub(crate) fn role(exit: usize) -> String {
    format!("exit{}", exit + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::relay_address;
    use super::*;

    #[test]
    fn files_are_what_the_loader_takes_and_say_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path(), 2).unwrap();
        let provider = files.provider(1, "127.87.0.1:7".parse().unwrap()).unwrap();
        assert_eq!(provider.transport, Default::default());
        assert_eq!(provider.lanes, Default::default());
        let relays = [0, 1].map(|exit| SocketAddr::new(relay_address(exit).ip(), 9));
        let says = ClientSays {
            relays: &relays,
            socks5: "127.0.0.1:1080".parse().unwrap(),
            backend: Some(("127.0.0.1:80".parse().unwrap(), Duration::from_secs(7))),
        };
        let client = files.client(&says).unwrap();
        assert_eq!(client.providers.len(), 2);
        assert_eq!(client.window, Default::default());
        assert_eq!(client.backend.check_interval, Duration::from_secs(7));
    }
}
