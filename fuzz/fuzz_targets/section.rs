//! See `metaq_fuzz::protocol::section`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metaq_fuzz::protocol::section(bytes));
