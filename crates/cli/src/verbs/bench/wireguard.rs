//! Other tunnels that are installed: programs that speak WireGuard in user space.
//!
//! They are driven alike. `PROGRAM INTERFACE` makes a TUN and stays in the foreground, `wg` tells it keys and peers over the
//! socket that it opens under `/var/run/wireguard`, and addresses are ours to give. What is wrong with one is said with its
//! own words, from its log.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use quell_lab::child::Child;
use quell_lab::netns::Namespace;
use quell_lab::topology::{NEAR_PROVIDER_V4, TwoHosts};

/// Where the programs open their sockets.
const SOCKETS: &str = "/var/run/wireguard";
/// How long a program may take to open its socket, and `wg` to tell it something.
const READY_TIME: Duration = Duration::from_secs(5);
/// How often the socket is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// What wireguard-go takes for an Ethernet, in bytes.
const MTU: u32 = 1_420;
/// UDP ports and inner networks, one after the other: 10.88.0.0/24 and so on.
const PORT_FIRST: u16 = 51_820;
const NETWORK_FIRST: u8 = 88;

/// The programs that are known to be driven so, each with what it wants besides the interface.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("wireguard-go", &["-f"]),
    ("boringtun-cli", &["-f", "--disable-drop-privileges"]),
    ("gotatun", &["-f", "--disable-drop-privileges"]),
];

/// The programs that [`stand`] knows, for people.
pub(super) fn known() -> String {
    PROGRAMS.map(|(name, _)| name).join(", ")
}

/// The arguments of a program; `None`: it is not known. A path may lead to it.
fn arguments(program: &str) -> Option<&'static [&'static str]> {
    let file = name(program);
    let known = PROGRAMS.into_iter().find(|(name, _)| *name == file);
    known.map(|(_, arguments)| arguments)
}

/// What people call a program, wherever it lies.
pub(super) fn name(program: &str) -> String {
    let file = Path::new(program).file_name().unwrap_or_default();
    file.to_string_lossy().into_owned()
}

/// Whether a program can be set up.
pub(super) fn is_known(program: &str) -> bool {
    arguments(program).is_some()
}

/// A tunnel that stands. Dropping it kills its processes, and the interfaces go with them.
#[derive(Debug)]
pub(super) struct Tunnel {
    ends: Vec<Child>,
    far_end: IpAddr,
    sockets: Vec<PathBuf>,
}

impl Tunnel {
    pub(super) fn far_end(&self) -> IpAddr {
        self.far_end
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        self.ends.iter().map(Child::id).collect()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.ends.clear();
        for socket in &self.sockets {
            // Most remove it themselves.
            let _gone = fs::remove_file(socket);
        }
    }
}

/// One end, before it knows the other.
struct End<'a> {
    namespace: &'a Namespace,
    interface: String,
    address: IpAddr,
    key_file: PathBuf,
    public_key: String,
    log: PathBuf,
}

/// Sets up `program` between the two hosts, the `index`-th of all, with its files in `folder`.
///
/// # Errors
/// It or `wg` is not installed, or it does not stand in time.
pub(super) fn stand(net: &TwoHosts, folder: &Path, program: &str, index: u8) -> Result<Tunnel> {
    let arguments = arguments(program)
        .with_context(|| format!("{program} is none of those that are known: {}", known()))?;
    let end = |namespace, side: u8| -> Result<End<'_>> {
        let name = format!("qbench{index}{}", if side == 1 { "s" } else { "c" });
        let key = output(Command::new("wg").arg("genkey"), None)?;
        let key_file = folder.join(format!("{name}.key"));
        fs::write(&key_file, &key)?;
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600))?;
        Ok(End {
            namespace,
            address: Ipv4Addr::new(10, NETWORK_FIRST + index, 0, side).into(),
            key_file,
            public_key: output(Command::new("wg").arg("pubkey"), Some(&key))?,
            log: folder.join(format!("{name}.log")),
            interface: name,
        })
    };
    let (far, near) = (end(&net.provider, 1)?, end(&net.client, 2)?);
    let mut tunnel = Tunnel {
        ends: Vec::new(),
        far_end: far.address,
        sockets: Vec::new(),
    };
    let port = PORT_FIRST + u16::from(index);
    for (own, other) in [(&far, &near), (&near, &far)] {
        let socket = Path::new(SOCKETS).join(format!("{}.sock", own.interface));
        let child = own.start(program, arguments, &socket)?;
        tunnel.ends.push(child);
        tunnel.sockets.push(socket);
        own.tell(other, port)?;
        let interface = own.namespace.iface(&own.interface)?;
        interface.set_mtu(MTU)?;
        interface.add_address(own.address, 24)?;
        interface.up()?;
    }
    Ok(tunnel)
}

impl End<'_> {
    fn start(&self, program: &str, arguments: &[&str], socket: &Path) -> Result<Child> {
        // What a killed one left behind would be taken for this one's.
        let _none = fs::remove_file(socket);
        let log = File::create(&self.log)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(&self.interface)
            .env("LOG_LEVEL", "error")
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = self.namespace.spawn(command);
        let mut child = child.with_context(|| format!("{program} cannot be run"))?;
        let until = Instant::now() + READY_TIME;
        while !socket.exists() {
            let ended = child.try_wait()?;
            if ended.is_some() || Instant::now() >= until {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                bail!(
                    "{program} does not open {}: {}",
                    socket.display(),
                    said.trim()
                );
            }
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(child)
    }

    /// Tells it its key, and where the other end is.
    fn tell(&self, other: &End<'_>, port: u16) -> Result<()> {
        let log = File::options().append(true).open(&self.log)?;
        let mut command = Command::new("wg");
        command
            .args(["set", &self.interface, "listen-port", &port.to_string()])
            .arg("private-key")
            .arg(&self.key_file)
            .args(["peer", &other.public_key])
            .args(["allowed-ips", &format!("{}/32", other.address)])
            .stdout(Stdio::null())
            .stderr(log);
        // The far end learns where the near one is from its first packet.
        if other.address.to_string().ends_with(".1") {
            command.args(["endpoint", &format!("{NEAR_PROVIDER_V4}:{port}")]);
        }
        let done = self.namespace.spawn(command)?.wait(READY_TIME)?;
        if !done.success() {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            bail!("wg set {}: {}", self.interface, said.trim());
        }
        Ok(())
    }
}

/// What a program prints, on one line, when it is given `input`.
fn output(command: &mut Command, input: Option<&str>) -> Result<String> {
    let name = format!("{command:?}");
    let stdin = if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let spawned = command.stdin(stdin).stdout(Stdio::piped()).spawn();
    let mut child = spawned.with_context(|| format!("{name}, of the package wireguard-tools"))?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{name} ended with {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_name_wherever_it_lies() {
        for known in [
            "wireguard-go",
            "/opt/x/wireguard-go",
            "./boringtun-cli",
            "gotatun",
        ] {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["", "/", "wireguard", "wg", "sh"] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }
}
