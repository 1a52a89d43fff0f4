//! A phone: each socket is protected, the network changes and costs, the system sends the process to sleep.
//!
//! `cargo run -p quell --example phone`. What a system's callbacks would do is written out here as calls; the bytes on the
//! network are counted around each.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use quell::{ChannelHandle, Client, Config, Device, Identity, Network, Provider, packet};

const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than a stalled path would wait before it asked.
const NAP: Duration = Duration::from_secs(2);

/// Runs it.
///
/// # Errors
/// What did not go as it should.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let me = Identity::generate()?;
    let (mut exits, mut providers) = (String::new(), Vec::new());
    for place in ["Frankfurt", "Zurich"] {
        let (provider, key) = exit(&me)?;
        let address = provider.0.local_addr();
        exits.push_str(&format!(
            "[[provider]]\naddress = \"{address}\"\npublic_key = \"{key}\"\nplace = \"{place}\"\n"
        ));
        providers.push(provider);
    }
    let (device, packets) = Device::channel(256);
    let protected = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&protected);
    let client = Client::builder()
        .config(Config::from_text(&exits)?)
        .key(me.secret_key().clone())
        .device(device)
        .memory_max(24 << 20)
        .protect(move |socket| {
            // VpnService.protect(fd), whose `false` would be an error here.
            assert!(socket.as_raw_fd() > 2);
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .start()?;
    let up = |report: &quell::ClientReport| {
        let members = report.client.exits.iter().filter(|exit| exit.is_usable);
        (members.count() == 2).then_some(report.client.addresses?.ipv4?.0)
    };
    let own = until(&client, up)?;
    let sockets = protected.load(Ordering::Relaxed);
    println!("two exits up, {sockets} sockets protected before their first byte");
    assert!(sockets >= 2);
    let carries = |name: &str| crosses(own, &packets, &providers, name);
    carries("from the start")?;

    // onCapabilitiesChanged: a mobile network that costs.
    client.network_changed(Network {
        validated: true,
        metered: true,
    });
    until(&client, |report| {
        let growth = &report.client.window.growth;
        (growth == "the network is metered").then_some(())
    })?;
    println!("metered: the second exit leaves once it is idle for a minute, and nothing is raced");
    carries("over a network that costs")?;

    sleeps(&client, own, &packets, &providers)?;
    carries("awake")?;

    // The person's pause: no session, no byte, and no packet beside the tunnel.
    client.hold(true);
    until(&client, |report| {
        (report.client.window.members == 0).then_some(())
    })?;
    client.hold(false);
    until(&client, |report| {
        let usable = report.client.exits.iter().any(|exit| exit.is_usable);
        usable.then_some(())
    })?;
    carries("after a pause")?;
    client.shutdown(Duration::from_secs(1))?;
    Ok(())
}

/// The screen goes dark: nothing is begun, not even what a path that does not answer would ask.
fn sleeps(
    client: &Client,
    own: std::net::Ipv4Addr,
    packets: &ChannelHandle,
    exits: &[Exit],
) -> Result<(), Box<dyn Error>> {
    client.suspended();
    let before = bytes_out(client)?;
    packets
        .inject_copy(&hello(own, "asleep")?)
        .map_err(|_| "the channel is full")?;
    sleep(NAP);
    let slept = bytes_out(client)? - before;
    println!("asleep for {NAP:?}: {slept} bytes");
    // What QUIC had under way when it began: an acknowledgement, the size probe of a path.
    assert!(slept < 4_096, "{slept}");
    client.resumed();
    arrives(exits, "asleep")
}

type Exit = (Provider, ChannelHandle);

/// An exit that knows `me`, with a channel in the place of the world.
fn exit(me: &Identity) -> Result<(Exit, quell::PublicKey), Box<dyn Error>> {
    let identity = Identity::generate()?;
    let (device, world) = Device::channel(256);
    let text = format!(
        "listen = \"127.0.0.1:0\"\naddresses.ipv4_pool = \"10.86.0.0/24\"\n\
         egress.allow = [\"192.0.2.0/24\"]\n\
         clients = [{{ name = \"phone\", public_key = \"{}\" }}]",
        me.public_key()
    );
    let provider = Provider::builder()
        .config(Config::from_text(&text)?)
        .key(identity.secret_key().clone())
        .device(device)
        .start()?;
    Ok(((provider, world), identity.public_key()))
}

fn hello(own: std::net::Ipv4Addr, words: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let to = "192.0.2.1:53".parse()?;
    Ok(packet::build::udp(
        (own, 4_000).into(),
        to,
        words.as_bytes(),
    ))
}

/// A packet goes in and comes out of one of the exits.
fn crosses(
    own: std::net::Ipv4Addr,
    packets: &ChannelHandle,
    exits: &[Exit],
    words: &str,
) -> Result<(), Box<dyn Error>> {
    packets
        .inject_copy(&hello(own, words)?)
        .map_err(|_| "the channel is full")?;
    arrives(exits, words)?;
    println!("a packet crosses {words}");
    Ok(())
}

fn arrives(exits: &[Exit], words: &str) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        for (_, world) in exits {
            let packet = world.take_within(Duration::from_millis(5));
            if packet.is_some_and(|packet| packet.ends_with(words.as_bytes())) {
                return Ok(());
            }
        }
    }
    Err(format!("no packet arrived {words}").into())
}

fn report(client: &Client) -> Result<quell::ClientReport, Box<dyn Error>> {
    Ok(client.status_within(PATIENCE)?)
}

fn bytes_out(client: &Client) -> Result<u64, Box<dyn Error>> {
    Ok(report(client)?.udp.counters.bytes_out)
}

fn until<T>(
    client: &Client,
    probe: impl Fn(&quell::ClientReport) -> Option<T>,
) -> Result<T, Box<dyn Error>> {
    let began = Instant::now();
    loop {
        let report = report(client)?;
        if let Some(found) = probe(&report) {
            return Ok(found);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("it never came to that: {report:?}").into());
        }
        sleep(Duration::from_millis(10));
    }
}
