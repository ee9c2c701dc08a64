//! The workload runner.
fn main() {}
