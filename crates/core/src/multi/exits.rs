//! The exits of a client, and which of them there is anything to ask of.
//!
//! *Intuition.* A catalog names many exits, and a client keeps a few. Each call of a client asks its exits what they have to
//! hand over and when they want to be called; those without session and dial, outside the window, answer "nothing" each
//! time, and an exit is a thousand bytes that nothing else would have touched.
//!
//! ```text
//! live --nothing is left of it, nobody wants it--> dormant
//!   ^--------- any look that may change it ---------'
//! ```
//!
//! Whoever gets an exit to change it makes it live by that, so no path of the code can forget to. It is laid down where the
//! client has taken all that came of it: see `Client::absorb`.
//!
//! Invariants: a dormant exit has no path, no dial, no news and nothing to hand over, and is no member of the window; what
//! all made of progress is the same whichever are dormant.

use std::ops::Deref;

use super::exit::Exit;
use super::exit_id::ExitId;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = super::EXITS_MAX.div_ceil(WORD_BITS);

/// All exits of a client, by their number. As a slice they can be looked at and not changed.
#[derive(Debug)]
pub(super) struct Exits {
    all: Vec<Exit>,
    /// A bit for each that is live.
    live: [u64; WORDS],
    /// Progress of those that are dormant, all together.
    progress_dormant: u64,
}

impl Exits {
    /// Of `all`, each of which is live.
    pub(super) fn new(all: Vec<Exit>) -> Self {
        let mut exits = Self {
            all,
            live: [0; WORDS],
            progress_dormant: 0,
        };
        (0..exits.all.len()).for_each(|index| exits.mark(index));
        exits
    }

    /// One more, which is live.
    pub(super) fn push(&mut self, exit: Exit) {
        self.all.push(exit);
        self.mark(self.all.len() - 1);
    }

    /// Whether there is anything to ask of the exit in this place.
    pub(super) fn is_live(&self, index: usize) -> bool {
        let word = self.live.get(index / WORD_BITS);
        word.is_some_and(|word| word >> (index % WORD_BITS) & 1 == 1)
    }

    /// The exit in this place, to be changed: it is live.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Exit> {
        if !self.is_live(index) && index < self.all.len() {
            self.rouse(index);
        }
        self.all.get_mut(index)
    }

    /// All of them, to be changed: they are live.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Exit> {
        for index in 0..self.all.len() {
            if !self.is_live(index) {
                self.rouse(index);
            }
        }
        self.all.iter_mut()
    }

    /// Those that are live, by their number.
    pub(super) fn live(&self) -> impl Iterator<Item = &Exit> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(index, exit)| self.is_live(index).then_some(exit))
    }

    /// The same, to be changed.
    pub(super) fn live_mut(&mut self) -> impl Iterator<Item = &mut Exit> {
        let live = self.live;
        let is_live = move |index: usize| live[index / WORD_BITS] >> (index % WORD_BITS) & 1 == 1;
        let all = self.all.iter_mut().enumerate();
        all.filter_map(move |(index, exit)| is_live(index).then_some(exit))
    }

    /// Lets the exit be until somebody wants to change it, if there is nothing to ask of it. It is no member of the window.
    pub(super) fn lay_down(&mut self, exit: ExitId) {
        let index = exit.index();
        let Some(of) = self.all.get(index).filter(|of| of.is_dormant()) else {
            return;
        };
        if self.is_live(index) {
            self.progress_dormant += of.progress();
            self.live[index / WORD_BITS] &= !(1 << (index % WORD_BITS));
        }
    }

    /// Progress that all of them made so far, in no unit.
    pub(super) fn progress(&self) -> u64 {
        self.progress_dormant + self.live().map(Exit::progress).sum::<u64>()
    }

    fn rouse(&mut self, index: usize) {
        self.progress_dormant -= self.all[index].progress();
        self.mark(index);
    }

    fn mark(&mut self, index: usize) {
        if let Some(word) = self.live.get_mut(index / WORD_BITS) {
            *word |= 1 << (index % WORD_BITS);
        }
    }
}

impl Deref for Exits {
    type Target = [Exit];

    fn deref(&self) -> &[Exit] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::time::Instant;

    use super::super::exit::ExitTerms;
    use super::*;
    use crate::budget::ProcessBudget;
    use crate::config::ClientConfig;
    use crate::health::Signal;

    fn exits(count: u16) -> Exits {
        let terms = ExitTerms {
            config: Arc::new(ClientConfig::default()),
            agent: String::new(),
            mtu_max: 1_280,
            signal: Signal::default(),
            budget: ProcessBudget::default(),
            offers_contracts: false,
        };
        let now = Instant::now();
        let of = |id| Exit::new(ExitId(id), terms.clone(), 1, now);
        Exits::new((0..count).map(of).collect())
    }

    fn numbers(exits: &Exits) -> Vec<u16> {
        exits.live().map(|exit| exit.id.0).collect()
    }

    #[test]
    fn who_has_nothing_to_say_is_left_out_until_somebody_may_change_it() {
        let mut exits = exits(3);
        assert_eq!(numbers(&exits), [0, 1, 2]);
        exits.lay_down(ExitId(1));
        exits.lay_down(ExitId(1));
        assert_eq!(numbers(&exits), [0, 2]);
        assert_eq!(
            exits.live_mut().map(|exit| exit.id.0).collect::<Vec<_>>(),
            [0, 2]
        );
        assert_eq!(exits.get(1).unwrap().id, ExitId(1), "a look rouses nobody");
        assert!(!exits.is_live(1));
        assert_eq!(exits.get_mut(1).unwrap().id, ExitId(1));
        assert_eq!(numbers(&exits), [0, 1, 2]);
    }

    #[test]
    fn who_has_something_to_hand_over_is_not_laid_down() {
        let mut exits = exits(1);
        exits.get_mut(0).unwrap().on_dialling();
        exits.lay_down(ExitId(0));
        assert!(exits.is_live(0));
        exits.get_mut(0).unwrap().out.clear();
        exits.lay_down(ExitId(0));
        assert!(!exits.is_live(0), "it never began a dial");
    }

    #[test]
    fn the_last_of_as_many_as_there_may_be_is_like_any_other() {
        let last = u16::try_from(crate::multi::EXITS_MAX - 1).unwrap();
        let mut exits = exits(last);
        exits
            .iter()
            .map(|exit| exit.id)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| exits.lay_down(id));
        assert_eq!(numbers(&exits), [] as [u16; 0]);
        let mut one = self::exits(1).all.remove(0);
        one.id = ExitId(last);
        exits.push(one);
        assert_eq!(numbers(&exits), [last]);
        assert!(exits.get_mut(usize::from(last) + 1).is_none());
        assert_eq!(exits.iter_mut().count(), usize::from(last) + 1);
        assert_eq!(numbers(&exits).len(), usize::from(last) + 1);
    }

    #[test]
    fn progress_is_the_same_whoever_is_laid_down() {
        let mut exits = exits(3);
        exits.get_mut(1).unwrap().progress_ended = 7;
        exits.get_mut(2).unwrap().progress_ended = 5;
        assert_eq!(exits.progress(), 12);
        exits.lay_down(ExitId(1));
        assert_eq!(exits.progress(), 12);
        exits.get_mut(1).unwrap().progress_ended += 1;
        assert_eq!(exits.progress(), 13);
    }
}
