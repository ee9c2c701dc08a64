//! See `metaq_fuzz::protocol::transaction_key`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metaq_fuzz::protocol::transaction_key(bytes));
