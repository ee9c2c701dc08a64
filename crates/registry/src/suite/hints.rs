//! Hints: none that matters is lost, whatever else comes.

use std::collections::BTreeMap;

use super::player::{Player, key};
use super::{Stage, run, run_all};
use crate::Prefix;

/// A hint comes for a change after it was asked for, and for one between what was seen and the asking;
/// for deletions too.
pub fn a_change_is_hinted_to_who_waits_and_to_who_comes_late(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let (folder, entry) = (Prefix::below(&key("hint")), key("hint/a"));
    run(stage, async {
        let seen = other.list(&folder).await.revision;
        let early = other.registry.changed(&folder, seen);
        let put = one.put(&entry, "x").await;
        let late = other.registry.changed(&folder, seen);
        early.await;
        late.await;
        let waiting = other.registry.changed(&folder, put);
        one.make(one.change().delete(&entry)).await.expect("a deletion has no conditions");
        waiting.await;
        other.registry.changed(&folder, put).await;
    });
}

/// Whoever lists, waits for a hint and lists again ends with what is there, while others write.
pub fn who_follows_the_hints_ends_with_what_is_there(stage: &dyn Stage) {
    const WRITERS: u64 = 3;
    const ROUNDS: u64 = 10;
    let folder = Prefix::below(&key("follow"));
    let write = async |number: u64| {
        let writer = Player::new(stage, number);
        for round in 1..=ROUNDS {
            writer.put(&key(&format!("follow/{number}")), &round.to_string()).await;
        }
    };
    let follow = async |number: u64| {
        let follower = Player::new(stage, number);
        let last = ROUNDS.to_string();
        let mut newest = BTreeMap::new();
        follower
            .wait_until(&folder, |listing| {
                listing.entries.iter().filter(|(_, entry)| entry.value.as_bytes() == last.as_bytes()).count() == 3
            })
            .await;
        for (key, entry) in follower.list(&folder).await.entries {
            newest.insert(key, entry.value);
        }
        assert_eq!(newest.len(), 3);
    };
    let play = async |number: u64| {
        if number <= WRITERS { write(number).await } else { follow(number).await }
    };
    run_all(stage, (1..=WRITERS + 2).map(play).collect());
}
