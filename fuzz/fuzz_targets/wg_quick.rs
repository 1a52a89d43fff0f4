//! A wg-quick file that `quell import` is given: any bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_cli::fuzz::wg_quick(data));
