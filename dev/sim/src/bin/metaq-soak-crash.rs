//! Runs seed after seed until so many crash points were tried; says what was tried and what failed.

use metaq_sim::{Effort, Tally, run};
use std::process::ExitCode;

/// Failures that are printed before it gives up.
const FAILURES_MAX: u64 = 5;

const USAGE: &str = "usage: metaq-soak-crash [--seed N] [--points N] [--runs N] [--quick]";

struct Asked {
    seed: u64,
    points: u64,
    runs: u64,
    effort: Effort,
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (mut tally, mut runs, mut failures) = (Tally::default(), 0, 0);
    while tally.points < asked.points && runs < asked.runs && failures < FAILURES_MAX {
        match run(asked.seed.wrapping_add(runs), asked.effort) {
            Ok(tried) => tally += tried,
            Err(failure) => {
                failures += 1;
                eprintln!("{failure}");
            }
        }
        runs += 1;
    }
    let Tally { points, recoveries, operations, stops, crashes } = tally;
    println!(
        "seed {}: {runs} runs, {points} crash points, {recoveries} recoveries, {operations} operations, {stops} clean \
         stops, {crashes} crashes worked on after, {failures} failures",
        asked.seed
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { seed: 1, points: 100_000, runs: u64::MAX, effort: Effort::SOAK };
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or_else(|| format!("{word} wants a number"))?;
            value.replace('_', "").parse().map_err(|_| format!("{value} is no number"))
        };
        match word.as_str() {
            "--seed" => asked.seed = number()?,
            "--points" => asked.points = number()?,
            "--runs" => asked.runs = number()?,
            "--quick" => asked.effort = Effort::QUICK,
            _ => return Err(format!("{word} isn't known")),
        }
    }
    Ok(asked)
}
