//! Text with wildcards, as in transcripts.
//!
//! `*` is any run of characters, none included; `{name}` is a run without spaces and line ends that is remembered under its name, and
//! must be the same when the name comes again; everything else is itself.

use std::collections::BTreeMap;

/// What names stand for.
pub type Names = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part<'p> {
    Text(&'p str),
    Any,
    Name(&'p str),
}

/// Whether the whole of `text` fits `pattern`; if so, `names` learns the names in it.
pub fn fits(pattern: &str, text: &str, names: &mut Names) -> bool {
    let parts = parts(pattern);
    let mut learnt = names.clone();
    let fits = fit(&parts, text, &mut learnt);
    if fits {
        *names = learnt;
    }
    fits
}

/// `text` with the names in it replaced by what they stand for; names that nobody knows stay.
pub fn fill(text: &str, names: &Names) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

fn parts(pattern: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('*') {
            parts.push(Part::Any);
            rest = after;
        } else if let Some((name, after)) = name_at(rest) {
            parts.push(Part::Name(name));
            rest = after;
        } else {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let end = rest[first..].find(['*', '{']).map_or(rest.len(), |found| found + first);
            parts.push(Part::Text(&rest[..end]));
            rest = &rest[end..];
        }
    }
    parts
}

fn name_at(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix('{')?.split_once('}')?;
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')).then_some((name, after))
}

fn fit(parts: &[Part<'_>], text: &str, names: &mut Names) -> bool {
    let Some((part, parts)) = parts.split_first() else { return text.is_empty() };
    match part {
        Part::Text(literal) => text.strip_prefix(literal).is_some_and(|rest| fit(parts, rest, names)),
        Part::Any if parts.is_empty() => true,
        Part::Any => ends(text).any(|end| fit(parts, &text[end..], names)),
        Part::Name(name) => match names.get(*name).cloned() {
            Some(value) => text.strip_prefix(value.as_str()).is_some_and(|rest| fit(parts, rest, names)),
            None => {
                let longest = text.find([' ', '\r', '\n']).unwrap_or(text.len());
                ends(&text[..longest]).filter(|&end| end > 0).any(|end| {
                    let mut learnt = names.clone();
                    learnt.insert((*name).to_owned(), text[..end].to_owned());
                    let fits = fit(parts, &text[end..], &mut learnt);
                    if fits {
                        *names = learnt;
                    }
                    fits
                })
            }
        },
    }
}

fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_run() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("result 200 * 5", "result 200 16 5", true),
            ("result 200 * 5", "result 200 16 55", false),
            ("a*b*c", "a-b-b-c\r\nc", true),
            ("a*b", "acbc", false),
            ("{", "{", true),
            ("{ }*", "{ } x", true),
        ] {
            assert_eq!(fits(pattern, text, &mut Names::new()), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_name_keeps_what_it_stood_for() {
        let mut names = Names::new();
        assert!(fits("{id} 0 {at}", "-77 0 25", &mut names));
        assert_eq!((names["id"].as_str(), names["at"].as_str()), ("-77", "25"));
        assert!(fits("id={id},", "id=-77,", &mut names));
        assert!(!fits("{id} 0 *", "-78 0 25", &mut names));
        assert!(!fits("{other}", "two words", &mut names));
        assert!(!names.contains_key("other"));
        assert_eq!(fill("get {at} {x}", &names), "get 25 {x}");
    }
}
