//! The egress's one table of nftables, installed and removed by the program `nft`.
//!
//! The rules go to `nft -f -` as one transaction that adds the table, deletes it and adds it again with its content: the
//! first makes the second succeed, so the result is the same whatever was there, and the kernel takes all or nothing.
//!
//! ```text
//! postrouting   from a pool, and leaving by another interface than the TUN: masquerade
//! forward       from the TUN, and from no pool: drop
//! ```
//!
//! The second is a second line: the provider's core drops foreign sources before they reach the TUN. A family without a
//! pool has no source that could be right, so all of it is dropped. Nothing is accepted that the host's other tables
//! drop, connection tracking is not asked, and the MSS is clamped elsewhere (in the provider).
//!
//! Names and prefixes are parsed values, never text from a user: nothing can be injected.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quell_packet::Prefix;

use crate::error::EgressError;
use crate::name::TunName;

/// How long `nft` may take. It takes 20 ms; another program may hold the kernel's lock for seconds.
const RUN_MAX: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const RUN_STEP: Duration = Duration::from_millis(2);
/// How much of its complaint is kept.
const WORDS_BYTES_MAX: u64 = 1_024;

/// The rules for a TUN and its pools, of which at least one is given.
pub(crate) fn install_script(
    tun: &TunName,
    ipv4_pool: Option<Prefix>,
    ipv6_pool: Option<Prefix>,
) -> String {
    let table = tun.table();
    let tun = tun.as_str();
    let mut masquerade = String::new();
    let mut forward = String::new();
    for (protocol, pool) in [("ip", ipv4_pool), ("ip6", ipv6_pool)] {
        let family = if protocol == "ip" { "ipv4" } else { "ipv6" };
        // Writing to a string cannot fail.
        let _ = match pool {
            Some(pool) => writeln!(
                masquerade,
                "    {protocol} saddr {pool} oifname != \"{tun}\" masquerade"
            )
            .and_then(|()| {
                writeln!(
                    forward,
                    "    iifname \"{tun}\" {protocol} saddr != {pool} counter drop"
                )
            }),
            None => writeln!(
                forward,
                "    iifname \"{tun}\" meta nfproto {family} counter drop"
            ),
        };
    }
    format!(
        "add table inet {table}\n\
         delete table inet {table}\n\
         table inet {table} {{\n\
         \x20 chain postrouting {{\n\
         \x20   type nat hook postrouting priority 100; policy accept;\n\
         {masquerade}\
         \x20 }}\n\
         \x20 chain forward {{\n\
         \x20   type filter hook forward priority 0; policy accept;\n\
         {forward}\
         \x20 }}\n\
         }}\n"
    )
}

/// Removes the table, whether it is there or not.
pub(crate) fn remove_script(tun: &TunName) -> String {
    let table = tun.table();
    format!("add table inet {table}\ndelete table inet {table}\n")
}

/// The program, by the paths at which it is looked for. A daemon's search path often lacks the last two.
#[derive(Debug, Clone)]
pub(crate) struct Nft {
    pub(crate) programs: Vec<PathBuf>,
}

impl Default for Nft {
    fn default() -> Self {
        Self {
            programs: ["nft", "/usr/sbin/nft", "/sbin/nft"]
                .map(PathBuf::from)
                .into(),
        }
    }
}

impl Nft {
    /// Runs a script as one transaction.
    pub(crate) fn run(&self, script: &str) -> Result<(), EgressError> {
        self.run_within(script, RUN_MAX)
    }

    fn run_within(&self, script: &str, limit: Duration) -> Result<(), EgressError> {
        let mut child = self.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A script is shorter than a pipe's buffer, so this never blocks. When the program is gone already, its exit
            // status says why.
            let _ = stdin.write_all(script.as_bytes());
        }
        let deadline = Instant::now() + limit;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(RUN_STEP),
                Ok(None) => {
                    kill(&mut child);
                    return Err(refused(format!("it did not finish within {limit:?}")));
                }
                Err(error) => {
                    kill(&mut child);
                    return Err(refused(error.to_string()));
                }
            }
        };
        if status.success() {
            return Ok(());
        }
        let mut words = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            // What cannot be read is missing from the message, no more.
            let _ = stderr.take(WORDS_BYTES_MAX).read_to_end(&mut words);
        }
        Err(refused(format!(
            "{} ({status})",
            String::from_utf8_lossy(&words).trim()
        )))
    }

    fn spawn(&self) -> Result<Child, EgressError> {
        for program in &self.programs {
            let spawned = Command::new(program)
                .args(["-f", "-"])
                .env("LC_ALL", "C")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            match spawned {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                result => {
                    return result
                        .map_err(|error| refused(format!("{}: {error}", program.display())));
                }
            }
        }
        Err(EgressError::NftMissing)
    }
}

fn refused(words: String) -> EgressError {
    EgressError::Nft { words }
}

/// Ends a child and takes its exit status, so that no zombie stays. Both fail only when it is gone already.
fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::FakeHost;

    fn quell0() -> TunName {
        TunName::new("quell0").unwrap()
    }

    #[test]
    fn the_rules_are_these() {
        let script = install_script(
            &quell0(),
            Some("10.7.0.0/16".parse().unwrap()),
            Some("fd00:7::/64".parse().unwrap()),
        );
        let expected = r#"add table inet quell_quell0
delete table inet quell_quell0
table inet quell_quell0 {
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    ip saddr 10.7.0.0/16 oifname != "quell0" masquerade
    ip6 saddr fd00:7::/64 oifname != "quell0" masquerade
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    iifname "quell0" ip saddr != 10.7.0.0/16 counter drop
    iifname "quell0" ip6 saddr != fd00:7::/64 counter drop
  }
}
"#;
        assert_eq!(script, expected);
    }

    // case B88
    #[test]
    fn a_family_without_a_pool_is_not_masqueraded_and_dropped_from_the_tun() {
        let v4 = install_script(&quell0(), Some("10.7.0.0/16".parse().unwrap()), None);
        assert!(!v4.contains("ip6 saddr"), "{v4}");
        assert!(
            v4.contains("iifname \"quell0\" meta nfproto ipv6 counter drop"),
            "{v4}"
        );
        let v6 = install_script(&quell0(), None, Some("fd00:7::/64".parse().unwrap()));
        assert!(!v6.contains("ip saddr"), "{v6}");
        assert!(
            v6.contains("iifname \"quell0\" meta nfproto ipv4 counter drop"),
            "{v6}"
        );
    }

    #[test]
    fn a_script_reaches_the_program_and_its_success_is_believed() {
        let host = FakeHost::new();
        host.nft("cat > \"${0%/*}/nft.heard\"")
            .run("add table inet x\n")
            .unwrap();
        assert_eq!(host.nft_heard(), "add table inet x\n");
    }

    #[test]
    fn a_missing_program_is_looked_for_in_each_place_and_then_named() {
        let host = FakeHost::new();
        let mut nft = host.nft("exit 0");
        nft.programs.insert(0, host.run_dir().join("no-nft"));
        nft.run("").unwrap();
        nft.programs.truncate(1);
        let error = nft.run("").unwrap_err();
        assert!(matches!(error, EgressError::NftMissing));
        assert!(
            error.to_string().contains("egress.masquerade = false"),
            "{error}"
        );
    }

    #[test]
    fn a_refusal_brings_the_programs_words() {
        let host = FakeHost::new();
        let error = host
            .nft("echo 'Operation not permitted' >&2; exit 1")
            .run("")
            .unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("Operation not permitted") && words.contains("install"),
            "{words}"
        );

        let long = host
            .nft("head -c 60000 /dev/zero | tr '\\0' x >&2; exit 1")
            .run("")
            .unwrap_err();
        assert!(long.to_string().len() < 2 * WORDS_BYTES_MAX as usize);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let host = FakeHost::new();
        let started = Instant::now();
        let error = host
            .nft("exec sleep 60")
            .run_within("", Duration::from_millis(50))
            .unwrap_err();
        assert!(error.to_string().contains("did not finish"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
