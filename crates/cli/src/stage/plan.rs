//! Keys and configuration files of both ends.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use quell_lab::netns::Namespace;
use quell_net::identity::Identity;

use super::{End, Program};

/// The client's role, which names its files.
pub const CLIENT: &str = "client";
/// The provider's role, which names its files.
pub const PROVIDER: &str = "provider";

/// A provider's address inside the tunnel: the first of the pool that [`Plan::new`] gives it.
pub const EXIT_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 85, 0, 1));

/// What both ends are configured with.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The folder of all files.
    pub folder: PathBuf,
    /// How to run `quell`.
    pub program: Program,
    /// The client's keys.
    pub client: Identity,
    /// The provider's keys.
    pub provider: Identity,
    /// Where the provider listens.
    pub listen: SocketAddr,
    /// Where the client finds it.
    pub dial: SocketAddr,
    /// The IPv4 pool; empty for none.
    pub ipv4_pool: String,
    /// The IPv6 pool; empty for none.
    pub ipv6_pool: String,
    /// The providers' way to the world, as their files name it.
    pub egress_kind: String,
    /// More lines at the end of the providers' `[egress]` table.
    pub provider_egress: String,
    /// Whether clients' addresses are translated.
    pub masquerade: bool,
    /// What clients may speak to although it is denied by default: `egress.allow`.
    pub allow: Vec<String>,
    /// The client's routes.
    pub routes: Vec<String>,
    /// More lines at the end of the client's `[tun]` table.
    pub client_tun: String,
    /// How long the provider carries on when it is told to stop.
    pub drain: Duration,
    /// More clients that the provider knows: names and keys.
    pub more_clients: Vec<(String, Identity)>,
    /// More providers that the client may use.
    pub more_providers: Vec<AnotherProvider>,
    /// More tables at the end of the client's file.
    pub client_tables: String,
}

/// A provider besides the first; what is not said here it has in common with that.
#[derive(Debug, Clone)]
pub struct AnotherProvider {
    /// Its role, which names its files.
    pub role: String,
    /// Its keys.
    pub identity: Identity,
    /// Where it listens, and where the client finds it.
    pub address: SocketAddr,
    /// Its IPv4 pool.
    pub ipv4_pool: String,
    /// Its IPv6 pool; empty for none.
    pub ipv6_pool: String,
}

impl Plan {
    /// Plain ends with fresh keys and both families, whose provider is at `address`.
    ///
    /// # Errors
    /// The system has no random numbers, or does not say which program this is.
    pub fn new(folder: &Path, address: SocketAddr) -> Result<Self> {
        Ok(Self {
            folder: folder.to_owned(),
            program: Program::own()?,
            client: Identity::generate()?,
            provider: Identity::generate()?,
            listen: address,
            dial: address,
            ipv4_pool: "10.85.0.0/16".to_owned(),
            ipv6_pool: "fd71:7175:656c::/64".to_owned(),
            egress_kind: "tun".to_owned(),
            provider_egress: String::new(),
            masquerade: false,
            allow: Vec::new(),
            routes: Vec::new(),
            client_tun: String::new(),
            drain: Duration::ZERO,
            more_clients: Vec::new(),
            more_providers: Vec::new(),
            client_tables: String::new(),
        })
    }

    /// Writes keys and files. What is there already is replaced.
    ///
    /// # Errors
    /// The folder is not to be written.
    pub fn write(&self) -> Result<()> {
        self.write_key(CLIENT, &self.client)?;
        self.write_key(PROVIDER, &self.provider)?;
        fs::write(
            self.folder.join("provider.toml"),
            self.provider_file(&self.first_provider(), &self.folder),
        )?;
        for provider in &self.more_providers {
            // What a provider remembers of its host is its own.
            let run = self.folder.join(&provider.role);
            fs::create_dir_all(&run)?;
            self.write_key(&provider.role, &provider.identity)?;
            fs::write(
                self.folder.join(format!("{}.toml", provider.role)),
                self.provider_file(provider, &run),
            )?;
        }
        fs::write(self.folder.join("client.toml"), self.client_file(CLIENT))?;
        for (name, identity) in &self.more_clients {
            self.write_key(name, identity)?;
            fs::write(
                self.folder.join(format!("{name}.toml")),
                self.client_file(name),
            )?;
        }
        Ok(())
    }

    /// Starts the provider in `namespace`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn provide(&self, namespace: &Namespace) -> Result<End> {
        End::start(&self.program, namespace, "provide", PROVIDER, &self.folder)
    }

    /// Starts the provider `role`, one of several, in `namespace`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn provide_as(&self, role: &str, namespace: &Namespace) -> Result<End> {
        End::start(&self.program, namespace, "provide", role, &self.folder)
    }

    /// Starts all providers, each in its own of `namespaces`, and waits until they serve.
    ///
    /// # Errors
    /// A process cannot be started, or does not become ready.
    pub fn provide_all<'n>(
        &self,
        namespaces: impl Iterator<Item = &'n Namespace>,
    ) -> Result<Vec<End>> {
        let roles = self.provider_roles();
        let started = roles.iter().zip(namespaces).map(|(role, namespace)| {
            let mut provider = self.provide_as(role, namespace)?;
            provider.until_ready()?;
            Ok(provider)
        });
        started.collect()
    }

    /// The roles of all providers, in the order in which the client's file names them.
    pub fn provider_roles(&self) -> Vec<String> {
        let more = self.more_providers.iter();
        let more = more.map(|provider| provider.role.clone());
        std::iter::once(PROVIDER.to_owned()).chain(more).collect()
    }

    /// Starts the client in `namespace`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn up(&self, namespace: &Namespace) -> Result<End> {
        End::start(&self.program, namespace, "up", CLIENT, &self.folder)
    }

    fn write_key(&self, name: &str, identity: &Identity) -> Result<()> {
        let path = self.folder.join(format!("{name}.key"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "{}", identity.secret_key().to_text())?;
        Ok(())
    }

    fn first_provider(&self) -> AnotherProvider {
        AnotherProvider {
            role: PROVIDER.to_owned(),
            identity: self.provider.clone(),
            address: self.listen,
            ipv4_pool: self.ipv4_pool.clone(),
            ipv6_pool: self.ipv6_pool.clone(),
        }
    }

    fn provider_file(&self, provider: &AnotherProvider, run: &Path) -> String {
        let pool = |key: &str, pool: &str| {
            if pool.is_empty() {
                String::new()
            } else {
                format!("{key} = \"{pool}\"\n")
            }
        };
        let more = self
            .more_clients
            .iter()
            .map(|(name, identity)| client_entry(name, identity));
        let clients: String = std::iter::once(client_entry("laptop", &self.client))
            .chain(more)
            .collect();
        format!(
            "listen = \"{}\"\nprivate_key_file = \"{role}.key\"\nrun_dir = \"{run}\"\n\n{clients}\
             [addresses]\n{}{}\n[egress]\nkind = \"{}\"\nmasquerade = {}\nallow = {:?}\n{}\n\n[control]\nsocket = \"{folder}/{role}.sock\"\n\n\
             [transport]\ndrain = \"{}ms\"\n\n[log]\nlevel = \"debug\"\n",
            provider.address,
            pool("ipv4_pool", &provider.ipv4_pool),
            pool("ipv6_pool", &provider.ipv6_pool),
            self.egress_kind,
            self.masquerade,
            self.allow,
            self.provider_egress,
            self.drain.as_millis(),
            role = provider.role,
            run = run.display(),
            folder = self.folder.display(),
        )
    }

    /// The file of the client `name`.
    pub fn client_file(&self, name: &str) -> String {
        let provider = |address: SocketAddr, identity: &Identity| {
            let table = match self.more_providers.is_empty() {
                true => "[provider]",
                false => "[[provider]]",
            };
            let key = identity.public_key();
            format!("{table}\naddress = \"{address}\"\npublic_key = \"{key}\"\n\n")
        };
        let more = self.more_providers.iter();
        let more = more.map(|another| provider(another.address, &another.identity));
        let providers: String = std::iter::once(provider(self.dial, &self.provider))
            .chain(more)
            .collect();
        format!(
            "private_key_file = \"{name}.key\"\nrun_dir = \"{run}\"\nstate_dir = \"{run}\"\n\n{providers}\
             [tun]\nroutes = {:?}\n{}\n\
             [control]\nsocket = \"{run}/{name}.sock\"\n\n[log]\nlevel = \"debug\"\n\n{}",
            self.routes,
            self.client_tun,
            self.client_tables,
            run = self.folder.display(),
        )
    }
}

fn client_entry(name: &str, identity: &Identity) -> String {
    format!(
        "[[clients]]\nname = \"{name}\"\npublic_key = \"{}\"\n\n",
        identity.public_key()
    )
}
