//! Why a broker doesn't do what it was asked.

use metaq_log::{PerformError, Refusal};
use metaq_protocol::answer;
use metaq_protocol::{ErrorCode, Status};
use std::borrow::Cow;
use std::fmt;

/// What a client is told instead of what it asked for: a stable code and a sentence that says who erred and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Refused {
    /// What went wrong.
    pub code: ErrorCode,
    /// The sentence, without its code.
    pub text: Cow<'static, str>,
}

impl Refused {
    pub(crate) fn new(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into() }
    }

    /// The status that goes with the code.
    pub fn status(&self) -> Status {
        self.code.status()
    }

    /// Appends the answer.
    pub fn answer(&self, opaque: i32, out: &mut Vec<u8>) {
        answer::error(out, opaque, self.code, &self.text);
    }

    /// What the log refused, about `what` (a partition, as `topic 0-3`, or nothing).
    pub(crate) fn by_log(refusal: &Refusal, what: impl fmt::Display) -> Self {
        let code = match refusal {
            Refusal::StoreClosed(_) => ErrorCode::StoreClosed,
            Refusal::PartitionFailed(_) => ErrorCode::PartitionFailed,
            Refusal::PartitionDeleted => ErrorCode::TopicNotAccepted,
            Refusal::LogFull => ErrorCode::LogFull,
            Refusal::DiskFull => ErrorCode::DiskFull,
            Refusal::TooLarge { .. } => ErrorCode::MessageTooLarge,
            Refusal::Fenced { .. } => ErrorCode::ProducerFenced,
            Refusal::SequenceGap { .. } => ErrorCode::SequenceGap,
            Refusal::Conflict { .. } => ErrorCode::Conflict,
            Refusal::NoSegmentThere { .. } => ErrorCode::Internal,
        };
        Self::new(code, format!("{what}: {refusal}"))
    }

    /// What [`metaq_log::Log::perform`] gave, about `what`.
    pub(crate) fn by_perform(error: &PerformError, what: impl fmt::Display) -> Self {
        match error {
            PerformError::Refused(refusal) => Self::by_log(refusal, what),
            PerformError::Unknown(_) => Self::new(ErrorCode::OutcomeUnknown, format!("{what}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_succeed_later_is_answered_as_unavailable() {
        for refusal in [Refusal::LogFull, Refusal::DiskFull] {
            assert!(refusal.retriable());
            assert_eq!(Refused::by_log(&refusal, "t 0-0").status(), Status::Unavailable);
        }
    }

    #[test]
    fn an_answer_has_the_code_before_the_sentence() {
        let mut out = Vec::new();
        Refused::by_log(&Refusal::LogFull, "t 0-0").answer(7, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("result 503 "), "{text}");
        assert!(text.contains("log-full: t 0-0: the commit log is full"), "{text}");
    }
}
