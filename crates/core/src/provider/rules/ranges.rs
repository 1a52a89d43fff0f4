//! All rules of one address family, compiled: disjoint ranges of addresses, and for each what holds there.
//!
//! ```text
//! spans    |------ private ------|      |-- on_link --|
//!              |- allow tcp/443 -|
//! ranges   |aaa|bbbbbbbbbbbbbbbbb|......|ccccccccccccc|....   one binary search finds the range, its cell says all
//! ```
//!
//! Prefixes never overlap in part: one holds the other or they are disjoint. So one walk over them, sorted by their first
//! address, with those that are open on a stack, finds every range and everything that is true of it. Building costs
//! n·log n for n prefixes and happens once a change; asking costs log n comparisons, 6 for the defaults.

use std::collections::BTreeMap;

use super::class::Class;
use super::rule::Service;

/// What holds for every address of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    /// What is true of the addresses, the first of several.
    pub(super) class: Option<Class>,
    /// What the operator denies there.
    pub(super) deny: Vec<Service>,
    /// What the operator allows there.
    pub(super) allow: Vec<Service>,
}

/// What one prefix says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    Class(Class),
    Deny(Service),
    Allow(Service),
}

/// A prefix: its first and last address, and what it says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<B> {
    pub(super) first: B,
    pub(super) last: B,
    pub(super) mark: Mark,
}

/// Addresses as numbers.
pub(super) trait Bits: Copy + Ord {
    const ZERO: Self;

    /// The next one, unless this is the last.
    fn next(self) -> Option<Self>;
}

impl Bits for u32 {
    const ZERO: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Bits for u128 {
    const ZERO: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// The ranges of one family.
#[derive(Debug)]
pub(super) struct Ranges<B> {
    /// The first address of each range, ascending; the first of them is 0.
    starts: Vec<B>,
    /// Which cell is each range's.
    indices: Vec<u32>,
    cells: Vec<Cell>,
}

impl<B: Bits> Ranges<B> {
    /// Compiles spans that are prefixes.
    pub(super) fn new(mut spans: Vec<Span<B>>) -> Self {
        spans.sort_by_key(|span| (span.first, std::cmp::Reverse(span.last)));
        let ends = spans.iter().filter_map(|span| span.last.next());
        let mut cuts: Vec<B> = spans.iter().map(|span| span.first).chain(ends).collect();
        cuts.push(B::ZERO);
        cuts.sort_unstable();
        cuts.dedup();

        let mut ranges = Self {
            starts: Vec::new(),
            indices: Vec::new(),
            cells: Vec::new(),
        };
        let mut known = BTreeMap::new();
        let mut open: Vec<Span<B>> = Vec::new();
        let mut spans = spans.into_iter().peekable();
        for cut in cuts {
            // What was opened last ends first.
            while open.pop_if(|span| span.last < cut).is_some() {}
            while let Some(span) = spans.next_if(|span| span.first == cut) {
                open.push(span);
            }
            ranges.push(cut, Cell::of(&open), &mut known);
        }
        ranges
    }

    fn push(&mut self, start: B, cell: Cell, known: &mut BTreeMap<Cell, u32>) {
        let next = self.cells.len() as u32;
        let index = *known.entry(cell).or_insert_with_key(|cell| {
            self.cells.push(cell.clone());
            next
        });
        if self.indices.last() != Some(&index) {
            self.starts.push(start);
            self.indices.push(index);
        }
    }

    /// What holds at `address`.
    pub(super) fn at(&self, address: B) -> &Cell {
        // The first range starts at 0: there is one before the one that starts behind the address.
        let range = self.starts.partition_point(|start| *start <= address) - 1;
        &self.cells[self.indices[range] as usize]
    }

    /// The first address of each range.
    #[cfg(test)]
    pub(super) fn starts(&self) -> &[B] {
        &self.starts
    }
}

impl Cell {
    fn of<B>(open: &[Span<B>]) -> Self {
        let mut cell = Self::default();
        for span in open {
            match span.mark {
                Mark::Class(class) => {
                    cell.class = Some(cell.class.map_or(class, |other| other.min(class)));
                }
                Mark::Deny(service) => cell.deny.push(service),
                Mark::Allow(service) => cell.allow.push(service),
            }
        }
        cell
    }
}
