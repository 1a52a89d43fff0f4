//! What an application says to the SOCKS5 port: any bytes, to every parser of `quell_proxy`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quell_proxy::fuzz::messages(data));
