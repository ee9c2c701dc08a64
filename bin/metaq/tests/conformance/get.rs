//! Rows 41 to 58: reading.

use super::{BINARY, check, close, fixture, is_original, target, three};
use metaq_testkit::record::{read_all, walk};
use metaq_testkit::{Put, Setup, Wire, transcript};
use std::time::Duration;

#[test]
fn row_41_a_get_brings_the_records_as_they_are_stored() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    let ids = three(&mut wire, "t41");
    let frame = wire.ask("get t41 g 0 0 1048576 1\r\n");
    assert_eq!(frame.head, "value 75 1");
    assert_eq!(frame.body[..8], [0, 0, 0, 5, 0x36, 0x10, 0xa6, 0x86]);
    let found = walk(frame.value(), 0);
    assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), ids);
    for found in found {
        assert_eq!((found.flag, found.is_intact, found.body.as_slice()), (0, true, &b"hello"[..]));
    }
    wire.usable();
}

#[test]
fn rows_42_to_44_a_get_is_cut_where_its_size_says() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    three(&mut wire, "t42");
    let whole = wire.ask("get t42 g 0 0 1048576 1\r\n").body;
    for (position, size) in [(0, 30), (0, 1), (3, 20), (25, 25), (74, 10)] {
        let frame = wire.ask(format!("get t42 g 0 {position} {size} 1\r\n"));
        assert_eq!(frame.value(), &whole[position..(position + size).min(75)], "{position} {size}");
    }
    wire.usable();
}

#[test]
fn row_45_a_size_below_1_is_refused() {
    three(&mut Wire::connect(target().address), "t45");
    check(&["> get t45 g 0 0 0 1
             < result 400 * 1
             > get t45 g 0 0 -5 1
             < result 400 * 1"]);
}

#[test]
fn rows_46_to_49_a_get_outside_the_partition_is_told_where_to_go() {
    three(&mut Wire::connect(target().address), "t46");
    check(&["> get t46 g 0 -1 100 1
             < result 301 1 1
             << 0
             > get t46 g 0 75 100 1
             < result 404 * 1
             > get t46 g 0 99999 100 1
             < result 404 * 1
             > get t46 g 0 9223372036854775807 100 1
             < result 301 2 1
             << 75"]);
}

#[test]
fn row_48_a_get_beyond_the_end_is_moved_to_it_if_so_configured() {
    if target().own.is_none() {
        return;
    }
    let broker = Setup::with_ini(BINARY, &fixture().system("updateConsumerOffsets", "true")).start();
    three(&mut broker.connect(), "t48");
    transcript::check(
        broker.address(),
        "> get t48 g 0 75 100 1
         < result 404 * 1
         > get t48 g 0 99999 100 1
         < result 301 2 1
         << 75",
    );
    broker.stop();
}

#[test]
fn row_50_what_has_no_store_is_not_found_before_anything_else_is_wrong() {
    three(&mut Wire::connect(target().address), "t50");
    check(&["> get t50 g 5 0 100 1
             < result 404 * 1
             > get empty g 0 0 100 1
             < result 404 * 1
             > get t50 g 5 0 0 1
             < result 404 * 1
             > get nosuch g 0 0 100 1
             < result 404 * 1"]);
}

#[test]
fn rows_51_and_57_a_closed_partition_refuses_gets_but_not_offsets() {
    if is_original() {
        return;
    }
    let target = target();
    let mut wire = Wire::connect(target.address);
    close(&mut wire, "closed");
    check(&["> get closed g 0 0 100 1
             < result 403 * 1
             > get closed g 0 0 0 1
             < result 403 * 1"]);
    let frame = wire.ask("offset closed g 0 0 1\r\n");
    assert!(matches!(frame.status(), Some(200 | 404)), "{frame}");
    assert!(wire.ask("partition open shut 0 1\r\n").status() == Some(200));
    wire.ask("put shut 0 5 0 1\r\nhello").stored();
    close(&mut wire, "shut");
    let frame = wire.ask("offset shut g 0 0 1\r\n");
    assert_eq!((frame.status(), frame.position()), (Some(200), 0));
    assert_eq!(wire.ask("get shut g 0 0 100 1\r\n").status(), Some(403));
    assert_eq!(wire.ask("partition open shut 0 1\r\n").status(), Some(200));
    assert!(wire.ask("get shut g 0 0 100 1\r\n").is_value());
}

#[test]
fn row_52_a_get_needs_its_words_and_ignores_more() {
    three(&mut Wire::connect(target().address), "t52");
    check(&[
        "> get t52 g 0 0
         ! closed",
        "> get t52 g 0 0 2147483648 1
         ! closed",
        "> get t52 g 0 0 100 1 extra
         < value 75 1",
    ]);
}

/// Three messages of 600 bytes: the first segment ends at 1240.
fn three_long(wire: &mut Wire, topic: &str) {
    for number in 0..3_i32 {
        let stored = wire.ask(Put::to(topic, 0, &[b'x'; 600]).opaque(number).bytes()).stored();
        assert_eq!(stored.position, i64::from(number) * 620);
    }
}

#[test]
fn row_53_a_get_ends_where_a_segment_does() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    three_long(&mut wire, "seg53");
    for (position, bytes) in [(620, 620), (1240, 620), (0, 1240), (1239, 1)] {
        let frame = wire.ask(format!("get seg53 g 0 {position} 4000 1\r\n"));
        assert_eq!(frame.head, format!("value {bytes} 1"), "{position}");
    }
    wire.usable();
}

#[test]
fn row_54_an_offset_is_answered_with_the_beginning_of_its_segment() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    three_long(&mut wire, "seg54");
    three(&mut wire, "t54");
    check(&["> offset seg54 g 0 700 1
             < result 200 1 1
             << 0
             > offset seg54 g 0 1300 1
             < result 200 4 1
             << 1240
             > offset seg54 g 0 9223372036854775807 1
             < result 200 4 1
             << 1860
             > offset seg54 g 0 1860 1
             < result 200 4 1
             << 1860
             > offset t54 g 0 -1 1
             < result 200 1 1
             << 0"]);
}

#[test]
fn row_55_what_retention_took_is_moved_to_the_oldest_that_is_left() {
    if target().own.is_none() {
        return;
    }
    let ini = fixture().topic("seg55").topic_key("seg55", "deletePolicy", "delete,1s").topic_key(
        "seg55",
        "deleteWhen",
        "* * * * * ?",
    );
    let broker = Setup::with_ini(BINARY, &ini).start();
    let mut wire = broker.connect();
    three_long(&mut wire, "seg55");
    metaq_testkit::until(Duration::from_secs(20), "retention to take the first segment", || {
        (wire.ask("offset seg55 g 0 0 1\r\n").position() == 1240).then_some(())
    });
    transcript::check(
        broker.address(),
        "> get seg55 g 0 0 30 1
         < result 301 4 1
         << 1240
         > get seg55 g 0 1239 30 1
         < result 301 4 1
         << 1240
         > offset seg55 g 0 0 1
         < result 200 4 1
         << 1240
         > get seg55 g 0 1240 30 1
         < value 30 1",
    );
    broker.stop();
}

#[test]
fn row_56_an_offset_of_what_has_no_store_is_not_found() {
    check(&["> offset nosuch g 0 0 1
             < result 404 * 1
             > offset empty g 0 0 1
             < result 404 * 1"]);
}

#[test]
fn row_58_an_attribute_is_part_of_the_body() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    let body = b"\0\0\0\x03taghello";
    let stored = wire.ask([&b"put t58 1 12 1 574639336 7\r\n"[..], body].concat()).stored();
    assert_eq!((stored.partition, stored.position), (1, 0));
    let found = read_all(&mut wire, "t58", 1);
    assert_eq!((found[0].id, found[0].flag, found[0].body.as_slice()), (stored.id, 1, &body[..]));
}
