//! How the owner of a stack counts what happens in it.
//!
//! The stack keeps no counters: its two owners have books of their own, with reasons of their own, and would have to add
//! the stack's up. It says what happened, at the place where it happens. All calls come from the stack's thread but
//! [`offered`](Ledger::offered), which comes from the engine's.
//!
//! [`counted!`](crate::counted) declares what such books count: an enum with a label for each of its values.

use std::fmt::Debug;

/// Books.
pub trait Ledger: Debug + Send + Sync {
    /// The engine handed packets over.
    fn offered(&self, packets: usize);
    /// Packets were given to a flow's TCP.
    fn consumed(&self, packets: usize);
    /// A packet was written for the engine.
    fn packet_out(&self);
    /// A packet could not wait: an answer, or a segment that the TCP had to write. It went, or found no room and was
    /// dropped.
    fn answered(&self, went: bool);
}

/// Declares an enum of counted things and their labels.
#[macro_export]
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// A stable label for a metric.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts for tests.
    #[derive(Debug, Default)]
    pub(crate) struct Counts {
        pub(crate) out: AtomicUsize,
        pub(crate) lost: AtomicUsize,
    }

    impl super::Ledger for Counts {
        fn offered(&self, _: usize) {}
        fn consumed(&self, _: usize) {}
        fn packet_out(&self) {
            self.out.fetch_add(1, Ordering::Relaxed);
        }
        fn answered(&self, went: bool) {
            self.lost.fetch_add(usize::from(!went), Ordering::Relaxed);
        }
    }
}
