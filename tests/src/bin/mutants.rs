//! Breaks each guard of `tests/mutants.toml` in a copy of the tree, and sees the named test fail.
//!
//! ```text
//! copy of the tree ──→ all named tests pass ──→ for each row: mutate, build, run one test, restore
//! ```
//!
//! The copy lies in the build folder, so that a run which is killed leaves no broken source where people work; each run
//! begins by making it what the tree is, so that no mutant of an earlier one is left in it. What counts as killed is a
//! named test that ran and failed, or did not end within [`TEST_TIME_MAX`]: a guard that ends a loop is proved by one that
//! never ends. A mutant that does not compile proves nothing and is a complaint, and so is a test name that no test has.
//!
//! `mutants [WORDS]` takes the rows alone whose guard, file or test holds the words. The last line is the count:
//! `N mutants, N killed`. It ends with failure if one lives.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use quell_tests::mutants::{Mutant, TABLE, parse};
use serde_json::Value;

/// How long one test may take. The slowest of the table takes half a minute on a machine that has nothing else to do.
const TEST_TIME_MAX: Duration = Duration::from_secs(300);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How a run of one test program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    TooLate,
}

struct Lab {
    tree: PathBuf,
    build: PathBuf,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("mutants: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    // Whoever closed the pipe does not want to know.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn run() -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("the workspace has no root")?;
    let words = std::env::args().nth(1).unwrap_or_default();
    let wanted = |m: &Mutant| {
        [&m.guard, &m.file, &m.test]
            .iter()
            .any(|s| s.contains(&words))
    };
    let mut mutants = parse(&fs::read_to_string(root.join(TABLE))?)?;
    mutants.retain(wanted);
    let lab = Lab::new(root)?;
    lab.pass_without(&mutants)?;
    let mut killed = 0;
    for mutant in &mutants {
        let began = Instant::now();
        let verdict = lab.judge(mutant)?;
        killed += usize::from(verdict.is_ok());
        let words = verdict.unwrap_or_else(|complaint| format!("LIVES ({complaint})"));
        let seconds = began.elapsed().as_secs_f64();
        say(&format!("{seconds:6.1} s  {words}: {}", mutant.guard));
    }
    say(&format!("{} mutants, {killed} killed", mutants.len()));
    Ok(killed == mutants.len() && killed > 0)
}

/// All files below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

impl Lab {
    fn new(root: &Path) -> Result<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
        let scratch = root.join(target).join("mutants");
        let lab = Self {
            tree: scratch.join("tree"),
            build: scratch.join("build"),
        };
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()?;
        let listed = String::from_utf8(listed.stdout)?;
        // What git knows and is deleted here is not there to be copied.
        let there = |name: &&str| !name.is_empty() && root.join(name).is_file();
        let names: BTreeSet<_> = listed
            .split('\0')
            .filter(there)
            .map(|name| lab.tree.join(name))
            .collect();
        for copy in &names {
            let original = fs::read(root.join(copy.strip_prefix(&lab.tree)?))?;
            // What is as it was is not built anew.
            if fs::read(copy).ok().as_ref() != Some(&original) {
                fs::create_dir_all(copy.parent().ok_or("a file lies in a folder")?)?;
                fs::write(copy, original)?;
            }
        }
        for copy in files(&lab.tree)?
            .iter()
            .filter(|copy| !names.contains(*copy))
        {
            fs::remove_file(copy)?;
        }
        Ok(lab)
    }

    /// Without a mutant each named test exists and passes.
    fn pass_without(&self, mutants: &[Mutant]) -> Result<()> {
        let mut programs = BTreeMap::<_, (&Mutant, Vec<&str>)>::new();
        for mutant in mutants {
            let key = (mutant.folder(), &mutant.target);
            let (_, tests) = programs.entry(key).or_insert((mutant, Vec::new()));
            tests.push(&mutant.test);
        }
        for (mutant, mut tests) in programs.into_values() {
            tests.sort_unstable();
            tests.dedup();
            let program = self
                .program(mutant)?
                .ok_or("the tree does not build as it stands")?;
            let (ended, ran, words) = self.test(&program, mutant, &tests)?;
            if ran != tests.len() || ended != Ended::Passed {
                say(&words);
                let all = tests.len();
                let words = format!("without a mutant {ran} of {all} tests ran and {ended:?}");
                return Err(words.into());
            }
        }
        Ok(())
    }

    /// How the mutant was killed, or why it was not.
    fn judge(&self, mutant: &Mutant) -> Result<std::result::Result<String, String>> {
        let path = self.tree.join(&mutant.file);
        let sound = fs::read_to_string(&path)?;
        let Some(broken) = mutant.apply(&sound) else {
            return Ok(Err("its place does not occur once".to_owned()));
        };
        fs::write(&path, broken)?;
        let verdict = match self.program(mutant)? {
            None => Err("does not compile".to_owned()),
            Some(program) => match self.test(&program, mutant, &[&mutant.test])? {
                (_, 0, _) => Err(format!("no test {}", mutant.test)),
                (Ended::Passed, _, _) => Err(format!("{} passes", mutant.test)),
                (Ended::Failed, _, _) => Ok("killed".to_owned()),
                (Ended::TooLate, _, _) => Ok("killed by its time".to_owned()),
            },
        };
        fs::write(&path, sound)?;
        Ok(verdict)
    }

    /// Builds the mutant's test program; `None` where it does not compile.
    fn program(&self, mutant: &Mutant) -> Result<Option<PathBuf>> {
        let package = mutant.package().ok_or("a guard stands in a crate")?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args([
            "test",
            "--locked",
            "--no-run",
            "--quiet",
            "--message-format=json",
        ]);
        cargo.args(["--package", &package]);
        match mutant.target.as_str() {
            "lib" => cargo.arg("--lib"),
            name => cargo.args(["--test", name]),
        };
        cargo
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build)
            // A build for each row, and one short test: what makes programs fast and failures readable is dear here.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "none");
        let output = cargo.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        let text = String::from_utf8(output.stdout)?;
        let messages: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        for error in messages.iter().filter(|m| m["message"]["level"] == "error") {
            say(error["message"]["rendered"].as_str().unwrap_or_default());
        }
        let built = |message: &&Value| message["profile"]["test"] == true;
        let path = messages
            .iter()
            .filter(built)
            .find_map(|m| m["executable"].as_str());
        Ok(path.filter(|_| output.status.success()).map(PathBuf::from))
    }

    /// Runs the named tests of a program: how it ended, how many ran, and what was said.
    fn test(
        &self,
        program: &Path,
        mutant: &Mutant,
        tests: &[&str],
    ) -> Result<(Ended, usize, String)> {
        let said = self.build.join("said");
        let folder = mutant.folder().ok_or("a guard stands in a crate")?;
        let file = fs::File::create(&said)?;
        let mut child = Command::new(program)
            .arg("--exact")
            .args(tests)
            .current_dir(self.tree.join(folder))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let began = Instant::now();
        let ended = loop {
            match child.try_wait()? {
                Some(status) if status.success() => break Ended::Passed,
                Some(_) => break Ended::Failed,
                None if began.elapsed() > TEST_TIME_MAX => {
                    child.kill()?;
                    child.wait()?;
                    break Ended::TooLate;
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let words = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
        let count = words.lines().find_map(|line| {
            let line = line.strip_prefix("running ")?;
            line.split(' ').next()?.parse().ok()
        });
        Ok((ended, count.unwrap_or(0), words))
    }
}
