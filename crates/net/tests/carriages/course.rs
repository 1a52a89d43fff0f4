//! What happens to a connection, from its dial on.

use std::fmt;
use std::time::Duration;

use quell_sim::fleet::carriage::Side;

/// Each way, where nothing else is said: 50 ms there and back.
pub(crate) const DELAY: Duration = Duration::from_millis(25);
/// A way within a town, and one by satellite or nearly.
const NEAR: Duration = Duration::from_millis(4);
const FAR: Duration = Duration::from_millis(150);
/// Loads begin when the handshake and most of the search for the path's size are over.
const LOAD_FROM: Duration = Duration::from_secs(10);
/// When the way is cut, if it is: between two of every load's datagrams.
const CUT_FROM: Duration = Duration::from_millis(30_500);
/// How long a course goes on after a cut: longer than any probe's time after one of 60 s.
const AFTER: Duration = Duration::from_secs(130);

/// What is sent. All by client, but for `Pings` that are answered and `Both`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// The dial alone.
    Nothing,
    /// 40 bytes each 20 s, and as many back.
    Pings,
    /// 200 bytes each second, each side of its own accord.
    Both,
    /// Once 50 of 1,200 bytes.
    Burst,
    /// 2 Mbit/s: 1,200 bytes each 4.8 ms.
    Stream,
    /// A control message of 300 bytes each 10 s, each side of its own accord.
    Control,
}

/// One datagram that an end is to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sending {
    pub(crate) at: Duration,
    pub(crate) side: Side,
    pub(crate) len_bytes: u32,
}

/// Nothing that this side sends arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) from: Duration,
    pub(crate) until: Duration,
    pub(crate) client: bool,
    pub(crate) server: bool,
}

impl Cut {
    pub(crate) fn swallows(&self, side: Side, at: Duration) -> bool {
        let of = match side {
            Side::Client => self.client,
            Side::Server => self.server,
        };
        of && self.from <= at && at < self.until
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Course {
    pub(crate) load: Load,
    pub(crate) cut: Option<Cut>,
    /// The windows are open from 3 s after the cut's begin until something is heard again, as the core has it.
    pub(crate) granted: bool,
    /// Of each way.
    pub(crate) delay: Duration,
    pub(crate) until: Duration,
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.load)?;
        if let Some(cut) = &self.cut {
            let side = match (cut.client, cut.server) {
                (true, true) => "cut",
                (true, false) => "up cut",
                (false, _) => "down cut",
            };
            let (from, until) = (cut.from.as_secs(), cut.until.as_secs());
            write!(f, " {side} {from}-{until} s")?;
        }
        if self.delay != DELAY {
            write!(f, " {} ms", 2 * self.delay.as_millis())?;
        }
        write!(f, "{}", if self.granted { " granted" } else { "" })
    }
}

impl Course {
    fn uncut(load: Load, until_s: u64) -> Self {
        Self {
            load,
            cut: None,
            granted: false,
            delay: DELAY,
            until: Duration::from_secs(until_s),
        }
    }

    fn cut(load: Load, secs: u64, client: bool, server: bool) -> Self {
        let until = CUT_FROM + Duration::from_secs(secs);
        Self {
            load,
            cut: Some(Cut {
                from: CUT_FROM,
                until,
                client,
                server,
            }),
            granted: false,
            delay: DELAY,
            until: until + AFTER,
        }
    }

    fn silent(secs: u64, until_s: u64, client: bool, server: bool) -> Self {
        let cut = Cut {
            from: Duration::ZERO,
            until: Duration::from_secs(secs),
            client,
            server,
        };
        Self {
            cut: Some(cut),
            ..Self::uncut(Load::Nothing, until_s)
        }
    }

    /// What is handed over, in order. A load goes on for 10 s after a cut; a burst falls into it.
    pub(crate) fn sendings(&self) -> Vec<Sending> {
        let end = match (self.load, self.cut) {
            (Load::Pings | Load::Control, _) => self.until,
            (_, Some(cut)) => cut.until + Duration::from_secs(10),
            (Load::Both, None) => self.until,
            (_, None) => LOAD_FROM + Duration::from_secs(10),
        };
        let each = |ms_tenths: u64, len_bytes: u32, sides: &[Side]| {
            let times = (0..).map(|n| LOAD_FROM + Duration::from_micros(100 * ms_tenths * n));
            let sendings = times.take_while(|at| *at < end).flat_map(|at| {
                sides.iter().map(move |side| Sending {
                    at,
                    side: *side,
                    len_bytes,
                })
            });
            sendings.collect::<Vec<_>>()
        };
        match self.load {
            Load::Nothing => Vec::new(),
            Load::Pings => each(200_000, 40, &[Side::Client]),
            Load::Both => each(10_000, 200, &[Side::Client, Side::Server]),
            Load::Control => each(100_000, 300, &[Side::Client, Side::Server]),
            Load::Stream => each(48, 1_200, &[Side::Client]),
            Load::Burst => {
                let at = self
                    .cut
                    .map_or(LOAD_FROM, |cut| cut.from + Duration::from_secs(1));
                let one = Sending {
                    at,
                    side: Side::Client,
                    len_bytes: 1_200,
                };
                vec![one; 50]
            }
        }
    }
}

/// Every course: each load without a cut, and with one of 20 s and of 60 s in each direction and in both; most of that
/// on a short way and on a long one, too.
pub(crate) fn all() -> Vec<Course> {
    let loads = [
        Load::Pings,
        Load::Both,
        Load::Burst,
        Load::Stream,
        Load::Control,
    ];
    let mut courses = vec![
        Course::uncut(Load::Nothing, 30),
        Course::uncut(Load::Pings, 600),
        Course::uncut(Load::Both, 120),
        Course::uncut(Load::Burst, 60),
        Course::uncut(Load::Stream, 60),
        Course::uncut(Load::Control, 120),
        Course::silent(15, 15, true, true),
        Course::silent(8, 40, true, true),
        Course::silent(8, 40, false, true),
    ];
    for load in loads {
        for secs in [20, 60] {
            for (client, server) in [(true, true), (true, false), (false, true)] {
                courses.push(Course::cut(load, secs, client, server));
            }
        }
    }
    for secs in [20, 60] {
        courses.push(Course {
            granted: true,
            ..Course::cut(Load::Both, secs, true, true)
        });
    }
    for delay in [NEAR, FAR] {
        courses.push(Course {
            delay,
            ..Course::silent(8, 40, true, true)
        });
        for load in loads {
            let uncut = Course::uncut(load, 120);
            courses.push(Course { delay, ..uncut });
            let cut = Course::cut(load, 20, true, true);
            courses.push(Course { delay, ..cut });
        }
    }
    courses
}
