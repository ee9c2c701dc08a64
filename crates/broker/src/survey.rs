//! Looks through the sealed segments of adopted partitions while the broker serves: counts their messages and finds
//! damage, slowly.

use crate::broker::Broker;
use metaq_log::{Change, Partition};
use std::sync::Arc;

/// What a survey found in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surveyed {
    /// Partitions looked through.
    pub partitions: u64,
    /// Messages in their sealed segments.
    pub messages: u64,
    /// Ranges of bytes that are no messages.
    pub damaged_ranges: u64,
}

impl Broker {
    /// Looks through `partitions`, those of [`metaq_log::Report::to_survey`]. `pause` is called after each MiB; between
    /// two partitions `go_on` is asked. What is found is logged, and refused to readers. Blocks.
    pub fn survey(
        &self,
        partitions: &[Arc<Partition>],
        mut pause: impl FnMut(),
        mut go_on: impl FnMut() -> bool,
    ) -> Surveyed {
        let mut sum = Surveyed::default();
        for partition in partitions {
            if !go_on() {
                break;
            }
            self.survey_one(partition, &mut pause, &mut sum);
        }
        if sum.partitions > 0 {
            let Surveyed { partitions, messages, damaged_ranges } = sum;
            tracing::info!(partitions, messages, damaged_ranges, "the old segments of adopted partitions were checked");
        }
        sum
    }

    fn survey_one(&self, partition: &Arc<Partition>, pause: &mut dyn FnMut(), sum: &mut Surveyed) {
        let what = self.called(partition);
        // Retention passes it over meanwhile, so that what is counted is what it holds.
        let set = |surveyed| {
            let _alone = self.housekeeping.lock();
            *self.surveyed.lock() = surveyed;
        };
        set(Some(partition.number));
        match self.log.survey_sealed(partition, pause) {
            Err(error) => tracing::error!(partition = what, %error, "an old segment can't be read"),
            Ok((surveys, counted)) => {
                sum.partitions += 1;
                sum.messages += surveys.iter().map(|survey| survey.records).sum::<u64>();
                let damaged = |survey: &metaq_log::Survey| survey.damage.len() + usize::from(survey.end < survey.len);
                sum.damaged_ranges += surveys.iter().map(damaged).sum::<usize>() as u64;
                self.settle_count(counted, &what);
            }
        }
        set(None);
    }

    fn settle_count(&self, counted: Change, what: &str) {
        if let Err(refused) = self.change(vec![counted], what) {
            tracing::warn!(partition = what, %refused, "the messages of old segments were counted, but that can't be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{BEGIN, Testbed};
    use std::path::Path;

    #[test]
    fn messages_of_adopted_segments_are_counted_and_damage_is_found() {
        let file = "maxSegmentSize=1240\n";
        let bed = Testbed::begin(file);
        (0..7).for_each(|_| _ = bed.put("t", 0, &"x".repeat(600)));
        let disk = bed.stop();
        disk.flip_bit(Path::new("/data/t-0/00000000000000001240.meta"), 25, 0).unwrap();
        crate::testbed::make_foreign(&disk);
        let bed = Testbed::on(disk, file, BEGIN);
        let mut pauses = 0;
        let found = bed.broker.survey(&bed.report.to_survey, || pauses += 1, || true);
        assert_eq!(found, Surveyed { partitions: 1, messages: 5, damaged_ranges: 1 });
        assert_eq!(*bed.broker.surveyed.lock(), None);
        assert!(bed.answer("stats t 1\r\n").contains("message_count 6\r\n"), "{}", bed.answer("stats t 1\r\n"));
        assert!(bed.answer("get t g 0 1240 1000 1\r\n").contains("corrupt-range"));
        assert!(bed.answer("get t g 0 1860 1000 1\r\n").starts_with("value 620 "));
        let bed = bed.restart(file);
        assert!(bed.answer("stats t 1\r\n").contains("message_count 6\r\n"), "the count is kept");
        assert!(bed.answer("get t g 0 1240 1000 1\r\n").contains("corrupt-range"), "so is the damage");
    }
}
