//! Which partitions a topic has and where they begin and end.

use crate::exit::{Exit, Failure};
use crate::topic;
use crate::wire::Wire;
use metaq_broker::lines::Fields;

/// A partition and where it begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Its index.
    pub index: i32,
    /// Position of its first message.
    pub first: i64,
    /// Position behind its last message.
    pub end: i64,
}

/// The partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Those that exist, by index: a partition does from its first message on.
    pub existing: Vec<Bounds>,
    /// How many there may be.
    pub expected: usize,
}

/// The partitions of a topic, or the one that is asked for.
pub fn of(wire: &mut Wire, topic: &str, only: Option<i32>) -> Result<Known, Failure> {
    let mut known = if wire.greeting().has("topic") { described(wire, topic)? } else { listed(wire, topic)? };
    known.existing.sort_by_key(|bounds| bounds.index);
    let Some(index) = only else { return Ok(known) };
    if usize::try_from(index).map_or(true, |index| index >= known.expected) {
        let text = format!("topic {topic} has {} partitions here, from 0 on; not {index}", known.expected);
        return Err(Failure::new(Exit::NotFound, text));
    }
    known.existing.retain(|bounds| bounds.index == index);
    Ok(Known { expected: 1, ..known })
}

/// As a broker of ours tells it.
fn described(wire: &mut Wire, topic: &str) -> Result<Known, Failure> {
    let lines = topic::describe(wire, topic)?;
    let number = |line: &Fields, key: &str| line.value(key)?.parse::<i64>().ok();
    let existing = lines.iter().filter(|line| line.kind() == "partition" && line.value("exists") == Some("true"));
    let existing = existing.filter_map(|line| {
        let index = line.value("partition")?.rsplit('-').next()?.parse().ok()?;
        Some(Bounds { index, first: number(line, "first")?, end: number(line, "end")? })
    });
    let expected = lines.first().and_then(|line| number(line, "partitions")).unwrap_or_default();
    Ok(Known { existing: existing.collect(), expected: usize::try_from(expected).unwrap_or_default() })
}

/// As an original broker tells it too.
fn listed(wire: &mut Wire, topic: &str) -> Result<Known, Failure> {
    let text = wire.stats(Some("offsets"))?;
    let existing: Vec<_> = text.lines().filter_map(|line| bounds(line, topic)).collect();
    let last = existing.iter().map(|bounds| bounds.index).max();
    let Some(last) = last.and_then(|index| usize::try_from(index).ok()) else {
        return Err(Failure::new(Exit::NotFound, format!("topic {topic} has no messages here, or isn't there")));
    };
    Ok(Known { existing, expected: last + 1 })
}

/// `<topic> part <index> min_offset <first> max_offset <end>`.
fn bounds(line: &str, topic: &str) -> Option<Bounds> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        [name, "part", index, "min_offset", first, "max_offset", end] if name == topic => {
            Some(Bounds { index: index.parse().ok()?, first: first.parse().ok()?, end: end.parse().ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_topic_are_its_partitions() {
        let found = |line| bounds(line, "t");
        let expected = Bounds { index: 3, first: 25, end: 50 };
        assert_eq!(found("t part 3 min_offset 25 max_offset 50"), Some(expected));
        for other in ["STATS", "u part 3 min_offset 25 max_offset 50", "t part x min_offset 25 max_offset 50", "END"] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
