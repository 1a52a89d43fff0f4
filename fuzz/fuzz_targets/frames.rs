//! A datagram of any bytes: `quell_wire::frame`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_wire::fuzz::frames(data));
