//! The books of a client are even: what it took was acknowledged, dropped with a reason, or is there.

use super::{Checker, Complaints, Fact};

#[derive(Debug)]
pub(super) struct Conservation;

impl Checker for Conservation {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Stands { client, facts } = *fact
            && facts.unaccounted != 0
        {
            let nowhere = facts.unaccounted;
            complaints.say(
                now_ns,
                format_args!("client {client}: {nowhere} packs are nowhere"),
            );
        }
    }
}
