//! Backend, provider and client in a network of their own, each in a folder, with what they said.
//!
//! All of them are on the loopback of one namespace, so that ports can be those of the README. Whatever is left of a
//! scenario that failed goes with [`Stage`]: its processes, then the database, the network and the folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell::control;
use quell_lab::child::{Child, Signal};
use quell_lab::http::{self, Server};
use quell_lab::netns::Namespace;
use serde_json::Value;
use tempfile::TempDir;

use super::postgres::Cluster;
use crate::commands::quell;
use crate::fixture::{Outcome, folder, within};

pub(super) const BACKEND: &str = "127.0.0.1:6620";
pub(super) const PROVIDER: &str = "127.0.0.1:6610";
pub(super) const SOCKS: &str = "127.0.0.1:1080";
/// The web, beyond the provider.
pub(super) const WEB: &str = "127.99.88.77:8080";
/// How long a process may take to be of use.
pub(super) const READY: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(5);

/// A `quell` that runs.
pub(super) struct Running {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Running {
    pub(super) fn status(&self) -> Option<Value> {
        let request = control::Request {
            command: control::Command::Status,
        };
        control::request(&self.socket, request, ANSWER).ok()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until its status is as wanted.
    pub(super) fn until(
        &mut self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failed> {
        let mut last = None;
        let found = within(limit, what, || {
            last = self.status();
            last.clone().filter(&wanted)
        });
        found.map_err(|_| format!("not {what}: {last:?}\n{}", self.log()).into())
    }

    /// As kill -9 does.
    pub(super) fn kill(mut self) -> Outcome {
        self.child.signal(Signal::SIGKILL)?;
        self.child.wait(STOP)?;
        Ok(())
    }

    pub(super) fn signal(&mut self, signal: Signal) -> Outcome {
        Ok(self.child.signal(signal)?)
    }

    /// In good order.
    pub(super) fn stop(mut self) -> Outcome {
        self.child.signal(Signal::SIGTERM)?;
        let exit = self.child.wait(STOP)?;
        match exit.success() {
            true => Ok(()),
            false => Err(format!("it ended with {exit}:\n{}", self.log()).into()),
        }
    }
}

/// Where all of it happens.
pub(super) struct Stage {
    // Dropped in this order: processes, what they use, and where they are.
    _web: Server,
    pub(super) cluster: Option<Cluster>,
    pub(super) net: Namespace,
    pub(super) folder: TempDir,
}

/// Those who run.
pub(super) struct Cast {
    pub(super) client: Running,
    pub(super) provider: Running,
    pub(super) backend: Running,
}

impl Stage {
    pub(super) fn new() -> Result<Self, Failed> {
        let net = Namespace::new("plane")?;
        let web = net.run(|| Server::start(address(WEB)))??;
        Ok(Self {
            _web: web,
            cluster: None,
            net,
            folder: folder()?,
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn backend_file(&self) -> PathBuf {
        self.path("backend/backend.toml")
    }

    /// Runs a command to its end.
    pub(super) fn run<S: AsRef<OsStr> + Sync>(&self, arguments: &[S]) -> Result<Output, Failed> {
        let mut command = quell()?;
        command.args(arguments).stdin(Stdio::null());
        Ok(self.net.run(|| command.output())??)
    }

    /// What a command prints that ends well.
    pub(super) fn said<S: AsRef<OsStr> + Sync>(&self, arguments: &[S]) -> Result<String, Failed> {
        let output = self.run(arguments)?;
        let (out, err) = texts(&output);
        match output.status.success() {
            true => Ok(out),
            false => Err(format!("{}: {out}{err}", output.status).into()),
        }
    }

    /// Starts a process that stays; its log is `NAME.log`, which grows with each start.
    pub(super) fn start<S: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: &[S],
    ) -> Result<Running, Failed> {
        let log = self.path(&format!("{name}.log"));
        let socket = self.path(&format!("{name}.sock"));
        let open = || File::options().create(true).append(true).open(&log);
        let mut command = quell()?;
        command
            .args(arguments)
            .env("QUELL_CONTROL_SOCKET", &socket)
            .env_remove("QUELL_LOG")
            .stdout(open()?)
            .stderr(open()?);
        Ok(Running {
            child: self.net.spawn(command)?,
            socket,
            log,
        })
    }

    /// The first command of the README. Waits until it answers.
    pub(super) fn backend(&self) -> Result<Running, Failed> {
        let file = self.backend_file();
        let arguments = [
            "backend".as_ref(),
            "--new".as_ref(),
            file.as_os_str(),
            "--listen".as_ref(),
            BACKEND.as_ref(),
        ];
        let running = self.start("backend", &arguments)?;
        let healthy = || self.asked("GET", "/healthz", None).ok();
        within(READY, "the backend answers", healthy)
            .map_err(|_| Failed::from(format!("no answer: {}", running.log())))?;
        Ok(running)
    }

    /// More lines for the backend's file, before its first start.
    pub(super) fn configure_backend(&self, tables: &str, store: Option<&str>) -> Outcome {
        let running = self.backend()?;
        running.stop()?;
        let file = self.backend_file();
        let mut text = fs::read_to_string(&file)?;
        if let Some(store) = store {
            let old = "{ redb = \"backend.redb\" }";
            assert!(text.contains(old), "{text}");
            text = text.replace(old, store);
            fs::remove_file(self.path("backend/backend.redb"))?;
        }
        fs::write(&file, text + tables)?;
        Ok(())
    }

    /// The second: an invitation for a role.
    pub(super) fn invite(&self, role: &str, more: &[&str]) -> Result<String, Failed> {
        let file = self.backend_file();
        let mut arguments = vec!["invite".as_ref(), file.as_os_str(), role.as_ref()];
        arguments.extend(more.iter().map(|word| OsStr::new(*word)));
        let said = self.said(&arguments)?;
        let invitation = said.trim().strip_prefix(&format!("{role}: "));
        Ok(invitation.ok_or(said.clone())?.to_owned())
    }

    pub(super) fn enrol_provider(&self, invitation: &str) -> Vec<String> {
        let url = format!("http://{BACKEND}");
        let folder = self.path("provider").display().to_string();
        let words = [
            "enrol",
            &url,
            invitation,
            &folder,
            "--name",
            "exit",
            "--listen",
            PROVIDER,
            "--advertise",
            PROVIDER,
            "--allow",
            "127.0.0.0/8",
        ];
        words.map(str::to_owned).to_vec()
    }

    pub(super) fn enrol_client(&self, invitation: &str) -> Vec<String> {
        let url = format!("http://{BACKEND}");
        let folder = self.path("client").display().to_string();
        let words = ["enrol", &url, invitation, &folder, "--socks5", SOCKS];
        words.map(str::to_owned).to_vec()
    }

    /// A provider that enrolled before.
    pub(super) fn provide(&self) -> Result<Running, Failed> {
        let file = self.path("provider/provider.toml");
        self.start("provider", &["provide".as_ref(), file.as_os_str()])
    }

    /// A client that enrolled before.
    pub(super) fn up(&self) -> Result<Running, Failed> {
        let file = self.path("client/client.toml");
        self.start("client", &["up".as_ref(), file.as_os_str()])
    }

    /// All five commands, until the client has an exit and a contract for it.
    pub(super) fn cast(&self) -> Result<Cast, Failed> {
        self.cast_with(&[], |_| Ok(()))
    }

    /// The same with more words for the client's invitation, and something done before it starts.
    pub(super) fn cast_with(
        &self,
        invite: &[&str],
        before: impl FnOnce(&Self) -> Outcome,
    ) -> Result<Cast, Failed> {
        let backend = self.backend()?;
        let mut words = self.enrol_provider(&self.invite("provider", &[])?);
        words.push("--start".to_owned());
        let provider = self.start("provider", &words)?;
        self.said(&self.enrol_client(&self.invite("client", invite)?))?;
        before(self)?;
        let mut client = self.up()?;
        client.until("up", READY, is_up)?;
        Ok(Cast {
            client,
            provider,
            backend,
        })
    }

    /// Fetches a file through the client's proxy; its hash is right.
    pub(super) fn fetch(&self, bytes: u64, limit: Duration) -> Outcome {
        let got = self
            .net
            .run(|| http::download_via(address(SOCKS), address(WEB), bytes, limit))??;
        assert_eq!(got.sha256, quell_lab::content::sha256(bytes));
        Ok(())
    }

    /// Fetches again and again until a file comes.
    pub(super) fn until_fetched(&self, bytes: u64) -> Outcome {
        let fetched = || self.fetch(bytes, Duration::from_secs(5)).ok();
        within(READY, "a file through the proxy", fetched)
    }

    /// What the backend answers to a question with the operator's token.
    pub(super) fn asked(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Result<String, Failed> {
        let token = fs::read_to_string(self.path("backend/admin.token"))?;
        let body = body.unwrap_or_default();
        let question = format!(
            "{method} {path} HTTP/1.1\r\nHost: {BACKEND}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            token.trim(),
            body.len()
        );
        let answer = self.net.run(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&address(BACKEND), ANSWER)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream.write_all(question.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })??;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        match head.starts_with("HTTP/1.1 200") {
            true => Ok(body.to_owned()),
            false => Err(answer.into()),
        }
    }

    /// The accounts as the operator sees them: of the provider, and of the client.
    pub(super) fn accounts(&self) -> Result<[Value; 2], Failed> {
        let answer = self.asked("GET", "/v1/admin/accounts", None)?;
        let answer: Value = serde_json::from_str(&answer)?;
        let of = |role: &str| {
            let accounts = answer["accounts"].as_array()?;
            accounts.iter().find(|one| one["role"] == role).cloned()
        };
        let both = of("provider").zip(of("client"));
        let (provider, client) = both.ok_or_else(|| answer.to_string())?;
        Ok([provider, client])
    }

    /// Waits until the sums at the backend are as wanted, and returns them. It is asked twice a second: a source that asks
    /// more often than the backend lets it is turned away, and here all are one source.
    pub(super) fn until_settled(
        &self,
        limit: Duration,
        mut wanted: impl FnMut([u64; 2]) -> bool,
    ) -> Result<[u64; 2], Failed> {
        let began = Instant::now();
        loop {
            let settled = self.settled();
            if let Ok(sums) = &settled
                && wanted(*sums)
            {
                return settled;
            }
            if began.elapsed() > limit {
                return Err(format!("the sums are not as wanted: {settled:?}").into());
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Bytes that the backend settled: for the provider, and of the client.
    pub(super) fn settled(&self) -> Result<[u64; 2], Failed> {
        let bytes = |account: &Value| account["settled_bytes"].as_u64().unwrap_or(0);
        Ok(self.accounts()?.each_ref().map(bytes))
    }
}

/// Whether a client carries: it has a session, and a contract in hand.
pub(super) fn is_up(status: &Value) -> bool {
    status["state"] == "up" && status["contracts"]["contracts"].as_u64() > Some(0)
}

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse()
        .unwrap_or_else(|_| SocketAddr::from(([0; 4], 0)))
}

pub(super) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// All files below a folder.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort();
    found
}
