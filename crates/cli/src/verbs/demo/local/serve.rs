//! `demo --serve`: the stage of three exits for people to use, until Ctrl-C.
//!
//! It says what to try, and then a line whenever something has changed: which exit new
//! connections take, which exits can be used, how many connections there were. Now and then the
//! exit in use falls silent for a while, so that there is something to see: connections that are
//! open through it wait and go on, new ones take another.
//!
//! The proxies' ports may be asked for, the address may not: it is the loopback's.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Args;
use quell_lab::http::{Server, ServerConfig};
use serde_json::Value;
use tempfile::TempDir;

use super::super::exits::{EXITS, main_exit};
use super::plan::Wanted;
use super::stage::{Stage, WORLD};
use crate::Failure;
use crate::signals;
use quell_sim::report::grouped;

/// How often the client is asked what has changed: a line this often is easily read.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How long an exit is silent: several times what it takes to leave it.
const SILENCE: Duration = Duration::from_secs(10);

/// What may be said of a stage that is served.
#[derive(Debug, Args)]
pub(in super::super) struct Serve {
    /// With --serve: the SOCKS5 proxy's port on 127.0.0.1; 0: any
    #[arg(long, value_name = "PORT", requires = "serve", default_value_t = 0)]
    socks5: u16,
    /// With --serve: the HTTP proxy's port on 127.0.0.1; 0: any
    #[arg(long, value_name = "PORT", requires = "serve", default_value_t = 0)]
    http: u16,
    /// With --serve: silence the exit in use for 10 s, each so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", requires = "serve", default_value_t = 30, value_parser = silence_interval)]
    silence: u64,
}

/// 0, or long enough for the exit to be heard again in between.
fn silence_interval(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds @ (0 | 15..=86_400)) => Ok(seconds),
        Ok(_) | Err(_) => Err("0, or 15 to 86400 seconds".to_owned()),
    }
}

impl Serve {
    /// Serves until a signal comes.
    ///
    /// # Errors
    /// The stage is not to be had, or the client ended.
    pub(in super::super) fn run(
        self,
        folder: &TempDir,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let told = signals::told()?;
        writeln!(
            out,
            "a client and three exits, in this process and on the loopback …"
        )?;
        let stage = self.set(folder.path())?;
        // Whoever downloads by hand may take the time; so may a stream that waits for its exit.
        let web = ServerConfig {
            idle_timeout: Duration::from_secs(600),
            ..ServerConfig::default()
        };
        let web = Server::with_config(WORLD, web)?;
        self.invite(&stage, &web, out)?;
        out.flush()?;
        self.watch(&stage, &told, out)?;
        writeln!(out, "the end")?;
        Ok(())
    }

    fn set(&self, folder: &Path) -> Result<Stage, Failure> {
        let wanted = Wanted {
            exits: EXITS,
            socks5: self.socks5,
            http: self.http,
        };
        Stage::set(folder, wanted)
    }

    /// What there is, and what to try.
    fn invite(&self, stage: &Stage, web: &Server, out: &mut dyn Write) -> Result<(), Failure> {
        let (proxies, web) = (stage.proxies(), web.address());
        let (http, socks5) = (proxies.http, proxies.socks5);
        writeln!(
            out,
            "\nHTTP proxy    {http}\nSOCKS5 proxy  {socks5}\nweb server    {web}, which only the exits ask\n\n\
             try, in another terminal:\n\n\
             \x20 curl -x http://{http} http://{web}/\n\
             \x20 curl -x socks5h://{socks5} http://{web}/address\n\
             \x20 curl -x socks5h://{socks5} --limit-rate 1M -o /dev/null http://{web}/bytes/100000000\n\n\
             /address answers with the exit's own: 127.86.0.1, 127.87.0.1 or 127.88.0.1."
        )?;
        if self.silence > 0 {
            writeln!(
                out,
                "Each {} s the exit in use falls silent for {} s.",
                self.silence,
                SILENCE.as_secs()
            )?;
        }
        writeln!(out, "Ctrl-C ends it.\n")?;
        Ok(())
    }

    /// Looks, and tells what has changed, until a signal comes.
    fn watch(
        &self,
        stage: &Stage,
        told: &Receiver<()>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let mut silences = Silences::new(start, self.silence);
        let mut last = None;
        loop {
            let now = Instant::now();
            let second = now.duration_since(start).as_secs();
            let status = stage.client_status()?;
            match silences.due(now) {
                Due::Nothing => {}
                Due::Silence => {
                    let exit = main_exit(&status)?;
                    stage.silence(exit);
                    silences.silent = Some(exit);
                    writeln!(out, "{second:>6} s  exit {} is silenced", exit + 1)?;
                }
                Due::Heal(exit) => {
                    stage.heal(exit);
                    writeln!(out, "{second:>6} s  exit {} is heard again", exit + 1)?;
                }
            }
            let view = View::of(&status);
            if last.as_ref() != Some(&view) {
                writeln!(out, "{second:>6} s  {view}")?;
                last = Some(view);
            }
            out.flush()?;
            match told.recv_timeout(LOOK_INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// When an exit is silenced, and when it is heard again.
struct Silences {
    interval: Option<Duration>,
    next: Instant,
    silent: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    Silence,
    Heal(usize),
}

impl Silences {
    fn new(start: Instant, interval_s: u64) -> Self {
        let interval = (interval_s > 0).then(|| Duration::from_secs(interval_s));
        Self {
            interval,
            next: start + interval.unwrap_or_default(),
            silent: None,
        }
    }

    fn due(&mut self, now: Instant) -> Due {
        let Some(interval) = self.interval else {
            return Due::Nothing;
        };
        if now < self.next {
            return Due::Nothing;
        }
        match self.silent.take() {
            Some(exit) => {
                self.next = now + interval.saturating_sub(SILENCE);
                Due::Heal(exit)
            }
            None => {
                self.next = now + SILENCE;
                Due::Silence
            }
        }
    }
}

/// What a line says of the client.
#[derive(Debug, PartialEq, Eq)]
struct View {
    main: Option<usize>,
    usable: Vec<usize>,
    /// Connections that applications were granted so far.
    granted: u64,
    /// Those that are open.
    open: u64,
}

impl View {
    fn of(status: &Value) -> Self {
        let exits = status["exits"].as_array().into_iter().flatten();
        let usable = exits.zip(0..).filter(|(exit, _)| exit["is_usable"] == true);
        let proxy = &status["proxy"];
        Self {
            main: main_exit(status).ok(),
            usable: usable.map(|(_, number)| number).collect(),
            granted: proxy["granted"].as_u64().unwrap_or(0),
            open: proxy["flows"].as_u64().unwrap_or(0),
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.main {
            Some(main) => write!(f, "new connections take exit {}", main + 1)?,
            None => write!(f, "no exit takes connections")?,
        }
        let usable: Vec<_> = self.usable.iter().map(|n| (n + 1).to_string()).collect();
        let usable = match usable.is_empty() {
            true => "none".to_owned(),
            false => usable.join(", "),
        };
        let (granted, open) = (grouped(self.granted), grouped(self.open));
        write!(
            f,
            "; usable: {usable}; {granted} connections so far, {open} open"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn silences_take_turns_with_being_heard() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut silences = Silences::new(start, 30);
        assert_eq!(silences.due(at(29)), Due::Nothing);
        assert_eq!(silences.due(at(30)), Due::Silence);
        silences.silent = Some(2);
        assert_eq!(silences.due(at(39)), Due::Nothing);
        assert_eq!(silences.due(at(40)), Due::Heal(2));
        assert_eq!(silences.due(at(59)), Due::Nothing);
        assert_eq!(silences.due(at(60)), Due::Silence);
        assert_eq!(Silences::new(start, 0).due(at(99)), Due::Nothing);
    }

    #[test]
    fn an_interval_leaves_time_to_be_heard() {
        let taken = ["0", "15", "86400"].map(silence_interval);
        assert_eq!(taken, [Ok(0), Ok(15), Ok(86_400)]);
        for refused in ["14", "1", "86401", "-1", "x"] {
            assert!(silence_interval(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_line_says_what_people_count_from_one() {
        let status = json!({
            "main_exit": 1,
            "exits": [{"is_usable": true}, {"is_usable": true}, {"is_usable": false}],
            "proxy": {"granted": 1_234, "flows": 3},
        });
        let line = View::of(&status).to_string();
        let expected =
            "new connections take exit 2; usable: 1, 2; 1,234 connections so far, 3 open";
        assert_eq!(line, expected);
        let nothing = View::of(&json!({})).to_string();
        assert!(nothing.starts_with("no exit takes connections; usable: none;"));
    }
}
