//! `quell top`: a running quell, live.
//!
//! Where standard output is no terminal, or with `--once`, it is one frame and the end: a capture, or a line in a script.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::live::{Look, frame};
use crate::socket::{self, Sockets};
use crate::verbs::arguments::duration;
use crate::{Failure, Streams};

const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// A screen whose size nobody says.
const SCREEN: (usize, usize) = (100, 24);
/// Clears the screen, and begins at its top (ECMA-48, ED and CUP).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Watch a running quell: rates, exits, sessions
#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    sockets: Sockets,
    /// Time between two looks, 100ms to 1m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one frame, and end
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    duration(text, INTERVAL_MIN..=INTERVAL_MAX)
}

impl Top {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let socket = self.sockets.one()?;
        let mut before = seen(&socket)?;
        let is_live = !self.once && io::stdout().is_terminal();
        loop {
            thread::sleep(self.interval);
            let after = seen(&socket)?;
            let look = Look {
                before: Some(&before.1),
                after: &after.1,
                apart: after.0.saturating_duration_since(before.0),
            };
            if !is_live {
                write!(streams.out, "{}", frame(&look, (SCREEN.0, usize::MAX)))?;
                return Ok(());
            }
            let (columns, rows) = screen();
            // A line is left free: the last line's end would move the first one out.
            let frame = frame(&look, (columns, rows.saturating_sub(1)));
            write!(streams.out, "{CLEAR}{frame}")?;
            streams.out.flush()?;
            before = after;
        }
    }
}

fn seen(socket: &Path) -> Result<(Instant, Value), Failure> {
    let status = socket::status(socket)?;
    Ok((Instant::now(), status))
}

/// Columns and rows of the terminal. `stty` asks the system what a program without unsafe code cannot.
fn screen() -> (usize, usize) {
    let asked = Command::new("stty")
        .arg("size")
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let size = said.ok().and_then(|said| size_of(&said));
    size.unwrap_or(SCREEN)
}

/// "ROWS COLUMNS", of which neither is 0.
fn size_of(said: &str) -> Option<(usize, usize)> {
    let (rows, columns) = said.trim().split_once(' ')?;
    let (rows, columns) = (rows.parse().ok()?, columns.parse().ok()?);
    (rows > 0 && columns > 0).then_some((columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_or_not_known() {
        assert_eq!(size_of("24 80\n"), Some((80, 24)));
        for odd in ["0 0\n", "", "24", "a b"] {
            assert_eq!(size_of(odd), None, "{odd}");
        }
    }
}
