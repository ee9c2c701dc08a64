//! Data directories of every released format open, clean or crashed, with all that is in them.

use metaq_testkit::{Setup, file, record};
use std::path::Path;

fn check(state: &str) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/fixtures/format-1").join(state);
    let setup = Setup::new(env!("CARGO_BIN_EXE_metaq"));
    file::copy_folder(&fixture, &setup.data());
    let broker = setup.start();
    let mut wire = broker.connect();
    let texts: Vec<_> = record::read_all(&mut wire, "orders", 0).into_iter().map(|message| message.body).collect();
    let expected: Vec<_> = (1..=40).map(|number| format!("message {number}").into_bytes()).collect();
    assert_eq!(texts, expected);
    let tagged = record::read_all(&mut wire, "orders", 1);
    assert_eq!((tagged.len(), tagged[0].flag), (1, 1));
    assert!(tagged[0].body.ends_with(b"with an attribute"));
    wire.send("offsets fetch billing 5\r\n");
    let position = wire.frame().text();
    assert!(position.contains("position=100"), "{position}");
    broker.stop();
}

#[test]
fn a_directory_of_format_1_that_was_stopped_cleanly_opens() {
    check("clean");
}

#[test]
fn a_directory_of_format_1_that_crashed_opens() {
    check("crashed");
}
