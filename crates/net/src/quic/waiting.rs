//! Who waits for a connection, and for what.
//!
//! An engine has one task a connection, and that waits for one thing of a kind at a time. So a place for one waker a
//! kind is enough, and to tell is to take it: no list, no lock, no allocation. Whoever is told looks again; whoever
//! asks anew replaces who asked before.

use std::task::{Context, Waker};

/// What may be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The handshake's end, a stream of the peer, or leave to open one.
    State,
    /// Datagrams.
    Datagrams,
    /// Bytes of the control stream.
    Readable,
    /// Room in the control stream.
    Writable,
}

const KINDS: usize = 4;

/// The wakers, one a kind.
#[derive(Debug, Default)]
pub(super) struct Waiting([Option<Waker>; KINDS]);

impl Waiting {
    /// Has `cx` told of the next event of the kind.
    pub(super) fn ask(&mut self, what: For, cx: &Context<'_>) {
        let place = &mut self.0[what as usize];
        match place {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *place = Some(cx.waker().clone()),
        }
    }

    /// Tells who waits for `what`.
    pub(super) fn tell(&mut self, what: For) {
        if let Some(waker) = self.0[what as usize].take() {
            waker.wake();
        }
    }

    /// Tells all: the connection is over.
    pub(super) fn tell_all(&mut self) {
        for place in &mut self.0 {
            if let Some(waker) = place.take() {
                waker.wake();
            }
        }
    }
}
