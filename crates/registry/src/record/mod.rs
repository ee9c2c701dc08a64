//! What the cluster writes in its registry: one file for each kind, each a plain structure with a text.
//!
//! A text is lines of `name=value`, so that a person reads it with any tool. A reader passes over names
//! that it doesn't know: a later version may add some.

mod broker_group;
mod fields;
mod member;
mod topic;

pub use broker_group::{BrokerGroup, NodeId};
pub use fields::NotARecord;
pub use member::Member;
pub use topic::TopicOnBroker;
