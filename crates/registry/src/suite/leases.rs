//! Leases: their entries go with them, and not while they live.

use super::player::{Player, key, value};
use super::{STEP, Stage, run};
use crate::{Conflict, Failure, Key, Lease, Prefix};

/// How often a play is begun anew because the registry ended a lease early, as it may.
const TRIES: u32 = 200;

/// Waits until the entry is gone, by hints.
async fn wait_until_gone(player: &Player<'_>, folder: &Key) {
    player.wait_until(&Prefix::below(folder), |listing| listing.entries.is_empty()).await;
}

/// Puts an entry with a lease that lives, however often it takes.
async fn put_with_lease(player: &Player<'_>, entry: &Key) -> Lease {
    for _ in 0..TRIES {
        let lease = player.lease().await;
        match player.attempt(player.change().put_leased(entry, value("x"), lease.id)).await {
            Ok(_) => return lease,
            Err(Failure::Conflict(Conflict { found, ended })) => assert_eq!((found, ended), (vec![], Some(lease.id))),
            // It was put, its reply was lost, and it has gone with its lease.
            Err(_) => {}
        }
    }
    panic!("every lease ends before an entry is put with it")
}

/// What was put with a lease that nobody renews is gone in the end, and others get a hint.
pub fn entries_go_with_their_lease(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let (folder, entry) = (key("expire"), key("expire/a"));
    run(stage, async {
        let lease = put_with_lease(&one, &entry).await;
        if let Some(seen) = other.read(&entry).await {
            assert_eq!(seen.lease, Some(lease.id));
        }
        wait_until_gone(&other, &folder).await;
        assert_eq!(one.renew(&lease).await, None, "an ended lease is never renewed");
    });
}

/// Renews a lease until it has lived twice its time; none if it ended.
fn keep_alive(player: &Player<'_>, mut lease: Lease) -> Option<Lease> {
    let stage = player.stage;
    let end = lease.held_until.after(stage.ttl());
    while stage.now() <= end {
        stage.pass(stage.ttl() / 4);
        let renewed = run(stage, player.renew(&lease))?;
        assert_eq!((renewed.id, renewed.ttl), (lease.id, lease.ttl));
        assert!(renewed.held_until > lease.held_until, "{renewed:?} lives no longer than {lease:?}");
        lease = renewed;
    }
    Some(lease)
}

/// What was put with a lease that is renewed is there beyond the lease's first time; if the registry
/// ends it early, its holder learns that by asking, and the entry is gone.
pub fn a_lease_lives_as_long_as_it_is_renewed(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let (folder, entry) = (key("renew"), key("renew/a"));
    for _ in 0..TRIES {
        let lease = run(stage, put_with_lease(&one, &entry));
        let alive = keep_alive(&one, lease);
        if alive.is_some() && run(stage, other.read(&entry)).is_some() {
            return run(stage, one.release(&lease));
        }
        run(stage, wait_until_gone(&other, &folder));
    }
    panic!("no lease lived beyond its first time, though all were renewed");
}

/// A lease that is given back takes its entries with it, before its time and before the reply.
pub fn a_released_lease_takes_its_entries_at_once(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let [a, b] = ["release/a", "release/b"].map(key);
    run(stage, async {
        let lease = put_with_lease(&one, &a).await;
        // The lease may have ended meanwhile: then this conflicts, and there is nothing to take along.
        let _ = one.attempt(one.change().put_leased(&b, value("y"), lease.id)).await;
        one.release(&lease).await;
        assert_eq!((other.read(&a).await, other.read(&b).await), (None, None));
        assert_eq!(one.renew(&lease).await, None, "a released lease is never renewed");
        one.release(&lease).await;
    });
}

/// A change that puts with an ended lease conflicts and does nothing.
pub fn nothing_is_put_with_a_lease_that_ended(stage: &dyn Stage) {
    let player = Player::new(stage, 1);
    let [a, b] = ["ended/a", "ended/b"].map(key);
    run(stage, async {
        let lease = player.lease().await;
        player.release(&lease).await;
        let change = player.change().put(&a, value("x")).put_leased(&b, value("y"), lease.id);
        let conflict = player.refused(change).await;
        assert_eq!(conflict, Conflict { found: vec![], ended: Some(lease.id) });
        assert_eq!((player.read(&a).await, player.read(&b).await), (None, None));
    });
}

/// An entry belongs to the lease of the last put, or to none.
pub fn an_entry_put_again_without_its_lease_stays(stage: &dyn Stage) {
    let (one, other) = (Player::new(stage, 1), Player::new(stage, 2));
    let entry = key("keep/a");
    let lease = run(stage, put_with_lease(&one, &entry));
    run(stage, other.put(&entry, "mine"));
    run(stage, one.release(&lease));
    while stage.now() <= lease.held_until {
        stage.pass(STEP);
    }
    assert_eq!(run(stage, one.text(&entry)).as_deref(), Some("mine"));
}
