//! What the replicas of one broker number agreed on. Changed only on the condition of its version.

use std::fmt;
use std::str::FromStr;

use super::fields::{Fields, NotARecord, text};
use crate::Key;

/// A replica: a node in one of its incarnations, written `node.incarnation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The node.
    pub node: u32,
    /// Drawn anew when the node may have lost what it acknowledged.
    pub incarnation: u64,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.incarnation)
    }
}

/// A text that isn't `node.incarnation`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a replica is written node.incarnation")]
pub struct NotANode;

impl FromStr for NodeId {
    type Err = NotANode;

    fn from_str(text: &str) -> Result<Self, NotANode> {
        let (node, incarnation) = text.split_once('.').ok_or(NotANode)?;
        match (node.parse(), incarnation.parse()) {
            (Ok(node), Ok(incarnation)) => Ok(Self { node, incarnation }),
            _ => Err(NotANode),
        }
    }
}

/// All replicas of one broker number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerGroup {
    /// Counts its leaders.
    pub epoch: u64,
    /// Who leads in this epoch.
    pub leader: NodeId,
    /// Who has everything that was acknowledged, the leader among them.
    pub in_sync: Vec<NodeId>,
    /// What every replica's version must be able to do, as a number that only grows.
    pub features_min: u32,
}

impl BrokerGroup {
    /// Where the group of a broker number stands.
    pub fn key(broker_id: u16) -> Key {
        Key::new(&format!("groups/{broker_id}")).expect("a word and a number are a key")
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        let in_sync: Vec<_> = self.in_sync.iter().map(NodeId::to_string).collect();
        text(&[
            ("epoch", &self.epoch),
            ("leader", &self.leader),
            ("in_sync", &in_sync.join(",")),
            ("features_min", &self.features_min),
        ])
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If it isn't a group's.
    pub fn from_text(bytes: &[u8]) -> Result<Self, NotARecord> {
        let fields = Fields::of(bytes)?;
        Ok(Self {
            epoch: fields.value("epoch")?,
            leader: fields.value("leader")?,
            in_sync: fields.list("in_sync")?,
            features_min: fields.value("features_min")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_reads_back_what_it_wrote() {
        let node = |node, incarnation| NodeId { node, incarnation };
        let group =
            BrokerGroup { epoch: 3, leader: node(2, 77), in_sync: vec![node(2, 77), node(5, 1)], features_min: 1 };
        let text = "epoch=3\nleader=2.77\nin_sync=2.77,5.1\nfeatures_min=1\n";
        assert_eq!(group.to_text(), text);
        assert_eq!(BrokerGroup::from_text(text.as_bytes()), Ok(group));
        let broken = BrokerGroup::from_text(b"epoch=3\nleader=2\n");
        assert_eq!(broken, Err(NotARecord::Value { name: "leader", value: "2".to_owned() }));
        assert_eq!(BrokerGroup::key(0).as_str(), "groups/0");
    }
}
