//! What an operator takes away: an account, a provider, bytes. What was given out before stays good until it ends.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use super::books::client_state;
use super::stage::{BACKEND, READY, Stage, address, is_up};
use crate::fixture::{Outcome, trials, within};

trials![
    a_banned_client_uses_up_what_it_has_and_gets_no_more,
    a_banned_provider_leaves_the_catalog,
    an_allowance_is_used_to_its_end_and_not_beyond,
];

/// The smallest contracts that there are, so that they end, and without grace, which an allowance would reserve.
const SMALL: &str =
    "\n[contracts]\ncontract_bytes_max = \"1MiB\"\ngrace_bytes = 0\ngrace = \"0s\"\n";
const MIB: u64 = 1 << 20;
const PIECE_BYTES: u64 = 128 << 10;
/// Inner packets are larger than what they carry, and acknowledgements come back; the last contract's end is met inside
/// of a file. More than that less than what was given is not unused.
const UNUSED_BYTES_MAX: u64 = 512 << 10;

/// Fetches pieces until none comes; how many bytes came.
fn until_dry(stage: &Stage) -> Result<u64, Failed> {
    let began = Instant::now();
    let mut bytes = 0;
    while began.elapsed() < Duration::from_secs(60) {
        match stage.fetch(PIECE_BYTES, Duration::from_secs(4)) {
            Ok(()) => bytes += PIECE_BYTES,
            Err(_) => return Ok(bytes),
        }
    }
    Err(format!("{bytes} bytes, and no end").into())
}

fn a_banned_client_uses_up_what_it_has_and_gets_no_more() -> Outcome {
    let stage = Stage::new()?;
    stage.configure_backend(SMALL, None)?;
    let mut cast = stage.cast()?;
    stage.fetch(PIECE_BYTES, READY)?;
    let [provider, client] = stage.accounts()?;
    let key = client["public_key"].as_str().ok_or("no key")?;
    stage.asked("POST", &format!("/v1/admin/accounts/{key}/ban"), None)?;
    let left = cast.client.until("counted", READY, is_up)?;
    let left = left["contracts"]["bytes_left"].as_u64().unwrap_or(0);
    let came = until_dry(&stage)?;
    println!("{left} bytes were in hand at the ban, {came} bytes of files came after it");
    assert!(came <= left, "no more than it had");
    assert!(came > 0, "what it had stays good");
    let status = cast.client.status().ok_or("no status")?;
    println!("{}\n{}", status["contracts"], cast.client.log());
    assert!(
        cast.client.log().contains("reason=\"banned\"") || cast.client.log().contains("banned"),
        "the reason in words: {}",
        cast.client.log()
    );
    // Lifted, it carries again: at the latest when its next question is due.
    stage.asked("POST", &format!("/v1/admin/accounts/{key}/unban"), None)?;
    let fetched = || stage.fetch(PIECE_BYTES, Duration::from_secs(5)).ok();
    within(Duration::from_secs(90), "it carries again", fetched)?;
    assert_eq!(provider["banned"], false);
    cast.client.stop()?;
    cast.provider.stop()?;
    cast.backend.stop()
}

fn a_banned_provider_leaves_the_catalog() -> Outcome {
    let stage = Stage::new()?;
    let cast = stage.cast()?;
    stage.fetch(PIECE_BYTES, READY)?;
    let [provider, _] = stage.accounts()?;
    let key = provider["public_key"].as_str().ok_or("no key")?;
    let banned = Instant::now();
    stage.asked("POST", &format!("/v1/admin/accounts/{key}/ban"), None)?;
    let catalog = || {
        let kept = client_state(&stage.path("client")).ok()?;
        let exits = kept["catalog"]["exits"].as_array()?;
        exits.is_empty().then_some(())
    };
    within(READY, "the catalog is without it", catalog)?;
    println!(
        "the catalog is without it {:?} after the ban",
        banned.elapsed()
    );
    let said = || {
        cast.provider
            .log()
            .contains("the account is banned")
            .then_some(())
    };
    within(READY, "the provider is told", said)
        .map_err(|_| Failed::from(format!("not told: {}", cast.provider.log())))?;
    // What was given out before stays good until it ends, at this exit, too: the session is not cut.
    stage.fetch(PIECE_BYTES, READY)?;
    stage.asked("POST", &format!("/v1/admin/accounts/{key}/unban"), None)?;
    let listed = || {
        let kept = client_state(&stage.path("client")).ok()?;
        let exits = kept["catalog"]["exits"].as_array()?;
        (exits.len() == 1).then_some(())
    };
    within(Duration::from_secs(60), "the catalog has it again", listed)?;
    stage.fetch(PIECE_BYTES, READY)?;
    println!("and was back {:?} after it", banned.elapsed());
    cast.client.stop()?;
    cast.provider.stop()?;
    cast.backend.stop()
}

fn an_allowance_is_used_to_its_end_and_not_beyond() -> Outcome {
    const QUOTA: u64 = 3 * MIB;
    let stage = Stage::new()?;
    stage.configure_backend(SMALL, None)?;
    let cast = stage.cast_with(&["--quota", "3MiB"], |_| Ok(()))?;
    let came = until_dry(&stage)?;
    let status = cast.client.status().ok_or("no status")?;
    println!("{came} bytes of {QUOTA} came; {}", status["contracts"]);
    assert!(came <= QUOTA, "N bytes fit, and more do not");
    assert!(
        came + UNUSED_BYTES_MAX >= QUOTA,
        "all of it can be used: {came}"
    );
    let log = cast.client.log();
    assert!(log.contains("quota"), "the reason in words: {log}");
    let settled = stage.until_settled(READY, |[_, client]| client >= came)?;
    println!("settled {settled:?}");
    assert!(settled[1] <= QUOTA);
    cast.client.stop()?;
    cast.provider.stop()?;
    cast.backend.stop()?;
    // The port is free for whoever comes next.
    let refused = stage.net.run(|| TcpStream::connect(address(BACKEND)))?;
    assert!(refused.is_err());
    Ok(())
}
