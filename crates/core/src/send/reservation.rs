//! What a scheduled resend took out of its budget.
//!
//! A budget that counts over a window must know, when something is given back,
//! which second it was taken in and whether out of the share or the floor; else a
//! refund would lift another's charge. The pack keeps that until its resend is
//! cancelled or was handed over, in twelve bytes.

/// What [`ResendBudget::reserve`](super::ResendBudget::reserve) took out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    pub(crate) bytes: u32,
    /// The second of the budget's clock in which it was taken.
    pub(crate) tick: u32,
    /// Out of the path's floor, and not of its share.
    pub(crate) path_floor: bool,
    /// Out of the process's floor, and not of its share.
    pub(crate) process_floor: bool,
}

impl Reservation {
    /// A reservation of `bytes`, for a budget that remembers nothing else of it.
    pub fn of(bytes: usize) -> Self {
        Self {
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            tick: 0,
            path_floor: false,
            process_floor: false,
        }
    }

    /// Payload bytes that were reserved.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }
}
