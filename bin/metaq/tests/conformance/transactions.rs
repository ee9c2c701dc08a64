//! Rows 38 to 40 and 59 to 73, as far as a broker without transactions can answer them.

use super::{check, is_original, target};
use metaq_testkit::Wire;
use metaq_testkit::record::read_all;

#[test]
fn rows_59_to_71_transactions_are_not_there_yet_and_say_so() {
    if is_original() {
        return;
    }
    for step in ["BEGIN", "BEGIN 5", "PREPARE", "COMMIT_ONE_PHASE", "COMMIT_TWO_PHASE", "ROLLBACK", "FORGET"] {
        check(&[
            &format!("> transaction TX:s:1 s {step} 3\n < result 503 * 3"),
            &format!("> transaction XID:100:0a0b:0c0d:uq s {step} uq 4\n < result 503 * 4"),
        ]);
    }
    check(&[
        "> transaction null s9 RECOVER uq 11
         < result 503 * 11",
        "> transaction XID:100:0a0b:0c0d:uq s END uq 7
         ! silent",
    ]);
}

#[test]
fn rows_38_to_40_a_put_of_a_transaction_that_is_unknown_is_refused_and_stores_nothing() {
    check(&[">> put tx 0 5 0 TX:s:1 11\\r\\nhello
             < result 500 * 11
             >> put tx 0 5 0 -1 TX:s:1 11\\r\\nhello
             < result 500 * 11
             >> put tx 0 5 0 XID:1:aa:bb:q 12\\r\\nhello
             < result 500 * 12
             >> put tx 0 5 0 null 10\\r\\nhello
             < result 500 * 10"]);
    let target = target();
    let mut wire = Wire::connect(target.address);
    let frame = wire.ask("put tx 0 5 0 XID:1:aa:bb:q 12\r\nhello");
    assert!(!frame.text().starts_with("XAException:"), "{frame}");
    assert_eq!(read_all(&mut wire, "tx", 0), []);
}

#[test]
fn row_72_transaction_lines_that_make_no_sense_end_the_connection() {
    for line in [
        "transaction TX:a:1 s begin 1",
        "transaction TX:a s BEGIN 1",
        "transaction TX:a:b:1 s BEGIN 1",
        "transaction TX:a:2147483648 s BEGIN 1",
        "transaction XID:1:aa:bb s BEGIN 1",
        "transaction XID:1:zz:bb:uq s BEGIN 1",
        "transaction TX:a:1 s BEGIN  1",
        "transaction 2",
    ] {
        check(&[&format!("> {line}\n ! closed")]);
    }
}
