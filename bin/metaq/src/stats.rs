//! `metaq stats`: the counters of a broker, as its `stats` word tells them.

use crate::connection::Connection;
use crate::exit::Outcome;
use crate::output::{self, Form, value};
use serde_json::{Map, Value};

/// The arguments of `metaq stats`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    /// Which: topics, offsets, realtime, config, metaq.limits, metaq.memory, help, a topic; without it, the broker
    item: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  metaq stats
  metaq stats topics
  metaq stats metaq.limits -o json
  metaq stats help";

/// Runs `metaq stats`.
pub fn run(arguments: &Arguments) -> Outcome {
    let text = arguments.connection.connect()?.stats(arguments.item.as_deref())?;
    // A configuration file is told as it is.
    let Some(lines) = text.strip_prefix("STATS\r\n").and_then(|rest| rest.strip_suffix("END\r\n")) else {
        return output::line(text.trim_end());
    };
    match arguments.connection.output {
        Form::Table => lines.lines().try_for_each(output::line),
        Form::Json => output::json(&json(arguments.item.as_deref(), lines)),
    }
}

/// Lines about topics or partitions, `<name> (<key> <value>)…`, are an array of objects; others, `<key> <value>`, an object.
fn json(item: Option<&str>, lines: &str) -> Value {
    if matches!(item, Some("topics" | "offsets")) {
        return lines.lines().map(named).collect();
    }
    let pairs = lines.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    Value::Object(pairs.map(|(key, text)| (key.to_owned(), value(text))).collect())
}

/// A topic without messages has nothing but its name and `*Empty*`.
fn named(line: &str) -> Value {
    let mut words = line.split(' ');
    let name = Value::from(words.next().unwrap_or_default());
    let words: Vec<&str> = words.collect();
    let pairs = words.chunks_exact(2).map(|pair| (pair[0].to_owned(), value(pair[1])));
    Value::Object([("topic".to_owned(), name)].into_iter().chain(pairs).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as expected;

    #[test]
    fn lines_are_objects_and_lines_of_topics_are_arrays() {
        assert_eq!(
            json(None, "pid 7\r\nversion 1.4.6\r\nslave false"),
            expected!({ "pid": 7, "version": "1.4.6", "slave": false })
        );
        assert_eq!(
            json(Some("offsets"), "t part 0 min_offset 0 max_offset 25\r\nt part 1 min_offset 0 max_offset 0"),
            expected!([
                { "topic": "t", "part": 0, "min_offset": 0, "max_offset": 25 },
                { "topic": "t", "part": 1, "min_offset": 0, "max_offset": 0 },
            ])
        );
        assert_eq!(json(Some("topics"), "t *Empty*"), expected!([{ "topic": "t" }]));
        assert_eq!(json(Some("topics"), ""), expected!([]));
        assert_eq!(json(None, ""), expected!({}));
    }
}
