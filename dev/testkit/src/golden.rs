//! Fixtures that the original wrote: where they are, and what they say about themselves.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the fixtures: what `METAQ_GOLDEN` names, else the project's own copy.
pub fn folder() -> PathBuf {
    match std::env::var_os("METAQ_GOLDEN") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden"),
    }
}

/// Lower-case hex of a SHA-256.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = fs::read(path).unwrap_or_else(|error| panic!("can't read {}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `data-directory/expected.json`: what the original answered.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct DataDirectory {
    pub partitions: Vec<Partition>,
    pub probes: Vec<Probe>,
    pub stats: BTreeMap<String, String>,
    pub position_of_the_next_put: BTreeMap<String, i64>,
    pub files: Vec<(String, u64, String)>,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct Partition {
    pub partition: String,
    pub min: i64,
    pub max: i64,
    pub log_sha256: String,
    pub records: Vec<GoldenRecord>,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct GoldenRecord {
    pub position: i64,
    pub length: usize,
    pub checksum: i32,
    pub id: i64,
    pub flag: i32,
    pub attribute: Option<String>,
    pub payload_bytes: usize,
    pub payload_sha256: String,
    pub body_sha256: String,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct Probe {
    pub request: String,
    pub head: String,
    pub body_bytes: usize,
    pub body_hex: Option<String>,
    pub frame_sha256: String,
}

impl DataDirectory {
    /// Reads it.
    pub fn read() -> Self {
        read(&folder().join("data-directory/expected.json"))
    }
}

/// `torn-data-directory/expected.json`: damages, and what is right for each.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct TornDirectory {
    pub cases: Vec<TornCase>,
    pub refused: Vec<RefusedCase>,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct TornCase {
    pub case: String,
    pub acknowledged: Vec<Acknowledged>,
    pub right: Right,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct Acknowledged {
    pub position: i64,
    pub id: i64,
    pub length: usize,
    pub sha256: String,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct Right {
    pub action: String,
    pub intact_on_disk: Vec<bool>,
    pub max_if_cut: Option<i64>,
    pub report: Option<Report>,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct Report {
    pub first_bad_position: i64,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct RefusedCase {
    pub case: String,
    pub right: RefusedRight,
}

#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fixture's own README says what its fields are")]
pub struct RefusedRight {
    pub action: String,
}

impl TornDirectory {
    /// Reads it.
    pub fn read() -> Self {
        read(&folder().join("torn-data-directory/expected.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_fixtures_can_be_read() {
        let directory = DataDirectory::read();
        assert!(!directory.partitions.is_empty() && !directory.probes.is_empty());
        assert!(!TornDirectory::read().cases.is_empty());
        assert_eq!(&sha256(b"")[..8], "e3b0c442");
    }
}
