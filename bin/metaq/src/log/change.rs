//! `metaq log recover`, `repair`, `release`, `move-partition`, `delete-partition`.

use super::place::{NamedPlace, Place, partition, range};
use super::refused;
use crate::clock;
use crate::confirmation::Confirmation;
use crate::exit::Outcome;
use crate::output::{self, Form};
use crate::progress::Progress;
use metaq_log::offline::{
    How, Identity, RepairOptions, Truncate, delete_partitions, dump_checkpoint, move_partitions, plan_repair,
};
use serde_json::{Value, json};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The arguments of `metaq log recover`.
#[derive(Debug, clap::Args)]
pub struct Recover {
    #[command(flatten)]
    place: Place,
    /// Makes everything of ours again from the segments, if no checkpoint can be read: what is only in the commit log is
    /// lost, and so are topics and positions of groups
    #[arg(long, env = "METAQ_REBUILD", value_parser = clap::builder::BoolishValueParser::new())]
    rebuild: bool,
    /// Whose directory it is, if nothing in it says so
    #[arg(long, value_name = "N", env = "METAQ_BROKER_ID", value_parser = clap::value_parser!(u16).range(..=1023))]
    broker_id: Option<u16>,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// The arguments of `metaq log repair`.
#[derive(Debug, clap::Args)]
pub struct Repair {
    #[command(flatten)]
    place: Place,
    /// Ends this partition before its first damage; everything behind is lost
    #[arg(long, value_name = "TOPIC-INDEX", env = "METAQ_TRUNCATE", value_parser = partition)]
    truncate: Vec<(String, u32)>,
    /// Ends every damaged partition before its first damage
    #[arg(long, env = "METAQ_TRUNCATE_ALL", conflicts_with = "truncate", value_parser = clap::builder::BoolishValueParser::new())]
    truncate_all: bool,
    /// Whose directory it is, if metaq.format is lost
    #[arg(long, value_name = "N", env = "METAQ_BROKER_ID", value_parser = clap::value_parser!(u16).range(..=1023))]
    broker_id: Option<u16>,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// The arguments of `metaq log release`.
#[derive(Debug, clap::Args)]
pub struct Release {
    #[command(flatten)]
    place: Place,
}

/// The arguments of `metaq log move-partition`.
#[derive(Debug, clap::Args)]
pub struct MovePartition {
    #[command(flatten)]
    place: NamedPlace,
    #[command(flatten)]
    which: Which,
    /// What is added to the indexes
    #[arg(allow_negative_numbers = true)]
    by: i64,
    /// Only say what would be done
    #[arg(long, env = "METAQ_DRY_RUN", value_parser = clap::builder::BoolishValueParser::new())]
    dry_run: bool,
}

/// The arguments of `metaq log delete-partition`.
#[derive(Debug, clap::Args)]
pub struct DeletePartition {
    #[command(flatten)]
    place: NamedPlace,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Of which topic
    topic: String,
    /// One, or a range as 2-5
    #[arg(value_name = "FROM[-TO]", value_parser = range)]
    partitions: RangeInclusive<u32>,
}

/// Prints what was done.
fn done(form: Form, text: &impl Display, value: impl FnOnce() -> Value) -> Outcome {
    match form {
        Form::Table => output::line(text.to_string().trim_end()),
        Form::Json => output::json(&value()),
    }
}

fn texts<T: Display>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Runs `metaq log recover`.
pub fn recover(arguments: &Recover, form: Form) -> Outcome {
    let meant = arguments.place.meant(arguments.broker_id)?;
    let how = if arguments.rebuild { How::Rebuild } else { How::Replay };
    let folder = meant.directory.log_path.display();
    if arguments.confirmation.dry_run {
        return output::line(match how {
            How::Replay => format!("The commit log in {folder} would be replayed; nothing is lost by that."),
            How::Rebuild => rebuild_loss(&folder),
        });
    }
    if how == How::Rebuild {
        arguments.confirmation.of(&meant.name(), &rebuild_loss(&folder))?;
    }
    let recovered =
        metaq_log::offline::recover(meant.directory.disk, meant.options, how, clock::now()).map_err(refused)?;
    done(form, &recovered, || {
        json!({
            "turns": recovered.report.turns,
            "entries": recovered.report.entries,
            "torn": recovered.report.torn,
            "findings": texts(&recovered.report.findings),
            "set_aside": recovered.set_aside.as_ref().map(|path| path.display().to_string()),
            "obstacles": texts(&recovered.obstacles),
        })
    })
}

fn rebuild_loss(folder: &impl Display) -> String {
    format!(
        "Everything of ours in {folder} will be made again from the segments: messages that are only in the commit log are \
         lost, and so are topics and positions of groups."
    )
}

/// Runs `metaq log repair`.
pub fn repair(arguments: &Repair, form: Form) -> Outcome {
    let meant = arguments.place.meant(arguments.broker_id)?;
    let truncate = match (&arguments.truncate[..], arguments.truncate_all) {
        (_, true) => Truncate::All,
        ([], false) => Truncate::Never,
        (these, false) => Truncate::These(these.to_vec()),
    };
    let (cluster, program) = (meant.options.cluster.clone(), meant.options.program.clone());
    let identity = arguments.broker_id.map(|broker| Identity { cluster, broker, program });
    let mut progress = Progress::begin(true);
    let options = RepairOptions { truncate, identity };
    let plan = plan_repair(&meant.directory, &options, |bytes| progress.add(0, bytes));
    progress.end();
    let plan = plan.map_err(refused)?;
    let (steps, kept, next) = (texts(plan.steps()), plan.kept().to_vec(), plan.next());
    let text = plan.to_string();
    let nothing = steps.is_empty();
    let of = |repaired: bool, aside: Option<String>| json!({ "steps": steps, "kept": kept, "next": next, "repaired": repaired, "set_aside": aside });
    if arguments.confirmation.dry_run || nothing {
        return done(form, &text, || of(false, None));
    }
    // What will be lost is said before it is.
    if form == Form::Table {
        output::line(text.trim_end())?;
    }
    arguments.confirmation.of(&meant.name(), &format!("{} steps will be done.", steps.len()))?;
    let aside = plan.carry_out().map_err(refused)?.map(|path| path.display().to_string());
    let copy = aside.as_ref().map(|path| format!("; a copy of what was given up is in {path}")).unwrap_or_default();
    done(form, &format_args!("repaired{copy}"), || of(true, aside.clone()))
}

/// Runs `metaq log release`.
pub fn release(arguments: &Release, form: Form) -> Outcome {
    let meant = arguments.place.meant(None)?;
    let released = metaq_log::offline::release(&meant.directory).map_err(refused)?;
    done(form, &released, || {
        json!({
            "to": released.to.as_ref().map(|path| path.display().to_string()),
            "files": released.files,
            "obstacles": texts(&released.obstacles),
        })
    })
}

/// Runs `metaq log move-partition`.
pub fn move_partition(arguments: &MovePartition, form: Form) -> Outcome {
    let MovePartition { place, which: Which { topic, partitions }, by, dry_run } = arguments;
    let directory = place.meant()?.directory;
    if *dry_run {
        let (from, to) = (*partitions.start(), *partitions.end());
        let moved = |index: u32| i64::from(index) + by;
        return output::line(format_args!(
            "The partitions {from} to {to} of {topic} would become {} to {}.",
            moved(from),
            moved(to)
        ));
    }
    let moved = move_partitions(&directory, topic, partitions.clone(), *by).map_err(refused)?;
    done(form, &moved, || relocated(&moved))
}

/// Runs `metaq log delete-partition`.
pub fn delete_partition(arguments: &DeletePartition, form: Form) -> Outcome {
    let DeletePartition { place, which: Which { topic, partitions }, confirmation } = arguments;
    let directory = place.meant()?.directory;
    let (from, to) = (*partitions.start(), *partitions.end());
    let known = dump_checkpoint(&directory, &Default::default()).map_err(refused)?;
    let known = known.map(|content| content.partitions).unwrap_or_default();
    let meant = known.iter().filter(|one| one.topic == *topic && partitions.contains(&one.index));
    let messages: i64 = meant.map(|one| one.sequence - one.first_sequence).sum();
    let loss =
        format!("The partitions {from} to {to} of {topic} will be deleted, with {messages} messages that are known.");
    if confirmation.dry_run {
        return output::line(loss);
    }
    confirmation.of(topic, &loss)?;
    let deleted = delete_partitions(&directory, topic, partitions.clone()).map_err(refused)?;
    done(form, &deleted, || relocated(&deleted))
}

fn relocated(relocated: &metaq_log::offline::Relocated) -> Value {
    let partitions: Vec<_> = relocated.partitions.iter().map(|(from, to)| json!({ "from": from, "to": to })).collect();
    json!({ "partitions": partitions, "obstacles": texts(&relocated.obstacles) })
}
