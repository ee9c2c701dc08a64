//! Puts and gets allocate nothing per message: counted over the whole process, log and client included.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Bed, Setup};

static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is the system allocator's; the counter is an atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
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

const IN_FLIGHT: usize = 100;
const ROUNDS: usize = 200;

/// Says `request`, whose answer has always the same length, so often, so many at a time; gives allocations per request.
fn allocations(bed: &Bed, request: &str, answer_len: usize) -> f64 {
    let client = bed.connect();
    let mut stream = client.stream();
    let requests = request.repeat(IN_FLIGHT);
    let mut answers = vec![0; answer_len * IN_FLIGHT];
    let mut rounds = |count: usize| {
        for _ in 0..count {
            stream.write_all(requests.as_bytes()).expect("the server reads");
            stream.read_exact(&mut answers).expect("the server answers");
        }
    };
    rounds(20);
    let before = COUNT.load(Ordering::Relaxed);
    rounds(ROUNDS);
    let count = COUNT.load(Ordering::Relaxed) - before;
    f64::from(u32::try_from(count).expect("not so many")) / (IN_FLIGHT * ROUNDS) as f64
}

#[test]
fn puts_gets_and_heartbeats_allocate_nothing_each() {
    let bed = Setup { real: true, ..Setup::new("[topic=t]\n[topic=far]\n") }.start();
    let version = allocations(&bed, "version 1\r\n", "result 200 12 1\r\n1.4.6.3-test".len());
    assert!(version < 0.01, "{version} allocations per version");
    bed.connect().ask("put t 0 5 0 1\r\nhello").position();
    let get = allocations(&bed, "get t g 0 0 25 1\r\n", "value 25 1\r\n".len() + 25);
    assert!(get < 0.01, "{get} allocations per get");
    let put = put_allocations(&bed);
    assert!(put < 0.1, "{put} allocations per put");
}

/// Puts have answers of several lengths: those of a round are read up to the last one's end.
fn put_allocations(bed: &Bed) -> f64 {
    let client = bed.connect();
    let mut stream = client.stream();
    let requests = "put far 0 5 0 1\r\nhello".repeat(IN_FLIGHT);
    let mut answers = vec![0; 128 * IN_FLIGHT];
    let mut rounds = |count: usize| {
        for _ in 0..count {
            stream.write_all(requests.as_bytes()).expect("the server reads");
            let mut seen = 0;
            while seen < IN_FLIGHT {
                let read = stream.read(&mut answers).expect("the server answers");
                seen += answers[..read].iter().filter(|byte| **byte == b'r').count();
            }
        }
    };
    rounds(20);
    let before = COUNT.load(Ordering::Relaxed);
    rounds(ROUNDS);
    let count = COUNT.load(Ordering::Relaxed) - before;
    f64::from(u32::try_from(count).expect("not so many")) / (IN_FLIGHT * ROUNDS) as f64
}
