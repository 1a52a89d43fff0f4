//! Where a running client or provider is asked: its control socket, its page of metrics, and the orders that come that way.
//!
//! They are dropped before what they ask, so that no question is answered by half an engine.

use std::path::Path;

use parking_lot::Mutex;
use quell_net::scrape::Serving;

use crate::config::MetricsSection;
use crate::control::{self, Handler, Server};
use crate::error::Error;
use crate::metrics;
use crate::reload::{Orders, ordering};

/// All of them.
pub(crate) struct Doors {
    // Behind locks only so that their owner may be shared: nobody asks them.
    _control: Option<Mutex<Server>>,
    _metrics: Option<Mutex<Serving>>,
    orders: Mutex<Option<Orders>>,
}

impl Doors {
    /// Opens them: metrics are made of what `status` says, and `answers` answers on `socket`, if there is to be one.
    ///
    /// # Errors
    /// A socket or an address is not to be had.
    pub(crate) fn open(
        section: &MetricsSection,
        status: &Handler,
        socket: Option<&Path>,
        answers: Handler,
    ) -> Result<Self, Error> {
        let metrics = metrics::serve(section, status)?;
        let (answers, orders) = ordering(answers);
        let control = socket.map(|socket| control::serve(socket, answers));
        Ok(Self {
            _control: control.transpose()?.map(Mutex::new),
            _metrics: metrics.map(Mutex::new),
            orders: Mutex::new(Some(orders)),
        })
    }

    /// The orders that come; `None` after the first call.
    pub(crate) fn orders(&self) -> Option<Orders> {
        self.orders.lock().take()
    }
}
