//! A control stream of any bytes, in pieces of any size: `quell_wire::control`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_wire::fuzz::control(data));
