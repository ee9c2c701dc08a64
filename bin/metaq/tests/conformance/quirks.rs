//! Oddities of the original that must be kept, and defects that must not be.

use super::{BINARY, check, close, fixture, is_original, target, three};
use metaq_testkit::record::{bounds, read_all, walk};
use metaq_testkit::{Frame, Put, Setup, Wire, golden};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Milliseconds from 1970 to where ids begin to count.
const ID_EPOCH_MS: i64 = 1_303_895_660_503;

#[test]
fn a_body_may_hold_anything_line_ends_too() {
    let mut wire = Wire::connect(target().address);
    let body: Vec<u8> = (0..=255).chain(*b"\r\nversion 1\r\n\r\n").collect();
    assert_eq!(wire.ask(Put::to("t_body", 0, &body).checked().bytes()).stored().position, 0);
    wire.usable();
    assert_eq!(read_all(&mut wire, "t_body", 0)[0].body, body);
}

#[test]
fn flags_and_opaques_come_back_whatever_they_are() {
    let mut wire = Wire::connect(target().address);
    for (opaque, flag) in [(i32::MIN, -1), (-1, 2), (0, i32::MAX), (i32::MAX, i32::MIN)] {
        let frame = wire.ask(Put::to("t_flag", 0, b"\0\0\0\0").flag(flag).opaque(opaque).bytes());
        assert_eq!(frame.opaque(), opaque);
        let at = frame.stored().position;
        let frame = wire.ask(format!("get t_flag g 0 {at} 100 {opaque}\r\n"));
        assert_eq!((frame.opaque(), walk(frame.value(), at)[0].flag), (opaque, flag));
    }
}

#[test]
fn every_offset_is_answered_with_a_boundary_at_or_before_it() {
    let mut wire = Wire::connect(target().address);
    let sizes = [300, 1, 500, 0, 700, 900, 20, 20];
    let mut boundaries: Vec<i64> =
        sizes.iter().map(|&size| wire.ask(Put::to("seg_b", 0, &vec![b'x'; size]).bytes()).stored().position).collect();
    boundaries.push(bounds(&mut wire, "seg_b", 0).unwrap().1);
    for position in (-3..boundaries[8] + 30).step_by(7) {
        let answered = wire.ask(format!("offset seg_b g 0 {position} 1\r\n")).position();
        assert!(boundaries.contains(&answered), "{position}: {answered}");
        assert!(answered <= position.max(0), "{position}: {answered}");
    }
}

#[test]
fn ids_are_of_the_wall_clock_and_name_the_broker() {
    if is_original() {
        return;
    }
    let setup = Setup::with_ini(BINARY, &fixture().system("brokerId", 1023));
    let broker = setup.start();
    let mut wire = broker.connect();
    let ids = three(&mut wire, "t1");
    // The file system's clock is the machine's.
    let now = std::fs::metadata(setup.ini()).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    for id in &ids {
        let ms = (id >> 22) + ID_EPOCH_MS - i64::try_from(now.as_millis()).unwrap();
        assert!((-1000..120_000).contains(&ms), "id {id} is {ms} ms off");
        assert_eq!(id >> 12 & 0x3ff, 1023);
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    broker.stop();
}

#[test]
fn a_line_without_an_end_is_not_gathered_for_ever() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    for _ in 0..200 {
        if wire.try_send([b'a'; 1024]).is_err() {
            break;
        }
    }
    wire.closed();
}

#[test]
fn a_line_as_long_as_allowed_is_a_line() {
    // `get` ignores words that it doesn't know, and lines of 64 KiB are allowed.
    let mut wire = Wire::connect(target().address);
    three(&mut wire, "t_line");
    let padding = "x".repeat((64 << 10) - "get t_line g 0 0 25 1 ".len());
    assert_eq!(wire.ask(format!("get t_line g 0 0 25 1 {padding}\r\n")).head, "value 25 1");
}

#[test]
fn a_large_body_in_small_pieces_takes_no_time() {
    let mut wire = Wire::connect(target().address);
    let body = vec![b'x'; 1 << 20];
    let request = Put::to("t_pieces", 0, &body).checked().bytes();
    let began = Instant::now();
    for piece in request.chunks(700) {
        wire.send(piece);
    }
    assert_eq!(wire.frame().stored().position, 0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_client_that_reads_late_still_gets_every_answer() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    let body = vec![b'x'; 64 << 10];
    wire.ask(Put::to("t_late", 0, &body).bytes()).stored();
    let mut sender = wire.sender();
    let asked = 1000;
    // 64 MB of answers fit into no buffer: the broker must wait for the reader, not drop.
    let asking = std::thread::spawn(move || {
        use std::io::Write;
        for opaque in 0..asked {
            sender.write_all(format!("get t_late g 0 0 1048576 {opaque}\r\n").as_bytes()).unwrap();
        }
    });
    std::thread::sleep(Duration::from_secs(1));
    for opaque in 0..asked {
        let frame = wire.frame();
        assert_eq!((frame.opaque(), frame.value().len()), (opaque, body.len() + 20));
    }
    asking.join().unwrap();
    wire.usable();
}

#[test]
fn puts_before_a_bad_line_are_answered_before_the_connection_ends() {
    if is_original() {
        return;
    }
    for _ in 0..10 {
        check(&[">> put t_bad 0 5 0 1\\r\\nhelloget t_bad g 0 0 25 2\\r\\nput t_bad 0 5 0 3\\r\\nhellobogus\\r\\n
                 < * {a}
                 < * {b}
                 < * {c}
                 ! closed"]);
    }
}

#[test]
fn a_large_message_can_be_read_as_soon_as_it_is_acknowledged() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    for size in [600 << 10, 900 << 10, 10] {
        let body = vec![b'y'; size];
        let stored = wire.ask(Put::to("t_large", 0, &body).checked().bytes()).stored();
        let frame = wire.ask(format!("get t_large g 0 {} 1048576 1\r\n", stored.position));
        let found = walk(frame.value(), stored.position);
        assert_eq!((found[0].id, found[0].body.len(), found[0].is_intact), (stored.id, size, true));
    }
}

#[test]
fn a_put_to_any_partition_never_goes_to_a_closed_one() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    close(&mut wire, "closed");
    for _ in 0..50 {
        assert_eq!(wire.ask("put closed -1 1 0 1\r\nx").stored().partition, 1);
    }
}

#[test]
fn no_topic_name_leads_out_of_the_data_directory() {
    if is_original() {
        return;
    }
    let setup = Setup::with_ini(BINARY, &fixture().topic("*"));
    let broker = setup.start();
    let mut wire = broker.connect();
    let before = metaq_testkit::file::list(setup.folder().path());
    for topic in ["../escaped", "a/b", "/tmp/a", "..", ".", ".hidden", "a\\b", "a\0b", "a:b", "a*b", "\u{fffd}", "a\tb"]
    {
        let frame = wire.ask(Put::to(topic, 0, b"x").bytes());
        assert_eq!(frame.status(), Some(500), "{topic:?}: {frame}");
        let frame = wire.ask(format!("get {topic} g 0 0 100 1\r\n"));
        assert_eq!(frame.status(), Some(404), "{topic:?}: {frame}");
    }
    let long = "x".repeat(201);
    assert_eq!(wire.ask(Put::to(&long, 0, b"x").bytes()).status(), Some(500));
    assert_eq!(wire.ask(Put::to("metaq.own", 0, b"x").bytes()).status(), Some(500));
    wire.ask(Put::to("标签", 0, b"x").bytes()).stored();
    assert_eq!(metaq_testkit::file::list(setup.folder().path()), before);
    let folders = metaq_testkit::file::list(&setup.data());
    assert!(folders.iter().all(|folder| !folder.to_string_lossy().contains("escaped")), "{folders:?}");
    broker.stop();
}

#[test]
fn a_dot_in_a_topic_name_is_a_dot() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    wire.ask("put b.c 0 1 0 1\r\nx").stored();
    assert_eq!(wire.ask("put bxc 0 1 0 1\r\nx").status(), Some(500));
}

#[test]
fn a_get_never_brings_more_than_the_partition_has() {
    if is_original() {
        return;
    }
    let address = target().address;
    let writer = std::thread::spawn(move || {
        let mut wire = Wire::connect(address);
        for _ in 0..300 {
            wire.ask("put t_end 0 5 0 1\r\nhello").stored();
        }
    });
    let mut wire = Wire::connect(address);
    let mut position = 0;
    while position < 300 * 25 {
        let frame = wire.ask(format!("get t_end g 0 {position} 1048576 1\r\n"));
        if frame.is_value() {
            position += i64::try_from(frame.body.len()).unwrap();
            let (_, max) = bounds(&mut wire, "t_end", 0).unwrap();
            assert!(position <= max, "read up to {position} of {max}");
            assert_eq!(position % 25, 0, "an unfinished message was shown");
        } else {
            assert_eq!(frame.status(), Some(404), "{frame}");
        }
    }
    writer.join().unwrap();
}

#[test]
fn a_message_over_the_limit_is_refused_with_both_sizes_and_the_connection_stays() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    let limit = 2 << 20;
    let fits = vec![b'x'; limit];
    wire.ask(Put::to("t_over", 0, &fits).checked().bytes()).stored();
    let over = vec![b'x'; limit + 1];
    let frame = wire.ask(Put::to("t_over", 0, &over).opaque(7).bytes());
    assert_eq!((frame.status(), frame.opaque()), (Some(500), 7));
    assert!(frame.text().starts_with("message-too-large: "), "{frame}");
    assert!(frame.text().contains("2097153") && frame.text().contains("2097152"), "{frame}");
    wire.usable();
    assert_eq!(read_all_sizes(&mut wire, "t_over"), [limit]);
    // What is absurdly long isn't even thrown away.
    wire.send("put t_over 0 2147483647 0 1\r\n");
    wire.closed();
}

/// The sizes of all messages of partition 0. A get ends at its size, so large messages are asked for whole.
fn read_all_sizes(wire: &mut Wire, topic: &str) -> Vec<usize> {
    read_all(wire, topic, 0).iter().map(|found| found.body.len()).collect()
}

#[test]
fn an_attribute_whose_length_is_absurd_harms_nobody() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    let bodies: [&[u8]; 4] = [b"ab", b"", b"\x7f\xff\xff\xffx", b"\xff\xff\xff\xffx"];
    for body in bodies {
        wire.ask(Put::to("t_attribute", 0, body).flag(1).checked().bytes()).stored();
    }
    let found = read_all(&mut wire, "t_attribute", 0);
    assert_eq!(found.iter().map(|found| found.body.as_slice()).collect::<Vec<_>>(), bodies);
    if let Some((_, broker)) = &target.own {
        assert!(broker.pid().resident_bytes() < 1 << 30);
    }
}

#[test]
fn pipelined_puts_are_stored_and_answered_in_the_order_in_which_they_were_sent() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    let count = 3000;
    let mut sender = wire.sender();
    let sending = std::thread::spawn(move || {
        use std::io::Write;
        for opaque in 0..count {
            let body = opaque.to_string();
            let partition = opaque % 2;
            sender.write_all(&Put::to("t_order", partition, body.as_bytes()).opaque(opaque).bytes()).unwrap();
        }
    });
    let mut last = [(-1, -1); 2];
    for frame in wire.frames(usize::try_from(count).unwrap()) {
        let stored = frame.stored();
        let index = usize::try_from(stored.partition).unwrap();
        assert!(last[index] < (frame.opaque(), stored.position), "{frame} after {last:?}");
        last[index] = (frame.opaque(), stored.position);
    }
    sending.join().unwrap();
    for partition in 0..2 {
        let bodies = read_all(&mut wire, "t_order", partition).into_iter().map(|found| found.body);
        let numbers: Vec<i32> = bodies.map(|body| String::from_utf8(body).unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (0..count).filter(|number| number % 2 == partition).collect::<Vec<_>>());
    }
}

#[test]
fn errors_begin_with_a_stable_code_and_go_on_with_a_sentence() {
    if is_original() {
        return;
    }
    let mut wire = Wire::connect(target().address);
    close(&mut wire, "closed");
    three(&mut wire, "t_code");
    let mut code = |request: &str, expected: &str| {
        let frame = wire.ask(request);
        assert!(frame.text().starts_with(&format!("{expected}: ")), "{request:?}: {frame}");
        assert!(frame.text().len() > expected.len() + 12, "a sentence is longer: {frame}");
    };
    code("put nosuch 0 5 0 7\r\nhello", "topic-not-accepted");
    code("put t_code 9 5 0 7\r\nhello", "partition-out-of-range");
    code("put t_code 0 5 0 1 7\r\nhello", "checksum-mismatch");
    code("put t_code 0 5 0 TX:s:1 7\r\nhello", "transaction-unsupported");
    code("put closed 0 5 0 7\r\nhello", "partition-closed");
    code("get closed g 0 0 100 7\r\n", "partition-closed");
    code("get t_code g 0 0 0 7\r\n", "size-invalid");
    code("group join g 9\r\n", "not-supported");
    code("topic describe nosuch 9\r\n", "topic-unknown");
    code("topic paint t 9\r\n", "malformed-argument");
    code("sync t_code 0 1 0 9 7\r\nx", "not-supported");
}

#[test]
fn the_same_bytes_come_back_whatever_the_pieces_in_which_they_are_asked_for() {
    let mut wire = Wire::connect(target().address);
    for number in 0..40_usize {
        wire.ask(Put::to("seg_cut", 0, &vec![b'a' + u8::try_from(number % 26).unwrap(); number * 13 % 400]).bytes())
            .stored();
    }
    let (_, max) = bounds(&mut wire, "seg_cut", 0).unwrap();
    let read = |wire: &mut Wire, size: i64| {
        let mut bytes = Vec::new();
        while i64::try_from(bytes.len()).unwrap() < max {
            let frame: Frame = wire.ask(format!("get seg_cut g 0 {} {size} 1\r\n", bytes.len()));
            assert!(i64::try_from(frame.value().len()).unwrap() <= size);
            bytes.extend_from_slice(frame.value());
        }
        golden::sha256(&bytes)
    };
    let whole = read(&mut wire, 1 << 20);
    for size in [1 << 12, 1000, 777, 64, 21] {
        assert_eq!(read(&mut wire, size), whole, "{size}");
    }
}
