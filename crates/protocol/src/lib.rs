//! The text protocol and the stored message, both ends: names, ids, records, requests, answers.
//!
//! Pure: no clock, no randomness, no file, no socket, nothing asynchronous. Bytes come in as slices and are borrowed; bytes go out
//! into a `Vec` of the caller.
//!
//! * A server feeds [`Decoder`] and writes with [`answer`]; a client writes with [`Request::encode`] and feeds [`AnswerDecoder`].
//! * Neither decoder looks at a byte twice or allocates per message.
//! * [`record`] is the layout of messages on disk, in answers and in batches.

pub mod answer;
mod decode;
pub mod extension;
pub mod id;
pub mod limits;
mod line;
pub mod name;
mod number;
pub mod record;
pub mod request;
pub mod section;
pub mod status;
pub mod transaction_key;

pub use answer::{Answer, AnswerDecoder, DecodedAnswer, Stored};
pub use decode::{Decoded, Decoder, Oversized};
pub use id::{BrokerId, IdParts};
pub use limits::Limits;
pub use line::{Malformed, Unencodable};
pub use name::{Group, PartitionText, TopicName, TopicPattern};
pub use record::{Record, Walk};
pub use request::Request;
pub use status::{ErrorCode, Status};
pub use transaction_key::{KeyView, TransactionKey};
