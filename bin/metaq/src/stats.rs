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
        Form::Json => output::json(&json(lines)),
    }
}

/// Lines of `<name> (<key> <value>)…` are an array of objects, lines of `<key> <value>` an object.
fn json(lines: &str) -> Value {
    let words: Vec<Vec<&str>> = lines.lines().map(|line| line.split(' ').collect()).collect();
    if !words.is_empty() && words.iter().all(|words| words.len() > 4 && words.len() % 2 == 1) {
        return words.iter().map(|words| named(words)).collect();
    }
    let pairs = lines.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    Value::Object(pairs.map(|(key, text)| (key.to_owned(), value(text))).collect())
}

fn named(words: &[&str]) -> Value {
    let pairs = words[1..].chunks(2).map(|pair| (pair[0].to_owned(), value(pair[1])));
    Value::Object([("topic".to_owned(), Value::from(words[0]))].into_iter().chain(pairs).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as expected;

    #[test]
    fn lines_are_objects_and_lines_of_topics_are_arrays() {
        assert_eq!(
            json("pid 7\r\nversion 1.4.6\r\nslave false"),
            expected!({ "pid": 7, "version": "1.4.6", "slave": false })
        );
        assert_eq!(
            json("t part 0 min_offset 0 max_offset 25\r\nt part 1 min_offset 0 max_offset 0"),
            expected!([
                { "topic": "t", "part": 0, "min_offset": 0, "max_offset": 25 },
                { "topic": "t", "part": 1, "min_offset": 0, "max_offset": 0 },
            ])
        );
        assert_eq!(json(""), expected!({}));
    }
}
