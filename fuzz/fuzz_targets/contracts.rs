//! A contract, receipt or key binding of any bytes: `quell_wire::contract`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_wire::fuzz::contracts(data));
