//! Properties of the pure decoders that hold for any bytes.

use crate::support::{self, Ending, Said};
use metaq_protocol::extension::fetch::FetchedParts;
use metaq_protocol::extension::{Batch, HelloAnswer};
use metaq_protocol::record::{self, End, Strictness, Walk};
use metaq_protocol::{KeyView, Limits, Status, section};

/// Small limits, so that a fuzzer reaches them.
const LIMITS: Limits = Limits {
    line_bytes_max: 200,
    message_bytes_max: 50,
    batch_bytes_max: 100,
    answer_bytes_max: 100,
    discard_bytes_max: 150,
};

/// A target's name, as in `fuzz_targets` and `corpus`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 7] = [
    ("request", request),
    ("answer", answer),
    ("fetch_answer", fetch_answer),
    ("walk", walk),
    ("batch", batch),
    ("transaction_key", transaction_key),
    ("section", self::section),
];

/// Requests don't depend on how their bytes are cut, and mean the same when they are written again.
pub fn request(bytes: &[u8]) {
    let (said, _) = support::requests(bytes, LIMITS);
    for said in said {
        let Said::Request(mut request) = said else { continue };
        let mut again = Vec::new();
        if request.encode(&mut again).is_ok() {
            support::normalize(&mut request);
            assert_eq!(
                support::requests(&again, support::UNLIMITED),
                (vec![Said::Request(request)], Ending::AllConsumed)
            );
        }
    }
}

/// Answers don't depend on how their bytes are cut, and come back when they are written again.
pub fn answer(bytes: &[u8]) {
    let (answers, _) = support::answers(bytes, LIMITS);
    for answer in answers {
        let mut again = Vec::new();
        answer.encode(&mut again).expect("it was short enough to be read");
        assert_eq!(support::answers(&again, support::UNLIMITED), (vec![answer], Ending::AllConsumed));
    }
}

/// The parts of an answer to a fetch, or to a hello, come back when they are written again.
pub fn fetch_answer(bytes: &[u8]) {
    let parts: Vec<_> = FetchedParts::of(bytes).map_while(Result::ok).collect();
    let mut again = Vec::new();
    let known = parts.iter().filter_map(|part| Some((part, Status::of(part.code)?)));
    for (part, status) in known.clone() {
        part.part.encode_head(&mut again, status, part.body.len());
        again.extend_from_slice(part.body);
    }
    let repeated: Vec<_> = FetchedParts::of(&again).map(|part| part.expect("just written")).collect();
    assert_eq!(repeated.iter().collect::<Vec<_>>(), known.map(|(part, _)| part).collect::<Vec<_>>());

    if let Some(answer) = HelloAnswer::parse(bytes) {
        let mut again = Vec::new();
        answer.encode(&mut again);
        assert_eq!(HelloAnswer::parse(&again), Some(answer));
    }
}

/// A walk gives whole records that follow each other, and stops with a reason; what is cut off is a partial tail.
pub fn walk(chunk: &[u8]) {
    let mut walk = Walk::new(chunk);
    let mut written = Vec::new();
    for found in walk.by_ref() {
        assert_eq!(found.position, written.len());
        record::encode(&mut written, found.record.id, found.record.flag, found.record.body);
        if let Ok(parts) = found.record.parts() {
            assert_eq!(parts.size(), found.record.body.len());
            let (attribute, properties) = section::split(found.record.flag, parts.attribute);
            assert!(attribute.map_or(0, <[u8]>::len) + properties.iter().count() <= parts.size());
        }
    }
    let end = walk.end().expect("a walk that gives no more has ended");
    assert_eq!((end.consumed(chunk.len()), Walk::new(chunk).run()), (written.len(), end));
    assert_eq!(written, chunk[..written.len()]);
    if let Some((_, cut)) = written.split_last() {
        assert!(matches!(Walk::new(cut).run(), End::Partial { .. }), "{} bytes were whole", written.len());
    }
}

/// A batch that is found good holds as many records as it says, and can be numbered. Two bytes say the count.
pub fn batch(bytes: &[u8]) {
    let Some((count, body)) = bytes.split_first_chunk::<2>() else { return };
    let count = u32::from(u16::from_be_bytes(*count));
    let batch = Batch { topic: "t".into(), partition: 0, count, stamp: None, opaque: 0, body };
    let Ok(checked) = batch.check(50) else { return };
    let mut numbered = checked.records().to_vec();
    assert_eq!(record::patch_ids(&mut numbered, 1), count);
    let walk = || Walk::with(&numbered, Strictness::LOG);
    assert_eq!(walk().run(), End::Clean);
    assert!(walk().map(|found| found.record.id).eq(1..=i64::from(count)));
    assert!(walk().map(|found| found.position).eq(checked.positions()));
}

/// A key that is read is printed as one that means the same.
pub fn transaction_key(word: &[u8]) {
    let Ok(key) = KeyView::parse(word) else { return };
    let printed = key.to_string();
    assert_eq!(KeyView::parse(printed.as_bytes()).as_ref(), Ok(&key));
    assert_eq!(key.to_key().to_string(), printed);
}

/// Any attribute block is taken apart; properties with fit keys come back when they are written again.
pub fn section(block: &[u8]) {
    let (_, properties) = section::split(record::FLAG_SECTION, Some(block));
    let properties: Vec<_> = properties.iter().collect();
    let mut again = Vec::new();
    if section::append(&mut again, properties.iter().map(|(key, value)| (&**key, &**value))).is_ok() {
        let (_, repeated) = section::split(record::FLAG_SECTION, Some(&again));
        assert_eq!(repeated.iter().collect::<Vec<_>>(), properties);
    }
}
