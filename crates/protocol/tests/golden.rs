//! What the original wrote, sent and answered, byte for byte. The fixture is the folder that METAQ_GOLDEN names, or the project's copy;
//! every expectation comes out of it.
//!
//! Where the original errs, the rule and not the vector is written here: zeros and negative lengths are no records; a line that begins
//! with one of our own words isn't judged by the original.

#![expect(clippy::unwrap_used, reason = "a vector that is not what it must be fails the test")]

mod support;

use metaq_protocol::extension::WORDS;
use metaq_protocol::id::{BrokerId, IdParts};
use metaq_protocol::record::{self, End, Found, InvalidRecord, Parts, Record, Strictness, Walk};
use metaq_protocol::request::{Get, Offset, Put, Request, Stats, Step, Sync, Transaction, Version, Wait};
use metaq_protocol::transaction_key::{HexText, KeyView, LocalKey, XaKey};
use metaq_protocol::{Answer, Status, TransactionKey, answer};
use serde_json::{Value, json};
use std::path::PathBuf;
use support::{Ending, Said, UNLIMITED};

fn fixture(key: &str) -> Vec<Value> {
    let folder = std::env::var_os("METAQ_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev/golden")), PathBuf::from);
    let path = folder.join("message-encoding.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let vectors: Value = serde_json::from_str(&text).unwrap();
    let vectors = vectors[key].as_array().unwrap_or_else(|| panic!("{key} is no list")).clone();
    assert!(!vectors.is_empty(), "{key} is empty");
    vectors
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(vector: &Value, key: &str) -> Vec<u8> {
    let text = text(vector, key);
    HexText::parse(text.as_bytes()).unwrap().bytes().collect()
}

fn text<'v>(vector: &'v Value, key: &str) -> &'v str {
    vector[key].as_str().unwrap_or_else(|| panic!("{key} of {vector}"))
}

fn i64_of(vector: &Value, key: &str) -> i64 {
    vector[key].as_i64().unwrap_or_else(|| panic!("{key} of {vector}"))
}

fn i32_of(vector: &Value, key: &str) -> i32 {
    i64_of(vector, key).try_into().unwrap()
}

/// Attribute block and payload of a vector.
fn body_of(vector: &Value) -> Vec<u8> {
    let payload = bytes(vector, "payload");
    let parts = Parts { attribute: vector["attribute"].as_str().map(str::as_bytes), payload: &payload };
    let mut body = Vec::new();
    parts.encode(&mut body);
    body
}

#[test]
fn golden_records_are_written_and_read() {
    for vector in fixture("records") {
        let (id, flag, body) = (i64_of(&vector, "id"), i32_of(&vector, "flag"), body_of(&vector));
        let expected = bytes(&vector, "record");
        let mut record = Vec::new();
        record::encode(&mut record, id, flag, &body);
        assert_eq!(hex(&record), hex(&expected), "{vector}");
        let mut walk = Walk::with(&expected, Strictness::BATCH);
        let found = walk.next().unwrap().record;
        let checksum = i32_of(&vector, "checksum");
        assert_eq!(found, Record { checksum, id, flag, body: &body }, "{vector}");
        assert_eq!((walk.next(), walk.end()), (None, Some(End::Clean)));
        let parts = found.parts().unwrap();
        assert_eq!(parts.attribute, vector["attribute"].as_str().map(str::as_bytes), "{vector}");
        assert_eq!(hex(parts.payload), text(&vector, "payload"));
    }
}

#[test]
fn golden_checksums_are_computed() {
    for vector in fixture("checksums") {
        assert_eq!(record::checksum(&bytes(&vector, "bytes")), i32_of(&vector, "checksum"), "{vector}");
    }
}

#[test]
fn golden_ids_are_their_parts() {
    for vector in fixture("message_ids") {
        let id = i64_of(&vector, "id");
        let parts = IdParts::of(id);
        let found = json!({
            "id": id, "clock_ms": parts.clock_ms, "broker": parts.broker.number(), "sequence": parts.sequence, "how": vector["how"],
        });
        assert_eq!(found, vector);
        assert_eq!(parts.id(), Ok(id));
    }
    for vector in fixture("id_worker_bounds") {
        let refused = text(&vector, "answer").ends_with("Exception");
        assert_eq!(BrokerId::new(i64_of(&vector, "broker")).is_err(), refused, "{vector}");
    }
}

#[test]
fn golden_transaction_keys_are_read() {
    for vector in fixture("transaction_keys_parsed") {
        let found = match TransactionKey::parse(text(&vector, "text").as_bytes()) {
            Err(_) => json!({ "text": vector["text"], "error": vector["error"] }),
            Ok(key) => {
                let mut found = json!({ "text": vector["text"], "printed": key.to_string() });
                let parts = match key {
                    TransactionKey::Null => json!({ "kind": "none" }),
                    TransactionKey::Local(key) => {
                        json!({ "kind": "local", "session": key.session, "number": key.number })
                    }
                    TransactionKey::Xa(key) => json!({
                        "kind": "xa", "format": key.format, "global": hex(&key.global), "branch": hex(&key.branch),
                        "qualifier": key.qualifier,
                    }),
                };
                found.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
                found
            }
        };
        assert_eq!(found, vector);
    }
}

#[test]
fn golden_transaction_keys_are_made() {
    for vector in fixture("transaction_keys_made") {
        let key: TransactionKey = if vector["session"].is_string() {
            LocalKey { session: text(&vector, "session").into(), number: i64_of(&vector, "number") }.into()
        } else {
            XaKey {
                format: i32_of(&vector, "format"),
                global: bytes(&vector, "global"),
                branch: bytes(&vector, "branch"),
                qualifier: text(&vector, "qualifier").into(),
            }
            .into()
        };
        assert_eq!(key.to_string(), text(&vector, "key"));
    }
}

#[test]
fn golden_hex_is_read() {
    for vector in fixture("hex_parsed") {
        let found = match HexText::parse(text(&vector, "text").as_bytes()) {
            Ok(found) => json!(hex(&found.bytes().collect::<Vec<_>>())),
            Err(_) => json!({ "error": vector["bytes"]["error"].as_str().unwrap_or("refused") }),
        };
        assert_eq!(found, vector["bytes"], "{vector}");
    }
}

/// The request that a vector of `requests` describes.
fn request_of<'a>(vector: &'a Value, body: &'a [u8]) -> Request<'a> {
    let opaque = || i32_of(vector, "opaque");
    let topic = || text(vector, "topic").into();
    let key = || vector["transaction"].as_str().map(|key| KeyView::parse(key.as_bytes()).unwrap());
    let checksum = || Some(i32_of(vector, "checksum")).filter(|&checksum| checksum != -1);
    match text(vector, "word") {
        "put" => Request::Put(Put {
            topic: topic(),
            partition: i32_of(vector, "partition"),
            flag: i32_of(vector, "flag"),
            checksum: checksum(),
            transaction: key(),
            opaque: opaque(),
            body,
        }),
        "sync" => Request::Sync(Sync {
            topic: topic(),
            partition: i32_of(vector, "partition"),
            flag: i32_of(vector, "flag"),
            id: i64_of(vector, "id"),
            checksum: checksum(),
            opaque: opaque(),
            body,
        }),
        "get" => Request::Get(Get {
            topic: topic(),
            group: text(vector, "group").into(),
            partition: i32_of(vector, "partition"),
            position: i64_of(vector, "offset"),
            size: i32_of(vector, "max"),
            opaque: opaque(),
            wait: Wait::default(),
        }),
        "offset" => Request::Offset(Offset {
            topic: topic(),
            group: text(vector, "group").into(),
            partition: i32_of(vector, "partition"),
            position: i64_of(vector, "offset"),
            opaque: opaque(),
        }),
        "version" => Request::Version(Version { opaque: opaque(), hello: None }),
        "stats" => Request::Stats(Stats { item: vector["item"].as_str().map(Into::into), opaque: opaque() }),
        "quit" => Request::Quit,
        "transaction" => Request::Transaction(Transaction {
            key: key().unwrap(),
            session: text(vector, "session").into(),
            step: Step::ALL.iter().copied().find(|step| step.as_str() == text(vector, "type")).unwrap(),
            timeout_seconds: i32_of(vector, "timeout"),
            qualifier: vector["qualifier"].as_str().map(Into::into),
            opaque: opaque(),
        }),
        word => panic!("nobody sends {word}"),
    }
}

#[test]
fn golden_requests_are_written_and_read() {
    for vector in fixture("requests") {
        let body = if vector["payload"].is_string() { body_of(&vector) } else { Vec::new() };
        let mut request = request_of(&vector, &body);
        if let Request::Put(Put { checksum: Some(checksum), .. })
        | Request::Sync(Sync { checksum: Some(checksum), .. }) = request
        {
            assert_eq!(checksum, record::checksum(&body), "{vector}");
        }
        let mut out = Vec::new();
        request.encode(&mut out).unwrap();
        let expected = bytes(&vector, "bytes");
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected), "{vector}");
        assert_eq!(out, expected);
        // No item is sent as an empty one, a blank qualifier as none.
        match &mut request {
            Request::Stats(Stats { item: item @ None, .. }) => *item = Some("".into()),
            Request::Transaction(step) => step.qualifier = step.qualifier.take().filter(|text| !text.trim().is_empty()),
            _ => {}
        }
        assert_eq!(
            support::requests(&expected, UNLIMITED),
            (vec![Said::Request(request)], Ending::AllConsumed),
            "{vector}"
        );
    }
}

fn answer_as_json(answer: &Answer<'_>) -> Value {
    match answer {
        Answer::Result { code, opaque, text } => {
            let status = if Status::of(*code) == Some(Status::Ok) { "NO_ERROR" } else { "ERROR" };
            let text = (!text.is_empty()).then(|| String::from_utf8_lossy(text));
            json!({ "word": "result", "code": code, "text": text, "opaque": opaque, "status": status })
        }
        Answer::Value { opaque, data } => json!({ "word": "value", "data": hex(data), "opaque": opaque }),
    }
}

fn request_as_json(request: &Request<'_>) -> Value {
    let key = |key: &Option<KeyView<'_>>| key.as_ref().map(ToString::to_string);
    match request {
        Request::Put(put) => json!({
            "word": "put", "topic": put.topic, "partition": put.partition, "flag": put.flag, "checksum": put.checksum.unwrap_or(-1),
            "transaction": key(&put.transaction), "body": hex(put.body), "opaque": put.opaque,
        }),
        Request::Get(get) => json!({
            "word": "get", "topic": get.topic, "group": get.group, "partition": get.partition, "offset": get.position,
            "max": get.size, "opaque": get.opaque,
        }),
        Request::Offset(offset) => json!({
            "word": "offset", "topic": offset.topic, "group": offset.group, "partition": offset.partition,
            "offset": offset.position, "opaque": offset.opaque,
        }),
        Request::Version(version) => json!({ "word": "version", "opaque": version.opaque }),
        Request::Stats(stats) => json!({ "word": "stats", "item": stats.item, "opaque": stats.opaque }),
        Request::Quit => json!({ "word": "quit" }),
        Request::Transaction(step) => json!({
            "word": "transaction", "transaction": step.key.to_string(), "session": step.session, "type": step.step.as_str(),
            "timeout": step.timeout_seconds, "qualifier": step.qualifier, "opaque": step.opaque,
        }),
        Request::Sync(sync) => json!({
            "word": "sync", "topic": sync.topic, "partition": sync.partition, "flag": sync.flag, "id": sync.id,
            "checksum": sync.checksum.unwrap_or(-1), "body": hex(sync.body), "opaque": sync.opaque,
        }),
        Request::Answer(answer) => answer_as_json(answer),
        ours => panic!("{ours:?} is unknown to the original"),
    }
}

fn ending_as_json(commands: Vec<Value>, ending: Ending) -> Value {
    let (end, left) = match ending {
        Ending::AllConsumed => ("all consumed", Some(0)),
        Ending::NeedsMore { left } => ("needs more bytes", Some(left)),
        Ending::Closes(_) => ("closes the connection", None),
    };
    json!({ "commands": commands, "end": end, "left": left })
}

/// Whether the original closed at a line that begins with one of our words.
fn closed_at_one_of_ours(bytes: &[u8], answer: &Value) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let ours = text.split("\r\n").any(|line| WORDS.contains(&line.split(' ').next().unwrap_or_default()));
    ours && answer["end"] == "closes the connection"
}

#[test]
fn golden_lines_are_parsed() {
    for vector in fixture("lines_parsed") {
        let bytes = bytes(&vector, "bytes");
        if closed_at_one_of_ours(&bytes, &vector["answer"]) {
            continue;
        }
        let (said, ending) = support::requests(&bytes, UNLIMITED);
        let commands = said
            .iter()
            .map(|said| match said {
                Said::Request(request) => request_as_json(request),
                Said::Oversized(oversized) => panic!("nothing is too large here: {oversized:?}"),
            })
            .collect();
        assert_eq!(ending_as_json(commands, ending), vector["answer"], "{:?}", String::from_utf8_lossy(&bytes));
    }
}

fn check_reply(bytes: &[u8], decoded: &Value) {
    let (answers, ending) = support::answers(bytes, UNLIMITED);
    let commands = answers.iter().map(answer_as_json).collect();
    assert_eq!(ending_as_json(commands, ending), *decoded, "{:?}", String::from_utf8_lossy(bytes));
}

#[test]
fn golden_results_are_written_and_read() {
    for vector in fixture("result_replies") {
        let (code, opaque) = (i32_of(&vector, "code"), i32_of(&vector, "opaque"));
        let text = vector["text"].as_str().unwrap_or_default().as_bytes();
        let expected = bytes(&vector, "bytes");
        let mut out = Vec::new();
        Answer::Result { code, opaque, text }.encode(&mut out).unwrap();
        assert_eq!(hex(&out), hex(&expected), "{vector}");
        if let Some(status) = Status::of(code) {
            out.clear();
            answer::result(&mut out, status, opaque, text);
            assert_eq!(hex(&out), hex(&expected), "{vector}");
        }
        check_reply(&expected, &vector["decoded"]);
    }
}

#[test]
fn golden_values_are_written_and_read() {
    for vector in fixture("value_replies") {
        let (opaque, data, expected) = (i32_of(&vector, "opaque"), bytes(&vector, "data"), bytes(&vector, "bytes"));
        let mut out = Vec::new();
        answer::value_head(&mut out, data.len(), opaque);
        out.extend_from_slice(&data);
        assert_eq!(hex(&out), hex(&expected), "{vector}");
        check_reply(&expected, &vector["decoded"]);
    }
}

#[test]
fn golden_replies_are_parsed() {
    for vector in fixture("replies_parsed") {
        check_reply(&bytes(&vector, "bytes"), &vector["decoded"]);
    }
}

/// The messages that the original found, and ours: where it took zeros for messages, ours stop before them.
fn right_messages(vector: &Value) -> (Vec<Value>, Option<End>) {
    let observed = vector["messages"].as_array().unwrap().clone();
    let is_zeros = |message: &Value| message["id"] == 0 && message["attribute"].is_null() && message["payload"] == "";
    let zeros = observed.iter().position(is_zeros);
    let messages = observed[..zeros.unwrap_or(observed.len())].to_vec();
    let position = messages.last().map_or(0, |message| usize::try_from(i64_of(message, "next")).unwrap());
    (messages, zeros.map(|_| End::Invalid { position, why: InvalidRecord::Zeros }))
}

#[test]
fn golden_chunks_are_walked() {
    let message = |found: Found<'_>| {
        let parts = found.record.parts().ok()?;
        let attribute = parts.attribute.map(String::from_utf8_lossy);
        Some(json!({
            "id": found.record.id, "attribute": attribute, "payload": hex(parts.payload), "next": found.next_position(),
        }))
    };
    for vector in fixture("chunk_walks") {
        let chunk = bytes(&vector, "chunk");
        let mut walk = Walk::new(&chunk);
        // A record whose attribute is out of bounds ends the original's walk too.
        let found: Vec<Value> = walk.by_ref().map_while(message).collect();
        let (expected, zeros) = right_messages(&vector);
        assert_eq!(found, expected, "{vector}");
        let end = Walk::new(&chunk).run();
        let consumed = usize::try_from(i64_of(&vector, "consumed")).unwrap();
        match (zeros, text(&vector, "end")) {
            (Some(zeros), _) => assert_eq!(end, zeros, "{vector}"),
            (None, "end") => {
                assert!(matches!(end, End::Clean | End::Partial { .. }), "{end:?} of {vector}");
                assert_eq!(end.consumed(chunk.len()), consumed);
            }
            (None, _) => assert!(
                matches!(end, End::Invalid { position, .. } if position == consumed)
                    || found.len() < Walk::new(&chunk).count(),
                "{end:?} of {vector}"
            ),
        }
    }
}
