//! What scenarios share: a world with both ends in it, and its books.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use quell_cli::stage::{End, Plan, Program};
use quell_lab::netns::{self, Namespace};
use quell_lab::topology::{self, FAR_PROVIDER_V4, Routed};
use quell_wire::registry::DEFAULT_PORT;
use serde_json::Value;
use tempfile::TempDir;

/// The environment variable that makes this harness the program under test.
pub(crate) const ROLE: &str = "QUELL_TEST_ROLE";

/// What a scenario comes to.
pub(crate) type Outcome = Result<(), Failed>;

/// Trials of functions, named by them.
macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(libtest_mimic::Trial::ignorable_test(
                concat!(module_path!(), "::", stringify!($name)).trim_start_matches("scenarios::"),
                || crate::fixture::unless_skipped($name),
            )),+]
        }
    };
}
pub(crate) use trials;

/// Runs `scenario` where namespaces can be made, else says why not.
pub(crate) fn unless_skipped(scenario: fn() -> Outcome) -> Result<Completion, Failed> {
    match netns::unavailable() {
        None => scenario().map(|()| Completion::Completed),
        Some(why) => Ok(Completion::ignored_with(format!("skipped: {why}"))),
    }
}

/// The same where `program` runs, too.
pub(crate) fn unless_missing(
    program: &str,
    scenario: fn() -> Outcome,
) -> Result<Completion, Failed> {
    match std::process::Command::new(program)
        .arg("--version")
        .output()
    {
        Ok(_) => unless_skipped(scenario),
        Err(error) => Ok(Completion::ignored_with(format!(
            "skipped: {program} does not run: {error}"
        ))),
    }
}

/// Client – router – provider – world, with both ends running.
pub(crate) struct World {
    // Dropped in this order: processes before the namespaces they live in.
    pub(crate) client: End,
    pub(crate) provider: End,
    pub(crate) plan: Plan,
    pub(crate) net: Routed,
    /// Keeps the folder of keys, files and sockets.
    pub(crate) folder: TempDir,
}

/// Destinations behind the exit that scenarios route into the tunnel.
pub(crate) const ROUTES: [&str; 2] = ["203.0.113.0/24", "2001:db8:113::/48"];

impl World {
    /// Both ends over links of `mtu` bytes, the client's session up.
    pub(crate) fn new(mtu: u32) -> Result<Self, Failed> {
        Self::with(mtu, |_, _| Ok(()))
    }

    /// As [`World::new`], after `change` had its way with network and plan.
    pub(crate) fn with(
        mtu: u32,
        change: impl FnOnce(&Routed, &mut Plan) -> Outcome,
    ) -> Result<Self, Failed> {
        let net = topology::routed(mtu)?;
        let folder = folder()?;
        let mut plan = plan(&folder, FAR_PROVIDER_V4)?;
        change(&net, &mut plan)?;
        plan.write()?;
        let mut provider = plan.provide(&net.provider)?;
        provider.until_ready()?;
        let mut client = plan.up(&net.client)?;
        client.until_up()?;
        Ok(Self {
            client,
            provider,
            plan,
            net,
            folder,
        })
    }

    /// Waits until the client's tunnel carries packets of at least `bytes` whole.
    pub(crate) fn until_mtu(&mut self, bytes: u64) -> Result<u64, Failed> {
        let status = self
            .client
            .until("at full size", |status| inner_mtu(status) >= bytes)?;
        Ok(inner_mtu(&status))
    }

    /// The client's inner address of a family.
    pub(crate) fn client_address(&self, family: &str) -> Result<IpAddr, Failed> {
        address(&self.client.status()?, family)
    }

    /// Stops both ends in good order, with their books balanced: every packet that
    /// was accepted was sent, dropped by reason, or is in flight.
    pub(crate) fn finish(mut self) -> Outcome {
        for end in [&self.client, &self.provider] {
            balanced(&end.status()?)?;
        }
        self.client.stop()?;
        self.provider.stop()?;
        Ok(())
    }
}

/// A folder for keys, files and sockets.
pub(crate) fn folder() -> Result<TempDir, Failed> {
    Ok(tempfile::Builder::new()
        .prefix("quell-scenario-")
        .tempdir()?)
}

/// A plan whose processes are this harness, masquerading, with [`ROUTES`].
pub(crate) fn plan(folder: &TempDir, provider: IpAddr) -> Result<Plan, Failed> {
    let mut plan = Plan::new(folder.path(), SocketAddr::new(provider, DEFAULT_PORT))?;
    plan.program = Program::own()?.with(ROLE, "quell");
    plan.masquerade = true;
    plan.routes = ROUTES.map(str::to_owned).to_vec();
    Ok(plan)
}

pub(crate) fn inner_mtu(status: &Value) -> u64 {
    status["exits"][0]["path"]["inner_mtu"]
        .as_u64()
        .unwrap_or(0)
}

pub(crate) fn address(status: &Value, family: &str) -> Result<IpAddr, Failed> {
    let text = status["addresses"][family][0].as_str();
    Ok(text.ok_or("no such address")?.parse()?)
}

/// A counter of drops, whose absence means none.
pub(crate) fn drops(status: &Value, table: &str, reason: &str) -> u64 {
    status[table][reason].as_u64().unwrap_or(0)
}

pub(crate) fn balanced(status: &Value) -> Outcome {
    if status["unaccounted"].as_i64() == Some(0) {
        return Ok(());
    }
    Err(format!("packets are unaccounted for: {status}").into())
}

/// Asks `probe` again and again until it gives something.
pub(crate) fn within<T>(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> Option<T>,
) -> Result<T, Failed> {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = probe() {
            return Ok(found);
        }
        if start.elapsed() > limit {
            return Err(format!("not within {limit:?}: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether an interface of that name is in the namespace.
pub(crate) fn has_iface(namespace: &Namespace, name: &str) -> bool {
    namespace.iface(name).is_ok()
}

/// Lets a process open files up to this number, and again more later.
pub(crate) fn limit_files(pid: u32, files: usize) -> Outcome {
    let files = format!("--nofile={files}:4096");
    let pid = format!("--pid={pid}");
    let done = Command::new("prlimit").args([pid, files]).output()?;
    assert!(done.status.success(), "{done:?}");
    Ok(())
}
