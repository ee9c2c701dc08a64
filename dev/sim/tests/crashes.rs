//! Random runs with a crash at every operation of their disks. `metaq-soak-crash` does the same for as long as wanted;
//! what it prints about a failure names the seed, and `metaq-soak-crash --seed N --runs 1` shows it again.

use metaq_sim::{Effort, Tally, run};
use std::ops::RangeInclusive;

fn try_seeds(seeds: RangeInclusive<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        match run(seed, Effort::QUICK) {
            Ok(tried) => tally += tried,
            Err(failure) => panic!("{failure}"),
        }
    }
    tally
}

#[test]
fn no_crash_in_the_first_runs_takes_back_what_was_settled_or_brings_what_was_never_sent() {
    let tally = try_seeds(1..=8);
    assert!(tally.points >= 2000, "{tally:?}");
    assert!(tally.stops > 0 && tally.crashes > 0, "{tally:?}");
}

#[test]
fn no_crash_in_further_runs_takes_back_what_was_settled_or_brings_what_was_never_sent() {
    let tally = try_seeds(9..=16);
    assert!(tally.points >= 2000, "{tally:?}");
}

#[test]
fn a_seed_does_the_same_every_time() {
    let first = run(8, Effort::QUICK).unwrap_or_else(|failure| panic!("{failure}"));
    let second = run(8, Effort::QUICK).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(first, second);
}

#[test]
fn seed_6_which_lost_the_folder_of_a_partition_while_the_log_changed_its_size_runs_through() {
    try_seeds(6..=6);
}
