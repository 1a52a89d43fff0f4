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
//! A provider that is frozen (SIGSTOP) is the worst kind of silence: the host answers,
//! the socket takes what is sent, and nothing ever comes back.
//!
//! | file | what it is for |
//! |---|---|
//! | `scene` | the client, the exits and the world behind them |
//! | `crowd` | what became of short requests: which exit, how soon, how many failed |
//! | `verdict` | the bounds, and whether they held |

mod crowd;
mod scene;
mod verdict;

use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use quell_lab::child::Signal;
use quell_lab::load::{HttpLoad, HttpLoadConfig, TcpLoad, TcpSink};
use serde_json::Value;

use super::books::Books;
use crate::Failure;
use crowd::{Crowd, Moments};
use scene::Scene;
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

/// Of each stream: enough to see it move many times a second.
const RATE_BIT_S: u64 = 500_000;
/// How long the stream's last bytes may take once it has ended.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A stream and where it comes out.
struct Stream {
    load: TcpLoad,
    sink: TcpSink,
}

/// What the client said of its window.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Exits that were sent away so far.
    evictions: u64,
}

/// Plays the act, a line a second to `talk`.
pub(super) fn measure(folder: &Path, talk: &mut dyn Write) -> Result<Figures, Failure> {
    writeln!(talk, "a client and three exits, each in a namespace …")?;
    let mut scene = Scene::set(folder)?;
    let first = scene.main_exit()?;
    write!(
        talk,
        "\n8 at a time, short requests over connections of their own; exit {} is the\n\
         first choice. Answers by the exit that they came through:\n\n",
        first + 1
    )?;
    let act = Act::begin(&scene, first)?;
    act.play(&mut scene, talk)
}

struct Act {
    start: Instant,
    /// The first choice at the beginning.
    first: usize,
    crowd: HttpLoad,
    on_first: Stream,
}

impl Act {
    fn begin(scene: &Scene, first: usize) -> Result<Self, Failure> {
        let on_first = Stream::open(scene)?;
        let server = scene.server.address();
        let load = || HttpLoad::start(server, HttpLoadConfig::default());
        Ok(Self {
            crowd: scene.net.client.run(load)??,
            start: Instant::now(),
            first,
            on_first,
        })
    }

    fn play(self, scene: &mut Scene, talk: &mut dyn Write) -> Result<Figures, Failure> {
        let mut teller = Teller::new(talk)?;
        teller.tell(&self, FREEZE_S, "steady")?;
        scene.providers[self.first]
            .child()
            .signal(Signal::SIGSTOP)?;
        let frozen = Instant::now();
        teller.tell(
            &self,
            FREEZE_S + 4,
            &format!("exit {} frozen", self.first + 1),
        )?;
        let second = scene.main_exit()?;
        let on_second = Stream::open(scene)?;
        teller.tell(&self, THAW_S, &format!("exit {} frozen", self.first + 1))?;
        scene.providers[self.first]
            .child()
            .signal(Signal::SIGCONT)?;
        let thawed = Instant::now();
        teller.tell(&self, KILL_S, &format!("exit {} thawed", self.first + 1))?;
        let killed = Instant::now();
        scene.providers[second].kill()?;
        teller.tell(&self, SILENCE_S, &format!("exit {} killed", second + 1))?;
        let before = window(&scene.client.status()?)?;
        let silent = Instant::now();
        scene.each_site(|net, site| net.cut(site))?;
        teller.tell(&self, HEAL_S, "all silent")?;
        let healed = Instant::now();
        scene.each_site(|net, site| net.heal(site))?;
        teller.tell(&self, END_S, "healed")?;
        let moments = Moments {
            frozen,
            killed,
            silent,
            healed,
        };
        let crowd = Crowd::of(&self.crowd.asked(), &moments);
        drop((self.crowd, on_second));
        let arrivals = self.on_first.sink.arrivals();
        let after = |moment: Instant| Some(arrivals.first_after(moment)? - moment);
        let (stream_thawed, stream_healed) = (after(thawed), after(healed));
        let stream_gap = arrivals.gap_max_between(killed, silent);
        let (sent, arrived) = self.on_first.settle();
        let (client, others) = scene.ask()?;
        let evictions = window(&client)?.evictions - before.evictions;
        let figures = Figures {
            crowd,
            stream_thawed,
            stream_healed,
            stream_gap,
            stream_bytes: (sent, arrived),
            evictions,
            client: Books::of_client(&client),
            unaccounted_by_exits: others,
        };
        scene.clear()?;
        Ok(figures)
    }
}

impl Stream {
    /// A stream over the exit that is the first choice, to a sink of its own.
    fn open(scene: &Scene) -> Result<Self, Failure> {
        let sink = scene.sink()?;
        let to = sink.address();
        let load = scene.net.client.run(|| TcpLoad::start(to, RATE_BIT_S))??;
        Ok(Self { load, sink })
    }

    /// Ends it and waits until it is whole, or for long enough: bytes sent, and arrived.
    fn settle(self) -> (u64, u64) {
        let sent = self.load.sent_bytes();
        // A stream that broke off is seen in what did not arrive.
        let sent = self.load.stop().unwrap_or(sent);
        let end = Instant::now() + SETTLE_TIME;
        let arrivals = self.sink.arrivals();
        while arrivals.bytes() < sent && Instant::now() < end {
            thread::sleep(LOOK_INTERVAL);
        }
        (sent, arrivals.bytes())
    }
}

/// Writes the timeline.
struct Teller<'a> {
    talk: &'a mut dyn Write,
    second: u64,
    told: Tally,
}

/// What had come to pass by a second.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    answers: [u64; EXITS],
    failed: u64,
    stream_bytes: u64,
}

impl<'a> Teller<'a> {
    fn new(talk: &'a mut dyn Write) -> Result<Self, Failure> {
        write!(talk, "{HEAD}")?;
        Ok(Self {
            talk,
            second: 0,
            told: Tally::default(),
        })
    }

    /// A line a second until `until`.
    fn tell(&mut self, act: &Act, until: u64, what: &str) -> Result<(), Failure> {
        while self.second < until {
            self.second += 1;
            let deadline = act.start + Duration::from_secs(self.second);
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
            let tally = crowd::tally(&act.crowd.asked(), act.on_first.sink.arrivals().bytes());
            let line = line(self.second, what, tally, self.told);
            write!(self.talk, "{line}")?;
            self.talk.flush()?;
            self.told = tally;
        }
        Ok(())
    }
}

/// The timeline's head.
const HEAD: &str = "second  what           exit 1  exit 2  exit 3  failed  first stream's bytes\n";

fn line(second: u64, what: &str, now: Tally, before: Tally) -> String {
    let mut line = format!("{second:>6}  {what:<13}");
    for (now, before) in now.answers.iter().zip(before.answers) {
        line += &format!("{:>8}", now.saturating_sub(before));
    }
    let bytes = now.stream_bytes.saturating_sub(before.stream_bytes);
    line + &format!(
        "{:>8}{:>22}\n",
        now.failed.saturating_sub(before.failed),
        super::text::grouped(bytes)
    )
}

fn window(status: &Value) -> Result<Window, Failure> {
    let evictions = status["window"]["evictions"].as_u64();
    let evictions =
        evictions.ok_or_else(|| Failure::Failed(anyhow!("the client does not say evictions")))?;
    Ok(Window { evictions })
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
        };
        let before = Tally {
            answers: [100, 1_000, 0],
            failed: 1,
            stream_bytes: 1_000_000,
        };
        let line = line(7, "exit 1 frozen", now, before);
        assert_eq!(
            line,
            "     7  exit 1 frozen       0     250       0       2                62,500\n"
        );
        assert_eq!(line.len(), HEAD.len());
        assert!(HEAD.len() <= 80);
    }
}
