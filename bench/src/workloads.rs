//! The workloads: which shapes are run against whom. Contenders take turns within each round.

use crate::broker::{Durability, Kind, Programs, Running};
use crate::load::{self, Load};
use crate::report::{Measurement, Report};
use crate::{consume, raw, verify};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds.
    pub rounds: u32,
    /// Measured time of each.
    pub time: Duration,
    /// Time before it.
    pub warm_up: Duration,
}

/// The names of all workloads, with what they measure.
pub const ALL: &[(&str, &str)] = &[
    ("w1", "10 synchronous producers, interval durability, against the original and the machine's round trips"),
    ("w2", "synchronous producers, synced before acknowledged, against the original and round trip + sync"),
    ("raw", "durable 1 KiB, 16 connections x 4 and x 16 in flight, against the log without sockets"),
    ("batch", "batched puts of 100 B and 1 KiB, durable"),
    ("read", "gets of 1 MiB from the page cache, against plain sendfile"),
    ("w8", "1 to 10,000 partitions at 80 % of the rate of one"),
    ("w18", "one pipelined connection; 1,000 connections of one message each"),
    ("w20", "CPU and memory at 256 in flight and at 64 connections x 1"),
    ("start", "start on an empty and a small directory, idle memory"),
];

/// Runs one workload.
pub fn run(name: &str, programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    match name {
        "w1" => synchronous("w1", Durability::Interval, programs, plan, report),
        "w2" => synchronous("w2", Durability::Fsync, programs, plan, report),
        "raw" => against_raw(programs, plan, report),
        "batch" => batches(programs, plan, report),
        "read" => reading(programs, plan, report),
        "w8" => partitions(programs, plan, report),
        "w18" => text(programs, plan, report),
        "w20" => efficiency(programs, plan, report),
        "start" => start(programs, plan, report),
        _ => Err(io::Error::other(format!("there is no workload {name:?}"))),
    }
}

fn shape(plan: &Plan, connections: usize, in_flight: usize, bytes: usize) -> Load {
    let (time, warm_up) = (plan.time, plan.warm_up);
    Load { connections, in_flight, bytes, batch: 1, topic: "test".to_owned(), partitions: 1, rate: None, time, warm_up }
}

/// Touches as much memory as a run will fill the page cache with: the machine gives freed memory back after 2 s.
fn warm_memory(folder: &Path) -> io::Result<()> {
    let path = folder.join("scratch");
    let mut file = File::create(&path)?;
    let piece = vec![1; 1 << 20];
    for _ in 0..1024 {
        file.write_all(&piece)?;
    }
    drop(file);
    fs::remove_file(path)
}

fn measure(
    workload: &str,
    text: &str,
    kind: Kind,
    round: u32,
    durability: Durability,
    programs: &Programs,
    load: &Load,
) -> io::Result<Measurement> {
    let broker = Running::start(programs, kind, durability, load.partitions)?;
    if load.partitions > 1 {
        load::touch(broker.address, load)?;
    }
    warm_memory(&programs.folder)?;
    let sent = load::run(broker.address, broker.pid(), load)?;
    let contender = match kind {
        Kind::Metaq => "metaq",
        Kind::Original => "original",
    };
    let mut measurement = Measurement::of(workload, text, contender, round, &sent, load.rate);
    // In its threshold modes the original shows nothing before a sync, which may be 10 s away.
    if kind == Kind::Metaq || durability == Durability::Fsync {
        let found = verify::count(broker.address, &load.topic, load.partitions)?;
        assert!(
            found >= sent.acknowledged,
            "{contender} lost messages: {} acknowledged, {found} found",
            sent.acknowledged
        );
        measurement.found = i64::try_from(found).expect("below 2^63");
    }
    Ok(measurement)
}

fn kinds(programs: &Programs) -> Vec<Kind> {
    if programs.jars.is_some() { vec![Kind::Metaq, Kind::Original] } else { vec![Kind::Metaq] }
}

fn synchronous(
    name: &str,
    durability: Durability,
    programs: &Programs,
    plan: &Plan,
    report: &mut Report,
) -> io::Result<()> {
    let mut shapes = vec![(10, 256), (10, 2048), (10, 4096)];
    if durability == Durability::Fsync {
        shapes.extend([(1, 2048), (2, 2048), (50, 2048), (200, 2048)]);
    }
    for (connections, bytes) in shapes {
        let text = format!("{connections} callers, {bytes} B");
        let load = shape(plan, connections, 1, bytes);
        for round in 1..=plan.rounds {
            for kind in kinds(programs) {
                let mut load = load.clone();
                if kind == Kind::Original {
                    load.warm_up = load.warm_up.max(Duration::from_secs(8)); // until its code is compiled
                }
                report.add(measure(name, &text, kind, round, durability, programs, &load)?);
            }
            let echo = Echo::start(programs, durability == Durability::Fsync)?;
            let sent = load::run(echo.address, echo.child.id(), &load)?;
            report.add(Measurement::of(name, &text, "round trips", round, &sent, None));
        }
    }
    Ok(())
}

/// The echo server as a process of its own.
struct Echo {
    child: Child,
    address: SocketAddr,
}

impl Echo {
    fn start(programs: &Programs, sync: bool) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("echo").stdout(Stdio::piped());
        if sync {
            command.arg("--sync").arg(programs.folder.join("echo"));
        }
        let mut child = command.spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().and_then(|text| text.parse().ok());
        Ok(Self { child, address: address.ok_or_else(|| io::Error::other(format!("the echo said {line:?}")))? })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn against_raw(programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    for in_flight in [4, 16] {
        let text = format!("durable 1 KiB, 16 connections x {in_flight}");
        for round in 1..=plan.rounds {
            let load = shape(plan, 16, in_flight, 1024);
            report.add(measure("raw", &text, Kind::Metaq, round, Durability::Fsync, programs, &load)?);
            let folder = programs.folder.join("raw");
            let _ = fs::remove_dir_all(&folder);
            warm_memory(&programs.folder)?;
            let groups = 16;
            let shape = raw::Shape { in_flight: in_flight * 16, groups, bytes: 1024, partitions: 1, durable: true };
            let reached = raw::measure(&folder, shape, plan.time);
            let _ = fs::remove_dir_all(&folder);
            let mut measurement = Measurement::rate("raw", &text, "raw log", round, reached.rate);
            (measurement.p50_us, measurement.p99_us, measurement.broker_cpu_us) =
                (reached.p50_us, reached.p99_us, reached.cpu_us);
            report.add(measurement);
        }
    }
    Ok(())
}

fn batches(programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    for (bytes, batch) in [(100, 1000), (1024, 200)] {
        let text = format!("durable, batches of {batch} x {bytes} B, 4 connections x 4");
        for round in 1..=plan.rounds {
            let load = Load { batch, ..shape(plan, 4, 4, bytes) };
            report.add(measure("batch", &text, Kind::Metaq, round, Durability::Fsync, programs, &load)?);
        }
    }
    Ok(())
}

fn reading(programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    const MESSAGES: u64 = 256 * 1024;
    let text = "gets of 1 MiB, 2 connections x 4, page cache";
    let plain = programs.folder.join("plain");
    fs::write(&plain, vec![7; 256 << 20])?;
    let broker = Running::start(programs, Kind::Metaq, Durability::Interval, 2)?;
    let load = Load { batch: 200, partitions: 2, ..shape(plan, 4, 4, 1024) };
    let mut sent = 0;
    while sent < MESSAGES * 2 {
        let load = Load { time: Duration::from_millis(500), warm_up: Duration::ZERO, ..load.clone() };
        sent += load::run(broker.address, broker.pid(), &load)?.acknowledged;
    }
    for round in 1..=plan.rounds {
        let consumed = consume::gets(broker.address, broker.pid(), "test", 2, 4, 200 << 20, plan.time)?;
        let mut measurement = Measurement::rate("read", text, "metaq", round, consumed.bytes_per_second);
        measurement.broker_cpu_us = consumed.cpu_seconds_per_gb * 1e6 / 1e9 * 1024.0; // a KiB
        report.add(measurement);
        let rate = consume::plain_sendfile(&plain, 2, plan.time)?;
        report.add(Measurement::rate("read", text, "plain sendfile", round, rate));
    }
    fs::remove_file(plain)
}

fn partitions(programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    let most = measure(
        "w8",
        "1 partition, 64 x 4, maximum",
        Kind::Metaq,
        0,
        Durability::Fsync,
        programs,
        &shape(plan, 64, 4, 1024),
    )?;
    let offered = most.rate * 0.8;
    report.add(most);
    for round in 1..=plan.rounds {
        for partitions in [1, 100, 1000, 10_000] {
            let text = format!("80 % of that offered, {partitions} partitions");
            let load = Load { partitions, rate: Some(offered), ..shape(plan, 64, 16, 1024) };
            report.add(measure("w8", &text, Kind::Metaq, round, Durability::Fsync, programs, &load)?);
        }
    }
    Ok(())
}

fn text(programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    for (text, connections, in_flight) in
        [("1 connection, 256 in flight, 128 B", 1, 256), ("1,000 connections x 1, 128 B", 1000, 1)]
    {
        for round in 1..=plan.rounds {
            for kind in kinds(programs) {
                let load = shape(plan, connections, in_flight, 128);
                report.add(measure("w18", text, kind, round, Durability::Fsync, programs, &load)?);
            }
        }
    }
    Ok(())
}

fn efficiency(programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    for (text, connections, in_flight) in
        [("durable 1 KiB, 16 x 16", 16, 16), ("durable 1 KiB, 64 connections x 1", 64, 1)]
    {
        for round in 1..=plan.rounds {
            report.add(measure(
                "w20",
                text,
                Kind::Metaq,
                round,
                Durability::Fsync,
                programs,
                &shape(plan, connections, in_flight, 1024),
            )?);
        }
    }
    Ok(())
}

fn start(programs: &Programs, plan: &Plan, report: &mut Report) -> io::Result<()> {
    for round in 1..=plan.rounds {
        let mut broker = Running::start(programs, Kind::Metaq, Durability::Fsync, 1)?;
        let mut measurement =
            Measurement::rate("start", "empty directory, ms", "metaq", round, broker.started_in.as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_secs(1));
        measurement.rss_max_bytes = crate::process::Usage::of(broker.pid()).rss_bytes;
        report.add(measurement);
        let load = Load { time: Duration::from_millis(300), warm_up: Duration::ZERO, ..shape(plan, 4, 4, 1024) };
        load::run(broker.address, broker.pid(), &load)?;
        broker.restart(programs)?;
        report.add(Measurement::rate(
            "start",
            "small directory, ms",
            "metaq",
            round,
            broker.started_in.as_secs_f64() * 1e3,
        ));
    }
    Ok(())
}
