//! What a run showed: the one form that table, JSON, CSV and page are made from.
//!
//! Numbers are counts of what the world saw, not of what a policy says of itself. One seed gives one outcome, byte for
//! byte: there is no wall time in here, and all lists have an order.

use serde::Serialize;

use crate::report::Bar;

/// What one policy did in one scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PolicyOutcome {
    /// Its name.
    pub policy: String,
    /// Items that users gave.
    pub offered_items: u64,
    /// Items that came out at the far end, each counted once.
    pub delivered_items: u64,
    /// Items that came out more than once, copies counted.
    pub doubled_items: u64,
    /// Items that never came and were not sent again: lost in silence, or dropped with a reason that nobody told the user.
    pub lost_items: u64,
    /// Items that had not come at the end and were offered within its last two seconds: nobody knows what becomes of them.
    pub under_way_items: u64,
    /// Items lost with a word: their connection was reset before they came, and their user sent them again.
    pub sent_again_items: u64,
    /// User bytes that were delivered once.
    pub goodput_bytes: u64,
    /// Packs handed over for the first time.
    pub first_sends: u64,
    /// Hand-overs of packs, the first ones and race copies included, for each that was handed over for the first time.
    pub copies_per_pack: f64,
    /// Most hand-overs of one pack over one path.
    pub max_sends_of_one_pack: u32,
    /// Most copies of one item over all paths.
    pub max_copies_of_one_item: u32,
    /// UDP payload that clients put out.
    pub udp_bytes_out: ByCause,
    /// The same, while anything was broken.
    pub outage_bytes_out: ByCause,
    /// UDP payload that providers put out.
    pub udp_bytes_back: ByCause,
    /// Dials.
    pub dials: Rate,
    /// Dials at the one provider that had most in a second.
    pub provider_dials: Rate,
    /// Requests that reached the backends or were sent to them in vain.
    pub backend_requests: Rate,
    /// From the heal to the first of a client's items that came out, in milliseconds.
    pub recovery_ms: Quantiles,
    /// From the heal to the last item that came out of those that a client's user had offered before it. Clients of whom
    /// none came are not among them: what came to nothing is in `lost_items`.
    pub caught_up_ms: Quantiles,
    /// From the heal to the first item that came out of those that were offered after it.
    pub fresh_ms: Quantiles,
    /// Clients that never recovered.
    pub never_recovered: u64,
    /// Sessions that ended, by whatever.
    pub sessions_lost: u64,
    /// Providers that fell over, if they can.
    pub providers_fallen: u64,
    /// What checkers complained of: the first few of each, and of what the books found a line a kind, with its count.
    pub complaints: Vec<String>,
    /// The course, in steps of [`Series::step_ms`].
    pub series: Series,
}

/// Bytes by what they were for; they sum to `total`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ByCause {
    /// User bytes for the first time.
    pub first_send: u64,
    /// Once more.
    pub resend: u64,
    /// Over one more path.
    pub race: u64,
    /// Acknowledgements.
    pub ack: u64,
    /// Questions and answers about the path.
    pub ping: u64,
    /// Sessions' beginnings and ends.
    pub control: u64,
    /// Handshakes.
    pub dial: u64,
    /// What QUIC adds: headers, seals, its own acknowledgements and probes.
    pub quic: u64,
    /// All of it.
    pub total: u64,
}

/// How often, and how unevenly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rate {
    /// In all.
    pub total: u64,
    /// Each second on average before the first fault, the first half of that time left out.
    pub steady_per_s: f64,
    /// Most in a second while anything is broken.
    pub outage_peak_per_s: u64,
    /// Most in a second after the heal.
    pub heal_peak_per_s: u64,
}

/// Of a set of times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// How many there are.
    pub count: u64,
    /// Half are less.
    pub p50: u64,
    /// Of a hundred, one is more.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// The course over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// One step, in milliseconds.
    pub step_ms: u64,
    /// UDP payload of clients in each step, by cause.
    pub bytes_out: Vec<ByCause>,
    /// Items that came out in each step.
    pub delivered: Vec<u64>,
    /// Dials in each step.
    pub dials: Vec<u64>,
    /// Requests to backends in each step.
    pub backend_requests: Vec<u64>,
}

/// All policies in one scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// What it is about.
    pub summary: String,
    /// The seed.
    pub seed: u64,
    /// Clients.
    pub clients: u32,
    /// Providers.
    pub providers: u16,
    /// Virtual time, in milliseconds.
    pub duration_ms: u64,
    /// When something is broken: from and until, in milliseconds.
    pub faults_ms: Vec<(String, u64, u64)>,
    /// What is not modelled, in sentences.
    pub not_modelled: Vec<String>,
    /// What is claimed of quell beside the others, and whether it holds.
    pub bars: Vec<Bar>,
    /// Each policy.
    pub policies: Vec<PolicyOutcome>,
}
