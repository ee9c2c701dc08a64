//! Flags and variables of the broker, made from the one table of keys.
//!
//! Each key of `server.ini` is a long flag and a variable of its own; some words that everybody types stand for one or
//! two keys.

use clap::builder::{OsStr, StyledStr};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use metaq_broker::configuration::{Default as KeyDefault, Effect, KEYS, Key, Kind, Origin, Override};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const HEADING: &str = "Keys of server.ini (each is a variable too; flags win over variables, those over the file)";

/// What flags and variables say about keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// In the order in which they win.
    pub overrides: Vec<Override>,
}

/// Keys and their values.
type Pairs = Vec<(&'static str, String)>;

/// A flag that stands for keys.
struct Shortcut {
    name: &'static str,
    variable: &'static str,
    value: &'static str,
    about: &'static str,
    keys: fn(&str) -> Result<Pairs, String>,
}

const SHORTCUTS: [Shortcut; 3] = [
    Shortcut {
        name: "data-dir",
        variable: "METAQ_DATA_DIR",
        value: "DIR",
        about: "Where everything is kept: partitions and the commit log",
        keys: |text| Ok(vec![("dataPath", whole_path(text))]),
    },
    Shortcut {
        name: "listen",
        variable: "METAQ_LISTEN",
        value: "HOST:PORT",
        about: "Where the text protocol is served; port 0 lets the system choose one",
        keys: |text| address("bindAddress", "serverPort", text),
    },
    Shortcut {
        name: "http",
        variable: "METAQ_HTTP",
        value: "HOST:PORT|off",
        about: "Where metrics and health are served",
        keys: |text| match text {
            "off" => Ok(vec![("dashboardHttpPort", "-1".to_owned())]),
            text => address("httpAddress", "dashboardHttpPort", text),
        },
    },
];

/// A path that means the same wherever the next broker is started from: a data directory remembers it.
fn whole_path(text: &str) -> String {
    match std::path::absolute(text.trim()) {
        Ok(path) => path.to_string_lossy().into_owned(),
        // A blank one is none.
        Err(_) => text.to_owned(),
    }
}

fn address(host: &'static str, port: &'static str, text: &str) -> Result<Pairs, String> {
    let wrong = || format!("{text:?} isn't HOST:PORT with an IP address as its host, as in 127.0.0.1:8123");
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.to_owned(),
    };
    let address: SocketAddr = text.parse().map_err(|_| wrong())?;
    Ok(vec![(host, IpAddr::to_string(&address.ip())), (port, address.port().to_string())])
}

impl clap::Args for Keys {
    fn augment_args(command: Command) -> Command {
        let command = SHORTCUTS.iter().fold(command, |command, shortcut| command.arg(shortcut.arg()));
        KEYS.iter().fold(command, |command, key| command.arg(arg(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Shortcut {
    fn arg(&self) -> Arg {
        Arg::new(self.name).long(self.name).env(self.variable).value_name(self.value).help(self.about)
    }
}

/// The id of a key's argument: its flag without the dashes.
fn id(key: &Key) -> String {
    key.flag().trim_start_matches('-').to_owned()
}

fn arg(key: &Key) -> Arg {
    let id = id(key);
    Arg::new(&id)
        .long(&id)
        .env(OsStr::from(key.variable()))
        .value_name(value_name(key))
        .help(help(key))
        .help_heading(HEADING)
        .hide_short_help(true)
        .allow_hyphen_values(true)
}

fn value_name(key: &Key) -> String {
    key.kind.as_str().to_uppercase()
}

fn help(key: &Key) -> StyledStr {
    let mut text = format!("{} [{}", key.about, key.name);
    match key.default {
        KeyDefault::Is(default) => text.push_str(&format!("; default {default}")),
        KeyDefault::Derived(sentence) => text.push_str(&format!("; default: {sentence}")),
    }
    if let Effect::None(why) = key.effect {
        text.push_str(&format!("; no effect here: {why}"));
    }
    text.push(']');
    text.into()
}

impl FromArgMatches for Keys {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut keys = Self::default();
        keys.update_from_arg_matches(matches)?;
        Ok(keys)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let mut overrides = Vec::new();
        for key in KEYS {
            let id = id(key);
            if let Some(value) = matches.get_one::<String>(&id) {
                let origin = origin(matches, &id, key.variable());
                let value = if key.kind == Kind::Path { whole_path(value) } else { value.clone() };
                overrides.push(Override { key: key.name.to_owned(), value, origin });
            }
        }
        for shortcut in &SHORTCUTS {
            if let Some(value) = matches.get_one::<String>(shortcut.name) {
                let origin = origin(matches, shortcut.name, shortcut.variable.to_owned());
                let keys = (shortcut.keys)(value).map_err(|why| {
                    clap::Error::raw(ErrorKind::ValueValidation, format!("--{}: {why}", shortcut.name))
                })?;
                overrides.extend(keys.into_iter().map(|(key, value)| Override {
                    key: key.to_owned(),
                    value,
                    origin: origin.clone(),
                }));
            }
        }
        self.overrides = overrides;
        Ok(())
    }
}

fn origin(matches: &ArgMatches, id: &str, variable: String) -> Origin {
    match matches.value_source(id) {
        Some(ValueSource::EnvVariable) => Origin::Environment(variable),
        _ => Origin::Flag(format!("--{id}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    fn read(arguments: &[&str]) -> Result<Vec<(String, String, String)>, clap::Error> {
        let command = Keys::augment_args(Command::new("server").no_binary_name(true));
        let keys = Keys::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
        Ok(keys.overrides.into_iter().map(|one| (one.key, one.value, one.origin.to_string())).collect())
    }

    fn check(arguments: &[&str], expected: &[(&str, &str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(key, value, from)| ((*key).into(), (*value).into(), (*from).into())).collect();
        assert_eq!(read(arguments).unwrap(), expected, "{arguments:?}");
    }

    #[test]
    fn each_key_is_a_flag_and_some_flags_are_two_keys() {
        check(&[], &[]);
        check(&["--broker-id", "7"], &[("brokerId", "7", "flag --broker-id")]);
        check(&["--retention-bytes", "-1"], &[("retentionBytes", "-1", "flag --retention-bytes")]);
        check(&["--data-dir", "/d"], &[("dataPath", "/d", "flag --data-dir")]);
        let listen = |host, port| [("bindAddress", host, "flag --listen"), ("serverPort", port, "flag --listen")];
        check(&["--listen", "localhost:0"], &listen("127.0.0.1", "0"));
        check(&["--listen", "[::1]:8123"], &listen("::1", "8123"));
        check(&["--http", "off"], &[("dashboardHttpPort", "-1", "flag --http")]);
    }

    #[test]
    fn a_path_is_whole_and_a_blank_one_none() {
        let here = std::env::current_dir().unwrap();
        let read = read(&["--data-dir", "d", "--data-path", " ", "--data-log-path", "./l"]).unwrap();
        let values: Vec<_> = read.iter().map(|(key, value, _)| (key.as_str(), value.as_str())).collect();
        let (d, l) = (here.join("d"), here.join("l"));
        let expected = [("dataPath", " "), ("dataLogPath", l.to_str().unwrap()), ("dataPath", d.to_str().unwrap())];
        assert_eq!(values, expected);
    }

    #[test]
    fn an_address_has_a_number_as_its_host() {
        for wrong in ["8123", "example.com:8123", "127.0.0.1", "127.0.0.1:99999", ""] {
            let error = read(&["--listen", wrong]).unwrap_err();
            assert!(error.to_string().contains("--listen: "), "{error}");
        }
    }
}
