//! `metaq`: the broker and its tools.
fn main() {}
