//! `admin`: what an operator asks of a running broker.

use super::{Fields, Read};
use crate::line::{LineWriter, Unencodable, Words, text};
use std::borrow::Cow;

/// What an operator asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminCommand<'a> {
    /// `admin reload`: read the configuration again.
    Reload,
    /// `admin config`: what is in effect.
    Config,
    /// `admin backup <folder>`
    Backup {
        /// A path of the broker's machine; it may hold spaces.
        folder: Cow<'a, str>,
    },
    /// `admin checkpoint`: write one now.
    Checkpoint,
    /// `admin verify`: check what is stored.
    Verify,
}

const USAGE: &str = "write admin reload, config, backup <folder>, checkpoint or verify, and an opaque";

impl<'a> AdminCommand<'a> {
    pub(super) fn of(words: &Words<'a>) -> Read<Self> {
        let fields = Fields::of(words, USAGE).counted(3..=usize::MAX)?;
        let verb = fields.bytes(1)?;
        if verb == b"backup" {
            let folder = words.between(2);
            return if folder.is_empty() { Err(USAGE) } else { Ok(AdminCommand::Backup { folder: text(folder) }) };
        }
        fields.counted(3..=3)?;
        match verb {
            b"reload" => Ok(AdminCommand::Reload),
            b"config" => Ok(AdminCommand::Config),
            b"checkpoint" => Ok(AdminCommand::Checkpoint),
            b"verify" => Ok(AdminCommand::Verify),
            _ => Err(USAGE),
        }
    }

    /// Appends the request.
    pub fn encode(&self, opaque: i32, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let line = LineWriter::begin(out, "admin");
        match self {
            AdminCommand::Reload => line.literal("reload"),
            AdminCommand::Config => line.literal("config"),
            AdminCommand::Backup { folder } if folder.is_empty() => line.refuse(Unencodable::Word("folder")),
            // A folder is the one field that may hold spaces: it goes up to the last word.
            AdminCommand::Backup { folder } => {
                folder.split(' ').fold(line.literal("backup"), |line, part| line.word("folder", part))
            }
            AdminCommand::Checkpoint => line.literal("checkpoint"),
            AdminCommand::Verify => line.literal("verify"),
        }
        .number(opaque)
        .end(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_invalid};
    use super::*;
    use crate::request::Request;

    #[test]
    fn admin_commands_are_their_lines() {
        for (line, command) in [
            ("admin reload 5\r\n", AdminCommand::Reload),
            ("admin config 5\r\n", AdminCommand::Config),
            ("admin backup /var/backup 5\r\n", AdminCommand::Backup { folder: "/var/backup".into() }),
            ("admin backup /my  own folder  5\r\n", AdminCommand::Backup { folder: "/my  own folder ".into() }),
            ("admin checkpoint 5\r\n", AdminCommand::Checkpoint),
            ("admin verify 5\r\n", AdminCommand::Verify),
        ] {
            check(line, Request::Admin { opaque: 5, command }, line);
        }
        check_invalid(5, &["admin 5\r\n", "admin backup 5\r\n", "admin reload now 5\r\n", "admin stop 5\r\n"]);
    }
}
