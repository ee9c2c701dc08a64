//! Puts and gets allocate nothing per message.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use metaq_broker::configuration::{Settings, Sources};
use metaq_broker::{Broker, Got, Surroundings, log_options};
use metaq_disk::{Disk, FaultyDisk};
use metaq_log::{Opened, Outlet, Submission};
use metaq_protocol::request::{Get, Put};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is the system allocator's; the counter is a plain cell of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

/// Keeps what comes back.
#[derive(Default)]
struct Inbox(Mutex<Vec<Submission>>);

impl Outlet for Inbox {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        self.0.lock().unwrap().extend(sequenced.drain(..).map(|submission| *submission));
    }

    fn wake(&self, _ready: &[u32]) {}
}

/// A broker without threads, on a simulated disk.
fn broker() -> (Opened, Arc<Broker>) {
    let file = "[system]\ndataPath=/data\ncommitFileBytes=1024*1024\nmessageBytesMax=64*1024\n[topic=t]\nnumPartitions=8\nstat=true\n";
    let settings = Settings::load(&Sources { file: Some(file.as_bytes()), overrides: &[], home: None }).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(1));
    let opened = metaq_log::open(disk, log_options(&settings, "metaq test", None), 1).unwrap();
    let surroundings = Surroundings {
        clock: Arc::new(|| 1),
        random: Arc::new(|| 5),
        pid: 1,
        version: "test".to_owned(),
        file: None,
        reload: Arc::new(|| Err("nothing to read".to_owned())),
    };
    let broker = Broker::new(opened.log.clone(), settings, surroundings).unwrap();
    (opened, broker)
}

fn put(partition: i32, body: &[u8]) -> Put<'_> {
    Put { topic: "t".into(), partition, flag: 0, checksum: None, transaction: None, opaque: -9, body }
}

#[test]
fn a_put_and_its_answer_and_a_get_allocate_nothing() {
    let (mut opened, broker) = broker();
    let inbox = Arc::new(Inbox::default());
    let outlet = opened.log.register(Arc::clone(&inbox) as Arc<dyn Outlet>);
    let mut submission = Submission {
        outlet,
        token: 0,
        bytes: Vec::with_capacity(1 << 16),
        items: Vec::with_capacity(64),
        outcomes: Vec::with_capacity(64),
        wait_durable: 0,
    };
    let puts = |submission: &mut Submission| {
        for partition in [0, 1, 2, 3, -1, 0, 1, 2, 3, -1] {
            broker.put(&put(partition, &[7; 1000]), submission).unwrap();
        }
    };
    // The first ones make the partitions.
    puts(&mut submission);
    submission.bytes.clear();
    submission.items.clear();
    assert_eq!(allocations(|| puts(&mut submission)), 0);

    opened.log.submit(Box::new(submission));
    opened.sequencer.write_turn(1);
    opened.sequencer.sync();
    let done = inbox.0.lock().unwrap().pop().unwrap();
    let mut out = Vec::with_capacity(4096);
    let answering = allocations(|| {
        for (item, outcome) in done.items.iter().zip(&done.outcomes) {
            let metaq_log::What::Append(append) = &item.what else { panic!("only puts") };
            broker.answer_put(item.tag, &append.partition, outcome, &mut out);
        }
    });
    assert_eq!(answering, 0);
    assert_eq!(out.windows(11).filter(|part| part == b"result 200 ").count(), 10);

    let get = Get {
        topic: "t".into(),
        group: "g".into(),
        partition: 0,
        position: 0,
        size: 1000,
        opaque: 1,
        wait: metaq_protocol::request::Wait::default(),
    };
    // The first one brings the bytes into the segment and opens it.
    assert!(matches!(broker.get(&get), Got::Slice(_)));
    assert_eq!(allocations(|| assert!(matches!(broker.get(&get), Got::Slice(_)))), 0);
}
