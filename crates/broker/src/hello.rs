//! Who the broker is and what it can do: the answers to `version` and to `hello`.

use crate::broker::Broker;
use metaq_protocol::extension::{HELLO_LEVEL, HelloAnswer};
use metaq_protocol::{Status, answer};

/// What this broker does beyond the original, by the first words that ask for it.
const FEATURES: [&str; 7] = ["puts", "wait", "fetch", "topic", "partition", "offsets", "admin"];

impl Broker {
    /// Appends the answer to a `version`; `hello`: the client knows extensions.
    pub fn answer_version(&self, opaque: i32, hello: bool, out: &mut Vec<u8>) {
        if !hello {
            return answer::result(out, Status::Ok, opaque, self.version().as_bytes());
        }
        let mut text = Vec::new();
        self.hello().encode(&mut text);
        answer::result(out, Status::Ok, opaque, &text);
    }

    fn hello(&self) -> HelloAnswer<'static> {
        let settings = self.settings.load();
        let limits = &settings.limits;
        let limits = [
            ("line", limits.line_bytes_max),
            ("message", limits.message_bytes_max),
            ("batch", limits.batch_bytes_max),
            ("batch_messages", limits.batch_messages_max),
            ("transfer", limits.transfer_bytes_max),
            ("wait_ms", usize::try_from(settings.times.wait_max.as_millis()).unwrap_or(usize::MAX)),
        ];
        HelloAnswer {
            level: HELLO_LEVEL,
            server: concat!("metaq/", env!("CARGO_PKG_VERSION")).into(),
            limits: limits.iter().map(|(name, limit)| ((*name).into(), *limit as u64)).collect(),
            features: FEATURES.iter().map(|feature| (*feature).into()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Testbed;

    #[test]
    fn who_says_hello_learns_limits_and_features_and_others_the_version() {
        let bed = Testbed::begin("");
        let mut out = Vec::new();
        bed.broker.answer_version(-3, false, &mut out);
        assert_eq!(out, b"result 200 12 -3\r\n1.4.6.3-test");
        out.clear();
        bed.broker.answer_version(5, true, &mut out);
        let body = out.splitn(2, |byte| *byte == b'\n').nth(1).unwrap();
        let answer = HelloAnswer::parse(body).unwrap();
        assert_eq!(answer.level, HELLO_LEVEL);
        assert!(answer.limits.contains(&("message".into(), 16 * 1024)), "{answer:?}");
        assert!(answer.features.contains(&"puts".into()), "{answer:?}");
    }
}
