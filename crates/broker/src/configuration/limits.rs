//! What is bounded, and how the bounds must agree with each other.

use super::origin::Origin;
use super::problem::{Errors, Mistake, Problem};
use super::settings::{LogSettings, Resolved};

/// What is bounded. A message fits in a batch and, like a batch, in each of the bytes in flight and in
/// what is thrown away; a batch fits in a quarter of a file of the ring, a transaction in a quarter of
/// the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest message: its attribute and payload together.
    pub message_bytes_max: usize,
    /// The longest request line.
    pub line_bytes_max: usize,
    /// Messages in a batched put.
    pub batch_messages_max: usize,
    /// The body of a batched put.
    pub batch_bytes_max: usize,
    /// A body above its limit but not above this is read and thrown away; a larger one ends the connection.
    pub discard_bytes_max: usize,
    /// The most that one get is answered with.
    pub transfer_bytes_max: usize,
    /// The messages of one transaction.
    pub transaction_bytes_max: u64,
    /// How many transactions may have a timeout at a time.
    pub transactions_timed_max: usize,
    /// Clients connected at a time.
    pub connections_max: usize,
    /// Undecided puts of one connection.
    pub connection_bytes_in_flight_max: u64,
    /// Undecided puts to one partition.
    pub partition_bytes_in_flight_max: u64,
    /// Undecided puts of all connections.
    pub broker_bytes_in_flight_max: u64,
    /// What all bounded memory together may take.
    pub memory_bytes_max: u64,
    /// Gets that may wait at a time.
    pub waiters_max: usize,
}

/// The block that no write of the commit log splits.
const BLOCK: i64 = 4096;
/// The default of `batchBytesMax`, unless the commit log can't hold it.
const BATCH_BYTES: i64 = 4 << 20;
/// The header of a message in a batch.
const RECORD_HEADER_BYTES: i64 = metaq_protocol::record::HEADER_BYTES as i64;
/// What the commit log adds to a batch at most.
const ENTRY_BYTES: i64 = 4 << 10;

/// The bounds, if they agree.
pub(super) fn limits(values: &Resolved, log: &LogSettings) -> Result<Limits, Errors> {
    let number = |name| values.number::<i64>(name);
    let file = number("commitFileBytes");
    let entry = file / 4 - ENTRY_BYTES;
    let ring_quarter = file * i64::from(log.commit_files) / 4;
    let message =
        values.optional_number("messageBytesMax").unwrap_or_else(|| number("notify.remoting.max_read_buffer_size"));
    let batch = values.optional_number("batchBytesMax").unwrap_or(BATCH_BYTES.min(entry));
    let transaction = values.optional_number("transactionBytesMax").unwrap_or(ring_quarter);

    let mut problems = Vec::new();
    let mut judge = |mistake| problems.push(Problem { origin: Origin::Default, mistake });
    if file % BLOCK != 0 {
        judge(Mistake::NotAMultiple { key: "commitFileBytes", value: file, of: BLOCK });
    }
    let mut at_most = |key, value: i64, bound, bound_is: i64| {
        if value > bound_is {
            judge(Mistake::AtMost { key, value, bound, bound_is });
        }
    };
    let in_flight = ["connectionBytesInFlightMax", "partitionBytesInFlightMax", "brokerBytesInFlightMax"];
    for bound in in_flight.into_iter().chain(["discardBytesMax"]) {
        at_most("messageBytesMax", message, bound, number(bound));
        at_most("batchBytesMax", batch, bound, number(bound));
    }
    at_most("messageBytesMax", message, "batchBytesMax less 20 bytes for a header", batch - RECORD_HEADER_BYTES);
    at_most("batchBytesMax", batch, "a quarter of commitFileBytes less 4 KiB", entry);
    at_most("transactionBytesMax", transaction, "a quarter of commitFileBytes × commitFiles", ring_quarter);
    for key in ["brokerBytesInFlightMax", "pendingBytesMax"] {
        at_most(key, number(key), "memoryBytesMax", number("memoryBytesMax"));
    }
    Errors::unless_empty(problems)?;

    let sized = |number: i64| usize::try_from(number).expect("the ranges of sizes fit in memory");
    let size = |name| sized(number(name));
    Ok(Limits {
        message_bytes_max: sized(message),
        line_bytes_max: size("lineBytesMax"),
        batch_messages_max: size("batchMessagesMax"),
        batch_bytes_max: sized(batch),
        discard_bytes_max: size("discardBytesMax"),
        transfer_bytes_max: size("maxTransferSize"),
        transaction_bytes_max: u64::try_from(transaction).expect("the range of transactionBytesMax begins above 0"),
        transactions_timed_max: size("maxTxTimeoutTimerCapacity"),
        connections_max: size("connectionsMax"),
        connection_bytes_in_flight_max: values.number("connectionBytesInFlightMax"),
        partition_bytes_in_flight_max: values.number("partitionBytesInFlightMax"),
        broker_bytes_in_flight_max: values.number("brokerBytesInFlightMax"),
        memory_bytes_max: values.number("memoryBytesMax"),
        waiters_max: size("waitersMax"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, Sources};

    #[test]
    fn values_that_cannot_stand_together_are_refused_with_both_names() {
        let check = |file: &str, expected: &[&str]| {
            let errors = Settings::load(&Sources {
                file: Some(format!("[system]\ndataPath=/x\n{file}").as_bytes()),
                ..Sources::default()
            })
            .expect_err(file)
            .to_string();
            assert_eq!(errors.lines().collect::<Vec<_>>(), expected, "{file}");
        };
        check(
            "messageBytesMax=9*1024*1024\n",
            &["messageBytesMax is 9437184, but it can be at most batchBytesMax less 20 bytes for a \
               header, which is 4194284: change one of them"],
        );
        check(
            "commitFileBytes=65537\nmessageBytesMax=1\n",
            &["commitFileBytes is 65537, which is no multiple of 4096"],
        );
        check(
            "commitFileBytes=1024*1024\ntransactionBytesMax=1024*1024+1\nmessageBytesMax=1\n",
            &["transactionBytesMax is 1048577, but it can be at most a quarter of commitFileBytes × \
               commitFiles, which is 1048576: change one of them"],
        );
        check(
            "batchBytesMax=16*1024*1024\n",
            &["batchBytesMax is 16777216, but it can be at most a quarter of commitFileBytes less 4 KiB, which is \
               16773120: change one of them"],
        );
        check(
            "memoryBytesMax=100*1024*1024\n",
            &[
                "brokerBytesInFlightMax is 268435456, but it can be at most memoryBytesMax, which is 104857600: change \
               one of them",
                "pendingBytesMax is 268435456, but it can be at most memoryBytesMax, which is 104857600: change one of \
               them",
            ],
        );
    }
}
