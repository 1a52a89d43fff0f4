//! Ways to build clients and providers, by name.

pub mod baseline;
pub mod report_claim;
pub mod report_fix;
pub mod upstream_2026_05;
pub mod upstream_2026_08;
