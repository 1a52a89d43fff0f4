//! A packet of any bytes: parsed, clamped, marked, answered and cut by `quell_packet`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_packet::fuzz::packets(data));
