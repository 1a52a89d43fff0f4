//! What a configuration needs of the machine: plain values, made of the file once.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use quell::config::{self, ClientFile, Config, EgressKind, Host, ProviderFile};
use quell_backend::config::{ServerConfig, StoreConfig};

use super::Need;
use crate::verbs::check::is_backend;
use crate::words;

/// Files that a process may have open: what few flows need, and what many need.
const FILES_FEW: u64 = 1_024;
const FILES_MANY: u64 = 65_536;

/// A name or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The setting that names it.
    pub(crate) key: &'static str,
    /// Its host.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
    /// What is asked there by plain HTTP, if anything.
    pub(crate) path: Option<String>,
}

/// An address that is to be listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The setting that names it.
    pub(crate) key: &'static str,
    /// The address.
    pub(crate) address: SocketAddr,
    /// UDP, else TCP.
    pub(crate) is_udp: bool,
}

/// What is needed.
#[derive(Debug, Clone)]
pub(crate) struct Needs {
    pub(crate) role: &'static str,
    pub(crate) tun: Need,
    pub(crate) nft: Need,
    pub(crate) ping: Need,
    /// A route to the world over IPv4, and over IPv6.
    pub(crate) ipv4: Need,
    pub(crate) ipv6: Need,
    pub(crate) files_min: u64,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) servers: Vec<Peer>,
    pub(crate) backends: Vec<Peer>,
    /// Where the control socket is, if this quell runs.
    pub(crate) socket: Option<PathBuf>,
    /// Folders that are written to.
    pub(crate) folders: Vec<PathBuf>,
}

/// Who closes the machine cannot do without a firewall; who takes all its traffic wants one where paths are filtered strictly.
fn firewall(file: &ClientFile) -> Need {
    let is_whole = file.tun.routes.iter().any(|route| route.len() == 0);
    match (file.vpn.fail_closed, is_whole) {
        (true, _) => Need::Must,
        (false, true) => Need::Perhaps,
        (false, false) => Need::Not,
    }
}

impl Needs {
    /// What some quell may need.
    pub(crate) fn of_nobody() -> Self {
        Self {
            role: "any",
            tun: Need::Perhaps,
            nft: Need::Perhaps,
            ping: Need::Perhaps,
            ipv4: Need::Perhaps,
            ipv6: Need::Not,
            files_min: FILES_FEW,
            listeners: Vec::new(),
            servers: Vec::new(),
            backends: Vec::new(),
            socket: None,
            folders: Vec::new(),
        }
    }

    /// What the file at `path` needs.
    ///
    /// # Errors
    /// What is wrong with the file, in words.
    pub(crate) fn of_file(path: &Path) -> Result<Self, String> {
        if is_backend(path) {
            let config = ServerConfig::load(path).map_err(|error| words(&error.into()))?;
            return Ok(Self::of_backend(&config));
        }
        match config::load(path).map_err(|error| words(&error.into()))? {
            Config::Client(file) => Ok(Self::of_client(&file)),
            Config::Provider(file) => Ok(Self::of_provider(&file)),
        }
    }

    fn of_client(file: &ClientFile) -> Self {
        let proxies = [
            ("proxy.socks5", file.proxy.socks5),
            ("proxy.http", file.proxy.http),
            ("metrics.listen", file.metrics.listen),
        ];
        let has_proxy = file.proxy.socks5.is_some() || file.proxy.http.is_some();
        let servers = file.providers.iter().map(|peer| Peer {
            key: "provider.address",
            host: match &peer.address.host {
                Host::Name(name) => name.clone(),
                Host::Ip(ip) => ip.to_string(),
            },
            port: peer.address.port,
            path: None,
        });
        Self {
            role: "client",
            tun: if has_proxy { Need::Not } else { Need::Must },
            nft: firewall(file),
            ping: Need::Not,
            files_min: if has_proxy { FILES_MANY } else { FILES_FEW },
            listeners: proxies.into_iter().filter_map(tcp).collect(),
            servers: servers.collect(),
            backends: backends(&file.backend),
            socket: Some(file.control_socket()),
            folders: kept(file.backend.url.is_some(), &file.state_dir),
            ..Self::of_nobody()
        }
    }

    fn of_provider(file: &ProviderFile) -> Self {
        let is_tun = file.egress.kind == EgressKind::Tun;
        let pool = |pool: bool| if pool { Need::Must } else { Need::Not };
        let keeps = file.backend.url.is_some() || file.limits.month_bytes_max.is_some();
        let mut listeners = vec![Listener {
            key: "listen",
            address: file.listen,
            is_udp: true,
        }];
        listeners.extend(tcp(("metrics.listen", file.metrics.listen)));
        Self {
            role: "provider",
            tun: if is_tun { Need::Must } else { Need::Not },
            nft: pool(is_tun && file.egress.masquerade),
            ping: if is_tun { Need::Not } else { Need::Perhaps },
            ipv4: pool(file.addresses.ipv4_pool.is_some()),
            ipv6: pool(file.addresses.ipv6_pool.is_some()),
            files_min: if is_tun { FILES_FEW } else { FILES_MANY },
            listeners,
            backends: backends(&file.backend),
            socket: Some(file.control_socket()),
            folders: kept(keeps, &file.state_dir),
            ..Self::of_nobody()
        }
    }

    fn of_backend(config: &ServerConfig) -> Self {
        let listen = [
            ("listen", Some(config.listen)),
            ("metrics.listen", config.metrics),
        ];
        let folder = match &config.store {
            StoreConfig::Redb(path) => path.parent().map(Path::to_owned),
            StoreConfig::Postgres(_) => None,
        };
        Self {
            role: "backend",
            tun: Need::Not,
            nft: Need::Not,
            ping: Need::Not,
            files_min: FILES_MANY,
            listeners: listen.into_iter().filter_map(tcp).collect(),
            folders: folder.into_iter().collect(),
            ..Self::of_nobody()
        }
    }
}

fn tcp((key, address): (&'static str, Option<SocketAddr>)) -> Option<Listener> {
    let is_udp = false;
    address.map(|address| Listener {
        key,
        address,
        is_udp,
    })
}

fn kept(keeps: bool, folder: &Path) -> Vec<PathBuf> {
    keeps.then(|| folder.to_owned()).into_iter().collect()
}

fn backends(section: &config::BackendSection) -> Vec<Peer> {
    let own = section
        .url
        .as_ref()
        .map(|url| ("backend.url", url.health()));
    let others = section.urls.iter();
    let others = others.map(|url| ("backend.urls", url.to_string()));
    let all = own.into_iter().chain(others);
    all.filter_map(|(key, url)| peer_of(key, &url)).collect()
}

/// Whom a URL means. What is asked over TLS is not asked here: `path` is of plain HTTP.
fn peer_of(key: &'static str, url: &str) -> Option<Peer> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_plain = scheme == "http";
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        Some(_) | None => (authority, if is_plain { 80 } else { 443 }),
    };
    Some(Peer {
        key,
        host: host.trim_matches(['[', ']']).to_owned(),
        port,
        path: is_plain.then(|| format!("/{path}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firewall_is_needed_to_close_a_machine_and_wanted_to_take_all_of_it() {
        let firewall_of = |routes: &[&str], closes| {
            let mut file = ClientFile::of(Vec::new());
            file.tun.routes = routes
                .iter()
                .filter_map(|route| route.parse().ok())
                .collect();
            file.vpn.fail_closed = closes;
            firewall(&file)
        };
        assert_eq!(firewall_of(&["0.0.0.0/1"], true), Need::Must);
        assert_eq!(firewall_of(&["0.0.0.0/0"], false), Need::Perhaps);
        assert_eq!(firewall_of(&["0.0.0.0/1"], false), Need::Not);
    }

    #[test]
    fn whom_a_url_means() {
        for (url, host, port, path) in [
            (
                "https://api.example.net/health",
                "api.example.net",
                443,
                None,
            ),
            ("http://api.example.net", "api.example.net", 80, Some("/")),
            (
                "http://127.0.0.1:6620/healthz",
                "127.0.0.1",
                6620,
                Some("/healthz"),
            ),
            ("https://[2001:db8::1]/", "2001:db8::1", 443, None),
            ("https://[2001:db8::1]:8443/", "2001:db8::1", 8443, None),
        ] {
            let peer = peer_of("backend.urls", url);
            let expected = Peer {
                key: "backend.urls",
                host: host.to_owned(),
                port,
                path: path.map(str::to_owned),
            };
            assert_eq!(peer, Some(expected), "{url}");
        }
    }
}
