//! A drill: what a real client says while its exit and its control plane fail is fed to the alerts.
//!
//! ```text
//! no exit yet ──→ up ──→ exit frozen, control plane dead ──→ both back
//! ClientDown      none   ExitStalled, BackendDegraded        none
//! ```

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_cli::stage::End;
use quell_lab::child::Signal;
use quell_lab::http::Server;
use quell_lab::netns::Namespace;
use quell_lab::topology::{self, FAR_PROVIDER_V4, WORLD_V4};
use serde_json::Value;

use super::promtool::{Course, scrape, trials};
use crate::fixture::{Outcome, folder, plan};

trials![alerts_fire_in_an_outage_and_end_with_it];

const METRICS: ([u8; 4], u16) = ([127, 0, 0, 1], 9_620);
const BACKEND: ([u8; 4], u16) = ([127, 0, 0, 1], 8_080);
const STEP: Duration = Duration::from_millis(200);
/// How long each part may take to come.
const PART_TIME: Duration = Duration::from_secs(20);
/// Pages of a part: as many as the slowest alert waits for (2 min), and one more.
const PAGES: usize = 10;

/// Takes pages until `wanted` holds, and then as many as a part has.
fn part(
    course: &mut Course,
    net: &Namespace,
    client: &End,
    wanted: impl Fn(&Value) -> bool,
) -> Result<usize, Failed> {
    let began = Instant::now();
    let mut held = 0;
    while held < PAGES {
        let page = net.run(|| scrape(SocketAddr::from(METRICS)))??;
        let status = client.status()?;
        // Of the way to a state only one page is kept: how long it takes is not what is asked here.
        if wanted(&status) {
            held += 1;
            course.push(&page);
        } else if held > 0 {
            return Err(format!("it did not last: {status}").into());
        } else if began.elapsed() > PART_TIME {
            return Err(format!("not in {PART_TIME:?}: {status}").into());
        }
        thread::sleep(STEP);
    }
    Ok(course.last_s())
}

fn alerts_fire_in_an_outage_and_end_with_it() -> Outcome {
    let net = topology::routed(1_500)?;
    let folder = folder()?;
    let mut plan = plan(&folder, FAR_PROVIDER_V4)?;
    let (metrics, backend_at) = (SocketAddr::from(METRICS), SocketAddr::from(BACKEND));
    plan.client_tables = format!(
        "[metrics]\nlisten = \"{metrics}\"\n\n[backend]\nurls = [\"http://{backend_at}/\"]\ncheck_interval = \"5s\"\n\
         probe_interval_min = \"1s\"\nprobe_interval_max = \"2s\"\n"
    );
    plan.write()?;
    let backend = net.client.run(|| Server::start(backend_at))??;
    let mut client = plan.up(&net.client)?;
    client.until_ready()?;
    let mut course = Course::default();
    let is_up = |status: &Value| status["state"] == "up";
    let down_s = part(&mut course, &net.client, &client, |status| !is_up(status))?;

    let mut provider = plan.provide(&net.provider)?;
    provider.until_ready()?;
    let well = |status: &Value| {
        is_up(status)
            && status["backend"]["degraded"] == false
            && status["exits"][0]["path"]["stalled"] == false
    };
    client.until_up()?;
    let up_s = part(&mut course, &net.client, &client, well)?;

    provider.child().signal(Signal::SIGSTOP)?;
    drop(backend);
    let ended = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&ended);
    // Something has to be waited for, or nobody notices.
    let load = net.client.spawn_thread(move || {
        while !done.load(Ordering::Relaxed) {
            let _ = TcpStream::connect_timeout(&SocketAddr::new(WORLD_V4, 80), STEP);
        }
    })?;
    let ill = |status: &Value| {
        status["backend"]["degraded"] == true && status["exits"][0]["path"]["stalled"] == true
    };
    let outage = part(&mut course, &net.client, &client, ill);
    ended.store(true, Ordering::Relaxed);
    let _ = load.join();
    let outage_s = outage?;

    provider.child().signal(Signal::SIGCONT)?;
    let _backend = net.client.run(|| Server::start(backend_at))??;
    let healed_s = part(&mut course, &net.client, &client, well)?;
    let expected: [(usize, &[&str]); 4] = [
        (down_s, &["QuellClientDown"]),
        (up_s, &[]),
        (outage_s, &["QuellBackendDegraded", "QuellExitStalled"]),
        (healed_s, &[]),
    ];
    course.fires(folder.path(), &expected)
}
