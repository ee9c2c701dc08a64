//! Values: what is put is read, whole and by everybody.

use super::player::{Player, key, value};
use super::{Stage, run, run_all};
use crate::{Change, Expected, Key, Prefix, Revision};

/// What one participant put, any other reads after the reply; what nobody put isn't there.
pub fn what_was_put_is_read_by_everybody(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let key = key("put/a");
    run(stage, async {
        assert_eq!(other.read(&key).await, None);
        let first = one.put(&key, "x").await;
        let entry = other.read(&key).await.expect("what was put is there");
        assert_eq!((entry.value, entry.version, entry.lease), (value("x"), first, None));
        let second = other.put(&key, "").await;
        assert!(second > first, "{second:?} comes after {first:?}");
        assert_eq!(one.text(&key).await.as_deref(), Some(""));
        one.make(one.change().delete(&key)).await.expect("a deletion has no conditions");
        assert_eq!(other.read(&key).await, None);
        one.make(one.change().delete(&key)).await.expect("what isn't there is deleted already");
    });
}

/// If one condition doesn't hold, no operation happens; if all do, all happen, as one revision.
pub fn a_change_happens_whole_or_not_at_all(stage: &dyn Stage) {
    let player = Player::new(stage, 1);
    let [a, b, c] = ["whole/a", "whole/b", "whole/c"].map(key);
    run(stage, async {
        let version = player.put(&a, "1").await;
        let change = || player.change().put(&b, value("2")).put(&c, value("3")).delete(&a);
        for broken in [(&a, Expected::Absent), (&b, Expected::Is(version)), (&a, Expected::Is(Revision(0)))] {
            let change = change().when(&a, Expected::Is(version)).when(broken.0, broken.1);
            player.refused(change).await;
            assert_eq!(player.text(&a).await.as_deref(), Some("1"));
            assert_eq!((player.read(&b).await, player.read(&c).await), (None, None));
        }
        let change = change().when(&a, Expected::Is(version)).when(&b, Expected::Absent);
        let revision = player.make(change).await.expect("all conditions hold");
        assert_eq!(player.read(&a).await, None);
        for key in [&b, &c] {
            assert_eq!(player.read(key).await.map(|entry| entry.version), Some(revision));
        }
    });
}

/// Whoever meets a conflict learns what stands in the way, and nothing else.
pub fn a_conflict_says_what_is_there(stage: &dyn Stage) {
    let player = Player::new(stage, 1);
    let [there, gone] = ["conflict/there", "conflict/gone"].map(key);
    run(stage, async {
        let version = player.put(&there, "1").await;
        let change = player.change().when(&there, Expected::Absent).when(&gone, Expected::Absent);
        let conflict = player.refused(change.put(&gone, value("x"))).await;
        let [(key, Some(entry))] = &conflict.found[..] else { panic!("one entry is in the way: {conflict:?}") };
        assert_eq!((key, entry.version), (&there, version));

        let change = player.change().when(&there, Expected::Is(version)).when(&gone, Expected::Is(version));
        let conflict = player.refused(change.put(&gone, value("x"))).await;
        assert_eq!((conflict.found, conflict.ended), (vec![(gone.clone(), None)], None));
    });
}

/// A key that was deleted and put again isn't what it was, though it looks the same.
pub fn no_version_comes_twice(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let key = key("version/a");
    run(stage, async {
        let first = one.put(&key, "same").await;
        other.make(other.change().delete(&key)).await.expect("a deletion has no conditions");
        let second = other.put(&key, "same").await;
        assert!(second > first, "{second:?} comes after {first:?}");
        let change = one.change().when(&key, Expected::Is(first)).put(&key, value("late"));
        one.refused(change).await;
        assert_eq!(other.text(&key).await.as_deref(), Some("same"));
    });
}

/// An entry says who wrote it, so that a lost reply can be made up for.
pub fn who_wrote_tells_what_became_of_a_change(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let key = key("writer/a");
    run(stage, async {
        for round in 0..20 {
            for player in [&one, &other] {
                let change = player.change().put(&key, value(&round.to_string()));
                let writer = change.writer();
                let revision = player.make(change).await.expect("a change without conditions has no conflict");
                let entry = other.read(&key).await.expect("it was put");
                assert_eq!((entry.written_by, entry.version), (writer, revision));
            }
        }
    });
}

/// A list is in order, has what was put by anybody, and nothing of what only begins alike.
pub fn a_list_has_all_below_its_prefix_and_nothing_beside_it(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let folder = key("list/f");
    let [a, b, deep] = ["list/f/a", "list/f/b", "list/f/a/deep"].map(key);
    run(stage, async {
        assert_eq!(other.list(&Prefix::below(&folder)).await.entries, vec![]);
        let mut last = Revision(0);
        for key in [&b, &a, &deep, &folder, &key("list/fa")] {
            last = one.put(key, "x").await;
        }
        let listing = other.list(&Prefix::below(&folder)).await;
        let keys: Vec<_> = listing.entries.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [&a, &deep, &b]);
        assert!(listing.revision >= last, "{:?} has {last:?} in it", listing.revision);
        for (key, entry) in &listing.entries {
            assert_eq!(Some(entry), one.read(key).await.as_ref());
        }
    });
}

/// Participants that count one number up by compare and set, all at once, miss none.
pub fn no_increment_is_lost(stage: &dyn Stage) {
    const PLAYERS: u64 = 4;
    const ROUNDS: u64 = 10;
    let counter = key("counter/n");
    let count_up = async |number: u64| {
        let player = Player::new(stage, number);
        // Only this player puts its own mark, so it always finds out what became of its changes.
        let mark = key(&format!("counter/of/{number}"));
        let mut marked = Expected::Absent;
        for round in 1..=ROUNDS {
            let round = value(&round.to_string());
            marked = loop {
                let change = player.change().when(&mark, marked).put(&mark, round.clone());
                if let Ok(revision) = player.make(one_more(&player, &counter, change).await).await {
                    break Expected::Is(revision);
                }
            };
        }
    };
    run_all(stage, (1..=PLAYERS).map(count_up).collect());
    let total = run(stage, Player::new(stage, 1).text(&counter));
    assert_eq!(total, Some((PLAYERS * ROUNDS).to_string()));
}

/// The change that also counts up by one, on the condition of what is read.
async fn one_more(player: &Player<'_>, counter: &Key, change: Change) -> Change {
    let entry = player.read(counter).await;
    let expected = entry.as_ref().map_or(Expected::Absent, |entry| Expected::Is(entry.version));
    let number = entry.map_or(0, |entry| {
        let text = String::from_utf8_lossy(entry.value.as_bytes()).into_owned();
        text.parse::<u64>().expect("the counter is a number")
    });
    change.when(counter, expected).put(counter, value(&(number + 1).to_string()))
}
