//! Whatever request is written is read again, and whatever bytes come never panic and never depend on how they were cut.

mod support;

use metaq_protocol::extension::{Fetch, FetchPart, FetchParts, Hello};
use metaq_protocol::limits::Limits;
use metaq_protocol::request::{Get, Offset, Put, Request, Stats, Step, Sync, Transaction, Version, Wait};
use metaq_protocol::{Answer, KeyView};
use proptest::prelude::*;
use support::{Ending, Said};

/// A word as a line can hold it; empty only where `empty` allows.
fn word(empty: bool) -> impl Strategy<Value = String> {
    if empty { "[^ \\r\\n]{0,12}" } else { "[^ \\r\\n]{1,12}" }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"null".to_vec()),
        ("[^ :\\r\\n]{0,9}", any::<i32>()).prop_map(|(session, number)| format!("TX:{session}:{number}").into_bytes()),
        (any::<i32>(), "([0-9a-f]{2}){0,4}", "([0-9a-f]{2}){0,4}", "[^ :\\r\\n]{0,9}")
            .prop_map(|(format, global, branch, qualifier)| format!("XID:{format}:{global}:{branch}:{qualifier}")
                .into_bytes()),
    ]
}

/// The texts and numbers that a request may be made of.
#[derive(Debug, Clone)]
struct Material {
    topic: String,
    group: String,
    key: Vec<u8>,
    body: Vec<u8>,
    qualifier: Option<String>,
    small: (i32, i32, i32),
    id: i64,
    step: Step,
    checksum: Option<i32>,
    wait: (u32, u32),
    transactional: bool,
}

fn material() -> impl Strategy<Value = Material> {
    let numbers = (any::<(i32, i32, i32)>(), any::<i64>(), any::<(u32, u32)>(), any::<bool>());
    let checksum = prop::option::of(any::<i32>().prop_filter("is none", |&checksum| checksum != -1));
    let step = prop::sample::select(Step::ALL);
    let texts = (
        word(false),
        word(true),
        key(),
        prop::collection::vec(any::<u8>(), 0..40),
        prop::option::of("[^ \\r\\n\\p{White_Space}]{1,9}"),
    );
    (texts, numbers, checksum, step).prop_map(
        |((topic, group, key, body, qualifier), (small, id, wait, transactional), checksum, step)| Material {
            topic,
            group,
            key,
            body,
            qualifier,
            small,
            id,
            step,
            checksum,
            wait,
            transactional,
        },
    )
}

impl Material {
    fn requests<'a>(&'a self, word: &'a mut Vec<u8>) -> Vec<Request<'a>> {
        let (a, b, opaque) = self.small;
        let topic = || self.topic.as_str().into();
        let group = || self.group.as_str().into();
        let key = || KeyView::parse(&self.key).expect("made to be one");
        let wait = Wait { ms: self.wait.0, min_bytes: self.wait.1 };
        let hello = Hello { level: self.wait.0, client: group() };
        let part_topic = self.topic.replace([':', ','], "x");
        let part = FetchPart { topic: part_topic.as_str().into(), partition: a & i32::MAX, position: self.id };
        let parts = FetchParts::build(word, [part.clone(), part]).expect("made to be parts");
        vec![
            Request::Put(Put {
                topic: topic(),
                partition: a,
                flag: b,
                checksum: self.checksum,
                transaction: self.transactional.then(key),
                opaque,
                body: &self.body,
            }),
            Request::Get(Get {
                topic: topic(),
                group: group(),
                partition: a,
                position: self.id,
                size: b,
                opaque,
                wait,
            }),
            Request::Offset(Offset { topic: topic(), group: group(), partition: a, position: self.id, opaque }),
            Request::Version(Version { opaque, hello: self.transactional.then_some(hello) }),
            Request::Stats(Stats { item: Some(group()), opaque }),
            Request::Quit,
            Request::Transaction(Transaction {
                key: key(),
                session: group(),
                step: self.step,
                timeout_seconds: a.max(0),
                qualifier: self.qualifier.as_deref().map(Into::into),
                opaque,
            }),
            Request::Sync(Sync {
                topic: topic(),
                partition: a,
                flag: b,
                id: self.id,
                checksum: self.checksum,
                opaque,
                body: &self.body,
            }),
            Request::Answer(Answer::Result { code: a, opaque, text: &self.body }),
            Request::Answer(Answer::Value { opaque, data: &self.body }),
            Request::Fetch(Fetch { group: topic(), size: self.wait.0.max(1), parts, opaque, wait }),
            Request::Reserved { word: "ack", opaque },
        ]
    }
}

/// Bytes that look like requests more often than chance allows.
fn almost_requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "put", "get", "offset", "version", "stats", "quit", "transaction", "sync", "result", "value", "puts", "fetch", "hello",
            "topic", "partition", "offsets", "admin", "ack", "create", "close", "commit", "backup", "t:0:0", "TX:s:1", "XID:1:aa:bb:q",
            "null", "BEGIN", "confirm=t", "wait=5", "a=b",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        6 => (-3i32..30).prop_map(|number| number.to_string().into_bytes()),
        8 => Just(b" ".to_vec()),
        4 => Just(b"\r\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..9),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn requests_come_back(material in material()) {
        let mut word = Vec::new();
        let requests = material.requests(&mut word);
        let mut bytes = Vec::new();
        for request in &requests {
            request.encode(&mut bytes).unwrap();
        }
        let expected: Vec<_> = requests.into_iter().map(Said::Request).collect();
        prop_assert_eq!(support::requests(&bytes, Limits::DEFAULT), (expected, Ending::AllConsumed));
    }

    #[test]
    fn any_bytes_are_understood_the_same_however_they_come(bytes in almost_requests()) {
        let (said, _) = support::requests(&bytes, Limits::DEFAULT);
        for said in said {
            let Said::Request(mut request) = said else { continue };
            let mut again = Vec::new();
            // What was read can be written, but for odd bytes inside words, and means the same.
            if request.encode(&mut again).is_ok() {
                support::normalize(&mut request);
                prop_assert_eq!(
                    support::requests(&again, Limits::DEFAULT),
                    (vec![Said::Request(request)], Ending::AllConsumed)
                );
            }
        }
        support::answers(&bytes, Limits::DEFAULT);
    }
}
