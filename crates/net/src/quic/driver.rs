//! The task that keeps a connection's time, and waits for its socket.
//!
//! Timers of QUIC move with every packet, nearly always to later. So the task sleeps until the time it was armed for,
//! looks, and sleeps on; only a deadline that became earlier wakes it. It ends when the connection is drained.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep_until};

use super::connection::Shared;
use crate::engine::now;

/// Drives the connection to its end.
pub(super) async fn drive(shared: Rc<Shared>) {
    let mut sleep: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| poll(&shared, &mut sleep, cx)).await;
}

fn poll(shared: &Shared, sleep: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
    shared.state.borrow_mut().driver = None;
    loop {
        let now = now();
        // The time goes on while the socket is full.
        let is_full = shared.poll_way_out(cx);
        shared.state.borrow_mut().pass_time(now);
        if !is_full {
            shared.settle(now);
        }
        let mut state = shared.state.borrow_mut();
        if state.proto.is_drained() {
            return Poll::Ready(());
        }
        let due = state.proto.poll_timeout();
        state.driver = Some(cx.waker().clone());
        state.armed = due;
        drop(state);
        let Some(due) = due else {
            return Poll::Pending;
        };
        match sleep {
            Some(sleep) => sleep.as_mut().reset(due.into()),
            None => *sleep = Some(Box::pin(sleep_until(due.into()))),
        }
        if let Some(sleep) = sleep {
            ready!(sleep.as_mut().poll(cx));
        }
    }
}
