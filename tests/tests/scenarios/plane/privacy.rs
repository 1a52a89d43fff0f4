//! A canary: a client at an address of its own fetches from a destination that nobody else knows, by address and by name.
//! Then every record of the control plane is searched for both.
//!
//! Searched are: the backend's log, all of its files (or a dump of its database), all its answers to an operator and to the
//! world; the provider's log at its default level and its receipts. Not searched is what a process says of itself to its
//! own operator over its control socket: a provider's `status` names the addresses of its sessions, since whoever runs it
//! sees them on the wire anyway, and it is written nowhere.
//!
//! The client's address is that of all who speak on this network's loopback, so a backend that wrote down who asked would
//! be found out by any of them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use quell_lab::probe::DnsServer;

use super::postgres::Cluster;
use super::stage::{Cast, READY, SOCKS, Stage, WEB, address, files};
use crate::fixture::{Outcome, trials};

trials![
    no_record_names_a_destination_or_a_client_with_redb,
    no_record_names_a_destination_or_a_client_with_postgresql,
];

const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 77, 66, 55);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(127, 99, 88, 77);
const NAME: &str = "canary-of-quell.example";

/// What a record may not hold: the addresses as text and as bytes, and the name.
fn canaries() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("the client's address", CLIENT.to_string().into_bytes()),
        ("the client's address, as bytes", CLIENT.octets().to_vec()),
        ("the destination", DESTINATION.to_string().into_bytes()),
        ("the destination, as bytes", DESTINATION.octets().to_vec()),
        ("the destination's name", NAME.as_bytes().to_vec()),
    ]
}

/// Which canaries are in a record.
fn found(record: &[u8]) -> Vec<&'static str> {
    let holds = |canary: &[u8]| record.windows(canary.len()).any(|part| part == canary);
    let canaries = canaries().into_iter();
    canaries
        .filter_map(|(what, canary)| holds(&canary).then_some(what))
        .collect()
}

fn no_record_names_a_destination_or_a_client_with_redb() -> Outcome {
    canary(&Stage::new()?)
}

fn no_record_names_a_destination_or_a_client_with_postgresql() -> Outcome {
    let Some(cluster) = Cluster::start()? else {
        println!("skipped: no PostgreSQL");
        return Ok(());
    };
    let mut stage = Stage::new()?;
    stage.configure_backend("", Some(&cluster.store()))?;
    stage.cluster = Some(cluster);
    canary(&stage)
}

/// Everybody on the loopback speaks from the client's address.
fn speak_from_the_canary(stage: &Stage) -> Outcome {
    let mut command = Command::new("ip");
    command.args(["route", "replace", "table", "local", "local", "127.0.0.0/8"]);
    command.args(["dev", "lo", "proto", "kernel", "scope", "host", "src"]);
    command.arg(CLIENT.to_string());
    let done = stage.net.run(|| command.output())??;
    assert!(done.status.success(), "{done:?}");
    Ok(())
}

/// A GET of a URL by name through the proxy.
fn fetch_by_name(stage: &Stage) -> Outcome {
    let port = address(WEB).port();
    let got = stage.net.run(|| -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(address(SOCKS))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(&[5, 1, 0])?;
        stream.read_exact(&mut [0; 2])?;
        let mut ask = vec![5, 1, 0, 3, u8::try_from(NAME.len()).unwrap_or(0)];
        ask.extend_from_slice(NAME.as_bytes());
        ask.extend_from_slice(&port.to_be_bytes());
        stream.write_all(&ask)?;
        let mut answer = [0; 10];
        stream.read_exact(&mut answer)?;
        assert_eq!(answer[1], 0, "the proxy refuses: {answer:?}");
        let get = format!("GET /bytes/1000 HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
        stream.write_all(get.as_bytes())?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        Ok(got)
    })??;
    assert!(got.starts_with(b"HTTP/1.1 200") && got.len() > 1_000);
    Ok(())
}

fn canary(stage: &Stage) -> Outcome {
    speak_from_the_canary(stage)?;
    let dns = SocketAddr::new(DESTINATION.into(), 53);
    let _dns = stage.net.run(|| DnsServer::start(dns, DESTINATION))??;
    let cast = stage.cast_with(&[], |stage| {
        let file = stage.path("client/client.toml");
        let text = fs::read_to_string(&file)?;
        let socks = format!("socks5 = \"{SOCKS}\"\n");
        assert!(text.contains(&socks), "{text}");
        fs::write(
            &file,
            text.replace(&socks, &format!("{socks}dns = [\"{dns}\"]\n")),
        )?;
        Ok(())
    })?;
    stage.fetch(1 << 20, READY)?;
    fetch_by_name(stage)?;
    let settled = stage.until_settled(READY, |[bytes, _]| bytes > 1 << 20)?;
    // The canary is there to be found: it is who the provider speaks with.
    let sockets = stage
        .net
        .run(|| fs::read_to_string("/proc/thread-self/net/tcp"))??;
    let octets = u32::from_le_bytes(CLIENT.octets());
    assert!(sockets.contains(&format!("{octets:08X}:")), "{sockets}");

    // Who looks finds it where it is: in what the client was told by its owner.
    let told = fs::read(stage.path("client/client.toml"))?;
    assert_eq!(found(&told), ["the destination"]);
    let records = records(stage, cast)?;
    let bytes: usize = records.iter().map(|(_, record)| record.len()).sum();
    println!(
        "{} records of {bytes} bytes, {settled:?} settled",
        records.len()
    );
    let told: Vec<_> = records
        .iter()
        .filter(|(name, record)| {
            println!("  {name}: {} bytes", record.len());
            !found(record).is_empty()
        })
        .map(|(name, record)| format!("{name}: {:?}", found(record)))
        .collect();
    assert!(told.is_empty(), "{told:?}");
    let has = |part: &str| {
        records
            .iter()
            .any(|(name, record)| name.contains(part) && !record.is_empty())
    };
    for part in ["backend.log", "provider.log", "receipts-"] {
        assert!(has(part), "{part} was not searched");
    }
    assert!(
        has("backend.redb") != has("the database"),
        "one store was searched"
    );
    Ok(())
}

/// Every record there is, by name. All end, so that what they would have written is written.
fn records(stage: &Stage, cast: Cast) -> Result<Vec<(String, Vec<u8>)>, Failed> {
    let mut records: Vec<(String, Vec<u8>)> = Vec::new();
    let paths = [
        "/healthz",
        "/openapi.json",
        "/v1/admin/accounts",
        "/v1/admin/providers",
        "/v1/admin/server",
    ];
    for path in paths {
        records.push((
            path.to_owned(),
            stage.asked("GET", path, None)?.into_bytes(),
        ));
    }
    if let Some(cluster) = &stage.cluster {
        records.push(("the database".to_owned(), cluster.dump()?.into_bytes()));
    }
    cast.client.stop()?;
    cast.provider.stop()?;
    cast.backend.stop()?;
    for name in ["backend.log", "provider.log"] {
        records.push((name.to_owned(), fs::read(stage.path(name))?));
    }
    for file in [
        files(&stage.path("backend")),
        files(&stage.path("provider")),
    ]
    .concat()
    {
        let shown = file.strip_prefix(stage.folder.path()).unwrap_or(&file);
        records.push((shown.display().to_string(), fs::read(&file)?));
    }
    Ok(records)
}
