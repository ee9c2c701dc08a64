//! `docs/protocol.md` is true: its examples are replayed, its tables are those of the code.

use metaq_protocol::extension::WORDS;
use metaq_protocol::{ErrorCode, Limits};
use metaq_testkit::{Setup, Transcript, transcript};
use std::path::Path;

const BINARY: &str = env!("CARGO_BIN_EXE_metaq");

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_example_is_what_the_broker_does() {
    let page = page();
    let blocks = transcript::fenced(&page, "metaq");
    assert!(blocks.len() > 20, "only {} examples", blocks.len());
    let setup = Setup::new(BINARY).variable("METAQ_COMMIT_FILE_BYTES", "16777216");
    let broker = setup.start();
    for (line, block) in blocks {
        println!("docs/protocol.md:{line}");
        Transcript::parse(block).replay(broker.address());
    }
    broker.stop();
}

#[test]
fn the_table_of_errors_is_that_of_the_code() {
    let page = page();
    let rows: Vec<(&str, i32)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let code = cells.next()?.trim().strip_suffix('`')?;
            Some((code, cells.next()?.trim().parse().ok()?))
        })
        .collect();
    let codes: Vec<(&str, i32)> = ErrorCode::ALL.iter().map(|code| (code.as_str(), code.status().number())).collect();
    assert_eq!(rows, codes);
}

#[test]
fn every_word_of_ours_is_on_the_page() {
    let page = page();
    for word in WORDS {
        assert!(page.contains(&format!("`{word}`")) || page.contains(&format!("\n{word} ")), "{word} is missing");
    }
}

#[test]
fn the_limits_on_the_page_are_the_defaults() {
    let page = page();
    let limits = Limits::DEFAULT;
    assert_eq!((limits.line_bytes_max, limits.message_bytes_max), (64 << 10, 2 << 20));
    assert_eq!(limits.discard_bytes_max, 64 << 20);
    for row in ["| a line | 64 KiB |", "| a message (body) | 2 MiB:", "| a body that is thrown away | 64 MiB |"] {
        assert!(page.contains(row), "{row} is missing");
    }
}
