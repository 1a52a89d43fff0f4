//! One way cut alone, and a provider that stands still: to the client each looks like a cut at first.

use std::thread;
use std::time::Duration;

use quell_lab::child::Signal;
use quell_lab::relay::Relay;

use super::loaded::{Loaded, WARM_UP, link};
use super::together;
use crate::fixture::{Outcome, trials};

trials![
    a_way_that_is_cut_alone_costs_no_session,
    a_provider_that_stands_still_is_used_again_at_once,
];

type Switch = fn(&Relay, bool);

const RTT: Duration = Duration::from_millis(50);
const LENGTH: Duration = Duration::from_secs(20);

//
fn a_way_that_is_cut_alone_costs_no_session() -> Outcome {
    let ways: [(&str, Switch); 2] = [
        ("data", Relay::set_up_blackhole),
        ("acks", Relay::set_down_blackhole),
    ];
    thread::scope(|scope| {
        let running = ways.map(|(name, set)| {
            let run = move || -> Outcome {
                let mut loaded = Loaded::start(link(RTT))?;
                thread::sleep(WARM_UP);
                let switch = |cut| {
                    move |loaded: &mut Loaded| {
                        set(&loaded.relay, cut);
                        Ok(())
                    }
                };
                let outage = loaded.outage(RTT, LENGTH, switch(true), switch(false))?;
                println!("{name} cut alone: {outage}");
                loaded.finish()?;
                outage.check()
            };
            (name.to_owned(), scope.spawn(run))
        });
        together(running.map(|(name, thread)| (name, thread.join())))
    })
}

/// What the client sent before it noticed waits in the provider's socket and is answered late: the age of answers has no
/// bound here that the client could keep.
//
fn a_provider_that_stands_still_is_used_again_at_once() -> Outcome {
    let mut loaded = Loaded::start(link(RTT))?;
    thread::sleep(WARM_UP);
    let send = |signal| {
        move |loaded: &mut Loaded| {
            loaded.world.provider.child().signal(signal)?;
            Ok(())
        }
    };
    let mut outage = loaded.outage(RTT, LENGTH, send(Signal::SIGSTOP), send(Signal::SIGCONT))?;
    println!("provider stopped: {outage}");
    outage.age_max = Duration::ZERO;
    loaded.finish()?;
    outage.check()
}
