//! Rows 25 to 37: storing.

use super::{check, close, is_original, target};
use metaq_testkit::wait::PATIENCE;
use metaq_testkit::{Wire, until};

#[test]
fn row_25_records_lie_back_to_back() {
    check(&["> put t25 0 5 0 1
             >> hello
             < result 200 * 1
             << {a} 0 0
             > put t25 0 5 0 1
             >> hello
             < result 200 * 1
             << {b} 0 25
             > put t25 0 5 0 1
             >> hello
             < result 200 * 1
             << {c} 0 50"]);
}

#[test]
fn rows_26_and_27_a_checksum_may_be_absent_or_right() {
    check(&[">> put t26 0 5 0 -1 2\\r\\nhello
             < result 200 * 2
             << {a} 0 0
             >> put t26 0 5 0 907060870 3\\r\\nhello
             < result 200 * 3
             << {b} 0 25"]);
}

#[test]
fn row_28_a_wrong_checksum_is_refused_and_stores_nothing() {
    check(&[">> put t28 0 5 0 1\\r\\nhello
             < result 200 * 1
             >> put t28 0 5 0 123 4\\r\\nhello
             < result 500 * 4
             > offset t28 g 0 9223372036854775807 5
             < result 200 2 5
             << 25"]);
}

#[test]
fn row_29_a_put_to_any_partition_goes_to_one_that_exists() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..40 {
        reached.insert(wire.ask("put t29 -1 5 0 5\r\nhello").stored().partition);
    }
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn row_30_a_partition_that_does_not_exist_is_refused() {
    check(&[">> put t30 2 5 0 6\\r\\nhello
             < result 500 * 6
             >> put t30 -2 5 0 6\\r\\nhello
             < result 500 * 6"]);
}

#[test]
fn rows_31_and_32_a_topic_must_be_configured_by_name_or_pattern() {
    check(&[">> put nosuch 0 5 0 7\\r\\nhello
             < result 500 * 7
             >> put wildcard 0 5 0 7\\r\\nhello
             < result 200 * 7"]);
}

#[test]
fn row_33_a_closed_partition_refuses_puts_and_the_next_does_not() {
    if is_original() {
        return;
    }
    close(&mut Wire::connect(target().address), "closed");
    check(&[">> put closed 0 5 0 8\\r\\nhello
             < result 403 * 8
             >> put closed 1 5 0 8\\r\\nhello
             < result 200 * 8
             << {id} 1 {at}"]);
}

#[test]
fn row_34_an_empty_message_is_a_header() {
    check(&["> put t34 0 0 0 9
             < result 200 * 9
             << {a} 0 0
             >> put t34 0 1 0 9\\r\\nx
             < result 200 * 9
             << {b} 0 20"]);
}

#[test]
fn row_35_the_next_request_begins_right_behind_a_body() {
    check(&[">> put t35 0 5 0 1\\r\\nhelloversion 3\\r\\n
             < result 200 * {first}
             < result 200 * {second}"]);
}

#[test]
fn row_36_a_blank_line_behind_a_body_ends_the_connection_and_the_message_is_stored() {
    let target = target();
    let mut wire = Wire::connect(target.address);
    wire.send("put t36 0 5 0 1\r\nhello\r\nversion 3\r\n");
    if is_original() {
        // The original may drop the answer to the put.
        drop(wire.try_frame());
    } else {
        assert_eq!(wire.frame().stored().position, 0);
    }
    wire.closed();
    // The original may still be storing it.
    let mut wire = Wire::connect(target.address);
    until(PATIENCE, "the message to be there", || {
        let frame = wire.ask("offset t36 g 0 9223372036854775807 5\r\n");
        (frame.status() == Some(200) && frame.position() == 25).then_some(())
    });
}

#[test]
fn row_37_puts_that_make_no_sense_end_the_connection() {
    for put in [
        "t37 0 5 0\\r\\nhello",
        "t37 0 5\\r\\nhello",
        "t37 0 x 0 1\\r\\nhello",
        "t37 0 -1 0 1\\r\\nhello",
        "t37 0 5 0 bogus 13\\r\\nhello",
        "t37 0 5 0 -1 TX:s:1 14 15\\r\\nhello",
    ] {
        check(&[&format!(">> put {put}\n ! closed")]);
    }
    check(&["> offset t37 g 0 0 1
             < result 404 * 1"]);
}
