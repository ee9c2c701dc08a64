//! `metaq log verify`.

use super::place::Place;
use super::refused;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, Form};
use crate::progress::Progress;
use metaq_log::offline::{PartitionTrouble, PartitionVerified, Severity, Trouble, Verdict, Verified, verify};
use serde_json::{Value, json};
use std::fmt::Display;

/// The arguments of `metaq log verify`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
}

/// Runs `metaq log verify`.
pub fn run(arguments: &Arguments, form: Form) -> Outcome {
    let meant = arguments.place.meant(None)?;
    let mut progress = Progress::begin(true);
    let verified = verify(&meant.directory, |bytes| progress.add(0, bytes));
    progress.end();
    let verified = verified.map_err(refused)?;
    match form {
        Form::Table => output::line(&verified)?,
        Form::Json => output::json(&of(&verified))?,
    }
    match verified.verdict() {
        Verdict::Ok | Verdict::Notes => Ok(()),
        Verdict::Damaged => Err(Failure::silent(Exit::NotFound)),
    }
}

fn of(verified: &Verified) -> Value {
    let format = verified.format.as_ref().map(|format| {
        json!({ "format": format.format, "cluster": format.cluster, "broker": format.broker, "program": format.program })
    });
    json!({
        "verdict": verified.verdict().to_string(),
        "format": format,
        "clean": verified.clean,
        "log": {
            "checkpoint": verified.log.checkpoint,
            "turns": verified.log.turns,
            "entries": verified.log.entries,
        },
        "troubles": verified.troubles.iter().map(|one| trouble(one, Trouble::severity(one))).collect::<Vec<_>>(),
        "partitions": verified.partitions.iter().map(partition).collect::<Vec<_>>(),
    })
}

fn partition(partition: &PartitionVerified) -> Value {
    let troubles = partition.troubles.iter().map(|one| trouble(one, PartitionTrouble::severity(one)));
    json!({
        "topic": partition.topic,
        "index": partition.index,
        "folder": partition.folder.as_ref().map(|folder| folder.display().to_string()),
        "segments": partition.segments.len(),
        "messages": partition.records(),
        "bytes": partition.bytes(),
        "bytes_covered": partition.covered(),
        "troubles": troubles.collect::<Vec<_>>(),
    })
}

fn trouble(trouble: &impl Display, severity: Severity) -> Value {
    let severity = match severity {
        Severity::Note => "note",
        Severity::Damage => "damage",
    };
    json!({ "severity": severity, "text": trouble.to_string() })
}
