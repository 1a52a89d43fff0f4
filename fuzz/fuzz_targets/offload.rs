//! Super-packets and batches of any bytes: split, merged and split again by `quell_packet::offload`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_packet::offload::fuzz::offload(data));
