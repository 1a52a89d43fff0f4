//! A program of the host that takes a script: `nft -f -`, `ip -batch -`, or takes arguments alone.
//!
//! It is looked for by its name and where a daemon's search path often does not lead. It gets the script on its standard
//! input and a bounded time; when it refuses, its complaint is kept, shortened.
//!
//! What a script holds is made of parsed values by the caller, never of a user's text: nothing can be injected.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::HostError;

/// How long it may take. `nft` takes 20 ms; another program may hold the kernel's lock for seconds.
const RUN_MAX: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const RUN_STEP: Duration = Duration::from_millis(2);
/// How much of its complaint is kept.
const WORDS_BYTES_MAX: u64 = 1_024;

/// A program, by the paths at which it is looked for.
#[derive(Debug, Clone)]
pub struct Program {
    name: &'static str,
    paths: Vec<PathBuf>,
}

impl Program {
    /// The program `name`, of the search path or of the system's folders.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
        let found = folders.map(|folder| PathBuf::from(folder).join(name));
        Self::at(name, [PathBuf::from(name)].into_iter().chain(found))
    }

    /// The program `name` at the first of `paths` that is there: for tests.
    #[must_use]
    pub fn at(name: &'static str, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            name,
            paths: paths.into_iter().collect(),
        }
    }

    /// Runs it with a script on its standard input.
    ///
    /// # Errors
    /// [`HostError::ProgramMissing`], [`HostError::ProgramRefused`], which it also is to take too long.
    pub fn run(&self, args: &[&str], script: &str) -> Result<(), HostError> {
        self.run_within(args, script, RUN_MAX)
    }

    fn run_within(&self, args: &[&str], script: &str, limit: Duration) -> Result<(), HostError> {
        let mut child = self.spawn(args)?;
        if let Some(mut stdin) = child.stdin.take() {
            // When the program is gone already, its exit status says why. One that reads nothing is ended below.
            let script = script.to_owned();
            std::thread::spawn(move || {
                let _ = stdin.write_all(script.as_bytes());
            });
        }
        let deadline = Instant::now() + limit;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(RUN_STEP),
                Ok(None) => {
                    kill(&mut child);
                    return Err(self.refused(format!("it did not finish within {limit:?}")));
                }
                Err(error) => {
                    kill(&mut child);
                    return Err(self.refused(error.to_string()));
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
        Err(self.refused(format!(
            "{} ({status})",
            String::from_utf8_lossy(&words).trim()
        )))
    }

    fn spawn(&self, args: &[&str]) -> Result<Child, HostError> {
        for path in &self.paths {
            let spawned = Command::new(path)
                .args(args)
                .env("LC_ALL", "C")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            match spawned {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                result => {
                    return result
                        .map_err(|error| self.refused(format!("{}: {error}", path.display())));
                }
            }
        }
        Err(HostError::ProgramMissing { program: self.name })
    }

    fn refused(&self, words: String) -> HostError {
        HostError::ProgramRefused {
            program: self.name,
            words,
        }
    }
}

/// Ends a child and takes its exit status, so that no zombie stays. Both fail only when it is gone already.
fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;

    /// A program of that script, in a folder of its own.
    fn program(folder: &Path, script: &str) -> Program {
        std::fs::write(folder.join("nft"), format!("{script}\n")).unwrap();
        let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testing/program.sh");
        let path = folder.join("launch");
        std::os::unix::fs::symlink(launcher, &path).unwrap();
        Program::at("nft", [path])
    }

    #[test]
    fn a_script_reaches_the_program_and_its_success_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let long = "add table inet x\n".repeat(8_000);
        program(folder.path(), "cat > \"${0%/*}/heard\"")
            .run(&["-f", "-"], &long)
            .unwrap();
        let heard = std::fs::read_to_string(folder.path().join("heard")).unwrap();
        assert_eq!(heard, long);
    }

    #[test]
    fn a_missing_program_is_looked_for_in_each_place_and_then_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut nft = program(folder.path(), "exit 0");
        nft.paths.insert(0, folder.path().join("no-nft"));
        nft.run(&[], "").unwrap();
        nft.paths.truncate(1);
        let error = nft.run(&[], "").unwrap_err();
        assert!(matches!(
            error,
            HostError::ProgramMissing { program: "nft" }
        ));
    }

    #[test]
    fn a_refusal_brings_the_programs_words() {
        let folder = tempfile::tempdir().unwrap();
        let error = program(folder.path(), "echo 'Operation not permitted' >&2; exit 1")
            .run(&[], "")
            .unwrap_err();
        assert!(
            error.to_string().contains("Operation not permitted"),
            "{error}"
        );

        let folder = tempfile::tempdir().unwrap();
        let long = program(
            folder.path(),
            "head -c 60000 /dev/zero | tr '\\0' x >&2; exit 1",
        );
        let error = long.run(&[], "").unwrap_err();
        assert!(error.to_string().len() < 2 * WORDS_BYTES_MAX as usize);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let error = program(folder.path(), "exec sleep 60")
            .run_within(&[], "", Duration::from_millis(50))
            .unwrap_err();
        assert!(error.to_string().contains("did not finish"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
