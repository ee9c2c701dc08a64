//! What must hold of a directory that was opened, and of one that was stopped.

use crate::machine::{Left, Machine, Rig};
use crate::picture::{Contents, Name, Picture};
use crate::profile::LOG_PATH;
use crate::segments;
use metaq_disk::{Disk, read_exact_at};
use metaq_log::{Found, Read, Report};
use std::path::Path;

/// Spaces of the durable map that the workload uses.
pub const SPACES: u8 = 3;

/// Checks a directory that was just opened against the history.
pub fn opened(rig: &Rig, left: &Left, report: &Report) -> Result<(), String> {
    findings(left, report)?;
    let picture = &rig.machine.history.latest;
    let found: Vec<Name> = rig.log.partitions().iter().map(|partition| Rig::name_of(partition)).collect();
    let expected: Vec<Name> = picture.partitions.keys().cloned().collect();
    if found != expected {
        return Err(format!("partitions are {found:?}; they should be {expected:?}"));
    }
    for (name, contents) in &picture.partitions {
        partition(rig, name, contents).map_err(|why| format!("{}-{}: {why}", name.0, name.1))?;
    }
    state(rig, picture)?;
    folders(&rig.machine, false)
}

/// Checks a directory that was just stopped cleanly: nothing but what the original reads.
pub fn stopped(machine: &Machine) -> Result<(), String> {
    folders(machine, true)
}

fn findings(left: &Left, report: &Report) -> Result<(), String> {
    let crash = left.crash;
    if report.clean != crash.is_none() && !(report.clean && left.may_be_clean) {
        return Err(format!("clean: {}, although it was left by {crash:?}", report.clean));
    }
    let strange = report.findings.iter().find(|finding| match finding.what {
        Found::Shorter { .. } => !left.power_was_cut,
        _ => true,
    });
    strange.map_or(Ok(()), |finding| Err(format!("it reports: {finding}")))
}

fn partition(rig: &Rig, name: &Name, contents: &Contents) -> Result<(), String> {
    let partition = rig.log.partition(&name.0, name.1).ok_or("it is gone")?;
    let settled = rig.log.settled();
    let bounds = partition.bounds(settled);
    let (first, end, kept) = (contents.first, contents.end(), contents.kept());
    if (bounds.first, bounds.end) != (first, end) {
        return Err(format!("it holds {}..{}, not {first}..{end}", bounds.first, bounds.end));
    }
    if bounds.messages != kept {
        return Err(format!("it counts {} messages, not {kept}", bounds.messages));
    }
    if let Some(failed) = bounds.failed {
        return Err(format!("it is closed: {failed}"));
    }
    if !bounds.damage.is_empty() {
        return Err(format!("it has damage: {:?}", bounds.damage));
    }
    let newest = contents.batches.last().map_or(0, |batch| batch.append_time);
    if !(newest..=rig.machine.history.latest_time).contains(&bounds.append_time) && newest != bounds.append_time {
        return Err(format!("its append time is {}, its newest message has {newest}", bounds.append_time));
    }
    let mut at = first;
    while at < end {
        let read = rig.log.read(&partition, at, usize::MAX, settled).map_err(|error| error.to_string())?;
        let Read::Slice(slice) = read else { return Err(format!("reading at {at} gives {read:?}")) };
        let mut bytes = vec![0; slice.len];
        read_exact_at(&*slice.file, &mut bytes, slice.offset).map_err(|error| format!("at {at}: {error}"))?;
        let range = at..at + bytes.len() as u64;
        if contents.slice(range.clone()) != Some(&bytes) {
            return Err(format!("bytes at {range:?} aren't those that were stored"));
        }
        at = range.end;
    }
    positions(rig, &partition, contents)
}

/// Finds some messages by their numbers.
fn positions(rig: &Rig, partition: &metaq_log::Partition, contents: &Contents) -> Result<(), String> {
    let below = contents.below(contents.first);
    let numbers = [below, below + contents.kept() / 2, (below + contents.kept()).saturating_sub(1)];
    for number in numbers.into_iter().filter(|number| (below..contents.messages.len() as u64).contains(number)) {
        let asked = i64::try_from(number).expect("few");
        let found = rig.log.position_of(partition, asked).map_err(|error| format!("message {number}: {error}"))?;
        let expected = contents.messages[usize::try_from(number).expect("few")];
        if found != Some(expected) {
            return Err(format!("message {number} is found at {found:?}, not at {expected}"));
        }
    }
    Ok(())
}

/// Checks the durable map.
pub fn state(rig: &Rig, picture: &Picture) -> Result<(), String> {
    let mut found = Vec::new();
    for space in 0..SPACES {
        let keys = rig.log.state_under(space, b"");
        found.extend(keys.into_iter().map(|(key, value)| ((space, key), (value.version, value.value.to_vec()))));
    }
    let expected: Vec<_> = picture.state.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    if found == expected { Ok(()) } else { Err(format!("the durable map is {found:?}; it should be {expected:?}")) }
}

/// Checks the files. `stopped`: cleanly, so that every partition has a segment that says where it ends.
fn folders(machine: &Machine, stopped: bool) -> Result<(), String> {
    let (disk, picture) = (&machine.disk, &machine.history.latest);
    let names = |path: &str| -> Result<Vec<String>, String> {
        let listed = disk.list(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
        Ok(listed.into_iter().map(|listed| listed.name).collect())
    };
    let known = ["checkpoint", "checkpoint.copy", "commit", "lock", "metaq.format"];
    if let Some(strange) = names(LOG_PATH)?.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("{LOG_PATH}/{strange} is left behind"));
    }
    let files = u32::try_from(names(&format!("{LOG_PATH}/commit"))?.len());
    if files != Ok(machine.profile.options.ring.files) {
        return Err(format!("the log has {files:?} files, not {}", machine.profile.options.ring.files));
    }
    for root in &machine.profile.options.data_paths {
        for folder in names(&root.to_string_lossy())? {
            let name = metaq_log::parse_name(&folder).map(|(topic, index)| (topic.into(), index));
            if name.is_none_or(|name| !picture.partitions.contains_key(&name)) {
                return Err(format!("{} is left behind", root.join(folder).display()));
            }
        }
    }
    for (name, contents) in &picture.partitions {
        let folder = machine.profile.root(name).join(format!("{}-{}", name.0, name.1));
        segments::check(disk, &folder, contents, stopped).map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    Ok(())
}
