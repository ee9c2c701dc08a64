//! What one broker has of one topic.

use super::fields::{Fields, NotARecord, text};
use crate::{Key, NotAKey};

/// A topic's share on one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOnBroker {
    /// How many partitions the broker has of it.
    pub partitions: u32,
    /// Whether producers may put there.
    pub accept_publish: bool,
    /// Whether consumers may get there.
    pub accept_subscribe: bool,
}

impl TopicOnBroker {
    /// Where topics stand.
    pub fn folder() -> Key {
        Key::new("topics").expect("a word is a key")
    }

    /// Where a topic's share on a broker stands.
    ///
    /// # Errors
    /// If the topic's name is no word of a key.
    pub fn key(topic: &str, broker_id: u16) -> Result<Key, NotAKey> {
        if topic.contains('/') {
            return Err(NotAKey::Word(topic.to_owned()));
        }
        Key::new(&format!("topics/{topic}/{broker_id}"))
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        text(&[
            ("partitions", &self.partitions),
            ("accept_publish", &self.accept_publish),
            ("accept_subscribe", &self.accept_subscribe),
        ])
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If it isn't a topic's.
    pub fn from_text(bytes: &[u8]) -> Result<Self, NotARecord> {
        let fields = Fields::of(bytes)?;
        Ok(Self {
            partitions: fields.value("partitions")?,
            accept_publish: fields.value("accept_publish")?,
            accept_subscribe: fields.value("accept_subscribe")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_reads_back_what_it_wrote() {
        let topic = TopicOnBroker { partitions: 4, accept_publish: true, accept_subscribe: false };
        let text = "partitions=4\naccept_publish=true\naccept_subscribe=false\n";
        assert_eq!(topic.to_text(), text);
        assert_eq!(TopicOnBroker::from_text(text.as_bytes()), Ok(topic));
        let negative = TopicOnBroker::from_text(b"partitions=-1\n");
        assert_eq!(negative, Err(NotARecord::Value { name: "partitions", value: "-1".to_owned() }));
    }

    #[test]
    fn a_topic_is_one_word_of_its_key() {
        let key = TopicOnBroker::key("audit.v2_log", 3).expect("a key");
        assert_eq!(key.as_str(), "topics/audit.v2_log/3");
        assert!(TopicOnBroker::key("a/b", 3).is_err() && TopicOnBroker::key("..", 3).is_err());
    }
}
