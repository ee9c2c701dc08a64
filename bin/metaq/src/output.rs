//! What tools print: tables for people, JSON for programs, both from the same lines.

use crate::exit::{Failure, Outcome};
use comfy_table::{ContentArrangement, Table, presets};
use metaq_broker::lines::Fields;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::io::{self, Write};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Columns for people
    Table,
    /// One JSON document for programs
    Json,
}

/// Prints a line; a reader that has gone is no failure.
pub fn line(text: impl Display) -> Outcome {
    writeln!(io::stdout().lock(), "{text}").map_err(|error| Failure::output(&error))
}

/// Prints bytes as they are.
pub fn bytes(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// Prints a JSON document.
pub fn json(value: &Value) -> Outcome {
    line(serde_json::to_string_pretty(value).unwrap_or_else(|error| unreachable!("a value is JSON: {error}")))
}

/// Prints lines that are all of one kind: a table, or an array of objects.
pub fn list(form: Form, lines: &[Fields]) -> Outcome {
    match form {
        Form::Table => tables(lines),
        Form::Json => json(&Value::Array(lines.iter().map(object).collect())),
    }
}

/// Prints lines of several kinds: a table for each, or an object with an array for each.
pub fn sections(form: Form, lines: &[Fields]) -> Outcome {
    match form {
        Form::Table => tables(lines),
        Form::Json => {
            let mut all = Map::new();
            for fields in lines {
                let section = all.entry(fields.kind()).or_insert_with(|| Value::Array(Vec::new()));
                section.as_array_mut().expect("every section is an array").push(object(fields));
            }
            json(&Value::Object(all))
        }
    }
}

/// Reads the lines of an answer.
pub fn read(text: &str) -> Result<Vec<Fields>, Failure> {
    Fields::parse_all(text).map_err(|why| Failure::failed(format!("the broker's answer can't be understood: {why}")))
}

/// Lines of one kind follow each other in one table.
fn tables(lines: &[Fields]) -> Outcome {
    for (at, some) in lines.chunk_by(|one, next| one.kind() == next.kind()).enumerate() {
        if at > 0 {
            line("")?;
        }
        line(table(some))?;
    }
    Ok(())
}

fn table(lines: &[Fields]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (key, _) in lines.iter().flat_map(|fields| &fields.words) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    let rows =
        lines.iter().map(|fields| columns.iter().map(|key| fields.value(key).unwrap_or("-")).collect::<Vec<_>>());
    of(&columns.iter().map(|key| key.to_uppercase()).collect::<Vec<_>>(), rows)
}

/// A table without lines.
pub fn of<T: Display>(columns: &[impl Display], rows: impl IntoIterator<Item = Vec<T>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(ToString::to_string).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn object(fields: &Fields) -> Value {
    Value::Object(fields.words.iter().map(|(key, text)| (key.clone(), value(text))).collect())
}

/// A number or a truth if it is written as one.
pub fn value(text: &str) -> Value {
    match (text, text.parse::<i64>()) {
        ("true", _) => Value::Bool(true),
        ("false", _) => Value::Bool(false),
        // What another number would be written like (007) is a text.
        (_, Ok(number)) if number.to_string() == text => Value::from(number),
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_column_for_every_key_and_a_dash_where_a_line_has_none() {
        let lines = read("topic=a partitions=3\r\ntopic=bc failed=\"no room\"").unwrap();
        assert_eq!(table(&lines), " TOPIC  PARTITIONS  FAILED\n a      3           -\n bc     -           no room");
    }

    #[test]
    fn numbers_and_truths_are_told_from_texts() {
        for (text, expected) in [("-3", Value::from(-3)), ("true", true.into()), ("007", "007".into()), ("", "".into())]
        {
            assert_eq!(value(text), expected);
        }
    }
}
