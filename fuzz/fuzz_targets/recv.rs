//! A schedule of any bytes for a lane's receiver beside a plain model: `quell_core::recv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    quell_core::recv::fuzz::recv(data, std::time::Instant::now());
});
