//! The whole machine through the tunnel, and nothing around it: a sniffer on the underlay, a user who never pauses.
//!
//! The user sends over IPv4 and IPv6: datagrams, TCP, questions for names to the world and to the router beside it. What
//! the sniffer may see is quell's own: UDP between the client's address and the provider's. Everything else is a leak.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_cli::stage::{End, Plan};
use quell_lab::child::Signal;
use quell_lab::http::Server;
use quell_lab::netns::Namespace;
use quell_lab::probe::{self, DnsServer};
use quell_lab::sniff::{Seen, Sniffer};
use quell_lab::topology::{self, CLIENT_V4, FAR_PROVIDER_V4, Routed, WORLD_V4, WORLD_V6, Way};
use quell_wire::registry::DEFAULT_PORT;
use tempfile::TempDir;

use crate::fixture::{Outcome, drops, folder, plan, trials, within};

trials![
    nothing_leaks_while_it_connects_stalls_and_loses_its_provider,
    nothing_leaks_when_it_is_stopped_killed_or_told_to_stop,
    a_session_without_ipv6_lets_none_around_it,
    what_a_killed_one_left_is_mended_by_down,
    a_portal_is_open_for_its_time_and_closed_after_it,
    names_and_the_control_plane_are_asked_around_the_tunnel,
    a_service_manager_hears_that_it_stands_lives_and_goes,
    the_units_are_good,
];

/// The router beside the client, which a careless resolver would ask.
const ROUTER: &str = "10.77.0.254";
const RESOLV_CONF: &str = "# of the network\nnameserver 10.77.0.254\n";
const TABLE: &str = "quellvpn_quell0";
/// What nobody answers is waited for at most so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// A client that takes all of its namespace's traffic, a provider, a sniffer between them, and a user.
struct Machine {
    // Dropped in this order.
    client: Option<End>,
    provider: Option<End>,
    _user: User,
    sniffer: Sniffer,
    plan: Plan,
    net: Routed,
    folder: TempDir,
}

/// Sends without a pause until it is dropped.
struct User {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<quell_lab::Result<()>>>,
}

impl User {
    fn start(namespace: &Namespace) -> Result<Self, Failed> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = namespace.spawn_thread(move || {
            while !told.load(Ordering::Relaxed) {
                send_one_of_each();
                thread::sleep(Duration::from_millis(10));
            }
        })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Errors are what a closed host answers.
fn send_one_of_each() {
    let router: IpAddr = ROUTER.parse().unwrap_or(WORLD_V4);
    for (to, port) in [
        (WORLD_V4, 4_242),
        (WORLD_V6, 4_242),
        (WORLD_V4, 53),
        (WORLD_V6, 53),
        (router, 53),
    ] {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        if let Ok(socket) = UdpSocket::bind(any) {
            let _ = socket.send_to(b"who am I?", (to, port));
        }
    }
    for to in [WORLD_V4, WORLD_V6] {
        let _ = TcpStream::connect_timeout(&SocketAddr::new(to, 80), Duration::from_millis(1));
    }
}

/// Whether a packet is the user's, in clear. What the provider's host says by itself is its own: that a port is closed.
fn is_clear(seen: &Seen) -> bool {
    let ends = [seen.source, seen.destination];
    let ports = [seen.ports.0, seen.ports.1];
    let is_own = ends.contains(&CLIENT_V4)
        && ends.contains(&FAR_PROVIDER_V4)
        && ports.contains(&DEFAULT_PORT)
        && seen.protocol == 17;
    !is_own && seen.source != FAR_PROVIDER_V4
}

impl Machine {
    /// The network, the provider's files and the user. Nothing of quell runs, and the sniffer has seen that it sees.
    fn new(vpn: &str, change: impl FnOnce(&mut Plan)) -> Result<Self, Failed> {
        let net = topology::routed(1_500)?;
        let folder = folder()?;
        let mut plan = plan(&folder, FAR_PROVIDER_V4)?;
        plan.routes = ["0.0.0.0/0", "::/0"].map(str::to_owned).to_vec();
        let resolv_conf = folder.path().join("resolv.conf");
        fs::write(&resolv_conf, RESOLV_CONF)?;
        plan.client_tables = format!("[vpn]\nresolv_conf = {resolv_conf:?}\n{vpn}\n");
        change(&mut plan);
        plan.write()?;
        let sniffer = Sniffer::start(&net.router, is_clear)?;
        let machine = Self {
            client: None,
            provider: None,
            _user: User::start(&net.client)?,
            sniffer,
            plan,
            net,
            folder,
        };
        machine.sees_the_user()?;
        Ok(machine)
    }

    fn sees_the_user(&self) -> Outcome {
        let mut kinds = Vec::new();
        within(Duration::from_secs(5), "the user is seen in clear", || {
            let (_, seen) = self.sniffer.take();
            kinds.extend(seen.iter().map(|seen| (seen.destination, seen.ports.1)));
            let all = [
                (WORLD_V4, 4_242),
                (WORLD_V6, 4_242),
                (WORLD_V4, 53),
                (WORLD_V6, 80),
            ];
            all.iter().all(|kind| kinds.contains(kind)).then_some(())
        })
    }

    /// Nothing leaked since the last call, over `time`.
    fn is_tight(&self, what: &str, time: Duration) -> Outcome {
        thread::sleep(time);
        let (count, seen) = self.sniffer.take();
        println!(
            "{what}: {count} in clear of {} so far",
            self.sniffer.total()
        );
        assert_eq!(
            count,
            0,
            "{what}: {:?}",
            seen.iter().take(5).collect::<Vec<_>>()
        );
        Ok(())
    }

    fn provide(&mut self) -> Outcome {
        let mut provider = self.plan.provide(&self.net.provider)?;
        provider.until_ready()?;
        self.provider = Some(provider);
        Ok(())
    }

    /// Starts the client, and waits until it has done what it does before its first dial.
    fn up(&mut self) -> Outcome {
        let client = self.client.insert(self.plan.up(&self.net.client)?);
        client.until("started", |_| true)?;
        Ok(())
    }

    /// From when on nothing may be seen.
    fn forget(&self) {
        // What had left before is on its way for a moment.
        thread::sleep(Duration::from_millis(50));
        let _ = self.sniffer.take();
    }

    fn client(&mut self) -> Result<&mut End, Failed> {
        self.client.as_mut().ok_or_else(|| "no client".into())
    }

    /// Waits until the world answers the user through the tunnel.
    fn reaches_the_world(&mut self) -> Outcome {
        self.client()?.until_up()?;
        let echo = self
            .net
            .world
            .run(|| probe::udp_echo_server(SocketAddr::new(WORLD_V4, 0)))??;
        let address = echo.address();
        let ask = || probe::udp_round_trip(address, 100, Duration::from_millis(500));
        let asked = || self.net.client.run(ask).ok()?.ok();
        within(Duration::from_secs(12), "the world answers", asked).map(drop)
    }

    fn text(&self, program: &str, args: &[&str]) -> Result<String, Failed> {
        let run = || Command::new(program).args(args).output();
        let output = self.net.client.run(run)??;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// All that quell could have left on the client's host.
    fn traces(&self) -> Result<String, Failed> {
        let mut traces = self.text("nft", &["list", "tables"])?;
        for family in ["-4", "-6"] {
            traces += &self.text("ip", &[family, "rule"])?;
            traces += &self.text("ip", &[family, "route", "show", "table", "6610"])?;
        }
        traces += &fs::read_to_string(self.resolv_conf())?;
        Ok(traces)
    }

    fn resolv_conf(&self) -> PathBuf {
        self.folder.path().join("resolv.conf")
    }

    /// `quell VERB client.toml` in the client's namespace.
    fn quell(&self, verb: &str, more: &[&str]) -> Result<quell_lab::child::Child, Failed> {
        let mut command = self.plan.program.command();
        let file = self.folder.path().join("client.toml");
        command.arg(verb).arg(file).args(more);
        Ok(self.net.client.spawn(command)?)
    }

    fn down(&mut self) -> Outcome {
        let ended = self.quell("down", &[])?.wait(Duration::from_secs(10))?;
        assert!(ended.success(), "{ended}");
        Ok(())
    }
}

const CLOSED: &str = "fail_closed = true\ndns = [\"203.0.113.1\"]";

// B75
fn nothing_leaks_while_it_connects_stalls_and_loses_its_provider() -> Outcome {
    let mut machine = Machine::new(CLOSED, |_| {})?;
    machine.up()?;
    machine.forget();
    machine.is_tight("connecting", Duration::from_millis(1_500))?;
    machine.provide()?;
    machine.reaches_the_world()?;
    machine.is_tight("up", Duration::from_millis(500))?;
    let dns = fs::read_to_string(machine.resolv_conf())?;
    assert!(dns.ends_with("\nnameserver 203.0.113.1\n"), "{dns}");
    // Packets of the user to the tunnel's own ends (B38), which come out of the TUN.
    let to_provider = || -> std::io::Result<()> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        for port in [DEFAULT_PORT, 80] {
            socket.send_to(b"loop", (FAR_PROVIDER_V4, port))?;
        }
        Ok(())
    };
    machine.net.client.run(to_provider)??;
    machine.client()?.until("wary of loops", |status| {
        drops(status, "tun_drops", "underlay_address") >= 2
    })?;
    machine.is_tight("loops", Duration::ZERO)?;
    machine.net.cut(Way::Up)?;
    machine.net.cut(Way::Down)?;
    machine.is_tight("outage", Duration::from_millis(2_500))?;
    machine.net.heal();
    machine.reaches_the_world()?;
    if let Some(provider) = &mut machine.provider {
        provider.kill()?;
    }
    machine.is_tight("without a provider", Duration::from_millis(2_000))?;
    machine.provide()?;
    machine.is_tight("with another", Duration::from_millis(500))
}

// B75
fn nothing_leaks_when_it_is_stopped_killed_or_told_to_stop() -> Outcome {
    let mut machine = Machine::new(CLOSED, |_| {})?;
    let before = machine.traces()?;
    machine.provide()?;
    machine.up()?;
    machine.forget();
    machine.reaches_the_world()?;
    machine.client()?.child().signal(Signal::SIGSTOP)?;
    machine.is_tight("standing still", Duration::from_millis(1_000))?;
    machine.client()?.child().signal(Signal::SIGCONT)?;
    machine.is_tight("going on", Duration::from_millis(300))?;
    machine.client()?.kill()?;
    machine.is_tight("killed", Duration::from_millis(1_000))?;
    machine.up()?;
    machine.reaches_the_world()?;
    machine.is_tight("started anew", Duration::from_millis(300))?;
    machine.client()?.stop()?;
    machine.is_tight("told to stop", Duration::from_millis(1_000))?;
    machine.up()?;
    machine.reaches_the_world()?;
    let mut down = machine.quell("down", &[])?;
    let ended = machine.client()?.child().wait(Duration::from_secs(10))?;
    assert!(ended.success(), "{ended}");
    machine.is_tight("until it has ended", Duration::ZERO)?;
    assert!(down.wait(Duration::from_secs(10))?.success());
    assert_eq!(machine.traces()?, before, "all is as it was");
    machine.sees_the_user()
}

fn a_session_without_ipv6_lets_none_around_it() -> Outcome {
    let mut machine = Machine::new("", |plan| plan.ipv6_pool = String::new())?;
    let before = machine.traces()?;
    machine.provide()?;
    machine.up()?;
    machine.reaches_the_world()?;
    machine.forget();
    // Nobody asked for names' servers: the router is asked for names as before.
    let is_expected = |seen: &Seen| {
        let router: Result<IpAddr, _> = ROUTER.parse();
        router.is_ok_and(|router| [seen.source, seen.destination].contains(&router))
    };
    thread::sleep(Duration::from_millis(1_500));
    let (count, seen) = machine.sniffer.take();
    println!("{count} in clear");
    assert!(count > 0 && seen.iter().all(is_expected), "{seen:?}");
    // Whoever tries hears at once that there is no way, and does not wait for one.
    let refused = || TcpStream::connect_timeout(&SocketAddr::new(WORLD_V6, 80), PATIENCE);
    let asked = Instant::now();
    let refused = machine.net.client.run(refused)?;
    println!("IPv6: {refused:?} after {:?}", asked.elapsed());
    assert!(refused.is_err() && asked.elapsed() < PATIENCE / 2);
    // Nobody asked for a closed host: where the client dies, both families are as they were.
    machine.client()?.kill()?;
    machine.sees_the_user()?;
    machine.down()?;
    assert_eq!(machine.traces()?, before, "all is as it was");
    machine.sees_the_user()
}

fn what_a_killed_one_left_is_mended_by_down() -> Outcome {
    let mut machine = Machine::new("dns = [\"203.0.113.1\"]", |_| {})?;
    // A link, as many hosts have it.
    let target = machine.folder.path().join("target.conf");
    fs::rename(machine.resolv_conf(), &target)?;
    std::os::unix::fs::symlink("target.conf", machine.resolv_conf())?;
    let before = machine.traces()?;
    machine.provide()?;
    machine.up()?;
    machine.reaches_the_world()?;
    let is_link = |path: &Path| path.is_symlink();
    assert!(!is_link(&machine.resolv_conf()));
    machine.client()?.kill()?;
    assert_ne!(machine.traces()?, before);
    machine.down()?;
    assert_eq!(machine.traces()?, before);
    assert!(is_link(&machine.resolv_conf()));
    assert_eq!(fs::read_to_string(&target)?, RESOLV_CONF);
    // Again is no error, and there is nothing to do.
    machine.down()
}

fn a_portal_is_open_for_its_time_and_closed_after_it() -> Outcome {
    let mut machine = Machine::new(CLOSED, |_| {})?;
    machine.up()?;
    machine.forget();
    machine.is_tight("connecting", Duration::from_millis(500))?;
    let mut portal = machine.quell("portal", &["--for", "10s"])?;
    let is_web = |seen: &Seen| {
        let ports = [seen.ports.0, seen.ports.1];
        ports.contains(&80) || ports.contains(&53)
    };
    let mut seen = Vec::new();
    within(
        Duration::from_secs(5),
        "the web goes around the tunnel",
        || {
            seen.extend(machine.sniffer.take().1);
            seen.iter().any(|seen| seen.ports.1 == 80).then_some(())
        },
    )?;
    // An ICMP error that answers one of them has no ports.
    let is_other = |seen: &&Seen| matches!(seen.protocol, 6 | 17) && !is_web(seen);
    assert_eq!(seen.iter().find(is_other), None, "nothing else does");
    // Killed, it takes the rules along by nobody; the kernel's clock closes the firewall.
    portal.signal(Signal::SIGKILL)?;
    thread::sleep(Duration::from_secs(11));
    machine.forget();
    machine.is_tight("closed again", Duration::from_millis(500))?;
    let table = machine.text("nft", &["list", "set", "inet", TABLE, "portal"])?;
    assert!(!table.contains("elements"), "{table}");
    machine.down()?;
    assert!(!machine.text("ip", &["-4", "rule"])?.contains("6606"));
    Ok(())
}

/// The provider and the control plane have names alone, and the first dial is made on a closed machine.
// B72
fn names_and_the_control_plane_are_asked_around_the_tunnel() -> Outcome {
    let IpAddr::V4(provider) = FAR_PROVIDER_V4 else {
        return Err("the provider is found by IPv4".into());
    };
    let mut machine = Machine::new(CLOSED, |plan| {
        plan.client_tables += "[backend]\nurls = [\"http://backend.test:8080/\"]\n";
    })?;
    let path = machine.folder.path().join("client.toml");
    let text = fs::read_to_string(&path)?;
    fs::write(
        &path,
        text.replace(&FAR_PROVIDER_V4.to_string(), "vpn.test"),
    )?;
    let resolver = SocketAddr::new(ROUTER.parse()?, 53);
    let names = machine
        .net
        .router
        .run(|| DnsServer::start(resolver, provider))??;
    let at = SocketAddr::new(FAR_PROVIDER_V4, 8_080);
    let backend = machine.net.provider.run(|| Server::start(at))??;
    machine.provide()?;
    machine.up()?;
    machine.forget();
    let before = names.malformed();
    machine.reaches_the_world()?;
    machine
        .client()?
        .until("told that the backend is well", |status| {
            let backend = &status["backend"]["backends"][0];
            backend["last_failure"].is_null() && backend["reason"] != "well: not asked yet"
        })?;
    assert!(
        names.answered() >= 4,
        "two names, two families: {}",
        names.answered()
    );
    drop(backend);
    let (_, seen) = machine.sniffer.take();
    let is_own = |seen: &Seen| {
        let ports = [seen.ports.0, seen.ports.1];
        ports.contains(&53) || ports.contains(&8_080)
    };
    // What the user asked of the router, and could not, never left; what quell asked did.
    let leaked = seen.iter().find(|seen| !is_own(seen));
    assert_eq!(leaked, None);
    assert_eq!(
        names.malformed(),
        before,
        "the user's questions stay inside"
    );
    machine.down()
}

fn a_service_manager_hears_that_it_stands_lives_and_goes() -> Outcome {
    let folder_of_socket = folder()?;
    let path = folder_of_socket.path().join("notify");
    let socket = UnixDatagram::bind(&path)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let hear = || -> Result<String, Failed> {
        let mut bytes = [0; 256];
        let count = socket.recv(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
    };
    let mut machine = Machine::new("", |plan| {
        let program = plan.program.clone().with("WATCHDOG_USEC", "400000");
        plan.program = program.with("NOTIFY_SOCKET", &path.to_string_lossy());
    })?;
    machine.up()?;
    assert_eq!(hear()?, "READY=1");
    assert_eq!(
        (hear()?.as_str(), hear()?.as_str()),
        ("WATCHDOG=1", "WATCHDOG=1")
    );
    machine.client()?.child().signal(Signal::SIGTERM)?;
    while hear()? != "STOPPING=1" {}
    assert!(
        machine
            .client()?
            .child()
            .wait(Duration::from_secs(5))?
            .success()
    );
    Ok(())
}

/// systemd's own judgement, where it is installed.
fn the_units_are_good() -> Outcome {
    let folder = folder()?;
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/systemd");
    for (unit, instance) in [
        ("quell@.service", "quell@x.service"),
        ("quell-provider@.service", "quell-provider@x.service"),
    ] {
        let text = fs::read_to_string(Path::new(units).join(unit))?;
        // What is not installed here stands for itself.
        let text = text
            .replace("/usr/bin/quell ", "/bin/true ")
            .replace("=quell\n", "=root\n");
        let path = folder.path().join(instance);
        fs::write(&path, text)?;
        let verified = Command::new("systemd-analyze")
            .arg("verify")
            .arg(&path)
            .output();
        let Ok(verified) = verified else {
            println!("not verified: there is no systemd-analyze here");
            return Ok(());
        };
        let words = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(
            verified.status.success() && words.is_empty(),
            "{unit}: {words}"
        );
    }
    Ok(())
}
