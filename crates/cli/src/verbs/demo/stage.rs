//! The demo's stage: two namespaces, keys, files, both processes.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use quell::control;
use quell_lab::child::{Child, Signal};
use quell_lab::netns::Namespace;
use quell_lab::topology::{self, NEAR_PROVIDER_V4, TwoHosts};
use quell_net::identity::Identity;
use serde_json::Value;

use crate::Failure;

/// The exit's address inside the tunnel, where the web server listens.
pub(super) const WEB_SERVER: &str = "10.85.0.1:80";
/// How long both ends may take to be ready.
const READY_TIME: Duration = Duration::from_secs(10);
/// How long a process may take to end when asked.
const STOP_TIME: Duration = Duration::from_secs(5);
/// MTU of the wire, in bytes.
const WIRE_MTU: u32 = 1_500;

/// Both ends, running.
pub(super) struct Stage {
    // Dropped in this order: processes before the namespaces they live in.
    client: Child,
    provider: Child,
    hosts: TwoHosts,
    folder: PathBuf,
}

impl Stage {
    /// Sets everything up and waits until the tunnel carries packets of full size.
    pub(super) fn set(folder: &Path) -> Result<Self, Failure> {
        let hosts = topology::two_hosts(WIRE_MTU)?;
        write_files(folder)?;
        let provider = start(&hosts.provider, "provide", folder, "provider")?;
        let client = start(&hosts.client, "up", folder, "client")?;
        let mut stage = Self {
            client,
            provider,
            hosts,
            folder: folder.to_owned(),
        };
        stage.wait_until_up()?;
        Ok(stage)
    }

    pub(super) fn client(&self) -> &Namespace {
        &self.hosts.client
    }

    pub(super) fn provider(&self) -> &Namespace {
        &self.hosts.provider
    }

    /// What one end says of itself.
    pub(super) fn status(&self, role: &str) -> Result<Value, Failure> {
        let request = control::Request {
            command: control::Command::Status,
        };
        let socket = self.folder.join(format!("{role}.sock"));
        Ok(control::request(&socket, request, Duration::from_secs(2))?)
    }

    fn wait_until_up(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < READY_TIME {
            let up = self.status("client").is_ok_and(|status| {
                status["state"] == "up" && status["path"]["inner_mtu"].as_u64() > Some(1_280)
            });
            if up {
                return Ok(());
            }
            for (child, role) in [
                (&mut self.client, "client"),
                (&mut self.provider, "provider"),
            ] {
                if let Some(exit) = child.try_wait()? {
                    return Err(Failure::Failed(anyhow!(
                        "the {role} ended with {exit}:\n{}",
                        log_of(&self.folder, role)
                    )));
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
        let logs =
            ["client", "provider"].map(|role| format!("{role}:\n{}", log_of(&self.folder, role)));
        Err(Failure::Failed(anyhow!(
            "the tunnel was not up after {READY_TIME:?}\n{}",
            logs.concat()
        )))
    }

    /// Ends both processes in good order.
    pub(super) fn clear(self) -> Result<(), Failure> {
        for (mut child, role) in [(self.client, "client"), (self.provider, "provider")] {
            child.signal(Signal::SIGTERM)?;
            let exit = child.wait(STOP_TIME)?;
            if !exit.success() {
                return Err(Failure::Failed(anyhow!(
                    "the {role} ended with {exit}:\n{}",
                    log_of(&self.folder, role)
                )));
            }
        }
        Ok(())
    }
}

fn start(namespace: &Namespace, verb: &str, folder: &Path, role: &str) -> Result<Child, Failure> {
    let log = fs::File::create(folder.join(format!("{role}.log")))?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command
        .arg(verb)
        .arg(folder.join(format!("{role}.toml")))
        .stdout(Stdio::null())
        .stderr(log);
    Ok(namespace.spawn(command)?)
}

fn log_of(folder: &Path, role: &str) -> String {
    fs::read_to_string(folder.join(format!("{role}.log"))).unwrap_or_default()
}

fn write_files(folder: &Path) -> Result<(), Failure> {
    let (client, provider) = (Identity::generate()?, Identity::generate()?);
    for (name, identity) in [("client", &client), ("provider", &provider)] {
        write_secret(
            &folder.join(format!("{name}.key")),
            &identity.secret_key().to_text(),
        )?;
    }
    let address = SocketAddr::new(NEAR_PROVIDER_V4, quell_wire::registry::DEFAULT_PORT);
    let run = folder.display();
    let provider_file = format!(
        "listen = \"{address}\"\n\
         private_key_file = \"provider.key\"\n\
         run_dir = \"{run}\"\n\n\
         [[clients]]\n\
         name = \"demo\"\n\
         public_key = \"{}\"\n\n\
         [addresses]\n\
         ipv4_pool = \"10.85.0.0/16\"\n\
         ipv6_pool = \"fd71:7175:656c::/64\"\n\n\
         [egress]\n\
         # The web server is on the exit itself: nothing has to be translated.\n\
         masquerade = false\n\n\
         [control]\n\
         socket = \"{run}/provider.sock\"\n",
        client.public_key(),
    );
    let client_file = format!(
        "private_key_file = \"client.key\"\n\
         run_dir = \"{run}\"\n\n\
         [provider]\n\
         address = \"{address}\"\n\
         public_key = \"{}\"\n\n\
         [control]\n\
         socket = \"{run}/client.sock\"\n",
        provider.public_key(),
    );
    fs::write(folder.join("provider.toml"), provider_file)?;
    fs::write(folder.join("client.toml"), client_file)?;
    Ok(())
}

fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}")?;
    Ok(())
}
