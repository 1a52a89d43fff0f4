//! A PostgreSQL of the scenario's own.
//!
//! `initdb` refuses root, and Debian's packages put the programs outside of the path: so they are run as `postgres`, or as
//! `nobody`, from where they are. The cluster lives in a folder that goes with the scenario and listens on a socket in it
//! alone. Unlike that of the store's own tests it syncs what it commits: what an outage costs is asked here.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use tempfile::TempDir;

use crate::fixture::within;

const READY: Duration = Duration::from_secs(30);

pub(super) struct Cluster {
    programs: PathBuf,
    folder: TempDir,
    user: Option<User>,
    server: Option<Child>,
}

#[derive(Clone)]
struct User {
    name: &'static str,
    uid: u32,
    gid: u32,
}

/// Where the newest PostgreSQL's programs are.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let needed = ["initdb", "postgres", "pg_isready", "pg_ctl", "pg_dump"];
    folders
        .filter(|folder| needed.iter().all(|program| folder.join(program).exists()))
        .max()
}

/// A user who is not root.
fn other_user() -> Option<User> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    ["postgres", "nobody"].into_iter().find_map(|name| {
        let mut lines = users.lines();
        let line = lines.find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        let mut id = || fields.next()?.parse().ok();
        let (uid, gid) = (id()?, id()?);
        Some(User { name, uid, gid })
    })
}

impl Cluster {
    /// None where there is no PostgreSQL.
    pub(super) fn start() -> Result<Option<Self>, Failed> {
        let Some(programs) = programs() else {
            return Ok(None);
        };
        let folder = tempfile::Builder::new().prefix("quell-pg").tempdir()?;
        let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
        let user = if is_root {
            let user = other_user().ok_or("there is nobody but root")?;
            chown(folder.path(), Some(user.uid), Some(user.gid))?;
            Some(user)
        } else {
            None
        };
        let mut cluster = Self {
            programs,
            folder,
            user,
            server: None,
        };
        let mut init = cluster.program("initdb");
        init.args(["--username=quell", "--auth=trust", "--no-sync"]);
        init.args(["--encoding=UTF8", "--locale=C", "-D"]);
        let made = init.arg(cluster.data()).output()?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned().into());
        }
        let mut server = cluster.program("postgres");
        server.arg("-D").arg(cluster.data());
        server.arg("-k").arg(cluster.folder.path());
        server.args(["-c", "listen_addresses="]);
        cluster.server = Some(server.spawn()?);
        let ready = || {
            let mut ask = cluster.program("pg_isready");
            let asked = ask.arg("-h").arg(cluster.folder.path()).status().ok()?;
            asked.success().then_some(())
        };
        within(READY, "PostgreSQL is ready", ready)?;
        Ok(Some(cluster))
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        // The thread that starts it is the scenario's, and lives as long.
        command.arg("--pdeathsig=INT");
        if let Some(User { name, gid, .. }) = &self.user {
            command.args([&format!("--reuid={name}"), "--init-groups"]);
            command.arg(format!("--regid={gid}"));
        }
        command.arg("--").arg(self.programs.join(name));
        command.current_dir("/").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The `store` of a backend's file.
    pub(super) fn store(&self) -> String {
        let socket = self.folder.path().display();
        format!("{{ postgres = \"postgres:///postgres?user=quell&host={socket}\" }}")
    }

    /// All that is in it, as text.
    pub(super) fn dump(&self) -> Result<String, Failed> {
        let mut dump = self.program("pg_dump");
        dump.args(["--username=quell", "--dbname=postgres", "-h"]);
        let dumped = dump
            .arg(self.folder.path())
            .stdout(Stdio::piped())
            .output()?;
        assert!(dumped.status.success(), "{dumped:?}");
        Ok(String::from_utf8_lossy(&dumped.stdout).into_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else {
            return;
        };
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "--mode=immediate", "--wait", "-D"]);
        let stopped = stop.arg(self.data()).status();
        if !stopped.is_ok_and(|status| status.success()) {
            // It ends with its folder in any case.
            let _ = server.kill();
        }
        let _ = server.wait();
    }
}
