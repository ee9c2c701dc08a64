//! A broker that is there: put with a lease, so that it goes with its process.

use super::fields::{Fields, NotARecord, text};
use crate::Key;

/// One broker that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number, 0 to 1023.
    pub broker_id: u16,
    /// The host that clients connect to: a name or an address.
    pub host: String,
    /// The port that clients connect to.
    pub port: u16,
    /// Drawn anew at each start of its process.
    pub incarnation: u64,
    /// CRC-32 of its file of settings; 0 without one.
    pub config_checksum: u32,
}

impl Member {
    /// Where members stand.
    pub fn folder() -> Key {
        Key::new("members").expect("a word is a key")
    }

    /// Where the member of a broker stands.
    pub fn key(broker_id: u16) -> Key {
        Key::new(&format!("members/{broker_id}")).expect("a word and a number are a key")
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        text(&[
            ("broker", &self.broker_id),
            ("host", &self.host),
            ("port", &self.port),
            ("incarnation", &self.incarnation),
            ("config_checksum", &self.config_checksum),
        ])
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If it isn't a member's.
    pub fn from_text(bytes: &[u8]) -> Result<Self, NotARecord> {
        let fields = Fields::of(bytes)?;
        Ok(Self {
            broker_id: fields.value("broker")?,
            host: fields.value("host")?,
            port: fields.value("port")?,
            incarnation: fields.value("incarnation")?,
            config_checksum: fields.value("config_checksum")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_reads_back_what_it_wrote() {
        let member = Member {
            broker_id: 1023,
            host: "::1".to_owned(),
            port: 8123,
            incarnation: u64::MAX,
            config_checksum: 3_421_780_262,
        };
        let text = "broker=1023\nhost=::1\nport=8123\nincarnation=18446744073709551615\nconfig_checksum=3421780262\n";
        assert_eq!(member.to_text(), text);
        assert_eq!(Member::from_text(text.as_bytes()), Ok(member));
        assert_eq!(Member::from_text(b"broker=1\n"), Err(NotARecord::Missing("host")));
        assert_eq!(Member::key(7).as_str(), "members/7");
    }
}
