//! The `quell` command.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed: the system or a peer refused |
//! | 2 | it was asked wrongly: bad arguments, or a bad configuration file |
//!
//! Results go to standard output, everything else to standard error. A failure
//! is one line, `error: what: because: of what`; there is no backtrace, since
//! nothing that ends here is a bug. Writing to a pipe that nobody reads any more
//! ends with 1 and without a word, as it does for every tool in a pipeline.
//!
//! Each verb is a file in `verbs`: its arguments and one `run` function that is
//! given the [`Streams`] it may use.

mod checkup;
mod daemon;
mod dump;
pub mod fuzz;
mod huge_pages;
mod live;
mod loopback;
mod notify;
mod report_file;
mod rereading;
mod scrub;
mod signals;
mod socket;
pub mod stage;
mod table;
mod verbs;
mod wg_quick;
mod whole;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use verbs::{
    backend, bench, bugreport, check, completions, demo, doctor, down, drain, drill, enrol, import,
    invite, keygen, metrics, portal, provide, pubkey, reload, show, sim, status, top, up, why,
};

/// What a run may read and write.
pub struct Streams<'a> {
    /// Standard input.
    pub input: &'a mut dyn Read,
    /// Results.
    pub out: &'a mut dyn Write,
    /// Everything that is not a result.
    pub err: &'a mut dyn Write,
}

/// How a run ended; the number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The system or a peer refused.
    Failed = 1,
    /// Bad arguments or a bad configuration file.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb did not do what it was asked.
#[derive(Debug)]
enum Failure {
    Failed(anyhow::Error),
    Usage(anyhow::Error),
}

impl Failure {
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Carries packets over QUIC to an exit, and goes quiet when the path fails.
#[derive(Debug, Parser)]
#[command(name = "quell", version, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 bad arguments or configuration.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::Demo),
    Up(up::Up),
    Down(down::Down),
    Portal(portal::Portal),
    Import(import::Import),
    Provide(provide::Provide),
    Keygen(keygen::Keygen),
    Pubkey(pubkey::Pubkey),
    Check(check::Check),
    Drill(drill::Drill),
    Bench(bench::Bench),
    Status(status::Status),
    Why(why::Why),
    Doctor(doctor::Doctor),
    Metrics(metrics::Metrics),
    Reload(reload::Reload),
    Drain(drain::Drain),
    Top(top::Top),
    Show(show::Show),
    Bugreport(bugreport::Bugreport),
    Completions(completions::Completions),
    Man(completions::Man),
    Backend(backend::Backend),
    Invite(invite::Invite),
    Enrol(enrol::Enrol),
    Sim(sim::Sim),
}

impl Verb {
    fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        match self {
            Self::Demo(verb) => verb.run(streams),
            Self::Up(verb) => verb.run(streams),
            Self::Down(verb) => verb.run(streams),
            Self::Portal(verb) => verb.run(streams),
            Self::Import(verb) => verb.run(streams),
            Self::Provide(verb) => verb.run(streams),
            Self::Keygen(verb) => verb.run(streams),
            Self::Pubkey(verb) => verb.run(streams),
            Self::Check(verb) => verb.run(streams),
            Self::Drill(verb) => verb.run(streams),
            Self::Bench(verb) => verb.run(streams),
            Self::Status(verb) => verb.run(streams),
            Self::Why(verb) => verb.run(streams),
            Self::Doctor(verb) => verb.run(streams),
            Self::Metrics(verb) => verb.run(streams),
            Self::Reload(verb) => verb.run(streams),
            Self::Drain(verb) => verb.run(streams),
            Self::Top(verb) => verb.run(streams),
            Self::Show(verb) => verb.run(streams),
            Self::Bugreport(verb) => verb.run(streams),
            Self::Completions(verb) => verb.run(streams),
            Self::Man(verb) => verb.run(streams),
            Self::Backend(verb) => verb.run(streams),
            Self::Invite(verb) => verb.run(streams),
            Self::Enrol(verb) => verb.run(streams),
            Self::Sim(verb) => verb.run(streams),
        }
    }
}

/// The command line as clap describes it.
fn command() -> clap::Command {
    Cli::command()
}

/// Runs the process's command line.
pub fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "sim") {
        huge_pages::restart();
    }
    // Not locked: the log's lines come from other threads, and would wait for ever.
    let mut streams = Streams {
        input: &mut io::stdin(),
        out: &mut io::stdout(),
        err: &mut io::stderr(),
    };
    run(std::env::args_os(), &mut streams).into()
}

/// Runs one command line, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>, streams: &mut Streams<'_>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(answer) => return explain(&answer, streams),
    };
    // A full disk shows when the last bytes leave the buffer.
    let done = cli
        .verb
        .run(streams)
        .and_then(|()| streams.out.flush().map_err(Failure::from));
    let (exit, error) = match done {
        Ok(()) => return Exit::Done,
        Err(Failure::Failed(error)) => (Exit::Failed, error),
        Err(Failure::Usage(error)) => (Exit::Usage, error),
    };
    if !is_broken_pipe(&error) {
        // Nothing is left to be told where even this cannot be written.
        let _ = writeln!(streams.err, "error: {}", words(&error));
    }
    exit
}

/// An error and its causes on a line. Many errors hold their cause's text already.
fn words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// So many of something: "1 session", "2 sessions".
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Prints help and version as results, mistakes as errors.
fn explain(answer: &clap::Error, streams: &mut Streams<'_>) -> Exit {
    let text = answer.render();
    if answer.use_stderr() {
        let _ = write!(streams.err, "{text}");
        return Exit::Usage;
    }
    let written = write!(streams.out, "{text}").and_then(|()| streams.out.flush());
    match written {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
