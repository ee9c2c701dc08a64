//! Which partitions a topic has and where they begin and end: asked with a word that original brokers know too.

use crate::exit::{Exit, Failure};
use crate::wire::Wire;

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

/// The partitions of a topic, or the one that is asked for, by index.
pub fn of(wire: &mut Wire, topic: &str, only: Option<i32>) -> Result<Vec<Bounds>, Failure> {
    let text = wire.stats(Some("offsets"))?;
    let mut all: Vec<_> = text.lines().filter_map(|line| bounds(line, topic)).collect();
    all.retain(|bounds| only.is_none_or(|index| index == bounds.index));
    all.sort_by_key(|bounds| bounds.index);
    if all.is_empty() {
        let what = only.map_or(format!("topic {topic}"), |index| format!("partition {index} of topic {topic}"));
        let text = format!("{what} has no messages here, or isn't there; see metaq topic list");
        return Err(Failure::new(Exit::NotFound, text));
    }
    Ok(all)
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
