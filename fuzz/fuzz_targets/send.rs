//! A schedule of any bytes for a lane's sender beside a plain model and an honest peer: `quell_core::send`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    quell_core::send::fuzz::send(data, std::time::Instant::now());
});
