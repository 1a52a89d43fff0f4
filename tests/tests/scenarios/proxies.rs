//! A client without a TUN before a provider without privileges, as programs that people have see it: curl, a browser, iperf3.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use quell_lab::content;
use quell_lab::http::Server;
use quell_lab::probe::DnsServer;
use quell_lab::topology::{WORLD_V4, WORLD_V6};

use crate::fixture::{Outcome, World, trials, unless_missing};

trials![
    curl_gets_the_right_results_both_ways,
    curl_gets_the_right_errors,
    one_gibibyte_comes_and_goes_with_the_right_hash,
];

/// A port of the proxy's that the client's file names, so that it stands in the commands.
const SOCKS: u16 = 1_080;
const HTTP: u16 = 8_080;
/// What the DNS server of the world is asked at.
const DNS_PORT: u16 = 53;
/// A name that it knows, as it does all.
const NAME: &str = "quell.example";

/// These trials, and those that need a program which not every machine has.
pub(crate) fn all_trials() -> Vec<Trial> {
    let with = |name: &'static str, program: &'static str, scenario: fn() -> Outcome| {
        Trial::ignorable_test(name, move || unless_missing(program, scenario))
    };
    let more = [
        with(
            "proxies::a_browser_shows_a_page_of_fifty_pictures",
            "chromium",
            a_browser_shows_a_page_of_fifty_pictures,
        ),
        with(
            "proxies::iperf3_runs_both_ways_and_over_udp",
            "iperf3",
            iperf3_runs_both_ways_and_over_udp,
        ),
    ];
    trials().into_iter().chain(more).collect()
}

/// A client with proxies, a provider of sockets, and a name server in the world.
fn world() -> Result<(World, DnsServer), Failed> {
    let world = World::with(1_500, |_, plan| {
        plan.egress_kind = "userspace".to_owned();
        plan.routes.clear();
        plan.client_tables = format!(
            "[proxy]\nsocks5 = \"127.0.0.1:{SOCKS}\"\nhttp = \"127.0.0.1:{HTTP}\"\ndns = [\"{WORLD_V4}:{DNS_PORT}\"]\n"
        );
        Ok(())
    })?;
    let std::net::IpAddr::V4(record) = WORLD_V4 else {
        return Err("the world has an IPv4 address".into());
    };
    let dns = world
        .net
        .world
        .run(|| DnsServer::start(SocketAddr::new(WORLD_V4, DNS_PORT), record))??;
    Ok((world, dns))
}

fn web(world: &World, address: SocketAddr) -> Result<Server, Failed> {
    Ok(world.net.world.run(|| Server::start(address))??)
}

/// Runs a program where the client is.
fn at_client(world: &World, program: &str, arguments: &[&str]) -> Result<Output, Failed> {
    let run = || Command::new(program).args(arguments).output();
    Ok(world.net.client.run(run)??)
}

/// What curl gets with these arguments.
fn curl(world: &World, arguments: &[&str]) -> Result<Output, Failed> {
    let all = [&["-sS", "--max-time", "60"], arguments].concat();
    at_client(world, "curl", &all)
}

fn proxy(scheme: &str) -> String {
    let port = if scheme == "http" { HTTP } else { SOCKS };
    format!("{scheme}://127.0.0.1:{port}")
}

fn curl_gets_the_right_results_both_ways() -> Outcome {
    let (world, dns) = world()?;
    let servers = [WORLD_V4, WORLD_V6].map(|ip| web(&world, SocketAddr::new(ip, 0)));
    let [v4, v6] = servers;
    let (v4, v6) = (v4?, v6?);
    let named = format!("http://{NAME}:{}/bytes/100000", v4.address().port());
    let urls = [
        format!("http://{}/bytes/100000", v4.address()),
        format!("http://{}/bytes/100000", v6.address()),
        named,
    ];
    // Absolute form, CONNECT, names of the proxy's and addresses of the program's own.
    let ways: [&[&str]; 4] = [
        &["-x", &proxy("http")],
        &["-p", "-x", &proxy("http")],
        &["-x", &proxy("socks5h")],
        &["-x", &proxy("socks5")],
    ];
    for way in ways {
        for url in &urls {
            if way[1].starts_with("socks5:") && url.contains(NAME) {
                // Such a program asks for names itself, and not through the tunnel.
                continue;
            }
            let got = curl(&world, &[way, &[url.as_str()]].concat())?;
            assert!(got.status.success(), "{way:?} {url}: {got:?}");
            assert_eq!(got.stdout.len(), 100_000, "{way:?} {url}");
            let hash = content::sha256_of(got.stdout.as_slice())?;
            assert_eq!(hash, content::sha256(100_000), "{way:?} {url}");
        }
    }
    assert!(dns.answered() > 0);
    assert!(
        dns.answered() <= 4,
        "answers are remembered: {}",
        dns.answered()
    );
    world.finish()
}

fn curl_gets_the_right_errors() -> Outcome {
    let (world, _dns) = world()?;
    // Port 9 of the world: nobody is there. A private address: the provider's rules deny it.
    let refused = format!("http://{WORLD_V4}:9/");
    let denied = "http://192.168.7.7/".to_owned();
    for (url, http) in [(&refused, "502"), (&denied, "502")] {
        let took = Instant::now();
        let got = curl(
            &world,
            &[
                "-x",
                &proxy("http"),
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                url,
            ],
        )?;
        assert_eq!(String::from_utf8_lossy(&got.stdout), http, "{url}: {got:?}");
        // SOCKS5 says "connection refused" (5), which curl repeats.
        let got = curl(&world, &["-x", &proxy("socks5h"), url])?;
        assert_eq!(got.status.code(), Some(97), "{url}: {got:?}");
        let said = String::from_utf8_lossy(&got.stderr).into_owned();
        assert!(said.contains("(5)"), "{url}: {said}");
        println!("{url}: both refused after {:?}", took.elapsed());
    }
    let status = world.provider.status()?;
    assert!(status["egress"]["denied"]["private"].as_u64() > Some(0));
    // A server that resets in the middle is no whole answer.
    let listener = world
        .net
        .world
        .run(|| TcpListener::bind(SocketAddr::new(WORLD_V4, 0)))??;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept()?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")?;
            std::thread::sleep(Duration::from_millis(200));
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        }
        Ok(())
    });
    for scheme in ["http", "socks5h"] {
        let got = curl(
            &world,
            &["-x", &proxy(scheme), &format!("http://{address}/")],
        )?;
        assert!(!got.status.success(), "{scheme}: {got:?}");
        assert_eq!(got.stdout, b"half", "{scheme}: {got:?}");
    }
    server.join().map_err(|_| "the server panicked")??;
    world.finish()
}

const GIB: u64 = 1 << 30;

fn one_gibibyte_comes_and_goes_with_the_right_hash() -> Outcome {
    let (world, _dns) = world()?;
    let server = web(&world, SocketAddr::new(WORLD_V4, 0))?;
    let proxy = proxy("socks5h");
    let url = |path: &str| format!("http://{}/{path}", server.address());
    let expected = content::sha256(GIB);
    let began = Instant::now();
    let down = world.net.client.run(|| -> std::io::Result<String> {
        let mut curl = Command::new("curl")
            .args(["-sS", "-x", &proxy, &url(&format!("bytes/{GIB}"))])
            .stdout(Stdio::piped())
            .spawn()?;
        let out = curl.stdout.take();
        let hash = out.map(content::sha256_of).transpose()?;
        curl.wait()?;
        Ok(hash.unwrap_or_default())
    })??;
    assert_eq!(down, expected);
    let took = began.elapsed();
    let began = Instant::now();
    let length = format!("Content-Length: {GIB}");
    let up = world.net.client.run(|| -> std::io::Result<Output> {
        let mut curl = Command::new("curl")
            .args(["-sS", "-x", &proxy, "-T", "-", "-H", &length])
            .args(["-H", "Transfer-Encoding:", &url("upload")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut into) = curl.stdin.take() {
            content::blocks(GIB, |block| into.write_all(block))?;
        }
        curl.wait_with_output()
    })??;
    let said = String::from_utf8_lossy(&up.stdout).into_owned();
    assert!(said.starts_with(&expected), "{up:?}");
    let mbit = |took: Duration| GIB as f64 * 8e-6 / took.as_secs_f64();
    println!(
        "{:.0} Mbit/s down, {:.0} up",
        mbit(took),
        mbit(began.elapsed())
    );
    world.finish()
}

fn a_browser_shows_a_page_of_fifty_pictures() -> Outcome {
    let (world, dns) = world()?;
    let server = web(&world, SocketAddr::new(WORLD_V4, 0))?;
    let profile = tempfile::tempdir()?;
    let arguments = [
        "--headless".to_owned(),
        // Whoever runs these scenarios is root, whom the browser's own sandbox refuses.
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        format!("--user-data-dir={}", profile.path().display()),
        format!("--proxy-server={}", proxy("socks5")),
        // Nothing is resolved but through the proxy.
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1".to_owned(),
        "--virtual-time-budget=20000".to_owned(),
        "--dump-dom".to_owned(),
        format!("http://{NAME}:{}/gallery/50", server.address().port()),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let shown = at_client(&world, "chromium", &arguments)?;
    let document = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(document.contains("50 of 50 pictures"), "{shown:?}");
    println!(
        "{} requests, {} names",
        server.stats().answered,
        dns.answered()
    );
    assert!(server.stats().answered >= 51);
    assert!(dns.answered() > 0);
    world.finish()
}

/// iperf3 knows no proxies: here the client has a TUN, and the provider sockets.
fn iperf3_runs_both_ways_and_over_udp() -> Outcome {
    let world = World::with(1_500, |_, plan| {
        plan.egress_kind = "userspace".to_owned();
        Ok(())
    })?;
    let mut server = world.net.world.spawn({
        let mut command = Command::new("iperf3");
        // Bound to its address: over UDP it would answer from that of its link, as no server should.
        command
            .args(["-s", "-B", &WORLD_V4.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    })?;
    std::thread::sleep(Duration::from_millis(500));
    let host = WORLD_V4.to_string();
    let runs: [(&str, &[&str]); 4] = [
        ("up", &[]),
        ("down", &["-R"]),
        ("four at once, both ways", &["-P", "4", "--bidir"]),
        ("20 Mbit/s of UDP", &["-u", "-b", "20M", "-l", "1200"]),
    ];
    for (what, more) in runs {
        let all = [&["-c", host.as_str(), "-t", "2", "-J"], more].concat();
        let got = at_client(&world, "iperf3", &all)?;
        let report: serde_json::Value = serde_json::from_slice(&got.stdout)?;
        assert!(got.status.success(), "{what}: {}", report["error"]);
        let sum = match more.first() {
            Some(&"-u") => &report["end"]["sum"],
            _ => &report["end"]["sum_received"],
        };
        let mbit = sum["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6;
        println!("{what}: {mbit:.0} Mbit/s");
        assert!(
            mbit > 10.0,
            "{what}: {}",
            String::from_utf8_lossy(&got.stdout)
        );
        if let Some(lost) = sum["lost_percent"].as_f64() {
            println!("{what}: {lost:.2} % lost");
            assert!(lost < 3.0, "{what}: {lost}");
        }
    }
    server.signal(quell_lab::child::Signal::SIGTERM)?;
    world.finish()
}
