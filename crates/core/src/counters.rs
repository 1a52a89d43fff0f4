//! Structs of counters that can be added up.
//!
//! What ended adds its counters to its owner's, so that nothing a person reads ever
//! goes back. A sum that is written by hand forgets the field that is added next
//! year; here the fields are listed once, and the sum is made of the list.

/// Defines a struct of counters, and its sum field by field.
macro_rules! counters {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $kind:ty,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

pub(crate) use counters;

/// A largest value so far: its sum over several is the largest of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Peak(u64);

impl Peak {
    /// The value.
    pub fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn note(&mut self, value: u64) {
        self.0 = self.0.max(value);
    }
}

impl std::ops::AddAssign for Peak {
    fn add_assign(&mut self, other: Self) {
        self.note(other.0);
    }
}
