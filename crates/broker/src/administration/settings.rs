//! `admin reload`, `config`, `checkpoint` and `verify`.

use crate::broker::Broker;
use crate::configuration::{Change, diff};
use crate::files::{folder, segment_name};
use crate::lines::{self, Line};
use crate::refused::Refused;
use crate::surroundings::Loaded;
use metaq_disk::Open;
use metaq_log::{Outcome, Partition, Survey, survey};
use metaq_protocol::ErrorCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long a checkpoint may take.
const CHECKPOINT_WITHIN: Duration = Duration::from_secs(120);
/// How long between two looks at whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Broker {
    /// Reads the configuration again; refused as a whole if anything in it is wrong.
    pub fn reload(&self) -> Result<String, Refused> {
        let _alone = self.administration.lock();
        let refuse = |why: String| {
            let text = format!("nothing was changed: {}", why.replace('\n', "; "));
            Refused::new(ErrorCode::MalformedArgument, text)
        };
        let Loaded { settings, file } = (self.surroundings.reload)().map_err(refuse)?;
        let changes = diff(&self.settings.load(), &settings).map_err(|errors| refuse(errors.to_string()))?;
        self.settings.store(Arc::new(changes.settings));
        self.log.tune(crate::opening::tuning(&self.settings.load()));
        self.file.store(Arc::new(file));
        self.topics.follow(&self.log, &self.settings.load());
        let felt = [("now", changes.live), ("created", changes.created), ("restart", changes.restart)];
        let lines = felt
            .into_iter()
            .flat_map(|(when, changes)| changes.into_iter().map(move |change| change_line(when, &change)));
        let lines: Vec<_> = lines.collect();
        lines.iter().for_each(|line| tracing::info!(%line, "the configuration was read again"));
        let count = Line::new("changes", lines.len());
        Ok(lines::text(std::iter::once(count).chain(lines)))
    }

    /// Everything that holds, and where it comes from.
    pub(super) fn effective_settings(&self) -> String {
        let settings = self.settings.load();
        let values = settings.effective().into_iter().map(|value| {
            Line::new("setting", value.key.name)
                .word("section", &value.section)
                .word("value", value.value.as_deref().unwrap_or_default())
                .word("from", &value.origin)
        });
        let warnings = settings.warnings();
        let warnings = warnings.iter().map(|warning| Line::new("warning", &warning.text).word("from", &warning.origin));
        lines::text(values.chain(warnings))
    }

    pub(super) fn checkpoint(&self) -> Result<String, Refused> {
        let lsn = self.make_checkpoint()?;
        Ok(lines::text([Line::new("checkpoint", self.log.gauges().checkpoint_lsn).word("asked", lsn)]))
    }

    /// Waits for a checkpoint of everything that was asked for before; gives the last entry of that.
    pub(crate) fn make_checkpoint(&self) -> Result<u64, Refused> {
        let what = "the checkpoint";
        let lsn = match self.change(vec![metaq_log::Change::Barrier], what)?.first() {
            Some(Outcome::Changed { lsn }) => *lsn,
            other => unreachable!("a barrier became {other:?}"),
        };
        let failed = &self.log.statistics().checkpoints_failed;
        let (failed_before, deadline) = (failed.load(Relaxed), Instant::now() + CHECKPOINT_WITHIN);
        let done = &self.log.statistics().checkpoints;
        let before = done.load(Relaxed);
        self.log.want_checkpoint();
        while self.log.gauges().checkpoint_lsn < lsn || done.load(Relaxed) == before {
            if failed.load(Relaxed) > failed_before || self.log.closed().is_some() {
                return Err(Refused::new(ErrorCode::Unavailable, "the checkpoint failed; the broker's log says why"));
            }
            if Instant::now() > deadline {
                return Err(Refused::new(ErrorCode::OutcomeUnknown, "the checkpoint takes long; it goes on"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(lsn)
    }

    /// Checks the checksum of every message in every segment, up to where each partition ends at this moment.
    pub(super) fn verify(&self) -> Result<String, Refused> {
        let settled = self.log.settled();
        let ends: Vec<_> =
            self.log.partitions().into_iter().map(|one| (Arc::clone(&one), one.bounds(settled).end)).collect();
        // Brings everything up to these ends into the segments.
        self.make_checkpoint()?;
        let mut lines = Vec::new();
        let (mut segments, mut records, mut bad) = (0, 0, 0);
        for (partition, end) in ends {
            let what = self.called(&partition);
            let failed = |error| Refused::new(ErrorCode::Internal, format!("{what} can't be read: {error}"));
            for segment in self.log.segments(&partition).map_err(failed)? {
                let Some(found) = self.survey_segment(&partition, segment.start).map_err(failed)? else { continue };
                segments += 1;
                records += found.records;
                let damage = damage_of(&found, segment.end.min(end).saturating_sub(segment.start));
                bad += damage.len();
                lines.extend(damage.into_iter().map(|range| {
                    Line::new("damage", self.partition_name(partition.index))
                        .word("topic", &partition.topic)
                        .word("from", segment.start + range.start)
                        .word("to", segment.start + range.end)
                }));
            }
        }
        let sum = Line::new("verified", segments).word("records", records).word("damaged_ranges", bad);
        Ok(lines::text(std::iter::once(sum).chain(lines)))
    }

    /// `None`: the segment has no file, since nothing was written to it or it was removed meanwhile.
    fn survey_segment(&self, partition: &Partition, start: u64) -> std::io::Result<Option<Survey>> {
        match self.log.disk().open(&folder(partition).join(segment_name(start)), Open::Read) {
            Ok(file) => survey(file, 0, std::thread::yield_now).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Bad ranges below `end`, in bytes of the segment.
fn damage_of(found: &Survey, end: u64) -> Vec<std::ops::Range<u64>> {
    let torn = (found.end < end).then_some(found.end..end);
    found.damage.iter().cloned().chain(torn).filter(|range| range.start < end).collect()
}

fn change_line(when: &str, change: &Change) -> Line {
    let line = Line::new("change", &change.section).word("felt", when).maybe("key", change.key);
    line.word("before", change.before.as_deref().unwrap_or_default())
        .word("after", change.after.as_deref().unwrap_or_default())
}
