//! `metaq backup`: a copy of a running broker's data.

use crate::connection::Connection;
use crate::exit::{Failure, Outcome};
use crate::output;
use metaq_protocol::Request;
use metaq_protocol::extension::AdminCommand;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `metaq backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    /// A folder of the broker's machine that is empty or not there yet. On the broker's file system segments are linked
    /// instead of copied
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How long it may take, in seconds
    #[arg(long, value_name = "SECONDS", env = "METAQ_LIMIT", default_value = "3600", value_parser = crate::connection::seconds)]
    limit: Duration,
}

const EXAMPLES: &str = "\
Examples:
  metaq backup /var/backups/metaq-monday
  metaq server --data-dir /var/backups/metaq-monday --listen 127.0.0.1:9123 --http off   # looks into it";

/// Runs `metaq backup`.
pub fn run(arguments: &Arguments) -> Outcome {
    let folder = std::path::absolute(&arguments.folder)
        .map_err(|error| Failure::usage(format!("{}: {error}", arguments.folder.display())))?;
    let folder = folder.to_str().ok_or_else(|| Failure::usage("the folder's name isn't UTF-8"))?;
    let mut wire = arguments.connection.connect()?;
    let opaque = wire.opaque();
    wire.add(&Request::Admin { opaque, command: AdminCommand::Backup { folder: folder.into() } })?;
    wire.send()?;
    let (_, reply) = wire.next_reply_after(arguments.limit)?;
    output::list(arguments.connection.output, &output::read(&reply.text("backup")?)?)
}
