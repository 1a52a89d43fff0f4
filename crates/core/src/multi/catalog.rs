//! Which exits there are at all, as a catalog tells it.
//!
//! A client has *places*, each with an [`ExitId`], and a catalog fills them. An exit that
//! the catalog names keeps its place for as long as it is named. One that it does not name
//! any longer is *unlisted*: nothing is torn down (what the data plane knew last holds, case
//! B30: a control plane that errs must not cost a connection), but it gets no new flow, it
//! is not dialled when it is no member, and once it carries nothing the window may send it
//! away. Its place is free when nothing of it is left.
//!
//! - An empty catalog is not believed: no fleet has no exits, but a control plane that was
//!   restored a moment ago may think so.
//! - A catalog larger than the places is drawn from at random, so that the clients of a
//!   large fleet do not all settle on the first of it. Who has a place keeps it.
//! - Exits that the client was made with have no key here, and are listed for good.
//! - Counts in an exit's status are those of its place: a successor goes on with them, so
//!   that what was accepted stays accounted for. So does the number of dials, by which what
//!   comes late from the predecessor's is told apart.

use std::collections::HashMap;
use std::time::Instant;

use quell_wire::key::PublicKey;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;

use super::client::{Client, ExitSettings};
use super::exit::Exit;
use super::exit_id::ExitId;

/// Exits that are made ready beside those of the window: two may fail while the control plane is away.
pub const SPARES: usize = 2;

/// An exit as a catalog names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogExit {
    /// Its key, which is what it is known by.
    pub key: PublicKey,
    /// What people call it, and what it is preferred by.
    pub settings: ExitSettings,
}

impl Client {
    /// The catalog is this. Gives the place of each exit of it that has one, as the index in
    /// `catalog`; where to dial them is the driver's to remember, before its next call.
    ///
    /// Bounded by [`EXITS_MAX`](super::EXITS_MAX) places; an exit that is named twice counts
    /// once.
    pub fn on_catalog(&mut self, catalog: &[CatalogExit], now: Instant) -> Vec<(ExitId, usize)> {
        self.now = now;
        if catalog.is_empty() {
            return Vec::new();
        }
        let mut unplaced: HashMap<PublicKey, usize> = HashMap::new();
        for (index, exit) in catalog.iter().enumerate() {
            unplaced.entry(exit.key).or_insert(index);
        }
        let mut placed = self.keep_places(catalog, &mut unplaced);
        let mut rest: Vec<usize> = unplaced.into_values().collect();
        // A map's order is nobody's choice; this one is the seed's.
        rest.sort_unstable();
        rest.shuffle(&mut self.rng);
        for index in rest {
            let Some(exit) = catalog.get(index) else {
                continue;
            };
            let Some(id) = self.place(exit, now) else {
                break;
            };
            placed.push((id, index));
        }
        self.review_wanted = true;
        placed
    }

    /// Exits that the catalog names, or names no longer.
    fn keep_places(
        &mut self,
        catalog: &[CatalogExit],
        unplaced: &mut HashMap<PublicKey, usize>,
    ) -> Vec<(ExitId, usize)> {
        let mut placed = Vec::new();
        for (exit, settings) in self.exits.iter_mut().zip(&mut self.settings) {
            let Some(key) = exit.key else { continue };
            let index = unplaced.remove(&key);
            exit.unlisted = index.is_none();
            if let Some((index, named)) = index.and_then(|at| Some((at, catalog.get(at)?))) {
                settings.clone_from(&named.settings);
                placed.push((exit.id, index));
            }
        }
        placed
    }

    /// Gives an exit a place: a free one, or one more.
    fn place(&mut self, named: &CatalogExit, now: Instant) -> Option<ExitId> {
        let seed = self.rng.random();
        let free = self.exits.iter().position(|exit| self.is_free(exit));
        if let Some(exit) = free.and_then(|index| self.exits.get_mut(index)) {
            let id = exit.id;
            exit.succeed(named.key, seed, now);
            if let Some(settings) = self.settings.get_mut(id.index()) {
                settings.clone_from(&named.settings);
            }
            self.members.renew(id, &self.terms.config.probe);
            self.window.renew(id);
            return Some(id);
        }
        if self.exits.len() >= super::EXITS_MAX {
            return None;
        }
        let id = ExitId(u16::try_from(self.exits.len()).ok()?);
        let mut exit = Exit::new(id, self.terms.clone(), seed, now);
        exit.key = Some(named.key);
        self.exits.push(exit);
        self.settings.push(named.settings.clone());
        self.members.add(&self.terms.config.probe);
        self.window.add();
        Some(id)
    }

    /// What is in hand for an exit lets it be used at once: such a one is taken into the window before others. Every
    /// exit is ready until this says otherwise.
    pub fn set_ready(&mut self, exit: ExitId, ready: bool) {
        if let Some(of) = self.exits.get_mut(exit.index()) {
            of.unready = !ready;
        }
    }

    /// The exits that something should be in hand for, the most important first: those of the window, and [`SPARES`] that
    /// could take the place of one when nobody can be asked. A spare stays one, so that what was got for it is not wasted.
    pub fn exits_to_be_ready(&self) -> Vec<ExitId> {
        let is_member = |exit: &&Exit| self.window.is_member(exit.id) || exit.path.is_some();
        let members = self.exits.iter().filter(is_member);
        let others = || {
            let listed = |exit: &&Exit| !exit.unlisted && !exit.draining;
            self.exits
                .iter()
                .filter(move |exit| !is_member(exit) && listed(exit))
        };
        let ready = others().filter(|exit| !exit.unready);
        let unready = others().filter(|exit| exit.unready);
        let spares = ready.chain(unready).take(SPARES);
        members.chain(spares).map(|exit| exit.id).collect()
    }

    fn is_free(&self, exit: &Exit) -> bool {
        exit.unlisted
            && exit.is_at_rest()
            && !self.window.is_member(exit.id)
            && self.flows.flows_on(exit.id) == 0
    }
}
