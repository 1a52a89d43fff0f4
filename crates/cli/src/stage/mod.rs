//! Both ends of a tunnel as processes in network namespaces.
//!
//! What the demo shows and what the scenarios test is the same thing: a client
//! and a provider, each in a namespace, with keys, configuration files and
//! control sockets in one folder. [`Plan`] says how they differ from the plain
//! case; [`End`] is one of the processes.
//!
//! Processes die with whoever started them, also on kill -9.

mod plan;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use quell::control;
use quell_lab::child::{Child, Signal};
use quell_lab::netns::Namespace;
use serde_json::Value;

pub use plan::{AnotherProvider, CLIENT, EXIT_V4, PROVIDER, Plan};

/// Inner packets above this size cross whole once the path's MTU is found, in bytes.
pub(crate) const FULL_SIZE: u64 = 1_390;
// Patience, not bounds: what an end owes is held by tests of its own. A busy machine takes its time to schedule a process, and
// the kernel takes down the devices of all namespaces one after the other, each with a wait or two for its readers: twenty
// worlds that end at a time, on two cores with other work, were seen to need more than half a minute.
/// How long an end may take until it is up or listening.
const READY_TIME: Duration = Duration::from_secs(30);
/// How long an end may take to stop when asked.
const STOP_TIME: Duration = Duration::from_secs(120);
/// How long an end may take to answer a question.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Variables that would change what files say.
const VARIABLES: [&str; 4] = [
    "QUELL_LOG",
    "QUELL_CONTROL_SOCKET",
    "QUELL_BACKEND_URLS",
    "QUELL_PRIVATE_KEY_FILE",
];
/// How often a condition is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// One end: a `quell` process in a namespace.
#[derive(Debug)]
pub struct End {
    child: Child,
    role: String,
    folder: PathBuf,
}

impl End {
    /// Starts `quell VERB FOLDER/ROLE.toml` in `namespace`. Its log goes to
    /// `FOLDER/ROLE.log`, its control socket is `FOLDER/ROLE.sock`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(
        program: &Program,
        namespace: &Namespace,
        verb: &str,
        role: &str,
        folder: &Path,
    ) -> Result<Self> {
        Self::started(program, verb, role, folder, |command| {
            namespace.spawn(command)
        })
    }

    /// The same in this very namespace. The calling thread is to live as long as the process.
    ///
    /// # Errors
    /// As [`End::start`].
    pub fn start_here(program: &Program, verb: &str, role: &str, folder: &Path) -> Result<Self> {
        Self::started(program, verb, role, folder, Child::start)
    }

    fn started(
        program: &Program,
        verb: &str,
        role: &str,
        folder: &Path,
        start: impl FnOnce(Command) -> quell_lab::Result<Child>,
    ) -> Result<Self> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.join(format!("{role}.log")))?;
        let mut command = program.command();
        command
            .arg(verb)
            .arg(folder.join(format!("{role}.toml")))
            .stdout(Stdio::null())
            .stderr(log);
        Ok(Self {
            child: start(command)?,
            role: role.to_owned(),
            folder: folder.to_owned(),
        })
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub fn status(&self) -> Result<Value> {
        let request = control::Request {
            command: control::Command::Status,
        };
        let socket = self.folder.join(format!("{}.sock", self.role));
        Ok(control::request(&socket, request, ANSWER_TIME)?)
    }

    /// Waits until its status is as `wanted`, and returns that.
    ///
    /// # Errors
    /// It ended, or was not as wanted in time; with its log.
    pub fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let start = Instant::now();
        let mut last = Value::Null;
        while start.elapsed() < READY_TIME {
            if let Ok(status) = self.status() {
                if wanted(&status) {
                    return Ok(status);
                }
                last = status;
            }
            if let Some(exit) = self.child.try_wait()? {
                bail!("the {} ended with {exit}:\n{}", self.role, self.log());
            }
            thread::sleep(LOOK_INTERVAL);
        }
        bail!(
            "the {} was not {what} after {READY_TIME:?}; last it said {last}\n{}",
            self.role,
            self.log()
        );
    }

    /// Waits until a client's session is up and its interface in place.
    ///
    /// # Errors
    /// As [`End::until`].
    pub fn until_up(&mut self) -> Result<Value> {
        self.until("up", |status| {
            status["state"] == "up" && status["interface_ready"] == true
        })
    }

    /// Waits until a client's session carries packets of full size whole.
    ///
    /// # Errors
    /// As [`End::until`].
    pub fn until_full_size(&mut self) -> Result<Value> {
        self.until("up at full size", |status| {
            status["interface_ready"] == true
                && status["exits"][0]["path"]["inner_mtu"].as_u64() > Some(FULL_SIZE)
        })
    }

    /// Waits until it answers at all.
    ///
    /// # Errors
    /// As [`End::until`].
    pub fn until_ready(&mut self) -> Result<Value> {
        self.until("ready", |_| true)
    }

    /// What it wrote to its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join(format!("{}.log", self.role))).unwrap_or_default()
    }

    /// The process, for signals.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Kills it as kill -9 does, and waits for its death.
    ///
    /// # Errors
    /// The system refused.
    pub fn kill(&mut self) -> Result<()> {
        self.child.signal(Signal::SIGKILL)?;
        self.child.wait(STOP_TIME)?;
        Ok(())
    }

    /// Waits for an end that nobody asked for, such as a refusal to start; its log.
    ///
    /// # Errors
    /// It runs on, or ended well.
    pub fn until_refused(&mut self) -> Result<String> {
        let exit = self.child.wait(READY_TIME)?;
        if exit.success() {
            bail!("the {} ended well, which it should not", self.role);
        }
        Ok(self.log())
    }

    /// Asks it to stop and waits for a good end.
    ///
    /// # Errors
    /// It ended badly, or not at all; with its log.
    pub fn stop(&mut self) -> Result<()> {
        self.child.signal(Signal::SIGTERM)?;
        let exit: ExitStatus = self.child.wait(STOP_TIME)?;
        if !exit.success() {
            return Err(anyhow!(
                "the {} ended with {exit}:\n{}",
                self.role,
                self.log()
            ));
        }
        Ok(())
    }
}

/// How to run `quell`.
#[derive(Debug, Clone)]
pub struct Program {
    file: PathBuf,
    variables: Vec<(String, String)>,
}

impl Program {
    /// This very program.
    ///
    /// # Errors
    /// The system does not say which file it is.
    pub fn own() -> Result<Self> {
        let file = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(Self {
            file,
            variables: Vec::new(),
        })
    }

    /// The same with an environment variable set.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without the variables that would change what its file says.
    #[must_use]
    pub fn by_its_files_alone(self) -> Self {
        VARIABLES
            .iter()
            .fold(self, |program, name| program.with(name, ""))
    }

    /// A command that runs it; arguments are the caller's.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.envs(self.variables.iter().cloned());
        command
    }
}
