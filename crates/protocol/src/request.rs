//! What a client asks, borrowed from the bytes that it sent, and the line for each.
//!
//! | line | answer |
//! |---|---|
//! | `put <topic> <partition> <length> <flag> [<checksum>] [<transaction>] <opaque>`, body | `result`: id, partition, position |
//! | `get <topic> <group> <partition> <position> <size> <opaque> [wait=<ms>] [min=<bytes>]` | `value`, or `result` 301, 404, … |
//! | `offset <topic> <group> <partition> <position> <opaque>` | `result`: a position |
//! | `version [<opaque> [hello <level> <client>]]` | `result`: a version, or [`HelloAnswer`](crate::extension::HelloAnswer) |
//! | `stats [<item> [<opaque>]]` | `result`: lines |
//! | `quit` | the connection ends |
//! | `transaction <key> <session> <type> [<timeout>] [<qualifier>] <opaque>` | `result`; none for END |
//! | `sync <topic> <partition> <length> <flag> <id> [<checksum>] <opaque>`, body | `result`: id, partition, position |
//!
//! Extensions: [`crate::extension`]. Topics and groups are whatever word was sent; [`crate::name`] says which are fit to be kept.

use crate::answer::Answer;
use crate::extension::{AdminCommand, Batch, Fetch, Hello, OffsetsCommand, PartitionCommand, TopicCommand};
use crate::line::{LineWriter, Unencodable};
use crate::transaction_key::KeyView;
use std::borrow::Cow;

/// The opaque of a `version` or `stats` that says none.
pub const OPAQUE_DEFAULT: i32 = i32::MAX;
/// The partition of a put that leaves the choice to the broker.
pub const PARTITION_ANY: i32 = -1;
/// How a line says that there is no checksum.
const CHECKSUM_NONE: i32 = -1;

/// One request.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each is the type that it holds")]
pub enum Request<'a> {
    Put(Put<'a>),
    Get(Get<'a>),
    Offset(Offset<'a>),
    Version(Version<'a>),
    Stats(Stats<'a>),
    /// End the connection when all before it is answered.
    Quit,
    Transaction(Transaction<'a>),
    Sync(Sync<'a>),
    /// An answer, sent by a client to a server: nobody waits for it, it is skipped.
    Answer(Answer<'a>),
    Batch(Batch<'a>),
    Fetch(Fetch<'a>),
    Topic {
        opaque: i32,
        command: TopicCommand<'a>,
    },
    Partition {
        opaque: i32,
        command: PartitionCommand<'a>,
    },
    Offsets {
        opaque: i32,
        command: OffsetsCommand<'a>,
    },
    Admin {
        opaque: i32,
        command: AdminCommand<'a>,
    },
    /// A word that is kept for later; answer it with [`ErrorCode::NotSupported`](crate::status::ErrorCode::NotSupported).
    Reserved {
        word: &'static str,
        opaque: i32,
    },
    /// One of our own words with fields that make no sense; answer it with
    /// [`ErrorCode::MalformedArgument`](crate::status::ErrorCode::MalformedArgument).
    Invalid {
        opaque: i32,
        /// What is wrong and what to write instead, as a sentence without its full stop.
        what: &'static str,
    },
}

/// Store one message.
#[derive(Debug, Clone, PartialEq)]
pub struct Put<'a> {
    /// Where to.
    pub topic: Cow<'a, str>,
    /// Index, or [`PARTITION_ANY`].
    pub partition: i32,
    /// Stored verbatim.
    pub flag: i32,
    /// What the producer computed, if it did.
    pub checksum: Option<i32>,
    /// The transaction that it belongs to.
    pub transaction: Option<KeyView<'a>>,
    /// Comes back in the answer.
    pub opaque: i32,
    /// Attribute block and payload.
    pub body: &'a [u8],
}

/// How long to wait for bytes that aren't there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// At most so many milliseconds; 0 = answer at once.
    pub ms: u32,
    /// Answer as soon as there are so many bytes.
    pub min_bytes: u32,
}

impl Default for Wait {
    fn default() -> Self {
        Wait { ms: 0, min_bytes: 1 }
    }
}

/// Read bytes of a partition's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Get<'a> {
    /// Where from.
    pub topic: Cow<'a, str>,
    /// Who reads.
    pub group: Cow<'a, str>,
    /// Index.
    pub partition: i32,
    /// First byte wanted.
    pub position: i64,
    /// Most bytes wanted.
    pub size: i32,
    /// Comes back in the answer.
    pub opaque: i32,
    /// For bytes that aren't there yet.
    pub wait: Wait,
}

/// Ask for the nearest valid position at or before one.
#[derive(Debug, Clone, PartialEq)]
pub struct Offset<'a> {
    /// Of which topic.
    pub topic: Cow<'a, str>,
    /// Who asks.
    pub group: Cow<'a, str>,
    /// Index.
    pub partition: i32,
    /// The position in question.
    pub position: i64,
    /// Comes back in the answer.
    pub opaque: i32,
}

/// Ask for the version; also the heartbeat.
#[derive(Debug, Clone, PartialEq)]
pub struct Version<'a> {
    /// Comes back in the answer.
    pub opaque: i32,
    /// The client knows extensions and asks for ours.
    pub hello: Option<Hello<'a>>,
}

/// Ask for statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats<'a> {
    /// Which; none and empty are the summary.
    pub item: Option<Cow<'a, str>>,
    /// Comes back in the answer.
    pub opaque: i32,
}

/// A step of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction<'a> {
    /// Which transaction.
    pub key: KeyView<'a>,
    /// Says nothing: the session in the key counts.
    pub session: Cow<'a, str>,
    /// Which step.
    pub step: Step,
    /// For BEGIN; 0 = never.
    pub timeout_seconds: i32,
    /// For RECOVER.
    pub qualifier: Option<Cow<'a, str>>,
    /// Comes back in the answer.
    pub opaque: i32,
}

macro_rules! steps {
    ($($(#[$comment:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// The steps that a transaction can take.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Step {
            $($(#[$comment])* $name,)*
        }

        impl Step {
            /// All of them.
            pub const ALL: &[Step] = &[$(Step::$name),*];

            /// As a line says it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Step::$name => $text,)*
                }
            }

            pub(crate) fn parse(word: &[u8]) -> Option<Step> {
                Step::ALL.iter().copied().find(|step| step.as_str().as_bytes() == word)
            }
        }
    };
}

steps! {
    /// Open it.
    Begin = "BEGIN",
    /// First phase.
    Prepare = "PREPARE",
    /// Commit without a first phase.
    CommitOnePhase = "COMMIT_ONE_PHASE",
    /// Second phase.
    CommitTwoPhase = "COMMIT_TWO_PHASE",
    /// Discard it.
    Rollback = "ROLLBACK",
    /// List what is prepared.
    Recover = "RECOVER",
    /// Drop the memory of a heuristic outcome.
    Forget = "FORGET",
    /// Never answered.
    End = "END",
}

/// Store a message of an original master under the id that it gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Sync<'a> {
    /// Where to.
    pub topic: Cow<'a, str>,
    /// Index.
    pub partition: i32,
    /// Stored verbatim.
    pub flag: i32,
    /// Given by the master.
    pub id: i64,
    /// What the producer computed, if it did.
    pub checksum: Option<i32>,
    /// Comes back in the answer.
    pub opaque: i32,
    /// Attribute block and payload.
    pub body: &'a [u8],
}

/// A line's checksum as a choice.
pub(crate) fn checksum_of(number: i32) -> Option<i32> {
    (number != CHECKSUM_NONE).then_some(number)
}

impl Request<'_> {
    /// Appends the request. If a word can't be written, `out` stays as it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        match self {
            Request::Put(put) => put.encode(out),
            Request::Get(get) => get.encode(out),
            Request::Offset(offset) => offset.encode(out),
            Request::Version(version) => version.encode(out),
            Request::Stats(stats) => stats.encode(out),
            Request::Quit => LineWriter::begin(out, "quit").end(&[]),
            Request::Transaction(transaction) => transaction.encode(out),
            Request::Sync(sync) => sync.encode(out),
            Request::Answer(answer) => answer.encode(out),
            Request::Batch(batch) => batch.encode(out),
            Request::Fetch(fetch) => fetch.encode(out),
            Request::Topic { opaque, command } => command.encode(*opaque, out),
            Request::Partition { opaque, command } => command.encode(*opaque, out),
            Request::Offsets { opaque, command } => command.encode(*opaque, out),
            Request::Admin { opaque, command } => command.encode(*opaque, out),
            Request::Reserved { word, opaque } => LineWriter::begin(out, word).number(*opaque).end(&[]),
            Request::Invalid { .. } => Err(Unencodable::Meaning("invalid request")),
        }
    }

    /// The opaque to answer with; `None` where nothing is answered.
    pub fn opaque(&self) -> Option<i32> {
        match self {
            Request::Quit | Request::Answer(_) => None,
            Request::Put(put) => Some(put.opaque),
            Request::Get(get) => Some(get.opaque),
            Request::Offset(offset) => Some(offset.opaque),
            Request::Version(version) => Some(version.opaque),
            Request::Stats(stats) => Some(stats.opaque),
            Request::Transaction(transaction) => (transaction.step != Step::End).then_some(transaction.opaque),
            Request::Sync(sync) => Some(sync.opaque),
            Request::Batch(batch) => Some(batch.opaque),
            Request::Fetch(fetch) => Some(fetch.opaque),
            Request::Topic { opaque, .. }
            | Request::Partition { opaque, .. }
            | Request::Offsets { opaque, .. }
            | Request::Admin { opaque, .. }
            | Request::Reserved { opaque, .. }
            | Request::Invalid { opaque, .. } => Some(*opaque),
        }
    }
}

impl Put<'_> {
    /// Appends the request, in the form of original producers: 7 words, 8 inside a transaction.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let line = LineWriter::begin(out, "put")
            .name("topic", &self.topic)
            .number(self.partition)
            .length(self.body)
            .number(self.flag)
            .number(self.checksum.unwrap_or(CHECKSUM_NONE));
        match &self.transaction {
            Some(key) => line.display("transaction key", key),
            None => line,
        }
        .number(self.opaque)
        .end(self.body)
    }
}

impl Get<'_> {
    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        LineWriter::begin(out, "get")
            .word("topic", &self.topic)
            .word("group", &self.group)
            .number(self.partition)
            .number(self.position)
            .number(self.size)
            .number(self.opaque)
            .wait(self.wait)
            .end(&[])
    }
}

impl LineWriter<'_> {
    pub(crate) fn wait(self, wait: Wait) -> Self {
        let default = Wait::default();
        self.when(wait.ms != default.ms, |line| line.literal("wait=").joined_number(wait.ms))
            .when(wait.min_bytes != default.min_bytes, |line| line.literal("min=").joined_number(wait.min_bytes))
    }
}

impl Offset<'_> {
    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        LineWriter::begin(out, "offset")
            .word("topic", &self.topic)
            .word("group", &self.group)
            .number(self.partition)
            .number(self.position)
            .number(self.opaque)
            .end(&[])
    }
}

impl Version<'_> {
    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let line = LineWriter::begin(out, "version").number(self.opaque);
        match &self.hello {
            Some(hello) => hello.encode(line),
            None => line,
        }
        .end(&[])
    }
}

impl Stats<'_> {
    /// Appends the request. No item is said as an empty one, as original clients do.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        LineWriter::begin(out, "stats").word("item", self.item.as_deref().unwrap_or("")).number(self.opaque).end(&[])
    }
}

impl Transaction<'_> {
    /// Appends the request; a blank qualifier is none. One of digits only is said after a timeout, else it would be taken for one.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let qualifier = self.qualifier.as_deref().filter(|qualifier| !qualifier.trim().is_empty());
        let digits = qualifier.is_some_and(|qualifier| qualifier.bytes().all(|byte| byte.is_ascii_digit()));
        LineWriter::begin(out, "transaction")
            .display("transaction key", &self.key)
            .word("session", &self.session)
            .literal(self.step.as_str())
            .when(self.timeout_seconds > 0 || digits, |line| line.number(self.timeout_seconds.max(0)))
            .when(qualifier.is_some(), |line| line.word("qualifier", qualifier.unwrap_or_default()))
            .number(self.opaque)
            .end(&[])
    }
}

impl Sync<'_> {
    /// Appends the request, with a checksum word.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        LineWriter::begin(out, "sync")
            .name("topic", &self.topic)
            .number(self.partition)
            .length(self.body)
            .number(self.flag)
            .number(self.id)
            .number(self.checksum.unwrap_or(CHECKSUM_NONE))
            .number(self.opaque)
            .end(self.body)
    }
}
