//! See `metaq_fuzz::protocol::walk`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metaq_fuzz::protocol::walk(bytes));
