//! The second act: three exits, of which one freezes, one is killed, and all fall silent.
//!
//! ```text
//! second   0 ──── 3 ─────────── 10 ─── 13 ────────── 19 ─────────── 25 ────── 31
//! A        steady │ frozen      │ thawed, and carries what was open ┤ silent  │ healed
//! B               │ first choice ───── │ killed      │              │         │
//! C                                    │ first choice │ silent      │ healed  │
//! ```
//!
//! A is whichever exit is the first choice at the beginning, B is its successor. Both
//! get a stream while they are that. So when B is killed, something is open on another
//! exit, A: what is open there is to notice nothing.
//!
//! A provider that is frozen is the worst kind of silence: the host answers,
//! the socket takes what is sent, and nothing ever comes back.
//!
//! Who plays, and in which network, is the [`Stage`]'s business.
//!
//! | file | what it is for |
//! |---|---|
//! | `crowd` | what became of short requests: which exit, how soon, how many failed |
//! | `verdict` | the bounds, and whether they held |

mod crowd;
mod verdict;

use std::io::Write;
use std::net::IpAddr;
use std::ops::Sub;
use std::thread;
use std::time::{Duration, Instant};

use quell_lab::load::{HttpLoad, TcpLoad, TcpSink};
use serde_json::Value;

use super::books::Books;
use super::loads::{said, settle};
use crate::Failure;
use crowd::{Crowd, Moments, Request};
pub(super) use verdict::Figures;

/// Exits of the act.
pub(super) const EXITS: usize = 3;

/// When what happens, in seconds.
const FREEZE_S: u64 = 3;
const THAW_S: u64 = 10;
const KILL_S: u64 = 13;
const SILENCE_S: u64 = 19;
const HEAL_S: u64 = 25;
const END_S: u64 = 31;

/// What the act is played on. Exits are counted from 0.
pub(super) trait Stage {
    /// What the client says of itself.
    fn client_status(&self) -> Result<Value, Failure>;

    /// The exit that a connection took which comes from `address`, as a service of the world sees it.
    fn exit_of(address: IpAddr) -> Option<usize>;

    /// Starts short requests to a service that answers with the address that it sees.
    fn crowd(&self) -> Result<HttpLoad, Failure>;

    /// Opens a steady stream, which moves many times a second, over the exit that is the first choice, to a sink of its own.
    fn stream(&self) -> Result<Stream, Failure>;

    /// From now on `exit` takes what comes and says nothing.
    fn freeze(&mut self, exit: usize) -> Result<(), Failure>;

    /// It goes on.
    fn thaw(&mut self, exit: usize) -> Result<(), Failure>;

    /// It is gone without a word, and so is all that it held.
    fn kill(&mut self, exit: usize) -> Result<(), Failure>;

    /// Nothing passes to any exit, nor back.
    fn silence(&mut self) -> Result<(), Failure>;

    /// Everything passes again.
    fn heal(&mut self) -> Result<(), Failure>;

    /// What the exits that live say of themselves.
    fn provider_statuses(&mut self) -> Result<Vec<Value>, Failure>;
}

/// A stream and where it comes out.
pub(super) struct Stream {
    pub(super) load: TcpLoad,
    pub(super) sink: TcpSink,
}

/// Plays the act, a line a second to `talk`.
pub(super) fn measure<S: Stage>(stage: &mut S, talk: &mut dyn Write) -> Result<Figures, Failure> {
    let first = main_exit(&stage.client_status()?)?;
    write!(
        talk,
        "\n8 at a time, short requests over connections of their own; exit {} is the\n\
         first choice. Answers by the exit that they came through:\n\n",
        first + 1
    )?;
    let act = Act::begin(stage, first)?;
    act.play(stage, talk)
}

/// The exit that takes new connections.
pub(super) fn main_exit(status: &Value) -> Result<usize, Failure> {
    let main = status["main_exit"].as_u64();
    let main = main.and_then(|main| usize::try_from(main).ok());
    said("main_exit", main.filter(|main| *main < EXITS))
}

/// How many exits can take new connections.
pub(super) fn usable(status: &Value) -> usize {
    let exits = status["exits"].as_array().into_iter().flatten();
    exits.filter(|exit| exit["is_usable"] == true).count()
}

struct Act {
    start: Instant,
    /// The first choice at the beginning.
    first: usize,
    crowd: HttpLoad,
    exit_of: fn(IpAddr) -> Option<usize>,
    on_first: Stream,
}

impl Act {
    fn begin<S: Stage>(stage: &S, first: usize) -> Result<Self, Failure> {
        let on_first = stage.stream()?;
        Ok(Self {
            crowd: stage.crowd()?,
            exit_of: S::exit_of,
            start: Instant::now(),
            first,
            on_first,
        })
    }

    fn play<S: Stage>(self, stage: &mut S, talk: &mut dyn Write) -> Result<Figures, Failure> {
        let name = |exit: usize, what: &str| format!("exit {} {what}", exit + 1);
        let mut teller = Teller::new(self.tally(stage)?, talk)?;
        teller.tell(&self, stage, FREEZE_S, "steady")?;
        stage.freeze(self.first)?;
        let frozen = Instant::now();
        teller.tell(&self, stage, FREEZE_S + 4, &name(self.first, "frozen"))?;
        let second = main_exit(&stage.client_status()?)?;
        let on_second = stage.stream()?;
        teller.tell(&self, stage, THAW_S, &name(self.first, "frozen"))?;
        stage.thaw(self.first)?;
        let thawed = Instant::now();
        teller.tell(&self, stage, KILL_S, &name(self.first, "thawed"))?;
        let killed = Instant::now();
        stage.kill(second)?;
        teller.tell(&self, stage, SILENCE_S, &name(second, "killed"))?;
        let before = evictions(&stage.client_status()?)?;
        let silent = Instant::now();
        stage.silence()?;
        teller.tell(&self, stage, HEAL_S, "all silent")?;
        let healed = Instant::now();
        stage.heal()?;
        teller.tell(&self, stage, END_S, "healed")?;
        let moments = Moments {
            frozen,
            killed,
            silent,
            healed,
        };
        let (crowd, seconds) = (Crowd::of(&self.requests(), &moments), teller.seconds);
        drop((self.crowd, on_second));
        let arrivals = self.on_first.sink.arrivals();
        let after = |moment: Instant| Some(arrivals.first_after(moment)? - moment);
        let (stream_thawed, stream_healed) = (after(thawed), after(healed));
        let stream_gap = arrivals.gap_max_between(killed, silent);
        let stream_bytes = settle(self.on_first.load, &self.on_first.sink);
        let client = stage.client_status()?;
        Ok(Figures {
            crowd,
            stream_thawed,
            stream_healed,
            stream_gap,
            stream_bytes,
            evictions: evictions(&client)? - before,
            client: Books::of_client(&client),
            unaccounted_by_exits: unaccounted(&stage.provider_statuses()?),
            seconds,
        })
    }

    fn requests(&self) -> Vec<Request> {
        crowd::requests(&self.crowd.asked(), self.exit_of)
    }

    /// What has come to pass so far.
    fn tally(&self, stage: &impl Stage) -> Result<Tally, Failure> {
        let status = stage.client_status()?;
        Ok(Tally {
            stream_bytes: self.on_first.sink.arrivals().bytes(),
            bytes_out: said("bytes_out", status["udp"]["bytes_out"].as_u64())?,
            ..crowd::tally(&self.requests())
        })
    }
}

/// Packets and packs that exits cannot account for.
fn unaccounted(statuses: &[Value]) -> u64 {
    let missing = statuses.iter().map(|status| {
        let missing = status["unaccounted"].as_i64();
        missing.map_or(u64::MAX, i64::unsigned_abs)
    });
    missing.fold(0, u64::saturating_add)
}

/// Exits that the client has sent away so far.
fn evictions(status: &Value) -> Result<u64, Failure> {
    said("evictions", status["window"]["evictions"].as_u64())
}

/// Writes the timeline, and keeps it.
struct Teller<'a> {
    talk: &'a mut dyn Write,
    told: Tally,
    seconds: Vec<Second>,
}

/// What had come to pass by a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Answers by the exit that they came through.
    pub(super) answers: [u64; EXITS],
    /// Requests that failed.
    pub(super) failed: u64,
    /// Bytes of the first stream that arrived.
    pub(super) stream_bytes: u64,
    /// UDP bytes that the client sent.
    pub(super) bytes_out: u64,
}

/// What came to pass within one second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Second {
    /// What was done to the exits.
    pub(super) what: String,
    /// What moved.
    pub(super) moved: Tally,
}

impl<'a> Teller<'a> {
    fn new(told: Tally, talk: &'a mut dyn Write) -> Result<Self, Failure> {
        write!(talk, "{HEAD}")?;
        Ok(Self {
            talk,
            told,
            seconds: Vec::new(),
        })
    }

    /// A line a second until `until`.
    fn tell(
        &mut self,
        act: &Act,
        stage: &impl Stage,
        until: u64,
        what: &str,
    ) -> Result<(), Failure> {
        let first = self.seconds.len() as u64 + 1;
        for second in first..=until {
            let deadline = act.start + Duration::from_secs(second);
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
            let tally = act.tally(stage)?;
            let moved = tally - self.told;
            write!(self.talk, "{}", line(second, what, moved))?;
            self.talk.flush()?;
            self.told = tally;
            let what = what.to_owned();
            self.seconds.push(Second { what, moved });
        }
        Ok(())
    }
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let mut answers = self.answers;
        for (now, then) in answers.iter_mut().zip(earlier.answers) {
            *now = now.saturating_sub(then);
        }
        Self {
            answers,
            failed: self.failed.saturating_sub(earlier.failed),
            stream_bytes: self.stream_bytes.saturating_sub(earlier.stream_bytes),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
        }
    }
}

/// The timeline's head.
const HEAD: &str = "second  what           exit 1  exit 2  exit 3  failed  first stream's bytes\n";

fn line(second: u64, what: &str, moved: Tally) -> String {
    let mut line = format!("{second:>6}  {what:<13}");
    for answers in moved.answers {
        line += &format!("{answers:>8}");
    }
    let bytes = quell_sim::report::grouped(moved.stream_bytes);
    line + &format!("{:>8}{bytes:>22}\n", moved.failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stand_under_their_head_on_any_terminal() {
        let now = Tally {
            answers: [100, 1_250, 0],
            failed: 3,
            stream_bytes: 1_062_500,
            bytes_out: 9,
        };
        let before = Tally {
            answers: [100, 1_000, 0],
            failed: 1,
            stream_bytes: 1_000_000,
            bytes_out: 5,
        };
        let line = line(7, "exit 1 frozen", now - before);
        assert_eq!(
            line,
            "     7  exit 1 frozen       0     250       0       2                62,500\n"
        );
        assert_eq!(line.len(), HEAD.len());
        assert!(HEAD.len() <= 80);
    }
}
