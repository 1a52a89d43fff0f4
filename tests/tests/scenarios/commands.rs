//! The commands that the README shows, run as it shows them; those of the demo are in `demo`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use quell_backend::config::ServerConfig;
use quell_cli::stage::Program;

use crate::fixture::{Outcome, ROLE, folder, trials};

trials![
    keys_are_made_as_the_readme_shows,
    the_example_files_are_good,
    the_example_of_a_backend_says_the_defaults,
    a_wg_quick_file_becomes_a_client,
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

/// What stands in the example as a default is the default: the file with those lines taken out means the same.
fn the_example_of_a_backend_says_the_defaults() -> Outcome {
    let folder = folder()?;
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/backend.toml");
    let file = folder.path().join("backend.toml");
    std::fs::copy(example, &file)?;
    let key = folder.path().join("signing.key");
    assert!(
        quell()?
            .arg("keygen")
            .arg("--out")
            .arg(&key)
            .output()?
            .status
            .success()
    );
    let token = folder.path().join("admin.token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef")?;
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600))?;
    let checked = quell()?.arg("check").arg(&file).output()?;
    let (out, err) = (
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr),
    );
    assert!(checked.status.success(), "{out}{err}");
    assert!(out.contains("is good: a backend"), "{out}");
    let example = ServerConfig::load(&file)?;
    let needed = "listen = \"127.0.0.1:6620\"\nstore = { redb = \"backend.redb\" }\n\
                  signing_key_file = \"signing.key\"\nadmin_token_file = \"admin.token\"\n";
    std::fs::write(&file, needed)?;
    let default = ServerConfig::load(&file)?;
    let told = |config: &ServerConfig| {
        let parts = (
            &config.service,
            &config.catalog,
            &config.probe,
            &config.limits,
        );
        format!("{parts:#?}")
    };
    assert_eq!(told(&example), told(&default));
    Ok(())
}

fn a_wg_quick_file_becomes_a_client() -> Outcome {
    const SECRET: &str = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";
    let folder = folder()?;
    let wg = folder.path().join("wg0.conf");
    let text = format!(
        "[Interface]\nPrivateKey = {SECRET}\nAddress = 10.64.0.7/32\nDNS = 10.64.0.1\nMTU = 1380\n\
         PostUp = touch {}/owned\n[Peer]\nEndpoint = vpn.example.net:51820\nAllowedIPs = 0.0.0.0/0, ::/0\n",
        folder.path().display()
    );
    std::fs::write(&wg, text)?;
    let made = quell()?
        .args(["keygen", "--out"])
        .arg(folder.path().join("provider.key"))
        .output()?;
    let key = String::from_utf8(made.stdout)?;
    let laptop = folder.path().join("laptop");
    let import = || -> Result<_, libtest_mimic::Failed> {
        let mut command = quell()?;
        command.arg("import").arg(&wg).arg(&laptop);
        Ok(command.args(["--provider-key", key.trim()]).output()?)
    };
    let imported = import()?;
    let (out, err) = (
        String::from_utf8_lossy(&imported.stdout),
        String::from_utf8_lossy(&imported.stderr),
    );
    assert!(imported.status.success(), "{out}{err}");
    for said in [
        "never copied",
        "never run",
        "vpn.dns = [\"10.64.0.1\"]",
        "tun.mtu_max = 1380",
        "A new key",
    ] {
        assert!(out.contains(said), "{said}: {out}");
    }
    let file = laptop.join("client.toml");
    let text = std::fs::read_to_string(&file)?;
    let secret = std::fs::read_to_string(laptop.join("client.key"))?;
    assert!(
        !format!("{out}{text}{secret}").contains(SECRET),
        "the key was copied"
    );
    assert!(!folder.path().join("owned").exists(), "a hook ran");
    let checked = quell()?.arg("check").arg(&file).output()?;
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success() && said.contains("0.0.0.0/0"),
        "{said}"
    );
    // Nothing that is there is replaced.
    assert_eq!(import()?.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(laptop.join("client.key"))?, secret);
    Ok(())
}
