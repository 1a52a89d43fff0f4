//! Which settings are changed, in which order, and how they are put back.
//!
//! Forwarding has one switch a family, and each switch has side effects in the kernel (`net/ipv4/devinet.c`,
//! `net/ipv6/addrconf.c`), which have to be undone by hand:
//!
//! - IPv4 `ip_forward`: sets every interface's `forwarding` and the default to the same value, and
//!   `conf/all/accept_redirects` to its opposite. Switched off again, it would switch off an interface that forwarded on
//!   its own before, and switch redirects on where they were off. So those values are remembered with it.
//! - IPv6 `conf/all/forwarding`: sets every interface's `forwarding`. A host that forwards is a router, and a router
//!   believes no router advertisements: the kernel *deletes the default routes* it has learnt from them, and the host
//!   loses its own IPv6. `accept_ra` = 2 means "although forwarding", so it is set, *before* the switch, wherever it was 1
//!   ("unless forwarding") and believed until then.
//!
//! A switch that is on already is left alone, with all that hangs on it.
//!
//! Putting back goes in two steps: first it is read which settings still have the value that was set, then those are
//! written, the switches first, since writing them changes the others.

use serde::{Deserialize, Serialize};

use crate::error::EgressError;
use crate::sysctl::{Family, Key, Sysctls};

/// One setting: what it was, and what it is set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) previous: i32,
    pub(crate) set: i32,
}

/// The changes that make a host forward the families, for the TUN of that name, in the order in which they are made.
pub(crate) fn plan(
    sysctls: &Sysctls,
    families: &[Family],
    tun: &str,
) -> Result<Vec<Change>, EgressError> {
    let mut changes = Vec::new();
    for family in families {
        let switch = Key::forward_all(*family);
        let Some(previous) = sysctls.read(&switch)? else {
            continue;
        };
        if previous != 0 {
            // Remembered all the same: an egress that leaves hands over what it knows about the switch.
            changes.push(Change {
                key: switch,
                previous,
                set: previous,
            });
            continue;
        }
        if *family == Family::V6 {
            changes.extend(keep_router_advertisements(sysctls, tun)?);
        }
        changes.push(Change {
            key: switch,
            previous,
            set: 1,
        });
        changes.extend(side_effects(sysctls, *family)?);
    }
    Ok(changes)
}

fn keep_router_advertisements(sysctls: &Sysctls, tun: &str) -> Result<Vec<Change>, EgressError> {
    let mut changes = Vec::new();
    for interface in sysctls.interfaces(Family::V6)? {
        let believed = interface != "lo"
            && interface != tun
            && sysctls.read(&Key::forward(Family::V6, &interface))? == Some(0)
            && sysctls.read(&Key::accept_ra(&interface))? == Some(1);
        if believed {
            changes.push(Change {
                key: Key::accept_ra(&interface),
                previous: 1,
                set: 2,
            });
        }
    }
    Ok(changes)
}

/// What the switch will do to other settings, and putting it back would do to them.
fn side_effects(sysctls: &Sysctls, family: Family) -> Result<Vec<Change>, EgressError> {
    let mut changes = Vec::new();
    if family == Family::V4 {
        let key = Key::accept_redirects_all();
        if let Some(previous) = sysctls.read(&key)? {
            changes.push(Change {
                key,
                previous,
                set: 0,
            });
        }
    }
    for interface in sysctls.interfaces(family)? {
        let key = Key::forward(family, &interface);
        if let Some(previous @ 1..) = sysctls.read(&key)? {
            changes.push(Change {
                key,
                previous,
                set: 1,
            });
        }
    }
    Ok(changes)
}

/// Makes the changes. What has its value already is not written, so a read-only `/proc/sys` that is set up rightly will do.
pub(crate) fn apply(sysctls: &Sysctls, changes: &[Change]) -> Result<(), EgressError> {
    for change in changes {
        if sysctls
            .read(&change.key)?
            .is_some_and(|current| current != change.set)
        {
            sysctls.write(&change.key, change.set)?;
        }
    }
    Ok(())
}

/// Puts back what still has the value that was set. Goes on after an error, and gives the first.
pub(crate) fn restore(sysctls: &Sysctls, changes: &[Change]) -> Result<(), EgressError> {
    let mut first_error = Ok(());
    let mut unchanged = Vec::new();
    for change in changes {
        match sysctls.read(&change.key) {
            Ok(Some(current)) if current == change.set => unchanged.push(change),
            Ok(_) => {}
            Err(error) => first_error = first_error.and(Err(error)),
        }
    }
    let switch_moves = unchanged
        .iter()
        .any(|c| c.key.is_global() && c.previous != c.set);
    unchanged.sort_by_key(|change| !change.key.is_global());
    for change in unchanged {
        // Equal values matter only after a switch that has moved them.
        if change.previous != change.set || (switch_moves && !change.key.is_global()) {
            first_error = first_error.and(sysctls.write(&change.key, change.previous));
        }
    }
    first_error
}

/// Gives what one egress remembers to another, which stays: for a setting that both know, the older value counts.
pub(crate) fn hand_over(leaving: &[Change], staying: &mut Vec<Change>) {
    for change in leaving {
        match staying.iter_mut().find(|other| other.key == change.key) {
            // The one that stays found what the other had set; a value from somewhere else is its own to put back.
            Some(other) if other.previous == change.set => other.previous = change.previous,
            Some(_) => {}
            None => staying.push(change.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
