//! The way of a message through decoder and encoder allocates nothing.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

use metaq_protocol::record::{self, Walk};
use metaq_protocol::{AnswerDecoder, Decoded, DecodedAnswer, Decoder, ErrorCode, Limits, Status, answer};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(5)))), 1);
}

#[test]
fn requests_are_decoded_without_allocation() {
    let bytes = b"put t 0 5 0 907060870 -2147483648\r\nhello\
        put t 0 5 0 -1 XID:1:aa:bb:q 7\r\nhello\
        get t g 0 0 1048576 1 wait=500\r\noffset t g 0 0 3\r\nversion 4\r\nstats topics 5\r\n\
        transaction TX:s:1 s BEGIN 6\r\nputs t 0 0 1 7/1 0 7\r\nfetch g 1000 t:0:0,u:1:5 8\r\ntopic describe t 9\r\ntopic 10\r\n";
    let count = allocations(|| {
        let mut decoder = Decoder::new(Limits::DEFAULT);
        let mut rest = &bytes[..];
        while let Ok(Decoded::Request { request, used }) = decoder.decode(rest) {
            std::hint::black_box(request);
            rest = &rest[used..];
        }
        assert!(rest.is_empty());
    });
    assert_eq!(count, 0);
}

#[test]
fn answers_are_written_and_read_without_allocation() {
    let mut out = Vec::with_capacity(1000);
    let count = allocations(|| {
        answer::stored(&mut out, 1, -5468932431069315072, 0, 1 << 40);
        answer::value_head(&mut out, 5, 2);
        out.extend_from_slice(b"hello");
        answer::position(&mut out, Status::Moved, 3, 25);
        answer::error(&mut out, 4, ErrorCode::TopicUnknown, format_args!("there is no topic {:?}", "t"));
        let mut decoder = AnswerDecoder::new(Limits::DEFAULT);
        let mut rest = &out[..];
        while let Ok(DecodedAnswer::Answer { answer, used }) = decoder.decode(rest) {
            std::hint::black_box(answer);
            rest = &rest[used..];
        }
        assert!(rest.is_empty());
    });
    assert_eq!(count, 0);
}

#[test]
fn records_are_walked_and_numbered_without_allocation() {
    let mut chunk = Vec::new();
    record::encode(&mut chunk, 0, 0, b"hello");
    record::encode(&mut chunk, 0, 1, b"\0\0\0\x03taghello");
    let count = allocations(|| {
        assert_eq!(record::patch_ids(&mut chunk, 7), 2);
        assert_eq!(Walk::new(&chunk).filter(|found| found.record.parts().is_ok()).count(), 2);
    });
    assert_eq!(count, 0);
}
