//! What one run is like: sizes and limits small enough that everything happens often, drawn from the seed.

use crate::picture::Name;
use crate::random::Random;
use metaq_disk::Fault;
use metaq_log::{Durability, Geometry, Options, PartitionSettings};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where everything of the log lies.
pub const LOG_PATH: &str = "/log";
/// Where the partitions lie.
pub const DATA_PATH: &str = "/data";

/// The size of a disk that is large enough.
pub const ROOM: u64 = 1 << 40;

/// The shape of a run.
#[derive(Debug, Clone)]
pub struct Profile {
    /// What the directory is opened with.
    pub options: Options,
    /// Partitions that are used.
    pub names: Vec<Name>,
    /// Bytes of a message's body.
    pub body_bytes: Range<u64>,
    /// Most messages of a batch.
    pub batch_max: u64,
    /// Sizes of segments.
    pub segment_bytes: Range<u64>,
    /// Producers are forgotten while the run lasts.
    pub forgets_producers: bool,
    /// The clock jumps back and forth.
    pub jumps: bool,
    /// The disk fails now and then.
    pub fails: bool,
    /// The disk fills up now and then.
    pub fills: bool,
    /// All reads and writes are short.
    pub short: bool,
}

impl Profile {
    /// The shape that a seed says.
    #[must_use]
    pub fn draw(random: &mut Random) -> Self {
        // Segments large enough for index marks, some of the time.
        let large = random.chance(1, 6);
        // So many partitions that a checkpoint syncs the whole file system, some of the time.
        let many = !large && random.chance(1, 10);
        let mut options = Options::new(LOG_PATH, DATA_PATH);
        options.ring = Self::draw_ring(random, large);
        if random.chance(1, 4) {
            options.data_paths.push(PathBuf::from("/more/data"));
        }
        options.turn_bytes = *random.pick(&[4096, 16 * 1024, 1 << 20]);
        options.tuning.pending_bytes_max = *random.pick(&[1, 8 * 1024, 1 << 20]);
        options.apply_after = Duration::from_millis(random.within(0..3000));
        options.tuning.checkpoint_every = Duration::from_secs(random.within(5..100));
        options.files_max = random.below(40) + 1;
        options.broker = u16::try_from(random.within(0..1024)).expect("below 1024");
        let forgets_producers = random.chance(1, 4);
        options.producer_expiry = Duration::from_secs(if forgets_producers { 600 } else { 365 * 24 * 3600 });
        let partitions = if many { 40 } else { random.within(1..6) };
        let topics = ["orders", "audit.v2_log", "a-b"];
        let names = (0..partitions).map(|n| {
            let topic = topics[usize::try_from(n).expect("few") % topics.len()];
            (topic.into(), u32::try_from(n / 3).expect("few"))
        });
        Self {
            names: names.collect(),
            body_bytes: if large { 3000..14_000 } else { 0..*random.pick(&[60, 400, 1500]) },
            batch_max: random.within(1..7),
            segment_bytes: if large { 100_000..400_000 } else { 1000..8000 },
            forgets_producers,
            jumps: random.chance(1, 2),
            fails: random.chance(1, 3),
            fills: random.chance(1, 5),
            short: random.chance(1, 8),
            options,
        }
    }

    /// The data path that a partition lies in.
    #[must_use]
    pub fn root(&self, name: &Name) -> &Path {
        let roots = &self.options.data_paths;
        &roots[name.1 as usize % roots.len()]
    }

    /// A size of the commit log.
    pub fn draw_ring(random: &mut Random, large: bool) -> Geometry {
        let file_bytes = if large { 512 * 1024 } else { *random.pick(&[64, 68, 128, 256]) * 1024 };
        Geometry { files: u32::try_from(random.within(2..5)).expect("few"), file_bytes }
    }

    /// Something that the disk is to fail at: what, where, and how many operations later.
    pub fn draw_fault(random: &mut Random) -> (Fault, &'static str, u64) {
        let fault = *random.pick(&[
            Fault::FailWrite,
            Fault::NoSpace,
            Fault::FailRead,
            Fault::FailSync,
            Fault::FailSync,
            Fault::FailName,
            Fault::FailOpen,
            Fault::FailSetLen,
        ]);
        let path_part = *random.pick(&["/", "/data", "/log/commit", "/log/checkpoint", ".meta", ".index"]);
        (fault, path_part, random.within(0..30))
    }

    /// Settings of a partition.
    pub fn draw_settings(&self, random: &mut Random) -> PartitionSettings {
        let durability = match random.below(4) {
            0 => Durability::Os,
            1 => Durability::Interval {
                messages: u32::try_from(random.within(0..20)).expect("few"),
                time: Duration::from_millis(random.within(0..5000)),
            },
            _ => Durability::Fsync,
        };
        PartitionSettings { durability, segment_bytes_max: random.within(self.segment_bytes.clone()) }
    }
}
