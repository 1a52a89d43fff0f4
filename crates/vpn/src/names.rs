//! The host's resolver: told to ask through the tunnel, and put back.
//!
//! | the host has | what is done |
//! |---|---|
//! | systemd-resolved in charge of the file | `resolvectl`: servers and all names (`~.`) to the TUN's link; gone with it |
//! | anything else | the file is replaced: written beside and renamed over, so that a reader sees the old or the new one |
//!
//! What stood there before is remembered on disk first, a symbolic link as a link, a file with its bytes, mode and owner.
//! It is put back only while what was set still stands: a file that somebody wrote since is theirs. Where the file cannot
//! be renamed over (a container's bind mount, EBUSY) it is written in place.
//!
//! The tunnel's own names are asked of [`servers`]: those that stood there before.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use quell_host::{HostError, Store, TunName, write_beside};

use crate::host::Host;
use crate::state::{Before, Names};

/// The longest file of servers that is read: the C library reads far less.
const FILE_BYTES_MAX: u64 = 64 * 1024;
const DNS_PORT: u16 = 53;

/// The resolver of a host, as one tunnel sees it.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    pub(crate) host: Host,
    /// What is remembered; `None` where nothing ever was.
    pub(crate) store: Option<Store>,
    pub(crate) tun: TunName,
    pub(crate) path: PathBuf,
}

impl Resolver {
    /// Has `servers` asked, for all names.
    pub(crate) fn set(&self, servers: &[IpAddr]) -> Result<(), HostError> {
        if servers.is_empty() {
            return Ok(());
        }
        if self.is_resolved() {
            return self.set_link(servers);
        }
        let text = text_of(&self.tun, servers);
        let before = match self.known()? {
            // Ours stands there already: what was before it is known.
            Some(names) if names.path == self.path && self.stands(&names) => names.before,
            Some(_) | None => self.look()?,
        };
        let names = Names {
            version: 1,
            path: self.path.clone(),
            before,
            set: text.clone(),
        };
        if let Some(store) = &self.store {
            store.store(&self.tun, &names)?;
        }
        put(&self.path, text.as_bytes(), 0o644, None)
    }

    /// Puts back what was before. Whether there was anything to put back.
    pub(crate) fn restore(&self) -> Result<bool, HostError> {
        // A link that lives on has them; one that is gone took them along.
        let link = Path::new("/sys/class/net").join(self.tun.as_str());
        if self.is_resolved() && link.exists() {
            let _ = self.host.resolvectl.run(&["revert", self.tun.as_str()], "");
        }
        let (Some(names), Some(store)) = (self.known()?, &self.store) else {
            return Ok(false);
        };
        if self.stands(&names) {
            undo(&names)?;
        }
        store.remove(&self.tun)?;
        Ok(true)
    }

    /// What was set, by this process or one before it.
    pub(crate) fn known(&self) -> Result<Option<Names>, HostError> {
        match &self.store {
            Some(store) => store.load(&self.tun),
            None => Ok(None),
        }
    }

    /// Whom the tunnel itself asks: the host's own servers, whether ours stand there or not.
    pub(crate) fn servers(&self) -> Vec<SocketAddr> {
        let upstream = self.host.resolved.join("resolv.conf");
        let text = match self.is_resolved() {
            true => read(&upstream).ok(),
            false => match self.known() {
                Ok(Some(names)) if self.stands(&names) => original(&names),
                Ok(_) | Err(_) => read(&self.path).ok(),
            },
        };
        servers(&text.unwrap_or_default())
    }

    /// Whether systemd-resolved runs, and the file is its.
    fn is_resolved(&self) -> bool {
        let runs = self.host.resolved.join("io.systemd.Resolve").exists();
        let is_its = || {
            let target = fs::read_link(&self.path).unwrap_or_default();
            let leads_there = target.to_string_lossy().contains("systemd/resolve");
            leads_there || read(&self.path).is_ok_and(|text| text.contains("nameserver 127.0.0.53"))
        };
        runs && is_its()
    }

    fn set_link(&self, servers: &[IpAddr]) -> Result<(), HostError> {
        let tun = self.tun.as_str();
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        let mut dns = vec!["dns", tun];
        dns.extend(servers.iter().map(String::as_str));
        self.host.resolvectl.run(&dns, "")?;
        self.host.resolvectl.run(&["domain", tun, "~."], "")?;
        self.host.resolvectl.run(&["default-route", tun, "yes"], "")
    }

    /// Whether what was set is what stands there.
    fn stands(&self, names: &Names) -> bool {
        let is_file = fs::symlink_metadata(&names.path).is_ok_and(|found| found.is_file());
        is_file && read(&names.path).is_ok_and(|text| text == names.set)
    }

    fn look(&self) -> Result<Before, HostError> {
        let failed = |source| HostError::file("read", &self.path, source);
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Before::Absent),
            Err(error) => return Err(failed(error)),
        };
        if found.is_symlink() {
            return Ok(Before::Link(fs::read_link(&self.path).map_err(failed)?));
        }
        if found.len() > FILE_BYTES_MAX {
            return Err(failed(io::Error::other(
                "it is no file of servers: too long",
            )));
        }
        Ok(Before::File {
            bytes: fs::read(&self.path).map_err(failed)?,
            mode: found.mode() & 0o7777,
            owner: (found.uid(), found.gid()),
        })
    }
}

fn text_of(tun: &TunName, servers: &[IpAddr]) -> String {
    let tun = tun.as_str();
    let mut text =
        format!("# Set by quell for {tun}. What stood here comes back when the tunnel ends.\n");
    for server in servers {
        text += &format!("nameserver {server}\n");
    }
    text
}

fn undo(names: &Names) -> Result<(), HostError> {
    let path = &names.path;
    match &names.before {
        Before::Absent => fs::remove_file(path).map_err(|s| HostError::file("remove", path, s)),
        Before::File { bytes, mode, owner } => put(path, bytes, *mode, Some(*owner)),
        Before::Link(target) => {
            let beside = beside(path);
            let _ = fs::remove_file(&beside);
            let linked = symlink(target, &beside).and_then(|()| fs::rename(&beside, path));
            linked.map_err(|source| HostError::file("put back", path, source))
        }
    }
}

/// The text that stood there, when it can still be had.
fn original(names: &Names) -> Option<String> {
    match &names.before {
        Before::Absent => None,
        Before::Link(target) => {
            let folder = names.path.parent().unwrap_or(Path::new("/"));
            read(&folder.join(target)).ok()
        }
        Before::File { bytes, .. } => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".quell");
    path.with_file_name(name)
}

/// Replaces a file.
fn put(path: &Path, bytes: &[u8], mode: u32, owner: Option<(u32, u32)>) -> Result<(), HostError> {
    let failed = |source| HostError::file("write", path, source);
    let beside = beside(path);
    let placed = write_beside(&beside, bytes, mode)
        .and_then(|()| fs::set_permissions(&beside, Permissions::from_mode(mode)))
        .and_then(|()| match owner {
            Some((user, group)) => chown(&beside, Some(user), Some(group)),
            None => Ok(()),
        })
        .and_then(|()| fs::rename(&beside, path));
    let Err(error) = placed else {
        return Ok(());
    };
    // Nothing refers to it.
    let _ = fs::remove_file(&beside);
    if error.kind() != ErrorKind::ResourceBusy {
        return Err(failed(error));
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .map_err(failed)?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read as _;

    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The servers of a resolver's file (resolv.conf(5)).
fn servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address = words.next().filter(|_| is_server)?;
        let address = address.split('%').next()?.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(address, DNS_PORT))
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests;
