//! promtool reads the pages of a client, a provider and a backend, and the rules with their tests.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use quell_lab::child::Child;
use quell_lab::netns::Namespace;

use super::promtool::{check_page, promtool, rules, scrape, trials};
use crate::commands::quell;
use crate::fixture::{Outcome, World, folder, within};

trials![
    pages_of_both_ends_are_read_and_are_the_same_by_both_ways,
    the_page_of_a_backend_is_read,
    the_rules_and_their_tests_hold,
];

const LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 9_620);

/// Names of all series of a page.
fn series(page: &str) -> Vec<&str> {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect()
}

fn said(command: &mut Command) -> Result<String, Failed> {
    let output = command.output()?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(out),
        false => Err(format!("{out}{}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

fn pages_of_both_ends_are_read_and_are_the_same_by_both_ways() -> Outcome {
    let listen = SocketAddr::from(LISTEN);
    let world = World::with(1_500, |_, plan| {
        let table = format!("\n[metrics]\nlisten = \"{listen}\"\n");
        plan.client_tables = table.clone();
        plan.provider_egress = table;
        Ok(())
    })?;
    for (role, net) in [
        ("client", &world.net.client),
        ("provider", &world.net.provider),
    ] {
        let served = net.run(|| scrape(listen))??;
        check_page(&served)?;
        let socket = world.folder.path().join(format!("{role}.sock"));
        let printed = said(quell()?.arg("metrics").arg("--socket").arg(&socket))?;
        assert_eq!(series(&served), series(&printed), "{role}");
        let file = world.folder.path().join(format!("{role}.prom"));
        let mut command = quell()?;
        let command = command.arg("metrics").arg("--socket").arg(&socket);
        said(command.arg("--out").arg(&file))?;
        assert_eq!(series(&std::fs::read_to_string(file)?), series(&printed));
    }
    world.finish()
}

fn the_page_of_a_backend_is_read() -> Outcome {
    let (net, folder) = (Namespace::new("metrics")?, folder()?);
    let file = folder.path().join("backend.toml");
    let start = || -> Result<Child, Failed> {
        let mut command = quell()?;
        command.args(["backend", "--new"]).arg(&file);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(net.spawn(command)?)
    };
    let made = start()?;
    within(Duration::from_secs(10), "a file", || {
        std::fs::read_to_string(&file)
            .ok()
            .filter(|text| text.ends_with('\n'))
    })?;
    drop(made);
    let listen = SocketAddr::from(LISTEN);
    let text = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{text}\n[metrics]\nlisten = \"{listen}\"\n"))?;
    let _backend = start()?;
    let page = within(Duration::from_secs(10), "a page", || {
        net.run(|| scrape(listen)).ok()?.ok()
    })?;
    assert!(page.contains("quell_server_requests_total 0"), "{page}");
    check_page(&page)
}

fn the_rules_and_their_tests_hold() -> Outcome {
    let rules = rules();
    let tests = rules.with_file_name("quell.rules.test.yml");
    let whole = rules.with_file_name("prometheus.yml");
    for (verb, what, file) in [
        ("check", "rules", &rules),
        ("test", "rules", &tests),
        ("check", "config", &whole),
    ] {
        let (is_good, said) = promtool(&[verb, what, &file.to_string_lossy()], "")?;
        assert!(is_good, "{said}");
    }
    Ok(())
}
