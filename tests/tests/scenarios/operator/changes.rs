//! What an operator changes while it runs, and the commands of the README's section, run as it shows them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use libtest_mimic::Failed;
use quell_lab::child::Signal;
use quell_net::identity::Identity;

use crate::commands::quell;
use crate::fixture::{Outcome, ROLE, World, trials, within};

trials![
    a_provider_takes_on_what_may_change_and_refuses_the_rest_by_name,
    a_client_that_is_taken_off_the_list_goes_at_a_hangup,
    a_report_holds_no_key_and_no_address,
    the_commands_for_operators_run_as_the_readme_shows_them,
];

const SOON: Duration = Duration::from_secs(5);

fn run(world: &World, role: &str, arguments: &[&str]) -> Result<Output, Failed> {
    let socket = world.folder.path().join(format!("{role}.sock"));
    let mut command = quell()?;
    Ok(command
        .args(arguments)
        .arg("--socket")
        .arg(socket)
        .output()?)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Changes a file of the world as an editor does.
fn edit(path: &Path, change: impl Fn(&str) -> String) -> Outcome {
    let text = fs::read_to_string(path)?;
    let changed = change(&text);
    assert_ne!(text, changed, "nothing to change in {text}");
    Ok(fs::write(path, changed)?)
}

fn sessions(world: &World) -> Result<usize, Failed> {
    let status = world.provider.status()?;
    Ok(status["sessions"].as_array().map_or(0, Vec::len))
}

fn a_provider_takes_on_what_may_change_and_refuses_the_rest_by_name() -> Outcome {
    let world = World::new(1_500)?;
    let file = world.folder.path().join("provider.toml");
    let key = Identity::generate()?.public_key();
    let client = format!("[[clients]]\nname = \"phone\"\npublic_key = \"{key}\"\n\n[addresses]");
    edit(&file, |text| {
        let text = text.replace("[addresses]", &client);
        text.replace("[log]", "[limits]\nsessions_max = 7\n\n[log]")
    })?;
    let (out, err) = texts(&run(&world, "provider", &["reload"])?);
    let expected = [
        format!("clients[\"phone\"]: not set → name = \"phone\", public_key = \"{key}\""),
        "limits.sessions_max: not set → 7".to_owned(),
    ];
    let said: Vec<_> = out.lines().collect();
    assert_eq!(said.len(), 2, "{out}{err}");
    // A key is longer than what is shown of a value.
    assert!(
        expected[0].starts_with(said[0].trim_end_matches('…')),
        "{out}"
    );
    assert_eq!(said[1], expected[1]);
    assert_eq!(sessions(&world)?, 1, "who may stay stays");

    edit(&file, |text| {
        let text = text.replace("sessions_max = 7", "sessions_max = 8");
        text.replace("masquerade = true", "masquerade = false")
    })?;
    let refused = run(&world, "provider", &["reload"])?;
    assert_eq!(refused.status.code(), Some(1));
    let (_, err) = texts(&refused);
    let words = "cannot change while it runs: egress.masquerade; nothing was applied";
    assert!(err.contains(words), "{err}");
    // The file that counts is the one before: its one change more is told again.
    edit(&file, |text| {
        text.replace("masquerade = false", "masquerade = true")
    })?;
    let (out, _) = texts(&run(&world, "provider", &["reload"])?);
    assert_eq!(out, "limits.sessions_max: 7 → 8\n");
    let (out, _) = texts(&run(&world, "provider", &["reload"])?);
    assert_eq!(out, "nothing changed\n");

    edit(&file, |text| {
        text.replace("sessions_max = 8", "sessions_max = 0")
    })?;
    let (_, err) = texts(&run(&world, "provider", &["reload"])?);
    assert!(err.contains("limits.sessions_max"), "{err}");
    edit(&world.folder.path().join("client.toml"), |text| {
        text.replace("level = \"debug\"", "level = \"warn\"")
    })?;
    let (out, err) = texts(&run(&world, "client", &["reload"])?);
    assert_eq!(out, "log.level: \"debug\" → \"warn\"\n", "{err}");
    world.finish()
}

fn a_client_that_is_taken_off_the_list_goes_at_a_hangup() -> Outcome {
    let mut world = World::new(1_500)?;
    let file = world.folder.path().join("provider.toml");
    let key = Identity::generate()?.public_key();
    edit(&file, |text| {
        let own = world.plan.client.public_key().to_string();
        text.replace(&own, &key.to_string())
    })?;
    world.provider.child().signal(Signal::SIGHUP)?;
    within(SOON, "an end", || {
        (sessions(&world).ok()? == 0).then_some(())
    })?;
    let status = world.client.until("refused", |status| {
        let reason = status["reason"].as_str().unwrap_or_default();
        reason.contains("unknown_client")
    })?;
    assert_ne!(status["state"], "up");
    let log = world.provider.log();
    assert!(log.contains("reload: 1 session ended"), "{log}");
    Ok(())
}

fn a_report_holds_no_key_and_no_address() -> Outcome {
    let world = World::new(1_500)?;
    let inner = world.client_address("ipv4")?.to_string();
    let path = |name: &str| {
        world
            .folder
            .path()
            .join(name)
            .to_string_lossy()
            .into_owned()
    };
    for role in ["client", "provider"] {
        let (file, log) = (path(&format!("{role}.toml")), path(&format!("{role}.log")));
        let output = run(&world, role, &["bugreport", &file, "--log", &log])?;
        let (report, err) = texts(&output);
        assert!(output.status.success(), "{err}");
        for section in [
            "== version",
            "== configuration",
            "== status",
            "== doctor",
            "== log",
        ] {
            assert!(report.contains(section), "no {section} in {report}");
        }
        let (client, provider) = (&world.plan.client, &world.plan.provider);
        let secrets = [client, provider].map(|of| of.secret_key().to_text().to_string());
        let publics = [client, provider].map(|of| of.public_key().to_string());
        let addresses = [
            inner.clone(),
            world.plan.dial.ip().to_string(),
            "10.85.0.".to_owned(),
        ];
        for hidden in secrets.iter().chain(&publics).chain(&addresses) {
            assert!(!report.contains(hidden.as_str()), "{hidden} in {report}");
        }
        assert!(report.contains("(address 1)"), "{report}");
    }
    world.finish()
}

/// The commands of a section of the README: lines of code that begin with the program's name.
fn commands(section: &str) -> Result<Vec<String>, Failed> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md"))?;
    let heading = format!("\n## {section}\n");
    let (_, after) = readme.split_once(&heading).ok_or("no such section")?;
    let section = after.split("\n## ").next().unwrap_or_default();
    let code = section.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = code.filter(|line| line.starts_with("quell "));
    Ok(commands.map(str::to_owned).collect())
}

fn the_commands_for_operators_run_as_the_readme_shows_them() -> Outcome {
    let world = World::with(1_500, |_, plan| {
        plan.drain = Duration::from_millis(500);
        Ok(())
    })?;
    let folder = world.folder.path();
    let shim = folder.join("quell");
    let program = std::env::current_exe()?;
    fs::write(
        &shim,
        format!(
            "#!/bin/sh\n{ROLE}=quell exec {} \"$@\"\n",
            program.display()
        ),
    )?;
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let commands = commands("Operator")?;
    assert!(commands.len() >= 9, "{commands:?}");
    for line in &commands {
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(folder);
        shell.env("PATH", format!("{}:{path}", folder.display()));
        shell.env("QUELL_CONTROL_SOCKET", folder.join("provider.sock"));
        let output = world.net.provider.run(|| shell.output())??;
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{line}:\n{out}{err}");
        let says = !line.contains('>') && !line.contains("metrics --out");
        assert_eq!(!out.is_empty(), says, "{line}: {out}");
    }
    assert!(folder.join("man/quell-top.1").exists());
    // The last of them drained it.
    assert!(world.provider.status().is_err());
    Ok(())
}
