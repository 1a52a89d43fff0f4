//! A client inside a program, with a channel in the place of a TUN: the shortest way from a key to packets.
//!
//! `cargo run -p quell --example embed`: both ends are in this process, on the loopback; a packet goes in at one end and
//! comes out at the other, and the outage in between is told as it happens.
// Events are more than those that matter here, and may be more yet.
#![allow(clippy::print_stdout, clippy::wildcard_enum_match_arm)]

use std::error::Error;
use std::time::Duration;

use quell::{Client, Config, Device, Event, Identity, Provider, packet};

const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it.
///
/// # Errors
/// What did not go as it should.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (me, exit) = (Identity::generate()?, Identity::generate()?);
    let (world_device, world) = Device::channel(1_024);
    let provider = Provider::builder()
        .config(Config::from_text(&format!(
            "listen = \"127.0.0.1:0\"\n\
             addresses.ipv4_pool = \"10.86.0.0/24\"\n\
             egress.allow = [\"192.0.2.0/24\"]\n\
             clients = [{{ name = \"laptop\", public_key = \"{}\" }}]",
            me.public_key()
        ))?)
        .key(exit.secret_key().clone())
        .device(world_device)
        .start()?;
    let text = format!(
        "[provider]\naddress = \"{}\"\npublic_key = \"{}\"",
        provider.local_addr(),
        exit.public_key()
    );
    let key = me.secret_key().clone();

    // README: begin
    let (device, packets) = Device::channel(1_024);
    let client = Client::builder()
        .config(Config::from_text(&text)?)
        .key(key)
        .device(device)
        .start()?;

    let mut events = client.events();
    let mut own = None;
    while let Some(event) = events.next_within(Duration::from_secs(10)) {
        match event {
            Event::Tunnel { addresses, .. } => own = addresses.ipv4,
            Event::Up { exit, .. } => {
                println!("up over {}", exit.name);
                break;
            }
            Event::Stalled { reason, .. } => println!("not yet: {reason}"),
            _ => {}
        }
    }
    // README: end

    let (own, _) = own.ok_or("no address")?;
    let out = packet::build::udp((own, 4_000).into(), "192.0.2.1:53".parse()?, b"hello");
    packets
        .inject_copy(&out)
        .map_err(|_| "the channel is full")?;
    let arrived = world.take_within(PATIENCE).ok_or("it was lost")?;
    assert_eq!(arrived, out);
    let back = packet::build::udp("192.0.2.1:53".parse()?, (own, 4_000).into(), b"hello back");
    world
        .inject_copy(&back)
        .map_err(|_| "the channel is full")?;
    assert_eq!(packets.take_within(PATIENCE).ok_or("it was lost")?, back);
    println!("{} bytes out, {} bytes back", out.len(), back.len());

    // The exit stops: its farewell is an outage here.
    provider.shutdown(PATIENCE)?;
    let stalled = until(&mut events, |event| matches!(event, Event::Stalled { .. }))?;
    println!("{stalled:?}");
    client.shutdown(Duration::from_secs(1))?;
    let down = until(&mut events, |event| matches!(event, Event::Down { .. }))?;
    println!("{down:?}");
    Ok(())
}

fn until(
    events: &mut quell::Events,
    is_it: impl Fn(&Event) -> bool,
) -> Result<Event, Box<dyn Error>> {
    loop {
        let event = events
            .next_within(PATIENCE)
            .ok_or("nothing more happened")?;
        if is_it(&event) {
            return Ok(event);
        }
    }
}
