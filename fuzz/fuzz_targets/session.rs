//! A schedule of any bytes for clients and a provider on a modelled path: `quell_core`, driven by `quell_sim::pair`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_sim::fuzz::session(data));
