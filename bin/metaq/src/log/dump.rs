//! `metaq log dump`.

use super::place::{Place, partition};
use super::refused;
use crate::exit::Outcome;
use crate::output::{self, Form};
use metaq_log::Folder;
use metaq_log::offline::{
    CheckpointContent, Filter, LogLine, LogPart, MarkLine, RecordLine, dump_checkpoint, dump_index, dump_log,
    dump_records,
};
use serde_json::{Value, json};
use std::fmt::Display;

/// The arguments of `metaq log dump`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Which part
    #[arg(long, value_name = "PART", env = "METAQ_WHAT", default_value = "checkpoint")]
    what: What,
    /// Only of this partition
    #[arg(long, value_name = "TOPIC-INDEX", env = "METAQ_PARTITION", value_parser = partition)]
    partition: Option<(String, u32)>,
    /// From this position on; of the commit log, from this entry on
    #[arg(long, value_name = "N", env = "METAQ_FROM", default_value_t = 0)]
    from: u64,
    /// No more lines than this
    #[arg(long, value_name = "N", env = "METAQ_LIMIT")]
    limit: Option<usize>,
    /// Of the commit log, also what was replayed or reused long ago
    #[arg(long, env = "METAQ_EVERYTHING", value_parser = clap::builder::BoolishValueParser::new())]
    everything: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Partitions and the durable map, as of the last checkpoint
    Checkpoint,
    /// The commit log: turns and entries
    Log,
    /// The messages of segments
    Records,
    /// The marks of indexes
    Index,
}

/// Prints lines; remembers the first that couldn't be.
struct Lines {
    form: Form,
    result: Outcome,
}

impl Lines {
    fn say(&mut self, text: impl Display, value: impl FnOnce() -> Value) {
        if self.result.is_ok() {
            self.result = match self.form {
                Form::Table => output::line(text),
                Form::Json => output::line(value()),
            };
        }
    }
}

/// Runs `metaq log dump`.
pub fn run(arguments: &Arguments, form: Form) -> Outcome {
    let directory = arguments.place.meant(None)?.directory;
    let limit = arguments.limit.unwrap_or(usize::MAX);
    let filter = Filter { partition: arguments.partition.clone(), from: arguments.from, limit };
    let mut lines = Lines { form, result: Ok(()) };
    match arguments.what {
        What::Checkpoint => {
            let content = dump_checkpoint(&directory, &filter).map_err(refused)?;
            let content = content.ok_or_else(|| refused("there is no checkpoint that can be read"))?;
            checkpoint(&content, &mut lines);
        }
        What::Log => {
            let part = if arguments.everything { LogPart::Everything } else { LogPart::Replayed };
            dump_log(&directory, part, &filter, |line| log_line(&line, &mut lines)).map_err(refused)?;
        }
        What::Records => {
            dump_records(&directory, &filter, |folder, line| record_line(folder, &line, &mut lines)).map_err(refused)?
        }
        What::Index => {
            dump_index(&directory, &filter, |folder, line| mark_line(folder, &line, &mut lines)).map_err(refused)?;
        }
    }
    lines.result
}

fn checkpoint(content: &CheckpointContent, lines: &mut Lines) {
    let how = if content.clean { "of a clean stop" } else { "of a running broker" };
    let CheckpointContent { name, lsn, generation, offset, incarnation, id_ceiling, geometry, .. } = content;
    lines.say(
        format_args!(
            "{name} {how} at entry {lsn}; the log goes on in generation {generation} at byte {offset}; incarnation \
             {incarnation}, ids up to {id_ceiling} ms, ring of {} files of {} bytes",
            geometry.files, geometry.file_bytes
        ),
        || {
            json!({
                "kind": "checkpoint", "name": name, "clean": content.clean, "lsn": lsn, "generation": generation,
                "offset": offset, "incarnation": incarnation, "epoch": content.epoch,
                "append_time": content.append_time, "id_ceiling": id_ceiling,
                "next_partition": content.next_partition, "files": geometry.files, "file_bytes": geometry.file_bytes,
            })
        },
    );
    for one in &content.partitions {
        let failed = one.failed.as_ref().map(|why| format!(", closed: {why}")).unwrap_or_default();
        let damage: Vec<_> = one.damage.iter().map(|range| json!([range.start, range.end])).collect();
        let messages = one.sequence - one.first_sequence;
        lines.say(
            format_args!(
                "{}-{}: number {}, {messages} messages, last segment {}, end {}, in {}, {} damaged ranges{failed}",
                one.topic,
                one.index,
                one.number,
                one.segment,
                one.end,
                one.root.display(),
                damage.len()
            ),
            || {
                json!({
                    "kind": "partition", "topic": one.topic, "index": one.index, "number": one.number,
                    "messages": messages, "segment": one.segment, "end": one.end, "append_time": one.append_time,
                    "root": one.root.display().to_string(), "damage": damage, "failed": one.failed,
                })
            },
        );
    }
    for key in &content.state {
        let (name, value) = (String::from_utf8_lossy(&key.key), String::from_utf8_lossy(&key.value));
        lines.say(
            format_args!("map {} {:?} = {:?} by entry {}", key.space, &*name, &*value, key.version),
            || json!({ "kind": "state", "space": key.space, "key": name, "value": value, "version": key.version }),
        );
    }
}

fn log_line(line: &LogLine, lines: &mut Lines) {
    match line {
        LogLine::Turn { file, offset, header } => lines.say(
            format_args!(
                "turn in file {file} at byte {offset}: entries from {}, {} of them in {} bytes, durable up to {}, \
                 generation {}, incarnation {}",
                header.first_lsn,
                header.entries,
                header.bytes,
                header.settled_lsn,
                header.generation,
                header.incarnation
            ),
            || {
                json!({
                    "kind": "turn", "file": file, "offset": offset, "first_lsn": header.first_lsn,
                    "entries": header.entries, "bytes": header.bytes, "settled_lsn": header.settled_lsn,
                    "generation": header.generation, "incarnation": header.incarnation, "epoch": header.epoch,
                    "append_time": header.append_time,
                })
            },
        ),
        LogLine::Entry { lsn, kind, partition, position, count, bytes } => {
            let partition_text = partition.map(|number| format!(" of partition number {number}")).unwrap_or_default();
            let at = position.map(|position| format!(" at position {position}")).unwrap_or_default();
            lines.say(format_args!("  {lsn} {kind}{partition_text}{at}: {count} in {bytes} bytes"), || {
                json!({
                    "kind": "entry", "lsn": lsn, "entry": kind, "partition": partition, "position": position,
                    "count": count, "bytes": bytes,
                })
            });
        }
        LogLine::Unreadable { lsn, why } => lines.say(
            format_args!("  {lsn} can't be read: {why}"),
            || json!({ "kind": "unreadable", "lsn": lsn, "why": why }),
        ),
    }
}

fn record_line(folder: &Folder, line: &RecordLine, lines: &mut Lines) {
    let name = folder.name();
    match line {
        RecordLine::Record { position, length, intact, id, parts, flag, attribute } => {
            let mark = if *intact { "" } else { ", its checksum doesn't fit" };
            let shown = attribute.as_ref().map(|text| format!(", attribute {text:?}")).unwrap_or_default();
            lines.say(
                format_args!(
                    "{name} {position}: id {id} ({} ms), flag {flag}, {length} bytes{shown}{mark}",
                    parts.clock_ms
                ),
                || {
                    json!({
                        "kind": "record", "topic": folder.topic, "index": folder.index, "position": position,
                        "length": length, "intact": intact, "id": id, "time": parts.clock_ms, "flag": flag,
                        "attribute": attribute,
                    })
                },
            );
        }
        RecordLine::Damage { from, to } => lines.say(
            format_args!("{name} {from}: damaged up to {to}"),
            || json!({ "kind": "damage", "topic": folder.topic, "index": folder.index, "from": from, "to": to }),
        ),
    }
}

fn mark_line(folder: &Folder, line: &MarkLine, lines: &mut Lines) {
    let (name, MarkLine { segment, number, mark }) = (folder.name(), line);
    let text = match mark {
        None => "its checksum doesn't fit".to_owned(),
        Some(mark) => format!(
            "message {} at position {}, {} ms, checksum {:08x}",
            mark.sequence, mark.position, mark.append_time, mark.checksum
        ),
    };
    lines.say(format_args!("{name} segment {segment} mark {number}: {text}"), || {
        json!({
            "kind": "mark", "topic": folder.topic, "index": folder.index, "segment": segment, "number": number,
            "position": mark.map(|mark| mark.position), "sequence": mark.map(|mark| mark.sequence),
            "append_time": mark.map(|mark| mark.append_time), "checksum": mark.map(|mark| mark.checksum),
        })
    });
}
