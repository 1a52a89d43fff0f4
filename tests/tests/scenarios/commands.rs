//! The commands that the README shows, run as it shows them; those of the demo are in `demo`.

use std::process::Command;

use quell_cli::stage::Program;

use crate::fixture::{Outcome, ROLE, folder, trials};

trials![
    keys_are_made_as_the_readme_shows,
    the_example_files_are_good,
];

/// The program under test.
pub(crate) fn quell() -> Result<Command, libtest_mimic::Failed> {
    Ok(Program::own()?.with(ROLE, "quell").command())
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
        assert!(out.contains("no warnings"), "{out}");
        let figures = quell()?
            .arg("check")
            .arg(&file)
            .args(["--rtt", "200ms", "--json"])
            .output()?;
        let figures: serde_json::Value = serde_json::from_slice(&figures.stdout)?;
        assert_eq!(figures["figures"]["rtt_ms"], 200, "{figures}");
    }
    Ok(())
}
