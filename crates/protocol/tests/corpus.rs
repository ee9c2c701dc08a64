//! The committed corpus of the fuzz targets runs through the functions that they run.

#[path = "../../../fuzz/src/protocol.rs"]
mod protocol;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_corpus_file_passes_its_target() {
    let fuzz = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"));
    for (name, run) in protocol::TARGETS {
        let mut files: Vec<_> = fs::read_dir(fuzz.join("corpus").join(name))
            .unwrap_or_else(|error| panic!("{name} has no corpus: {error}"))
            .map(|entry| entry.expect("the corpus can be listed").path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            println!("{}", file.display());
            run(&fs::read(&file).expect("the corpus can be read"));
        }
    }
}

#[test]
fn every_target_of_this_crate_is_declared() {
    let fuzz = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"));
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, _) in protocol::TARGETS {
        let text = fs::read_to_string(fuzz.join("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(text.contains(&format!("protocol::{name}(bytes)")) && manifest.contains(&format!("name = \"{name}\"")));
    }
    let names: BTreeSet<_> = protocol::TARGETS.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), protocol::TARGETS.len());
}
