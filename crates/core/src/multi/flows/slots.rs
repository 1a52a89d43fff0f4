//! The places of flows, and in each idle class the order in which they were used.
//!
//! One slab of slots, each with a link to either neighbour of its class. All flows of a class have the same idle time,
//! so the head of its list is the first that is due, and neither a use nor an expiry ever looks at more than a slot and
//! its neighbours. Slots that are free are a list of their own.

use super::Flow;

/// No slot.
const NONE: u32 = u32::MAX;

/// How long a flow may be idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Tcp,
    Other,
    Closing,
    Lost,
}

impl Class {
    /// Of flows that were used at the same moment the first of these is the eldest.
    pub(super) const ALL: [Self; 4] = [Self::Tcp, Self::Other, Self::Closing, Self::Lost];
}

#[derive(Debug)]
struct Slot {
    flow: Option<Flow>,
    class: Class,
    before: u32,
    after: u32,
}

#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
};

/// The slab.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    lists: [List; Class::ALL.len()],
    /// The first free slot; the next one is the link `after` of it.
    free: u32,
    len: usize,
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            lists: [EMPTY; Class::ALL.len()],
            free: NONE,
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Numbers below which every slot in use has its own.
    pub(super) fn end(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(NONE)
    }

    pub(super) fn get(&self, at: u32) -> Option<&Flow> {
        self.slots.get(at as usize)?.flow.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Flow> {
        self.slots.get_mut(at as usize)?.flow.as_mut()
    }

    /// The class of a slot in use.
    pub(super) fn class(&self, at: u32) -> Option<Class> {
        let slot = self.slots.get(at as usize)?;
        slot.flow.as_ref().map(|_| slot.class)
    }

    /// The flow of a class that was used longest ago.
    pub(super) fn eldest(&self, class: Class) -> Option<u32> {
        let first = self.lists[class as usize].first;
        (first != NONE).then_some(first)
    }

    /// Puts a flow behind all others of its class; where it is.
    pub(super) fn insert(&mut self, flow: Flow, class: Class) -> u32 {
        let at = match self.slots.get(self.free as usize) {
            Some(slot) => std::mem::replace(&mut self.free, slot.after),
            None => {
                let at = self.end();
                self.slots.push(Slot {
                    flow: None,
                    class,
                    before: NONE,
                    after: NONE,
                });
                at
            }
        };
        if let Some(slot) = self.slots.get_mut(at as usize) {
            slot.flow = Some(flow);
        }
        self.len += 1;
        self.link_last(at, class);
        at
    }

    /// Takes a flow out.
    pub(super) fn remove(&mut self, at: u32) -> Option<Flow> {
        let flow = self.slots.get_mut(at as usize)?.flow.take()?;
        self.unlink(at);
        if let Some(slot) = self.slots.get_mut(at as usize) {
            slot.after = std::mem::replace(&mut self.free, at);
        }
        self.len -= 1;
        Some(flow)
    }

    /// Puts a flow that is used behind all others of its class, which may be another than before.
    pub(super) fn renew(&mut self, at: u32, class: Class) {
        let stays = self.lists[class as usize].last == at;
        if !stays && self.get(at).is_some() {
            self.unlink(at);
            self.link_last(at, class);
        }
    }

    fn link_last(&mut self, at: u32, class: Class) {
        let before = std::mem::replace(&mut self.lists[class as usize].last, at);
        if let Some(slot) = self.slots.get_mut(at as usize) {
            slot.class = class;
            slot.before = before;
            slot.after = NONE;
        }
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = at,
            None => self.lists[class as usize].first = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Slot {
            class,
            before,
            after,
            ..
        }) = self.slots.get(at as usize)
        else {
            return;
        };
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => self.lists[class as usize].first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => self.lists[class as usize].last = before,
        }
    }

    /// Bytes of one slot.
    #[cfg(test)]
    pub(super) const SLOT_BYTES: usize = size_of::<Slot>();

    /// Slots that were ever in use at once.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }
}
