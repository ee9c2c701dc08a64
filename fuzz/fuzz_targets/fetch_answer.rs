//! See `metaq_fuzz::protocol::fetch_answer`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metaq_fuzz::protocol::fetch_answer(bytes));
