//! Rows 74 to 79: statistics.

use super::{BINARY, check, fixture, is_original, target, three};
use metaq_testkit::{Setup, Wire};

/// The lines of a `stats` answer between `STATS` and `END`.
fn stats(wire: &mut Wire, item: &str) -> Vec<String> {
    let frame = wire.ask(format!("stats {item} 6\r\n"));
    assert_eq!((frame.status(), frame.opaque()), (Some(200), 6), "{frame}");
    let text = frame.text();
    let lines = text.strip_prefix("STATS\r\n").and_then(|rest| rest.strip_suffix("END\r\n"));
    lines.unwrap_or_else(|| panic!("no envelope: {frame}")).split_terminator("\r\n").map(str::to_owned).collect()
}

const SUMMARY: [&str; 20] = [
    "pid",
    "broker_id",
    "port",
    "uptime",
    "version",
    "slave",
    "curr_connections",
    "threads",
    "cmd_put",
    "cmd_get",
    "cmd_offset",
    "tx_begin",
    "tx_xa_begin",
    "tx_commit",
    "tx_rollback",
    "get_miss",
    "put_failed",
    "total_messages",
    "topics",
    "config_checksum",
];

#[test]
fn rows_74_and_75_stats_without_an_item_are_the_summary() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    let keys = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(keys(stats(&mut wire, "")), SUMMARY);
    let frame = wire.ask("stats\r\n");
    assert_eq!((frame.status(), frame.opaque()), (Some(200), i32::MAX));
    assert!(frame.text().starts_with("STATS\r\npid ") && frame.text().ends_with("\r\nEND\r\n"), "{frame}");
    assert_eq!(frame.text().matches("\r\n").count(), SUMMARY.len() + 2);
    if let Some((setup, broker)) = &target.own {
        let lines = stats(&mut wire, "");
        let has = |line: String| assert!(lines.contains(&line), "no {line:?} in {lines:?}");
        has(format!("pid {}", broker.pid().number()));
        has("broker_id 0".into());
        has(format!("port {}", broker.address().port()));
        has("slave false".into());
        has(format!("config_checksum {}", crc32(&std::fs::read(setup.ini()).unwrap())));
    }
}

/// CRC-32 (IEEE), bit by bit: the summary says it of the configuration file.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[test]
fn row_76_the_only_word_behind_stats_is_an_item() {
    check(&["> stats 5
             < result 200 * 2147483647
             << STATS
             << 5
             << resultCode 1
             << *END
             <<"]);
}

#[test]
fn row_77_every_item_of_stats_has_its_lines() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    three(&mut wire, "t77");
    wire.ask("get t77 g 0 0 100 1\r\n");
    let first = |lines: Vec<String>| -> Vec<String> {
        lines.iter().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    assert_eq!(first(stats(&mut wire, "help")), ["*EMPTY*", "help", "topics", "offsets", "realtime", "config"]);
    let topics = stats(&mut wire, "topics");
    assert!(topics.contains(&"empty *Empty*".to_owned()), "{topics:?}");
    let line = "t77 partitions 1 message_count 3 message_bytes 75 accept_publish true accept_subscribe true";
    assert!(topics.contains(&line.to_owned()), "{topics:?}");
    let offsets = stats(&mut wire, "offsets");
    assert!(offsets.iter().all(|line| line.split(' ').count() == 7), "{offsets:?}");
    assert!(offsets.contains(&"t77 part 0 min_offset 0 max_offset 75".to_owned()), "{offsets:?}");
    let topic = stats(&mut wire, "t77");
    assert_eq!(topic[..5], ["t77", "resultCode 0", "partitions 1", "message_count 3", "bytes 75"]);
    assert_eq!(
        first(topic[5..].to_vec()),
        [
            "topic_realtime_put",
            "topic_realtime_get",
            "topic_realtime_offset",
            "topic_realtime_get_miss",
            "topic_realtime_put_failed",
            "topic_realtime_message_size"
        ]
    );
    assert_eq!(stats(&mut wire, "empty")[1], "resultCode 2");
}

#[test]
fn row_77_realtime_counts_what_happened_since_a_reset() {
    // A broker of its own: other rows count too.
    if target().own.is_none() {
        return;
    }
    let broker = Setup::with_ini(BINARY, &fixture()).start();
    let mut wire = broker.connect();
    let keys = ["put", "get", "offset", "get_miss", "put_failed", "message_size"].map(|key| format!("realtime_{key} "));
    let lines = stats(&mut wire, "realtime");
    assert_eq!(lines.len(), 6);
    for (line, key) in lines.iter().zip(&keys) {
        assert_eq!(line, &format!("{key}null"));
    }
    three(&mut wire, "t1");
    let lines = stats(&mut wire, "realtime");
    assert!(lines[0].starts_with("realtime_put Count=3,Value=3,Value/Count=1,Count/Duration="), "{lines:?}");
    assert!(lines[5].starts_with("realtime_message_size Count=3,Value=15,Value/Count=5,Count/"), "{lines:?}");
    assert_eq!(lines[1], "realtime_get null");
    assert_eq!(stats(&mut wire, "reset"), ["reset ok"]);
    let lines = stats(&mut wire, "realtime");
    assert!(lines[0].starts_with("realtime_put Count=0,Value=0,Value/Count=invalid,"), "{lines:?}");
    broker.stop();
}

#[test]
fn row_78_stats_config_is_the_file_each_time_it_is_asked_for() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    let first = wire.ask("stats config 6\r\n");
    assert_eq!(first.status(), Some(200), "{first}");
    assert!(first.text().contains("[system]"), "{first}");
    if let Some((setup, _)) = &target.own {
        assert_eq!(first.body, std::fs::read(setup.ini()).unwrap());
    }
    if !is_original() {
        assert_eq!(wire.ask("stats config 6\r\n"), first);
        wire.usable();
    }
}

#[test]
fn row_79_a_word_that_only_begins_like_stats_ends_the_connection() {
    check(&["> statsx help 5
             ! closed"]);
}
