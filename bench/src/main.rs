//! The workload runner: measures the broker against raw disk, raw sockets and the original, in one run.

mod broker;
mod consume;
mod echo;
mod load;
mod process;
mod raw;
mod report;
mod verify;
mod workloads;

use clap::{Parser, Subcommand};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Measures metaq; prints each measurement as a line of JSON and a table of medians and ratios.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs workloads; all if none is named
    Run {
        /// Which; see `list`
        workloads: Vec<String>,
        /// The binary to measure
        #[arg(long, default_value = "target/release/metaq")]
        metaq: PathBuf,
        /// Folder of the original's jars; without it the original is left out
        #[arg(long, env = "METAQ_ORIGINAL_JARS")]
        jars: Option<PathBuf>,
        /// Where data directories are made; it should lie on the disk that is to be measured
        #[arg(long, default_value = "/var/tmp/metaq-bench")]
        folder: PathBuf,
        /// Rounds; contenders take turns in each
        #[arg(long, default_value_t = 5)]
        rounds: u32,
        /// Measured seconds of each
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
        /// Seconds before it
        #[arg(long, default_value_t = 1.0)]
        warm_up: f64,
    },
    /// Lists the workloads
    List,
    /// Measures the log alone, without sockets, and prints a line of JSON
    Log {
        /// Messages in flight
        #[arg(long, default_value_t = 256)]
        in_flight: usize,
        /// Submissions that they are spread over
        #[arg(long, default_value_t = 16)]
        groups: usize,
        /// Bytes of a message
        #[arg(long, default_value_t = 1024)]
        bytes: usize,
        /// Partitions
        #[arg(long, default_value_t = 1)]
        partitions: u32,
        /// Acknowledge when written, not when synced
        #[arg(long)]
        written: bool,
        /// Where the directory is made
        #[arg(long, default_value = "/var/tmp/metaq-bench")]
        folder: PathBuf,
        /// Measured seconds
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Puts load on a broker that runs already, and prints a line of JSON
    Load {
        /// Where it listens
        address: std::net::SocketAddr,
        /// Its process, whose CPU is counted
        #[arg(long)]
        pid: u32,
        /// Connections
        #[arg(long, default_value_t = 16)]
        connections: usize,
        /// Requests in flight on each
        #[arg(long, default_value_t = 16)]
        in_flight: usize,
        /// Bytes of a message
        #[arg(long, default_value_t = 1024)]
        bytes: usize,
        /// Messages of a request
        #[arg(long, default_value_t = 1)]
        batch: u32,
        /// Partitions of topic `test`
        #[arg(long, default_value_t = 1)]
        partitions: u32,
        /// Messages offered a second
        #[arg(long)]
        rate: Option<f64>,
        /// Measured seconds
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Serves as the round trip contender (started by `run`)
    #[command(hide = true)]
    Echo {
        #[arg(long)]
        sync: Option<PathBuf>,
    },
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a binary owns the clock")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn main() -> io::Result<()> {
    match Arguments::parse().what {
        What::List => {
            workloads::ALL.iter().for_each(|(name, text)| println!("{name:<6} {text}"));
            Ok(())
        }
        What::Log { in_flight, groups, bytes, partitions, written, folder, seconds } => {
            let shape = raw::Shape { in_flight, groups, bytes, partitions, durable: !written };
            let folder = folder.join(format!("log-{}", std::process::id()));
            let reached = raw::measure(&folder, shape, Duration::from_secs_f64(seconds));
            println!("{}", serde_json::to_string(&reached).map_err(io::Error::other)?);
            std::fs::remove_dir_all(folder)
        }
        What::Load { address, pid, connections, in_flight, bytes, batch, partitions, rate, seconds } => {
            let (time, warm_up) = (Duration::from_secs_f64(seconds), Duration::from_secs_f64(seconds / 4.0));
            let topic = "test".to_owned();
            let load = load::Load { connections, in_flight, bytes, batch, topic, partitions, rate, time, warm_up };
            if partitions > 1 {
                load::touch(address, &load)?;
            }
            let sent = load::run(address, pid, &load)?;
            let shape = format!("{connections} x {in_flight}, {bytes} B x {batch}, {partitions} partitions");
            let measurement = report::Measurement::of("load", &shape, "broker", 1, &sent, rate);
            println!("{}", serde_json::to_string(&measurement).map_err(io::Error::other)?);
            Ok(())
        }
        What::Echo { sync } => echo::serve(sync.as_deref()),
        What::Run { workloads, metaq, jars, folder, rounds, seconds, warm_up } => {
            let folder = folder.join(std::process::id().to_string());
            std::fs::create_dir_all(&folder)?;
            let programs = broker::Programs { metaq, jars, folder: folder.clone() };
            let plan = workloads::Plan {
                rounds,
                time: Duration::from_secs_f64(seconds),
                warm_up: Duration::from_secs_f64(warm_up),
            };
            let all = || workloads::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
            let names: Vec<String> = if workloads.is_empty() { all() } else { workloads };
            let mut report = report::Report::default();
            for name in names {
                workloads::run(&name, &programs, &plan, &mut report)?;
            }
            report.print();
            std::fs::remove_dir_all(folder)
        }
    }
}
