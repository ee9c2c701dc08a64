//! What the fuzz targets check, one module a crate. The tests of that crate run the committed corpus through the same functions.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run request corpus-local/request corpus/request` in this folder keeps finds out of the committed corpus.

pub mod protocol;

#[path = "../../crates/protocol/tests/support/mod.rs"]
pub mod support;
