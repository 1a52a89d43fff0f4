//! The commands that the README shows, run as it shows them.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use quell_cli::stage::Program;
use quell_lab::child::Signal;
use quell_lab::netns::Namespace;

use crate::fixture::{Outcome, ROLE, folder, trials};

trials![
    the_demo_downloads_and_cleans_up,
    the_demo_cleans_up_on_ctrl_c,
    keys_are_made_as_the_readme_shows,
    the_example_files_are_good,
];

fn quell() -> Result<Command, libtest_mimic::Failed> {
    Ok(Program::own()?.with(ROLE, "quell").command())
}

fn demo_folders(parent: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("quell-demo-")
        })
        .count()
}

fn the_demo_downloads_and_cleans_up() -> Outcome {
    let folder = folder()?;
    let output = quell()?
        .args(["demo", "--size", "16"])
        .env("TMPDIR", folder.path())
        .output()?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{out}{err}");
    assert!(output.status.success());
    assert!(out.contains("SHA-256 right") && out.contains("0 unaccounted for"));
    assert_eq!(demo_folders(folder.path()), 0);
    Ok(())
}

fn the_demo_cleans_up_on_ctrl_c() -> Outcome {
    let folder = folder()?;
    let namespace = Namespace::new("demo")?;
    let mut command = quell()?;
    command
        .args(["demo", "--size", "4096"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut demo = namespace.spawn(command)?;
    let start = Instant::now();
    while demo_folders(folder.path()) == 0 && start.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(500));
    demo.signal(Signal::SIGINT)?;
    let exit = demo.wait(Duration::from_secs(10))?;
    assert_eq!(exit.code(), Some(130));
    assert_eq!(demo_folders(folder.path()), 0);
    Ok(())
}

fn keys_are_made_as_the_readme_shows() -> Outcome {
    let folder = folder()?;
    let key = folder.path().join("client.key");
    let made = quell()?.arg("keygen").arg("--out").arg(&key).output()?;
    let shown = quell()?.arg("pubkey").arg(&key).output()?;
    assert!(made.status.success() && shown.status.success());
    assert_eq!(made.stdout, shown.stdout);
    assert!(shown.stdout.starts_with(b"quellpub1"));
    Ok(())
}

fn the_example_files_are_good() -> Outcome {
    let folder = folder()?;
    for role in ["client", "provider"] {
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
        let file = folder.path().join(format!("{role}.toml"));
        std::fs::copy(format!("{examples}/{role}.toml"), &file)?;
        let made = quell()?
            .arg("keygen")
            .arg("--out")
            .arg(folder.path().join(format!("{role}.key")))
            .output()?;
        assert!(made.status.success());
        let checked = quell()?.arg("check").arg(&file).output()?;
        let (out, err) = (
            String::from_utf8_lossy(&checked.stdout),
            String::from_utf8_lossy(&checked.stderr),
        );
        assert!(checked.status.success(), "{out}{err}");
    }
    Ok(())
}
