//! The page `docs/configuration.md`, made from the table of keys.

use std::fmt::Write;

use super::key::{Default, Effect, Family, Key, Place, Reload};
use super::keys::KEYS;

/// What stands before the tables.
const PREFACE: &str = "\
# Configuration

This page is made from the broker's own table of keys (`crates/broker/src/configuration/keys.rs`); a test compares them.

## How values are given

A broker starts without any file. With one (`metaq server -f server.ini`), it reads the format of MetaQ 1.4.6, so a
`server.ini` of the original is read as it is:

```ini
# Comments begin with # or ; at the start of a line.
[system]
brokerId=0
serverPort=8123
maxSegmentSize=1024*1024*1024

[zookeeper]
zk.zkConnect=127.0.0.1:2181

[topic=orders]
numPartitions=4

[topic=log.*]
durability=os
```

* Numbers may be written as expressions of whole numbers with `+ - * / %` and parentheses.
* A blank value is as good as none. Text is taken literally: no quotes, no escapes. A line that ends in `\\` goes on in
  the next. The file is UTF-8; comments may be in any encoding.
* An unknown key, a key or section given twice, and a value out of its range are errors. All errors of a file are said
  at once, each with its line. `metaq config check FILE` does so without starting anything.
* A key of the original that can't do anything here is accepted, and a warning says why.
* `group.NAME=CLASS` in a topic section is refused: the original filters with Java classes, which can't run here, and to
  ignore the line would deliver filtered messages.

Every key can be given as an environment variable and as a flag too; both are listed at the end. The system properties
of the original (`-Dmeta.…`) exist only in this form. Of several values for one key the last of this list holds:
built-in default, file, environment variable, flag. `metaq config show --effective` shows every value and where it comes
from.

## Topics

`[topic=NAME]` is about one topic; in a pattern such as `[topic=log.*]` a `*` stands for any characters and everything
else for itself. What a section doesn't say holds as in `[system]`. For one topic, of several values the last of this
list holds: `[system]` (with variables and flags), the patterns that match it in the order of the file, its own section,
what an administrator altered with `metaq topic alter`.

Durability is decided by the last of these that says anything about it, be it by `durability` or by `unflushThreshold`;
where one place says both, `durability` decides. Without either it is `fsync`: a put is acknowledged after its sync. For
`interval` without a positive `unflushThreshold` or `unflushInterval` the original's defaults stand in: 1000 messages,
10000 ms.

## Reading the file again

On SIGHUP or `metaq config reload` the file is read again. It is refused as a whole if anything in it is wrong; the
settings in use then stay. Otherwise the last column says when a change is felt: *live* at once, *created* by what is
created from then on (what exists keeps its place), *restart* after a restart, until which it is named as waiting.
";

/// What stands before the keys of ZooKeeper.
const NO_ZOOKEEPER: &str = "\
This version checks these keys and does nothing with them: it registers nothing in ZooKeeper, and warns when `zk.zkConnect`
is set and `zk.zkEnable` isn't false.

";

/// The page as it should stand in `docs/configuration.md`.
pub fn reference() -> String {
    let mut page = PREFACE.to_owned();
    for (title, place, note) in [
        ("Keys of `[system]`", Place::System, ""),
        ("Keys of `[system]` and `[topic=…]`", Place::Topic, ""),
        ("Keys of `[zookeeper]`", Place::Zookeeper, NO_ZOOKEEPER),
        ("System properties of the original", Place::Property, ""),
    ] {
        write!(page, "\n## {title}\n\n{note}").expect("a text takes all that is written to it");
        page.push_str(&table(|key| key.place == place));
    }
    page.push_str(&names());
    page
}

fn table(chosen: impl Fn(&Key) -> bool) -> String {
    let mut table = "| key | of | value | default | meaning | change |\n|---|---|---|---|---|---|\n".to_owned();
    for key in KEYS.iter().filter(|key| chosen(key)) {
        line(
            &mut table,
            &[
                format!("`{}`", key.name),
                family(key.family).to_owned(),
                values(key),
                default(key),
                meaning(key),
                change(key).to_owned(),
            ],
        );
    }
    table
}

fn line(table: &mut String, cells: &[String]) {
    writeln!(table, "| {} |", cells.join(" | ")).expect("a text takes all that is written to it");
}

fn family(family: Family) -> &'static str {
    match family {
        Family::Original => "original",
        Family::Ours => "ours",
    }
}

fn values(key: &Key) -> String {
    let kind = key.kind.as_str();
    match key.range() {
        Some(range) if *range.end() == i64::MAX => format!("{kind}, {} or more", range.start()),
        Some(range) => format!("{kind}, {} to {}", range.start(), range.end()),
        None => kind.to_owned(),
    }
}

fn default(key: &Key) -> String {
    match key.default {
        Default::Is(text) => format!("`{text}`"),
        Default::Derived(sentence) => sentence.to_owned(),
    }
}

fn meaning(key: &Key) -> String {
    match key.effect {
        Effect::Full => key.about.to_owned(),
        Effect::None(why) => format!("{} **No effect here:** {why}.", key.about),
    }
}

fn change(key: &Key) -> &'static str {
    match (key.effect, key.reload) {
        (Effect::None(_), _) => "–",
        (Effect::Full, Reload::Live) => "live",
        (Effect::Full, Reload::Created) => "created",
        (Effect::Full, Reload::Restart) => "restart",
    }
}

/// The variable and the flag of every key.
fn names() -> String {
    let mut table = "\n## Variables and flags\n\n| key | variable | flag |\n|---|---|---|\n".to_owned();
    for key in KEYS {
        line(&mut table, &[key.name, &key.variable(), &key.flag()].map(|name| format!("`{name}`")));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page as committed.
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

    #[test]
    fn the_page_says_what_the_table_says() {
        if std::env::var_os("METAQ_WRITE_PAGES").is_some() {
            std::fs::write(PAGE, reference()).expect("the page can be written");
        }
        let page = std::fs::read_to_string(PAGE).unwrap_or_default();
        let same = page == reference();
        assert!(same, "docs/configuration.md is out of date: METAQ_WRITE_PAGES=1 cargo test -p metaq-broker writes it");
    }

    #[test]
    fn no_cell_breaks_its_table() {
        let columns = |line: &str| line.matches('|').count();
        for line in reference().lines().filter(|line| line.starts_with('|')) {
            assert!(matches!(columns(line), 4 | 7), "{line}");
        }
        for key in KEYS {
            assert!(reference().contains(&format!("| `{}` |", key.name)), "{}", key.name);
        }
    }
}
