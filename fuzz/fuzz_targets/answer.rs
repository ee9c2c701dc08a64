//! See `metaq_fuzz::protocol::answer`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metaq_fuzz::protocol::answer(bytes));
