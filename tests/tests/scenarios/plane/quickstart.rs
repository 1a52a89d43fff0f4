//! The five commands of the README on one machine, one after the other, and each of them once more.

use std::fs;
use std::time::Instant;

use super::stage::{READY, Stage, files, is_up};
use crate::fixture::{Outcome, trials};

trials![
    five_commands_make_a_tunnel,
    a_command_that_is_repeated_does_the_same,
];

const FILE_BYTES: u64 = 4 << 20;

fn five_commands_make_a_tunnel() -> Outcome {
    let began = Instant::now();
    let stage = Stage::new()?;
    let mut cast = stage.cast()?;
    println!("up {:?} after the first command", began.elapsed());
    stage.fetch(FILE_BYTES, READY)?;
    // As people and programs ask.
    let socket = stage.path("client.sock").display().to_string();
    let status = stage.said(&["status", "--json", "--socket", &socket])?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let contracts = &status["contracts"];
    println!("contracts: {contracts}");
    let survives = contracts["survives"].as_str().unwrap_or_default();
    assert!(
        survives.starts_with("survives ") && survives.ends_with(" without the backend"),
        "{contracts}"
    );
    assert!(contracts["survives_s"].as_u64() > Some(0), "{contracts}");
    let paid = |status: &serde_json::Value| status["contracts"]["receipts"].as_u64() > Some(0);
    cast.client.until("signing receipts", READY, paid)?;
    cast.client.stop()?;
    cast.provider.stop()?;
    cast.backend.stop()?;
    println!("{FILE_BYTES} bytes, and a good end, {:?}", began.elapsed());
    Ok(())
}

fn a_command_that_is_repeated_does_the_same() -> Outcome {
    let stage = Stage::new()?;
    let backend = stage.backend()?;
    let (for_provider, for_client) = (stage.invite("provider", &[])?, stage.invite("client", &[])?);
    let provider = stage.enrol_provider(&for_provider);
    let client = stage.enrol_client(&for_client);
    let first = [stage.said(&provider)?, stage.said(&client)?];
    let read = || -> std::io::Result<Vec<_>> {
        let folders = ["provider", "client"].map(|name| files(&stage.path(name)));
        folders.concat().into_iter().map(fs::read).collect()
    };
    let made = read()?;
    assert_eq!(made.len(), 4, "a key and a configuration each");
    let again = [stage.said(&provider)?, stage.said(&client)?];
    assert_eq!(again, first);
    assert_eq!(read()?, made, "keys and files stay as they are");
    // An invitation is for one: another key is refused in words, and leaves no configuration.
    let stranger = stage.path("stranger").display().to_string();
    let mut words = client.clone();
    words[3] = stranger;
    let refused = stage.run(&words)?;
    let (_, err) = super::stage::texts(&refused);
    println!("{}", err.trim());
    assert_eq!(refused.status.code(), Some(1), "{err}");
    assert!(err.contains("invitation"), "{err}");
    assert!(!stage.path("stranger/client.toml").exists());
    // A second backend over the same store is refused; the first one serves on.
    let file = stage.backend_file();
    let second = stage.run(&["backend".as_ref(), "--new".as_ref(), file.as_os_str()])?;
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let provider = stage.start("provider", &[provider, vec!["--start".to_owned()]].concat())?;
    let mut up = stage.start("client", &[client, vec!["--start".to_owned()]].concat())?;
    up.until("up", READY, is_up)?;
    stage.fetch(FILE_BYTES, READY)?;
    up.stop()?;
    provider.stop()?;
    backend.stop()
}
