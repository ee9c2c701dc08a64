//! Rows 1 to 24: how requests are cut and answers come.

use super::{check, target};
use metaq_testkit::{Frame, Wire};

#[test]
fn rows_1_to_5_a_version_is_answered_with_its_opaque() {
    check(&[
        "> version 5
         < result 200 * 5",
        "> version
         < result 200 * 2147483647",
        "> version -3
         < result 200 * -3
         > version +5
         < result 200 * 5",
        "> version 5\\s
         < result 200 * 5",
        "> version 7 8
         < result 200 * 7",
    ]);
}

#[test]
fn rows_6_to_12_a_line_that_makes_no_sense_ends_the_connection_unanswered() {
    for line in ["version  7", "version abc", "version 2147483648", "VERSION 5", "\\sversion 5", "", "foo", "\\s\\s"] {
        check(&[&format!("> {line}\n ! closed")]);
    }
}

#[test]
fn row_13_a_line_ends_with_both_cr_and_lf() {
    check(&[">> version 5\\n
             ! silent
             >> \\r\\n
             ! closed"]);
}

#[test]
fn row_14_a_line_may_come_in_pieces() {
    check(&[">> ver
             ! silent
             > sion 9
             < result 200 * 9"]);
}

#[test]
fn row_15_a_body_may_come_in_pieces() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    for piece in ["put t15 0 5 0 7\r", "\nhe", "llo"] {
        wire.send(piece);
        wire.stream().set_nodelay(true).unwrap();
    }
    assert_eq!(wire.frame().stored().position, 0);
    wire.usable();
    check(&[">> put t15 0 5 0 8\\r
             ! silent
             >> \\nhe
             ! silent
             >> llo
             < result 200 * 8
             << {id} 0 25"]);
}

#[test]
fn row_16_a_put_waits_for_its_body() {
    check(&[">> put t16 0 10 0 1\\r\\nhello
             ! silent
             >> world
             < result 200 * 1
             << {id} 0 0"]);
}

#[test]
fn row_17_whatever_begins_with_v_is_a_version() {
    check(&["> v 9
             < result 200 * 9
             > ver 9
             < result 200 * 9"]);
}

#[test]
fn row_18_whatever_begins_with_q_ends_the_connection() {
    for line in ["q", "quit", "quit x"] {
        check(&[&format!("> {line}\n ! closed")]);
    }
}

#[test]
fn row_19_what_came_before_a_bad_line_is_answered_and_nothing_after_it() {
    check(&[">> version 1\\r\\nbogus\\r\\nversion 2\\r\\n
             < result 200 * 1
             ! closed"]);
}

#[test]
fn row_20_one_opaque_twice_is_answered_twice() {
    let mut wire = Wire::connect(target().address);
    let first = wire.ask("version 1\r\nversion 1\r\n");
    assert_eq!((first.status(), first.opaque()), (Some(200), 1));
    assert_eq!(wire.frame(), first);
    wire.usable();
}

#[test]
fn row_21_a_quit_ends_the_connection_behind_what_came_before() {
    check(&[">> version 1\\r\\nquit\\r\\nversion 2\\r\\n
             < result 200 * 1
             ! closed"]);
}

#[test]
fn rows_22_and_23_answers_sent_to_a_broker_are_ignored() {
    check(&[
        ">> result 200 2 1\\r\\nhi
         ! silent",
        ">> value 2 1\\r\\nhi
         ! silent",
    ]);
}

#[test]
fn row_24_pipelined_requests_are_each_answered_once_by_whole_frames() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    assert_eq!(wire.ask("put t24 0 5 0 9\r\nhello").stored().position, 0);
    wire.send(
        "get t24 g 0 0 1048576 1\r\nversion 2\r\noffset t24 g 0 0 3\r\nstats help 4\r\nget t24 g 0 0 1048576 5\r\n",
    );
    let mut frames = wire.frames(5);
    frames.sort_by_key(Frame::opaque);
    let opaques: Vec<i32> = frames.iter().map(Frame::opaque).collect();
    assert_eq!(opaques, [1, 2, 3, 4, 5]);
    assert_eq!(frames[0].value(), frames[4].value());
    assert_eq!(frames[2].position(), 0);
    assert!(frames[3].text().starts_with("STATS\r\n"), "{}", frames[3]);
    wire.usable();
}
