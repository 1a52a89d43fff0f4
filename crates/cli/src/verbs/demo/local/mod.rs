//! The acts in one process, without privileges: everything speaks over the loopback.
//!
//! ```text
//! loads ── SOCKS5 ──> client ══ QUIC over UDP ══> relay ══> exit ── sockets ──> web, echo, sink
//! 127.0.0.1:any      (its proxies on 127.0.0.1)  127.86.0.2  127.86.0.1        127.0.0.1
//!                                                127.87.0.2  127.87.0.1
//!                                                127.88.0.2  127.88.0.1
//! ```
//!
//! Client and exits are those that `up` and `provide` run, each on threads of its own. The wire
//! between them is what makes the demo: a relay of ours in front of each exit, which can be told
//! to stop, to drop everything, and to vanish.
//!
//! | what is done | how | what the client meets |
//! |---|---|---|
//! | an exit freezes | its relay reads no more | a socket that takes all and says nothing |
//! | all are silent, the wire is cut | relays drop both ways | the same, and what was said is lost |
//! | an exit is killed | its relay closes, then it is taken down | a port that the host refuses, and no goodbye |
//!
//! All of 127.0.0.0/8 is this host's. Each exit has a network of it: it listens there, and what
//! its clients send leaves from there, so that a service sees which exit it was asked through.
//! From such a source nothing can leave the host, whatever it is asked for.
//!
//! | file | what it is for |
//! |---|---|
//! | `plan` | keys and files |
//! | `stage` | the client, the exits, their relays |
//! | `acts` | what the acts do with them |
//! | `serve` | the stage for people to use |

mod acts;
mod plan;
mod serve;
mod stage;

pub(super) use acts::{measure_exits, measure_outage};
pub(super) use serve::Serve;
