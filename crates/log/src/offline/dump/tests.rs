//! Tests of `dump`: every outcome, and the power cut at every operation where something is changed.

use super::*;
use crate::offline::testing::{BODY_BYTES, Bench, NOW, RECORD_BYTES};

fn of(topic: &str, index: u32) -> Filter {
    Filter { partition: Some((topic.to_owned(), index)), ..Filter::default() }
}

fn log_lines(bench: &Bench, part: LogPart, filter: &Filter) -> Vec<LogLine> {
    let mut lines = Vec::new();
    dump_log(&bench.directory, part, filter, |line| lines.push(line)).unwrap();
    lines
}

fn record_lines(bench: &Bench, filter: &Filter) -> Vec<(String, RecordLine)> {
    let mut lines = Vec::new();
    dump_records(&bench.directory, filter, |folder, line| lines.push((folder.name(), line))).unwrap();
    lines
}

fn kinds(lines: &[LogLine]) -> Vec<(u64, &'static str, u32)> {
    let entries = lines.iter().filter_map(|line| match line {
        LogLine::Entry { lsn, kind, count, .. } => Some((*lsn, *kind, *count)),
        _ => None,
    });
    entries.collect()
}

#[test]
fn the_checkpoint_is_told_with_its_partitions_and_keys() {
    let bench = Bench::stopped();
    let found = dump_checkpoint(&bench.directory, &Filter::default()).unwrap().unwrap();
    assert_eq!((found.name, found.clean, found.next_partition), ("checkpoint", true, 2));
    assert_eq!(found.geometry, Bench::options().ring);
    assert_eq!(found.partitions.len(), 2);
    let first = &found.partitions[0];
    assert_eq!((first.topic.as_str(), first.index, first.end, first.sequence), ("t", 0, 80 * RECORD_BYTES, 80));
    assert_eq!(found.state.len(), 1);
    assert_eq!(
        (found.state[0].space, &found.state[0].key[..], &found.state[0].value[..]),
        (7, &b"key"[..], &b"value"[..])
    );
    let one = dump_checkpoint(&bench.directory, &of("t", 1)).unwrap().unwrap();
    assert_eq!(one.partitions.iter().map(|partition| partition.index).collect::<Vec<_>>(), [1]);
    bench.flip("/data/checkpoint", 40);
    assert_eq!(dump_checkpoint(&bench.directory, &Filter::default()).unwrap().unwrap().name, "checkpoint.copy");
    assert_eq!(dump_checkpoint(&Bench::foreign().directory, &Filter::default()).unwrap(), None);
}

#[test]
fn the_log_is_told_from_the_checkpoint_on() {
    let bench = Bench::killed();
    let lines = log_lines(&bench, LogPart::Replayed, &Filter::default());
    let found = kinds(&lines);
    let first = found[0].0;
    let wanted: Vec<_> = ["append", "append", "append", "partition-created", "append", "append"]
        .into_iter()
        .zip(first..)
        .map(|(kind, lsn)| (lsn, kind, u32::from(kind == "append")))
        .collect();
    assert_eq!(found, wanted);
    assert_eq!(lines.iter().filter(|line| matches!(line, LogLine::Turn { .. })).count(), 5);
    let LogLine::Entry { partition, position, bytes, .. } = lines[1] else { panic!("{:?}", lines[1]) };
    assert_eq!((partition, position, bytes), (Some(0), Some(80 * RECORD_BYTES), RECORD_BYTES));
    let LogLine::Turn { header, .. } = lines[0] else { panic!("{:?}", lines[0]) };
    assert!(header.first_lsn == first && header.append_time > NOW);
}

#[test]
fn the_log_is_filtered_by_partition_entry_and_number() {
    let bench = Bench::killed();
    let all = kinds(&log_lines(&bench, LogPart::Replayed, &Filter::default()));
    let found = log_lines(&bench, LogPart::Replayed, &of("u", 0));
    assert_eq!(kinds(&found), all[3..]);
    assert_eq!(found.iter().filter(|line| matches!(line, LogLine::Turn { .. })).count(), 2);
    let from = Filter { from: all[2].0, limit: 2, ..Filter::default() };
    assert_eq!(kinds(&log_lines(&bench, LogPart::Replayed, &from)), all[2..4]);
}

#[test]
fn of_a_clean_stop_nothing_is_replayed_but_turns_are_still_there() {
    let bench = Bench::stopped();
    assert_eq!(log_lines(&bench, LogPart::Replayed, &Filter::default()), vec![]);
    let everything = log_lines(&bench, LogPart::Everything, &Filter::default());
    let lsns: Vec<_> = kinds(&everything).into_iter().map(|(lsn, ..)| lsn).collect();
    assert!(lsns.is_sorted() && lsns.len() > 20, "{lsns:?}");
}

#[test]
fn records_are_told_with_what_is_in_them() {
    let bench = Bench::stopped();
    let mut bytes = bench.read("/data/t-1/00000000000000000000.meta");
    metaq_protocol::record::encode(&mut bytes, -5, 1, b"\0\0\0\x03tagpayload");
    bench.write("/data/t-1/00000000000000000000.meta", &bytes);
    let lines = record_lines(&bench, &of("t", 1));
    assert_eq!(lines.len(), 6);
    let (name, RecordLine::Record { position, length, intact, parts, attribute, .. }) = &lines[1] else {
        panic!("{:?}", lines[1])
    };
    assert_eq!((name.as_str(), *position, *length, *intact), ("t-1", RECORD_BYTES, BODY_BYTES as u64, true));
    assert_eq!((attribute, u64::try_from(parts.clock_ms).unwrap() >= NOW), (&None, true));
    let RecordLine::Record { id, flag, attribute, length, .. } = &lines[5].1 else { panic!("{:?}", lines[5]) };
    assert_eq!((*id, *flag, attribute.as_deref(), *length), (-5, 1, Some("tag"), 14));
}

#[test]
fn records_are_filtered_by_position_and_number() {
    let bench = Bench::stopped();
    // From inside a record: that one is told too.
    let from = Filter { from: 26 * RECORD_BYTES - 1, limit: 3, ..of("t", 0) };
    let positions: Vec<_> = record_lines(&bench, &from)
        .into_iter()
        .map(|(_, line)| match line {
            RecordLine::Record { position, .. } => position / RECORD_BYTES,
            RecordLine::Damage { .. } => panic!("{line:?}"),
        })
        .collect();
    assert_eq!(positions, [25, 26, 27]);
    assert_eq!(record_lines(&bench, &Filter::default()).len(), 85);
}

#[test]
fn damaged_records_are_told_as_such_where_they_still_look_like_records() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(0), 50);
    bench.flip(&Bench::segment(0), RECORD_BYTES + 50);
    bench.flip(&Bench::segment(0), 3 * RECORD_BYTES);
    bench.flip(&Bench::segment(3), 4 * RECORD_BYTES + 50);
    let lines: Vec<_> = record_lines(&bench, &of("t", 0)).into_iter().map(|(_, line)| line).collect();
    let intact = |line: &RecordLine| matches!(line, RecordLine::Record { intact: true, .. });
    let bad: Vec<_> = lines.iter().enumerate().filter(|(_, line)| !intact(line)).collect();
    assert_eq!(lines.len(), 80);
    assert_eq!(bad.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 3, 79]);
    assert!(matches!(bad[0].1, RecordLine::Record { position: 0, intact: false, .. }));
    let (from, to) = (3 * RECORD_BYTES, 4 * RECORD_BYTES);
    assert_eq!(*bad[2].1, RecordLine::Damage { from, to });
    assert!(matches!(bad[3].1, RecordLine::Record { intact: false, .. }));
}

#[test]
fn marks_are_told_whole_or_not() {
    let bench = Bench::stopped();
    bench.flip(&Bench::index(1), 3);
    let mut lines = Vec::new();
    dump_index(&bench.directory, &Filter::default(), |folder, line| lines.push((folder.name(), line))).unwrap();
    let wholes: Vec<_> = lines.iter().map(|(_, line)| (line.segment / RECORD_BYTES, line.mark.is_some())).collect();
    assert_eq!(wholes, [(0, true), (25, false), (50, true)]);
    let mark = lines[0].1.mark.unwrap();
    assert_eq!((mark.position, mark.sequence), (17 * RECORD_BYTES, 17));
    let mut limited = 0;
    let filter = Filter { from: 18 * RECORD_BYTES, limit: 1, ..of("t", 0) };
    dump_index(&bench.directory, &filter, |_, line| {
        assert_eq!(line.segment, 25 * RECORD_BYTES);
        limited += 1;
    })
    .unwrap();
    assert_eq!(limited, 1);
}

#[test]
fn a_directory_in_use_is_not_told() {
    let bench = Bench::stopped();
    let _broker = bench.open();
    assert!(dump_checkpoint(&bench.directory, &Filter::default()).is_err());
    assert!(dump_log(&bench.directory, LogPart::Everything, &Filter::default(), |_| {}).is_err());
    assert!(dump_records(&bench.directory, &Filter::default(), |_, _| {}).is_err());
    assert!(dump_index(&bench.directory, &Filter::default(), |_, _| {}).is_err());
}

/// The page that draws every format.
const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/storage-format.md"));

#[test]
fn the_page_names_every_kind_of_entry() {
    let append = entry::Appended {
        partition: 0,
        count: 1,
        position: 0,
        sequence: 0,
        starts_segment: true,
        producer: None,
        records: b"",
    };
    let kinds = [
        Entry::Append(append),
        Entry::PartitionCreated { partition: 0, topic: "t", index: 0, root: "/" },
        Entry::PartitionDeleted { partition: 0 },
        Entry::Trim { partition: 0, first: 0, first_sequence: 0, disposal: crate::Disposal::Delete },
        Entry::State(Vec::new()),
        Entry::IdCeiling { clock: 0 },
        Entry::Counted { partition: 0, first_sequence: 0 },
    ];
    let (filter, mut each) = (Filter::default(), |_| {});
    let mut lines = LogLines { filter: &filter, wanted: Vec::new(), left: 1, loaded: None, each: &mut each };
    for entry in &kinds {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        let Some(LogLine::Entry { kind, .. }) = lines.entry(1, entry) else { panic!("{entry:?}") };
        let row = format!("| {} | {kind} | ", bytes[0]);
        assert!(PAGE.contains(&row), "{row}");
    }
}

#[test]
fn the_page_names_every_format_and_file() {
    let turn = format!("u16  format: {}", turn::FORMAT);
    let checkpoint = format!("\"MQCP\" · u16 format: {}", crate::checkpoint::FORMAT);
    let format = format!("```text\nformat {}\n", crate::format::FORMAT);
    for said in [turn, checkpoint, format] {
        assert!(PAGE.contains(&said), "{said}");
    }
    let bench = Bench::stopped();
    for listed in metaq_disk::Disk::list(&bench.disk, "/data".as_ref()).unwrap() {
        assert!(PAGE.contains(&listed.name) || listed.name.contains('-'), "{}", listed.name);
    }
}
