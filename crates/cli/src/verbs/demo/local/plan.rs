//! Keys and configuration files of a client without a TUN and its exits.
//!
//! They are files, read by the loader that `up` and `provide` have, since that is what people
//! write. Paths in them are relative to the folder, variables of the environment are not looked
//! at: a demo is the same whoever starts it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use quell::config::{self, ClientFile, Config, ProviderFile};
use quell_net::identity::Identity;

use crate::Failure;
use crate::loopback::{exit_address, network, write_key};

/// The loopback is denied to clients unless an operator opens it, as all that is the host's own.
const EGRESS_RULES: &str = "allow = [\"127.0.0.0/8\"]\n";

/// What there is to be on a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// How many exits, 1 to 3.
    pub(super) exits: usize,
    /// The port of the SOCKS5 proxy; 0: any.
    pub(super) socks5: u16,
    /// The port of the HTTP proxy; 0: any.
    pub(super) http: u16,
}

/// The keys, and where the files are.
pub(super) struct Plan {
    folder: PathBuf,
    client: Identity,
    exits: Vec<Identity>,
}

impl Plan {
    /// Fresh keys for a client and `exits` exits, written to `folder`.
    ///
    /// # Errors
    /// There are no random numbers, or the folder is not to be written.
    pub(super) fn new(folder: &Path, exits: usize) -> Result<Self, Failure> {
        let plan = Self {
            folder: folder.to_owned(),
            client: Identity::generate()?,
            exits: (0..exits)
                .map(|_| Identity::generate())
                .collect::<Result<_, _>>()?,
        };
        write_key(&plan.folder, "client", &plan.client)?;
        for (exit, identity) in plan.exits.iter().enumerate() {
            write_key(&plan.folder, &exit_name(exit), identity)?;
        }
        Ok(plan)
    }

    /// The file of `exit`, which listens on `listen`.
    ///
    /// # Errors
    /// It is not to be written.
    pub(super) fn provider(
        &self,
        exit: usize,
        listen: SocketAddr,
    ) -> Result<ProviderFile, Failure> {
        let name = exit_name(exit);
        let text = format!(
            "listen = \"{listen}\"\nprivate_key_file = \"{name}.key\"\nrun_dir = \".\"\n\n\
             [[clients]]\nname = \"demo\"\npublic_key = \"{client}\"\n\n\
             [addresses]\nipv4_pool = \"10.{network}.0.0/16\"\n\n\
             [egress]\nkind = \"userspace\"\n{EGRESS_RULES}\n\
             [egress.userspace]\nsource_ipv4 = \"{source}\"\n\n\
             [control]\nsocket = \"{name}.sock\"\n\n[transport]\ndrain = \"0s\"\n",
            client = self.client.public_key(),
            network = network(exit),
            source = exit_address(exit),
        );
        match self.load(&name, &text)? {
            Config::Provider(file) => Ok(*file),
            Config::Client(_) => Err(Failure::Failed(anyhow!("{name} is no provider"))),
        }
    }

    /// The client's file, which finds each exit at one of `relays`.
    ///
    /// # Errors
    /// It is not to be written.
    pub(super) fn client(
        &self,
        relays: &[SocketAddr],
        wanted: Wanted,
    ) -> Result<ClientFile, Failure> {
        let exits = self.exits.iter().zip(relays).map(|(identity, relay)| {
            let key = identity.public_key();
            format!("[[provider]]\naddress = \"{relay}\"\npublic_key = \"{key}\"\n\n")
        });
        let text = format!(
            "private_key_file = \"client.key\"\nrun_dir = \".\"\n\n{exits}\
             [proxy]\nsocks5 = \"127.0.0.1:{socks5}\"\nhttp = \"127.0.0.1:{http}\"\n\n\
             [window]\nwindow_min = {window}\n\n[control]\nsocket = \"client.sock\"\n",
            exits = exits.collect::<String>(),
            socks5 = wanted.socks5,
            http = wanted.http,
            // All are kept, so that whichever goes has the others to choose from.
            window = self.exits.len(),
        );
        match self.load("client", &text)? {
            Config::Client(file) => Ok(*file),
            Config::Provider(_) => Err(Failure::Failed(anyhow!("the client is none"))),
        }
    }

    /// The control socket of a client or an exit.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sock"))
    }

    fn load(&self, name: &str, text: &str) -> Result<Config, Failure> {
        let path = self.folder.join(format!("{name}.toml"));
        fs::write(&path, text)?;
        Ok(config::load_with(&path, &|_| None)?)
    }
}

/// An exit's name, which names its files.
pub(super) fn exit_name(exit: usize) -> String {
    format!("exit{}", exit + 1)
}

/// The exit that speaks from `address`.
pub(super) fn exit_of(address: std::net::IpAddr, exits: usize) -> Option<usize> {
    (0..exits).find(|exit| address == exit_address(*exit))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::loopback::relay_address;

    #[test]
    fn files_are_what_the_loader_takes() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan::new(folder.path(), 3).unwrap();
        let listen = "127.88.0.1:7".parse().unwrap();
        let provider = plan.provider(2, listen).unwrap();
        assert_eq!(provider.listen, listen);
        assert_eq!(
            provider.egress.userspace.source_ipv4,
            Some(Ipv4Addr::new(127, 88, 0, 1))
        );
        assert_eq!(provider.control_socket(), plan.socket("exit3"));
        let relays: Vec<_> = (0..3).map(relay_address).collect();
        let relays: Vec<_> = relays
            .iter()
            .map(|relay| SocketAddr::new(relay.ip(), 9))
            .collect();
        let wanted = Wanted {
            exits: 3,
            socks5: 1_080,
            http: 0,
        };
        let client = plan.client(&relays, wanted).unwrap();
        assert_eq!(client.providers.len(), 3);
        assert_eq!(client.proxy.socks5, Some("127.0.0.1:1080".parse().unwrap()));
        assert_eq!(client.control_socket(), plan.socket("client"));
    }

    #[test]
    fn an_address_names_its_exit() {
        let of = |a, b, d| exit_of(IpAddr::from([a, b, 0, d]), 3);
        assert_eq!([of(127, 86, 1), of(127, 88, 1)], [Some(0), Some(2)]);
        assert_eq!([of(127, 85, 1), of(127, 89, 1), of(10, 86, 1)], [None; 3]);
        assert_eq!(of(127, 86, 2), None, "its relay speaks for nobody");
        assert_eq!(exit_of(IpAddr::from([0_u16; 8]), 3), None);
    }
}
