//! Where the host is: its programs, `/proc`, `/run`. Paths and not constants, so that all is tested without privileges.

use std::path::{Path, PathBuf};

use quell_host::{HostError, Program, Realm};

/// The host that a tunnel changes.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) proc_root: PathBuf,
    /// Where systemd-resolved keeps its files while it runs.
    pub(crate) resolved: PathBuf,
    pub(crate) ip: Program,
    pub(crate) nft: Program,
    pub(crate) resolvectl: Program,
}

/// An IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) const fn is_of(self, prefix: &quell_packet::Prefix) -> bool {
        prefix.addr().is_ipv4() == matches!(self, Self::V4)
    }

    const fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }
}

impl Host {
    /// This host, as the calling thread sees it.
    pub(crate) fn this() -> Self {
        Self {
            proc_root: "/proc".into(),
            resolved: "/run/systemd/resolve".into(),
            ip: Program::new("ip"),
            nft: Program::new("nft"),
            resolvectl: Program::new("resolvectl"),
        }
    }

    pub(crate) fn realm(&self) -> Result<Realm, HostError> {
        Realm::of(&self.proc_root)
    }

    /// Whether the kernel knows the family, and has it switched on.
    pub(crate) fn has(&self, family: Family) -> bool {
        match family {
            Family::V4 => true,
            Family::V6 => {
                let disabled = self.proc_root.join("sys/net/ipv6/conf/all/disable_ipv6");
                read(&disabled).is_some_and(|value| value != "1")
            }
        }
    }

    /// Has `ip` do a batch. An empty one is done.
    pub(crate) fn routes(&self, family: Family, batch: &str) -> Result<(), HostError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.ip.run(&[family.option(), "-batch", "-"], batch)
    }

    /// As [`routes`](Self::routes), of removals: what is not there is fine.
    pub(crate) fn unroute(&self, family: Family, batch: &str) -> Result<(), HostError> {
        if batch.is_empty() {
            return Ok(());
        }
        match self
            .ip
            .run(&[family.option(), "-force", "-batch", "-"], batch)
        {
            Err(HostError::ProgramRefused { words, .. }) if is_absence(&words) => Ok(()),
            result => result,
        }
    }

    /// Has `nft` take a script as one transaction.
    pub(crate) fn rules(&self, script: &str) -> Result<(), HostError> {
        self.nft.run(&["-f", "-"], script)
    }

    fn setting(&self, path: &str) -> PathBuf {
        self.proc_root.join("sys/net/ipv4/conf").join(path)
    }

    /// Whether a packet is dropped anywhere whose way back is not the way it came (RFC 3704, strict).
    fn filters_strictly(&self) -> bool {
        let is_strict = |path: &Path| read(path).is_some_and(|value| value == "1");
        let folders = std::fs::read_dir(self.setting("")).into_iter().flatten();
        let mut files = folders.filter_map(|entry| Some(entry.ok()?.path().join("rp_filter")));
        files.any(|file| is_strict(&file))
    }

    /// Has the reverse-path filter look at marks, where that matters and is not so. Whether it was changed.
    pub(crate) fn mind_marks(&self) -> Result<bool, HostError> {
        let path = self.setting("all/src_valid_mark");
        if !self.filters_strictly() || read(&path).is_none_or(|value| value != "0") {
            return Ok(false);
        }
        let written = std::fs::write(&path, "1\n");
        written.map_err(|source| HostError::file("set", &path, source))?;
        Ok(true)
    }

    /// The way back, unless somebody else has changed it since.
    pub(crate) fn forget_marks(&self) -> Result<(), HostError> {
        let path = self.setting("all/src_valid_mark");
        if read(&path).is_none_or(|value| value != "1") {
            return Ok(());
        }
        std::fs::write(&path, "0\n").map_err(|source| HostError::file("set", &path, source))
    }
}

/// What `ip` says of a rule, a route or a table that is not there.
fn is_absence(words: &str) -> bool {
    let harmless = [
        "No such file or directory",
        "No such process",
        "Cannot find device",
        "does not exist",
        "Flush terminated",
        "Command failed",
        "Address family not supported",
        "exit status",
    ];
    let mut lines = words.lines();
    lines.all(|line| harmless.iter().any(|known| line.contains(known)))
}

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_told_from_refusal() {
        let gone =
            "RTNETLINK answers: No such file or directory\nCommand failed -:3 (exit status: 1)";
        assert!(is_absence(gone));
        assert!(is_absence(
            "Error: ipv4: FIB table does not exist.\nFlush terminated"
        ));
        let refused = format!("{gone}\nRTNETLINK answers: Operation not permitted");
        assert!(!is_absence(&refused));
    }
}
