//! The status of an answer, and the stable codes that error texts begin with.

use std::fmt;

macro_rules! statuses {
    ($($(#[$comment:meta])* $name:ident = $number:literal),* $(,)?) => {
        /// The status codes that exist.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum Status {
            $($(#[$comment])* $name = $number,)*
        }

        impl Status {
            /// All of them, by number.
            pub const ALL: &[Status] = &[$(Status::$name),*];

            /// The status with this number.
            pub fn of(number: i32) -> Option<Status> {
                match number {
                    $($number => Some(Status::$name),)*
                    _ => None,
                }
            }

            /// The number as it is written.
            pub(crate) fn text(self) -> &'static [u8] {
                match self {
                    $(Status::$name => stringify!($number).as_bytes(),)*
                }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 200,
    /// `get`: go on at the position in the body.
    Moved = 301,
    /// The request makes no sense.
    BadRequest = 400,
    /// Who are you?
    Unauthorized = 401,
    /// Not now, by the operator's will; or not by you.
    Forbidden = 403,
    /// Nothing there, or nothing there yet.
    NotFound = 404,
    /// Refused or failed; the text says who erred.
    Failed = 500,
    /// The broker doesn't do that, or not at this moment.
    Unavailable = 503,
    /// No answer in time. Clients say this to themselves; brokers don't send it.
    TimedOut = 504,
}

impl Status {
    /// The number.
    pub fn number(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

macro_rules! codes {
    ($($(#[$comment:meta])* $name:ident = $text:literal, $status:ident),* $(,)?) => {
        /// What went wrong, stable over versions. The text of an error answer is `<code>: <sentence>`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $($(#[$comment])* $name,)*
        }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name),*];

            /// The code as it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $text,)*
                }
            }

            /// The status that goes with it.
            pub fn status(self) -> Status {
                match self {
                    $(ErrorCode::$name => Status::$status,)*
                }
            }

            /// The code that a text begins with: `<code>` alone, or `<code>: <sentence>`.
            pub fn of_text(text: &[u8]) -> Option<ErrorCode> {
                let word = text.split(|&byte| byte == b':').next()?;
                ErrorCode::ALL.iter().copied().find(|code| code.as_str().as_bytes() == word)
            }
        }
    };
}

codes! {
    /// No topic, partition or group of that name has anything.
    TopicUnknown = "topic-unknown", NotFound,
    /// No configured topic allows that name.
    TopicNotAccepted = "topic-not-accepted", Failed,
    /// The topic has fewer partitions.
    PartitionOutOfRange = "partition-out-of-range", Failed,
    /// An operator closed the partition.
    PartitionClosed = "partition-closed", Forbidden,
    /// The partition's files failed; the broker goes on without it.
    PartitionFailed = "partition-failed", Failed,
    /// The body isn't what its checksum says: damaged on its way.
    ChecksumMismatch = "checksum-mismatch", Failed,
    /// The message is over the limit; both sizes are in the sentence.
    MessageTooLarge = "message-too-large", Failed,
    /// The body of a `puts` is no batch.
    BatchInvalid = "batch-invalid", BadRequest,
    /// A producer with a higher epoch has taken over.
    ProducerFenced = "producer-fenced", Forbidden,
    /// A batch before this one is missing.
    SequenceGap = "sequence-gap", BadRequest,
    /// The topic's `acceptPublish` is off.
    PublishNotAccepted = "publish-not-accepted", Forbidden,
    /// The topic's `acceptSubscribe` is off.
    SubscribeNotAccepted = "subscribe-not-accepted", Forbidden,
    /// The disk's reserve is reached. Retry later.
    DiskFull = "disk-full", Unavailable,
    /// The commit log waits for a checkpoint. Retry later.
    LogFull = "log-full", Unavailable,
    /// The data directory is closed for writing: a sync failed, or the broker stops.
    StoreClosed = "store-closed", Unavailable,
    /// Too much is in flight. Retry later.
    Busy = "busy", Unavailable,
    /// It may still happen, or have happened.
    OutcomeUnknown = "outcome-unknown", Failed,
    /// The size asked for isn't positive.
    SizeInvalid = "size-invalid", BadRequest,
    /// The position lies outside the partition.
    PositionOutOfRange = "position-out-of-range", BadRequest,
    /// The bytes there are damaged and not served.
    CorruptRange = "corrupt-range", Failed,
    /// This broker doesn't do that.
    NotSupported = "not-supported", Unavailable,
    /// This broker has no transactions.
    TransactionUnsupported = "transaction-unsupported", Failed,
    /// A word of the request is missing or isn't what it must be.
    MalformedArgument = "malformed-argument", BadRequest,
    /// It contradicts what exists.
    Conflict = "conflict", BadRequest,
    /// Something the broker needs doesn't answer. Retry later.
    Unavailable = "unavailable", Unavailable,
    /// A defect of the broker.
    Internal = "internal", Failed,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_their_numbers() {
        for status in Status::ALL {
            assert_eq!(Status::of(status.number()), Some(*status));
            assert_eq!(status.text(), status.to_string().as_bytes());
        }
        assert_eq!(Status::of(409), None);
    }

    #[test]
    fn codes_are_found_at_the_beginning_of_a_text() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::of_text(code.as_str().as_bytes()), Some(*code));
            assert_eq!(ErrorCode::of_text(format!("{code}: because").as_bytes()), Some(*code));
            assert!(code.as_str().bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase()));
            assert_ne!(code.status(), Status::Ok);
        }
        assert_eq!(ErrorCode::of_text(b"busyness"), None);
        assert_eq!(ErrorCode::of_text(b""), None);
    }
}
