//! Random participants at once, and a judge over what they saw.
//!
//! Revisions order everything that happened, so the history of a run needs no search: what was replied
//! before another call began must come before it in that order.

use std::cell::Cell;

use super::player::{Player, key, value};
use super::{Stage, run_all};
use crate::random::Random;
use crate::{Expected, Key, Revision};

/// Something that a participant did and saw.
#[derive(Debug, Clone)]
struct Event {
    /// Counted over all participants: when it was called and when it was replied to.
    called: u64,
    replied: u64,
    key: Key,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// A version was read.
    Read(Revision),
    /// A version was replaced by another.
    Replaced(Revision, Revision),
}

impl Event {
    /// The revision at or after which it happened.
    fn revision(&self) -> Revision {
        match self.what {
            What::Read(version) | What::Replaced(_, version) => version,
        }
    }
}

/// Whatever several participants do at once, they see it as if it had happened one by one.
pub fn every_history_is_linearizable(stage: &dyn Stage, seed: u64) {
    const PLAYERS: u64 = 4;
    let keys: Vec<_> = (0..3).map(|number| key(&format!("history/{number}"))).collect();
    let clock = Cell::new(0);
    let tick = || {
        clock.set(clock.get() + 1);
        clock.get()
    };
    let begin = async || {
        let player = Player::new(stage, u64::MAX);
        for key in &keys {
            player.put(key, "0").await;
        }
        Vec::new()
    };
    run_all(stage, vec![begin()]) as Vec<Vec<Event>>;
    let play = async |number: u64| {
        let player = Player::new(stage, number);
        let mut random = Random::of(seed.wrapping_mul(PLAYERS).wrapping_add(number));
        let mut events = Vec::new();
        for _ in 0..30 {
            let key = &keys[usize::try_from(random.below(3)).expect("a small number")];
            let called = tick();
            let entry = player.read(key).await.expect("nobody deletes it");
            let what = What::Read(entry.version);
            events.push(Event { called, replied: tick(), key: key.clone(), what });
            if random.happens(500) {
                continue;
            }
            let called = tick();
            let next = value(&format!("{number}.{called}"));
            let change = player.change().when(key, Expected::Is(entry.version)).put(key, next);
            // Of a change that conflicted, or that others covered, nothing is known.
            if let Ok(revision) = player.attempt(change).await {
                let what = What::Replaced(entry.version, revision);
                events.push(Event { called, replied: tick(), key: key.clone(), what });
            }
        }
        events
    };
    let events: Vec<_> = run_all(stage, (1..=PLAYERS).map(play).collect()).concat();
    judge(&events);
}

/// Judges every two events.
fn judge(events: &[Event]) {
    for one in events {
        for other in events {
            judge_order(one, other);
            judge_replacements(one, other);
        }
    }
}

/// What was replied to before the other's call lies before it.
fn judge_order(one: &Event, other: &Event) {
    if one.replied >= other.called {
        return;
    }
    let (before, after) = (one.revision(), other.revision());
    match other.what {
        // What is replaced gets a new revision, whatever key the earlier event was about.
        What::Replaced(..) => assert!(after > before, "{other:?} didn't come after {one:?}"),
        What::Read(_) if one.key == other.key => assert!(after >= before, "{other:?} saw less than {one:?}"),
        What::Read(_) => {}
    }
}

/// Nothing lies between a version and the one that replaced it.
fn judge_replacements(one: &Event, other: &Event) {
    let (What::Replaced(from, to), What::Replaced(_, between)) = (&one.what, &other.what) else {
        return;
    };
    assert!(to > from, "{one:?} went back");
    let in_between = one.key == other.key && from < between && between < to;
    assert!(!in_between, "{one:?} replaced what {other:?} had replaced already");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(times: (u64, u64), what: What) -> Event {
        Event { called: times.0, replied: times.1, key: key("history/0"), what }
    }

    #[test]
    #[should_panic(expected = "saw less than")]
    fn a_read_of_the_past_is_caught() {
        let replaced = event((1, 2), What::Replaced(Revision(1), Revision(2)));
        judge(&[replaced, event((3, 4), What::Read(Revision(1)))]);
    }

    #[test]
    fn a_read_that_overlaps_a_change_may_see_either() {
        let replaced = event((1, 4), What::Replaced(Revision(1), Revision(2)));
        judge(&[replaced, event((2, 3), What::Read(Revision(1))), event((2, 3), What::Read(Revision(2)))]);
    }

    #[test]
    #[should_panic(expected = "had replaced already")]
    fn a_lost_change_is_caught() {
        let replaced = |to| event((1, 9), What::Replaced(Revision(1), Revision(to)));
        judge(&[replaced(2), replaced(3)]);
    }
}
