//! The demo of one process: as nobody in particular, in a network that counts what would leave, and used by hand.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::child::{Child, Signal};
use quell_lab::netns::{self, Namespace, sysctl};
use serde_json::Value;

use super::{CLOCK_SLACK, books_close, broken, demo_folders, exits_went, figures_agree, seconds};
use crate::commands::quell;
use crate::fixture::{Outcome, ROLE, folder, trials};

trials![
    the_demo_shows_thirty_seconds_without_privileges,
    nobody_in_particular_plays_it_and_nothing_leaves_the_host,
    a_stage_is_served_until_it_is_told_to_end,
    a_bound_that_breaks_is_the_demos_failure,
    it_cleans_up_on_ctrl_c_without_privileges_too,
    a_page_that_cannot_be_written_is_known_before_anything_is_played,
];

/// Longer than both acts on a busy machine.
const PLAY_TIME: Duration = Duration::from_secs(180);
/// Longer than a stage takes to stand, or to go.
const STAGE_TIME: Duration = Duration::from_secs(30);
/// Who has no rights at all: `nobody` of most systems.
const NOBODY: u32 = 65_534;

fn nobody(command: &mut Command) -> &mut Command {
    command.uid(NOBODY).gid(NOBODY)
}

/// What a child says until it ends.
fn rest(child: &mut Child) -> Result<String, Failed> {
    let mut text = String::new();
    let mut out = child.take_stdout().ok_or("no output")?;
    out.read_to_string(&mut text)?;
    Ok(text)
}

//
fn the_demo_shows_thirty_seconds_without_privileges() -> Outcome {
    let (output, out, _) = super::demo(&["--act", "outage", "--size", "16", "--no-report"])?;
    assert!(out.contains("SHA-256 right"));
    assert_eq!(seconds(&out), [5, 30, 5]);
    assert!(out.lines().all(|line| line.chars().count() <= 80));
    assert_eq!(broken(&out), [""; 0]);
    assert_eq!(output.status.success(), !out.contains("BROKEN"));
    Ok(())
}

/// A network of its own, with a way to the world that counts what takes it.
struct Watched {
    namespace: Namespace,
    way: netns::Iface,
    _world: Namespace,
}

impl Watched {
    fn new() -> Result<Self, Failed> {
        let (namespace, world) = (Namespace::new("demo")?, Namespace::new("world")?);
        for namespace in [&namespace, &world] {
            // A fresh IPv6 interface speaks by itself.
            let key = "net.ipv6.conf.default.disable_ipv6";
            if sysctl(namespace, key, "1").is_err() {
                println!("without IPv6");
            }
        }
        let (way, there) = netns::veth(&namespace, "way", &world, "there")?;
        way.add_address(Ipv4Addr::new(192, 0, 2, 2).into(), 24)?;
        there.add_address(Ipv4Addr::new(192, 0, 2, 1).into(), 24)?;
        namespace.default_route(Ipv4Addr::new(192, 0, 2, 1).into())?;
        Ok(Self {
            namespace,
            way,
            _world: world,
        })
    }

    /// Sockets that others could reach: those that listen, and all of UDP.
    fn reachable(&self) -> Result<Vec<Ipv4Addr>, Failed> {
        let read = |name| {
            let path = format!("/proc/thread-self/net/{name}");
            self.namespace.run(|| fs::read_to_string(&path))
        };
        let mut addresses = Vec::new();
        for (name, state) in [("tcp", Some("0A")), ("udp", None)] {
            let table = read(name)??;
            let rows = table.lines().skip(1);
            addresses.extend(rows.filter_map(|row| local_address(row, state)));
        }
        for name in ["tcp6", "udp6"] {
            // There is none where the kernel has no IPv6.
            let table = read(name)?.unwrap_or_default();
            assert_eq!(table.lines().skip(1).count(), 0, "{table}");
        }
        Ok(addresses)
    }
}

/// The address that a row of `/proc/net/tcp` is of (proc_pid_net(5)), if its state is the one that is looked for.
fn local_address(row: &str, state: Option<&str>) -> Option<Ipv4Addr> {
    let words: Vec<_> = row.split_whitespace().collect();
    let is_wanted = state.is_none_or(|state| words.get(3) == Some(&state));
    let (address, _port) = words.get(1)?.split_once(':')?;
    let bits = u32::from_str_radix(address, 16).ok()?;
    // The kernel prints the four bytes as the number that they are in its memory.
    is_wanted.then(|| Ipv4Addr::from(bits.to_ne_bytes()))
}

/// Copies this program to where nobody in particular may run it, with a folder to write to.
fn as_nobodys(folder: &Path) -> Result<Command, Failed> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let (program, own) = (folder.join("quell"), folder.join("own"));
    fs::copy(std::env::current_exe()?, &program)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    fs::create_dir(&own)?;
    fs::set_permissions(&own, Permissions::from_mode(0o777))?;
    let mut command = Command::new(program);
    command
        .env_clear()
        .env(ROLE, "quell")
        .env("TMPDIR", &own)
        .current_dir(&own);
    nobody(&mut command);
    Ok(command)
}

//
fn nobody_in_particular_plays_it_and_nothing_leaves_the_host() -> Outcome {
    let (folder, watched) = (folder()?, Watched::new()?);
    let mut command = as_nobodys(folder.path())?;
    command
        .args(["demo", "--json", "--size", "4", "--outage", "6"])
        .stdout(Stdio::piped());
    let sent_before = watched.way.counters()?.tx_packets;
    let mut demo = watched.namespace.spawn(command)?;
    let (start, mut most) = (Instant::now(), 0);
    while demo.try_wait()?.is_none() && start.elapsed() < PLAY_TIME {
        let reachable = watched.reachable()?;
        assert!(reachable.iter().all(Ipv4Addr::is_loopback), "{reachable:?}");
        most = most.max(reachable.len());
        thread::sleep(Duration::from_millis(100));
    }
    let exit = demo.wait(Duration::ZERO)?;
    // Two proxies, a web server, and for each of three exits its port, its relay's, and the client's.
    assert!(most >= 3 + 3 * 3, "{most} sockets were seen");
    assert_eq!(watched.way.counters()?.tx_packets, sent_before);

    let object: Value = serde_json::from_str(&rest(&mut demo)?)?;
    figures_agree(&object, exit.code())?;
    for end in ["client", "provider"] {
        books_close(&object["conservation"][end]);
    }
    assert_eq!(object["tcp_bytes"]["sent"], object["tcp_bytes"]["arrived"]);
    exits_went(&object["exits"])?;
    let own = folder.path().join("own");
    page_holds(&fs::read_to_string(own.join("quell-demo.html"))?, &object)?;
    assert_eq!(demo_folders(&own), 0);
    Ok(())
}

/// The page has the bounds' figures, a row for each second, and asks nobody for anything.
fn page_holds(page: &str, object: &Value) -> Outcome {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for loaded in [
        "<script", "<link", "<img", "href", "src=", "url(", "@import",
    ] {
        assert!(!page.contains(loaded), "{loaded}");
    }
    for element in [
        "section", "table", "svg", "details", "tr", "td", "rect", "text", "title",
    ] {
        let with = format!("<{element} ");
        let opened = page.matches(&format!("<{element}>")).count() + page.matches(&with).count();
        let closed = page.matches(&format!("</{element}>")).count();
        let tags = page
            .split(&with)
            .skip(1)
            .filter_map(|rest| rest.split('>').next());
        let alone = tags.filter(|tag| tag.ends_with('/')).count();
        assert_eq!(opened, closed + alone, "{element}");
    }
    let bounds = object["bounds"].as_array().ok_or("no bounds")?;
    for bound in bounds {
        let limit = bound["limit"].as_u64().ok_or("no limit")?;
        let figure = bound["figure"].as_u64().ok_or("no figure")?;
        let row = format!("<td>{}</td><td>{}</td>", grouped(figure), grouped(limit));
        assert!(page.contains(&row), "{bound}");
    }
    let words = match object["ok"] == true {
        true => "all 20 bounds held",
        false => "bounds broke",
    };
    assert!(page.contains(words));
    assert_eq!(page.matches("the wire is cut</td>").count(), 6);
    for what in ["frozen</td>", "killed</td>", "all silent</td>"] {
        assert!(page.matches(what).count() >= 6, "{what}");
    }
    Ok(())
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Reads a child's lines until one is the last that is wanted.
fn until(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    last: &str,
) -> Result<String, Failed> {
    let mut text = String::new();
    for line in lines {
        let line = line?;
        text += &line;
        text.push('\n');
        if line.starts_with(last) {
            return Ok(text);
        }
    }
    Err(format!("it ended before it said {last:?}: {text}").into())
}

/// Runs a line that people are told to type.
fn typed(namespace: &Namespace, line: &str) -> Result<String, Failed> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().ok_or("no command")?);
    command
        .args(["-sS", "-m", "20"])
        .args(words.map(OsStr::new))
        .stdout(Stdio::piped());
    let mut child = namespace.spawn(command)?;
    let text = rest(&mut child)?;
    let exit = child.wait(STAGE_TIME)?;
    assert!(exit.success(), "{line}: {exit}: {text}");
    Ok(text)
}

fn a_stage_is_served_until_it_is_told_to_end() -> Outcome {
    let (folder, namespace) = (folder()?, Namespace::new("demo")?);
    let mut command = as_nobodys(folder.path())?;
    command
        .args(["demo", "--serve", "--http", "8080", "--socks5", "1080"])
        .args(["--silence", "15"])
        .stdout(Stdio::piped());
    let mut demo = namespace.spawn(command)?;
    let out = demo.take_stdout().ok_or("no output")?;
    let mut lines = BufReader::new(out).lines();
    let invitation = until(&mut lines, "Ctrl-C")?;
    let commands: Vec<_> = invitation
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("curl "))
        .collect();
    assert_eq!(commands.len(), 3, "{invitation}");
    assert!(
        commands[0].contains("-x http://127.0.0.1:8080 "),
        "{invitation}"
    );
    assert!(
        commands[1].contains("-x socks5h://127.0.0.1:1080 "),
        "{invitation}"
    );
    match Command::new("curl").arg("--version").output() {
        Ok(_) => {
            assert!(typed(&namespace, commands[0])?.contains("quell lab"));
            let address: Ipv4Addr = typed(&namespace, commands[1])?.trim().parse()?;
            assert!((86..=88).contains(&address.octets()[1]), "{address}");
            let counted = |line: &String| line.contains("; 2 connections so far");
            let line = lines.find(|line| line.as_ref().is_ok_and(counted));
            line.ok_or("the connections are not counted")??;
        }
        Err(_) => println!("skipped: no curl to type its lines with"),
    }
    let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("is silenced")));
    println!("{}", told.ok_or("no exit was silenced")??);
    demo.signal(Signal::SIGTERM)?;
    let exit = demo.wait(STAGE_TIME)?;
    assert!(exit.success(), "{exit}");
    let own = folder.path().join("own");
    assert_eq!(fs::read_dir(own)?.count(), 0, "it leaves nothing behind");
    Ok(())
}

/// The whole process stops for longer than the stream of the exit that lives may wait.
fn a_bound_that_breaks_is_the_demos_failure() -> Outcome {
    let namespace = Namespace::new("demo")?;
    let mut command = quell()?;
    command
        .args(["demo", "--act", "exits", "--no-report"])
        .stdout(Stdio::piped());
    let mut demo = namespace.spawn(command)?;
    let out = demo.take_stdout().ok_or("no output")?;
    let mut lines = BufReader::new(out).lines();
    until(&mut lines, "    15  exit ")?;
    demo.signal(Signal::SIGSTOP)?;
    thread::sleep(Duration::from_millis(1_000 * CLOCK_SLACK / 2));
    demo.signal(Signal::SIGCONT)?;
    let text: String = lines.map_while(Result::ok).collect::<Vec<_>>().join("\n");
    println!("{text}");
    let row = text
        .lines()
        .find(|line| line.starts_with("ms the stream waited while another was killed"));
    assert!(row.is_some_and(|row| row.ends_with("BROKEN")), "{row:?}");
    assert_eq!(demo.wait(STAGE_TIME)?.code(), Some(1));
    Ok(())
}

fn it_cleans_up_on_ctrl_c_without_privileges_too() -> Outcome {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (folder, namespace) = (folder()?, Namespace::new("demo")?);
        let mut command = as_nobodys(folder.path())?;
        command
            .args(["demo", "--size", "4096"])
            .stdout(Stdio::piped());
        let mut demo = namespace.spawn(command)?;
        let out = demo.take_stdout().ok_or("no output")?;
        let mut lines = BufReader::new(out).lines();
        until(&mut lines, "tunnel ")?;
        let own = folder.path().join("own");
        assert_eq!(demo_folders(&own), 1);
        demo.signal(signal)?;
        assert_eq!(demo.wait(STAGE_TIME)?.code(), Some(130), "{signal}");
        // Neither keys nor half a page.
        assert_eq!(fs::read_dir(&own)?.count(), 0, "{signal}");
    }
    Ok(())
}

fn a_page_that_cannot_be_written_is_known_before_anything_is_played() -> Outcome {
    let start = Instant::now();
    let folder = folder()?;
    let mut command = as_nobodys(folder.path())?;
    // Which is readable and not writable.
    let output = command.arg("demo").current_dir(folder.path()).output()?;
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(
        err.contains("quell-demo.html") && err.contains("--no-report"),
        "{err}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
    Ok(())
}
