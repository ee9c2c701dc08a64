//! See `metaq_fuzz::protocol::batch`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metaq_fuzz::protocol::batch(bytes));
