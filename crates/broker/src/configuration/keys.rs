//! The table of all keys: the one place that says which exist and what they mean.
//!
//! The reader of the file, the flags, the variables, `config show` and the page
//! `docs/configuration.md` are all made from it.

use super::key::{INT_MAX, Key, Kind, Place};

use Kind::{Address, Bytes, Durability, Integer, Milliseconds, Path, Retention, Schedule, Seconds, Switch, Text};
use Place::{Property, System, Topic, Zookeeper};

const KIB: i64 = 1 << 10;
const GIB: i64 = 1 << 30;
const TIB: i64 = 1 << 40;
/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

const NO_POOLS: &str = "connections are served by one event loop a core (networkThreads), not by pools of threads";
const NO_TRANSACTIONS: &str = "this version answers transactions with 503";
const NO_JOURNAL: &str = "there is no redo journal: transactions are entries of the commit log";
const NO_EMBEDDED_ZOOKEEPER: &str = "no ZooKeeper is built in: a broker alone needs none";

/// Every key, in the order of the reference.
pub static KEYS: &[Key] = &[
    // Who and where.
    Key::original("brokerId", System, Integer, "The broker's number, unique in its cluster; part of each message id.")
        .is("0")
        .within(0, 1023)
        .at_restart(),
    Key::original("hostName", System, Text, "The address that clients are told to connect to.")
        .derived("the first address of the machine that isn't loopback")
        .at_restart(),
    Key::original("serverPort", System, Integer, "The port of the text protocol; 0 lets the system choose one.")
        .is("8123")
        .within(0, 65_535)
        .at_restart(),
    Key::ours("bindAddress", System, Address, "The address that the broker listens at.")
        .derived(
            "127.0.0.1; or 0.0.0.0 if the file calls for clients from outside: hostName is beyond loopback, \
             or zk.zkConnect is given without hostName",
        )
        .at_restart(),
    Key::original(
        "dashboardHttpPort",
        System,
        Integer,
        "The port of metrics and health over HTTP; 0 lets the system choose one, -1 serves none.",
    )
    .is("8120")
    .within(-1, 65_535)
    .at_restart(),
    Key::ours("httpAddress", System, Address, "The address that metrics and health are served at.")
        .derived("bindAddress")
        .at_restart(),
    Key::ours("networkThreads", System, Integer, "The event loops that serve connections; 0 is one a core.")
        .is("0")
        .within(0, 1024)
        .at_restart(),
    Key::ours("tcpCongestion", System, Text, "The congestion control of client connections, by its kernel name.")
        .derived("the system's")
        .at_restart(),
    // Where data lies.
    Key::original("dataPath", Topic, Path, "The folder that holds the folders of partitions.")
        .derived("~/meta with a file, as in the original; ./metaq-data without one")
        .for_created(),
    Key::original("dataLogPath", System, Path, "The folder that holds the commit log and all else that is ours.")
        .derived("dataPath")
        .at_restart(),
    // Topics.
    Key::ours("autoCreateTopics", System, Switch, "Whether a put to a topic that no section names creates it.")
        .derived("true if the file has no [topic=…] section; else false, as in the original"),
    Key::original("numPartitions", Topic, Integer, "How many partitions a topic has on this broker.")
        .is("1")
        .within(1, 65_536),
    Key::original("acceptPublish", Topic, Switch, "Whether producers may put to the topic.").is("true"),
    Key::original("acceptSubscribe", Topic, Switch, "Whether consumers may get from the topic.").is("true"),
    Key::original("stat", Topic, Switch, "Whether the topic's traffic is counted for `stats realtime`.").is("false"),
    Key::ours(
        "durability",
        Topic,
        Durability,
        "When a put is acknowledged: after its sync (fsync), or once written and then synced by count and time \
         (interval) or by the system (os).",
    )
    .derived("fsync if unflushThreshold is 0 or less, else interval"),
    Key::original(
        "unflushThreshold",
        Topic,
        Integer,
        "With interval: how many acknowledged puts may be unsynced; 0 or less is durability=fsync where no durability \
         is named.",
    )
    .is("0")
    .within(-INT_MAX - 1, INT_MAX),
    Key::original(
        "unflushInterval",
        Topic,
        Milliseconds,
        "With interval: the longest time between two syncs; 0 or less is durability=fsync where no durability is named.",
    )
    .is("10000")
    .within(-INT_MAX - 1, INT_MAX),
    Key::original("maxSegmentSize", Topic, Bytes, "A segment that has reached this size is sealed and the next begins.")
        .is("1024*1024*1024")
        .within(1, INT_MAX),
    Key::original(
        "deletePolicy",
        Topic,
        Retention,
        "How old a sealed segment may become and what then happens to it: `delete,AGE`, `archive,AGE` or, zipped, \
         `archive,AGE,true`; AGE is in hours, or ends in s, m or h.",
    )
    .is("delete,168"),
    Key::original("deleteWhen", Topic, Schedule, "When retention runs, as a Quartz cron expression in local time.")
        .is("0 0 6,18 * * ?"),
    Key::ours(
        "retentionBytes",
        Topic,
        Bytes,
        "How large a topic may become on this broker before its oldest sealed segments go as deletePolicy says; \
         -1 is no bound.",
    )
    .is("-1")
    .within(-1, i64::MAX),
    Key::original(
        "updateConsumerOffsets",
        System,
        Switch,
        "Whether a get beyond a partition's end is answered 301 with the end instead of 404.",
    )
    .derived("meta.get.tellMaxOffset"),
    // The commit log.
    Key::ours(
        "commitFileBytes",
        System,
        Bytes,
        "The size of one file of the commit log, a multiple of 4096; changed at a clean stop.",
    )
    .is("64*1024*1024")
    .within(64 * KIB, GIB)
    .at_restart(),
    Key::ours("commitFiles", System, Integer, "How many files the ring of the commit log has; changed at a clean stop.")
        .is("4")
        .within(2, 64)
        .at_restart(),
    Key::ours("checkpointIntervalMs", System, Milliseconds, "The longest time between two checkpoints of a log in use.")
        .is("30000")
        .within(100, DAY_MS),
    Key::ours("pendingBytesMax", System, Bytes, "How many bytes may wait in memory to be written to segments.")
        .is("256*1024*1024")
        .within(64 * KIB, TIB),
    Key::ours("descriptorsMax", System, Integer, "How many segment files are kept open.")
        .derived("60 % of what the system allows the process")
        .within(16, 10_000_000)
        .at_restart(),
    Key::ours(
        "diskReserveBytes",
        System,
        Bytes,
        "Free space of a data folder below which puts are refused until there is more.",
    )
    .is("1024*1024*1024")
    .within(0, i64::MAX),
    // Limits.
    Key::ours("messageBytesMax", System, Bytes, "The largest message: its attribute and payload together.")
        .derived("notify.remoting.max_read_buffer_size")
        .within(1, GIB),
    Key::ours("lineBytesMax", System, Bytes, "The longest request line.").is("64*1024").within(1024, 16 * 1024 * KIB),
    Key::ours("batchMessagesMax", System, Integer, "How many messages a batched put may hold.")
        .is("4096")
        .within(1, 4096),
    Key::ours("batchBytesMax", System, Bytes, "The largest body of a batched put.")
        .derived("4 MiB, or a quarter of commitFileBytes less 4 KiB if that is less")
        .within(1, GIB),
    Key::ours(
        "discardBytesMax",
        System,
        Bytes,
        "A body above its limit, but not above this, is read and thrown away, so that its request is answered; a larger one \
         ends the connection.",
    )
    .is("64*1024*1024")
    .within(1, TIB),
    Key::original("maxTransferSize", System, Bytes, "The most that one get is answered with.")
        .is("1024*1024")
        .within(1, INT_MAX),
    Key::ours("transactionBytesMax", System, Bytes, "The messages of one transaction, at most a quarter of the ring.")
        .derived("a quarter of commitFileBytes × commitFiles")
        .within(1, TIB)
        .idle(NO_TRANSACTIONS),
    Key::ours("connectionsMax", System, Integer, "How many clients may be connected.").is("20000").within(1, 10_000_000),
    Key::ours(
        "connectionBytesInFlightMax",
        System,
        Bytes,
        "Bytes of undecided puts of one connection; above it the connection isn't read.",
    )
    .is("16*1024*1024")
    .within(1, TIB),
    Key::ours(
        "partitionBytesInFlightMax",
        System,
        Bytes,
        "Bytes of undecided puts to one partition; above it further puts wait.",
    )
    .is("64*1024*1024")
    .within(1, TIB),
    Key::ours("brokerBytesInFlightMax", System, Bytes, "Bytes of undecided puts of all connections.")
        .is("256*1024*1024")
        .within(1, TIB),
    Key::ours("memoryBytesMax", System, Bytes, "What all bounded memory together may take; `stats metaq.memory` shows it.")
        .is("1024*1024*1024")
        .within(1024 * KIB, TIB),
    Key::ours("waitMsMax", System, Milliseconds, "The longest that a get may wait for messages.")
        .is("30000")
        .within(0, DAY_MS),
    Key::ours("waitersMax", System, Integer, "How many gets may wait at a time; one more is answered at once.")
        .is("100000")
        .within(0, 10_000_000),
    // Times.
    Key::ours("putMsMax", System, Milliseconds, "A put undecided for this long is answered as outcome unknown.")
        .is("2000")
        .within(1, DAY_MS),
    Key::ours(
        "stallMsMax",
        System,
        Milliseconds,
        "How long a connection above its bytes in flight isn't read before its puts are answered as outcome unknown.",
    )
    .is("5000")
    .within(1, DAY_MS),
    Key::ours("slowPutMs", System, Milliseconds, "A put that took this long is logged with what it waited for.")
        .is("1000")
        .within(1, DAY_MS),
    Key::ours("idleMsMax", System, Milliseconds, "A connection without traffic for this long is closed.")
        .derived("notify.remoting.connection.timeout_threshold")
        .within(1, DAY_MS),
    Key::ours("stopMsMax", System, Milliseconds, "How long a stop may take before it ends what is still in flight.")
        .is("30000")
        .within(1, DAY_MS),
    // Transactions.
    Key::original("maxTxTimeoutInSeconds", System, Seconds, "The longest time that a client may give a transaction.")
        .is("60")
        .idle(NO_TRANSACTIONS),
    Key::original("maxTxTimeoutTimerCapacity", System, Integer, "How many transactions may have a timeout at a time.")
        .is("30000")
        .idle(NO_TRANSACTIONS),
    Key::original("flushTxLogAtCommit", System, Integer, "When the original syncs its transaction journal.")
        .is("1")
        .within(0, 2)
        .at_restart()
        .idle("transactions are entries of the commit log, which is synced before they are answered"),
    Key::original("checkpointInterval", System, Milliseconds, "How often the original notes where its journal begins.")
        .is("3600000")
        .within(0, i64::MAX)
        .at_restart()
        .idle("it is about the redo journal; checkpoints of the commit log come by checkpointIntervalMs"),
    Key::original("maxCheckpoints", System, Integer, "How many such notes the original keeps.")
        .is("3")
        .at_restart()
        .idle(NO_JOURNAL),
    // What has nothing to set here.
    Key::original("getProcessThreadCount", System, Integer, "The original's threads for get and offset.")
        .derived("none")
        .at_restart()
        .idle(NO_POOLS),
    Key::original("putProcessThreadCount", System, Integer, "The original's threads for put and transaction.")
        .derived("none")
        .at_restart()
        .idle(NO_POOLS),
    Key::original("quartzThreadCount", System, Integer, "The original's threads for retention.")
        .is("5")
        .at_restart()
        .idle("retention runs on one background thread, paced"),
    Key::original("appClassPath", System, Path, "Where the original finds the Java classes of message filters.")
        .derived("none")
        .at_restart()
        .idle("Java classes can't run here; a [topic=…] section with group.NAME=CLASS is refused"),
    Key::original("loadMessageStoresInParallel", System, Switch, "Whether the original opens partitions in parallel.")
        .is("false")
        .at_restart()
        .idle("partitions are opened on first use, so there is nothing to load at start"),
    // ZooKeeper.
    Key::original("zk.zkConnect", Zookeeper, Text, "The ZooKeeper servers: HOST:PORT,…")
        .derived("none: the broker stands alone")
        .at_restart(),
    Key::original("zk.zkEnable", Zookeeper, Switch, "Whether the broker registers itself and its topics.")
        .is("true")
        .at_restart(),
    Key::original("zk.zkRoot", Zookeeper, Text, "The path below which everything lies in ZooKeeper.")
        .is("/meta")
        .at_restart(),
    Key::original("zk.zkSessionTimeoutMs", Zookeeper, Milliseconds, "The session's timeout.")
        .is("30000")
        .within(1, INT_MAX)
        .at_restart(),
    Key::original("zk.zkConnectionTimeoutMs", Zookeeper, Milliseconds, "How long a first connection may take.")
        .is("30000")
        .within(1, INT_MAX)
        .at_restart(),
    Key::original("zk.zkSyncTimeMs", Zookeeper, Milliseconds, "How long clients may take to see a change; a stop waits so long.")
        .is("5000")
        .at_restart(),
    // System properties of the original.
    Key::original("meta.realtime.stat", Property, Switch, "Whether topics with stat=true are counted at all.").is("true"),
    Key::original("meta.get.tellMaxOffset", Property, Switch, "The default of updateConsumerOffsets.").is("false"),
    Key::original(
        "notify.remoting.max_read_buffer_size",
        Property,
        Bytes,
        "The largest message that a Java consumer can read: the default of messageBytesMax.",
    )
    .is("2*1024*1024")
    .within(1, GIB),
    Key::original("notify.remoting.connection.timeout_threshold", Property, Milliseconds, "The default of idleMsMax.")
        .is("300000")
        .within(1, DAY_MS),
    Key::original("meta.fast_boot", Property, Switch, "Whether the original skips the check of last segments.")
        .is("false")
        .at_restart()
        .idle("after a clean stop nothing is scanned, after a crash only what the commit log holds"),
    Key::original("meta.tx_journal_file_size", Property, Bytes, "The size of a file of the original's redo journal.")
        .is("67108864")
        .at_restart()
        .idle(NO_JOURNAL),
    Key::original("notify.systimer.tick", Property, Milliseconds, "The tick of the original's cached clock.")
        .is("50")
        .at_restart()
        .idle("the clock is read when the time is needed"),
    Key::original("metaq.slave.status.test.topic", Property, Text, "A topic that the original probes its slave with.")
        .is("_metaq_slave_status_test")
        .at_restart()
        .idle("replication has its own acknowledgements"),
    Key::original("meta.slave.config.encoding", Property, Text, "The encoding in which a slave writes its master's file.")
        .is("GBK")
        .at_restart()
        .idle("no broker overwrites another's file"),
    Key::original(
        "metaq.log4j.daily.rolling.file.appender.log.bufferSize",
        Property,
        Integer,
        "A buffer of the original's log files.",
    )
    .is("20")
    .at_restart()
    .idle("logs go to the standard error stream"),
    Key::original("zk.server.port", Property, Integer, "The port of the original's built-in ZooKeeper.")
        .is("2181")
        .within(0, 65_535)
        .at_restart()
        .idle(NO_EMBEDDED_ZOOKEEPER),
    Key::original("zk.server.tickTime", Property, Milliseconds, "The tick of the built-in ZooKeeper.")
        .is("1000")
        .at_restart()
        .idle(NO_EMBEDDED_ZOOKEEPER),
    Key::original("zk.server.snapDirectory", Property, Path, "Where the built-in ZooKeeper keeps its snapshots.")
        .derived("none")
        .at_restart()
        .idle(NO_EMBEDDED_ZOOKEEPER),
    Key::original("zk.server.logDirectory", Property, Path, "Where the built-in ZooKeeper keeps its log.")
        .derived("none")
        .at_restart()
        .idle(NO_EMBEDDED_ZOOKEEPER),
    Key::original("zk.server.max.connections", Property, Integer, "The connections of the built-in ZooKeeper.")
        .is("4096")
        .at_restart()
        .idle(NO_EMBEDDED_ZOOKEEPER),
];

/// The key of that name.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The known key that `name` was most likely meant to be; none if nothing is near.
pub fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let distance_max = name.chars().count().max(3) / 2;
    candidates
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many characters must be put in, taken out or replaced to make one word of the other
/// (Levenshtein's distance).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut costs: Vec<usize> = (0..=right.len()).collect();
    for (row, l) in left.chars().enumerate() {
        let mut diagonal = costs[0];
        costs[0] = row + 1;
        for (column, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = costs[column + 1];
            costs[column + 1] = replaced.min(diagonal + 1).min(costs[column] + 1);
        }
    }
    costs[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_variable_and_flag_is_given_once() {
        let mut seen = HashSet::new();
        for key in KEYS {
            for name in [key.name.to_owned(), key.variable(), key.flag()] {
                assert!(seen.insert(name.clone()), "{name} is given twice");
            }
        }
    }

    #[test]
    fn every_description_is_one_sentence() {
        for key in KEYS {
            assert!(key.about.ends_with(['.', '…']), "{}", key.name);
            assert!(key.about.starts_with(|c: char| c.is_uppercase()), "{}", key.name);
        }
    }

    #[test]
    fn distances_count_characters() {
        for (left, right, expected) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("é", "e", 1)]
        {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }

    #[test]
    fn a_misspelled_key_is_recognised() {
        let names = || KEYS.iter().map(|key| key.name);
        assert_eq!(nearest("numPartition", names()), Some("numPartitions"));
        assert_eq!(nearest("brokerid", names()), Some("brokerId"));
        assert_eq!(nearest("zkConnect", names()), Some("zk.zkConnect"));
        assert_eq!(nearest("xyzzy", names()), None);
    }
}
