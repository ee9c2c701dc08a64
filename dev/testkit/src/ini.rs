//! Writes a `server.ini`.

use std::fmt::{self, Display, Write};

/// A configuration in the making: sections in the order in which they were begun, `[system]` first.
#[derive(Debug, Clone)]
pub struct Ini(Vec<(String, Vec<(String, String)>)>);

impl Ini {
    /// What tests want: free ports, group commit, small files, little kept free on the disk.
    pub fn new() -> Self {
        Ini(vec![("system".into(), Vec::new())])
            .system("brokerId", 0)
            .system("hostName", "127.0.0.1")
            .system("serverPort", 0)
            .system("dashboardHttpPort", 0)
            .system("unflushThreshold", 0)
            .system("commitFileBytes", 16 << 20)
            .system("diskReserveBytes", 16 << 20)
            .system("deletePolicy", "delete,8760")
    }

    /// Reads one, comments left out.
    ///
    /// # Panics
    /// If a line is neither a section nor a key.
    pub fn parse(text: &str) -> Self {
        let mut ini = Ini(Vec::new());
        let mut section = "system".to_owned();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                ini.section(name);
            } else {
                let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("no line of an ini: {line:?}"));
                ini = ini.set(&section, key.trim(), value.trim());
            }
        }
        ini
    }

    /// Sets a key of `[system]`.
    #[must_use]
    pub fn system(self, key: &str, value: impl Display) -> Self {
        self.set("system", key, value)
    }

    /// Begins the section of a topic or pattern.
    #[must_use]
    pub fn topic(mut self, name: &str) -> Self {
        self.section(&format!("topic={name}"));
        self
    }

    /// Sets a key in the section of a topic or pattern.
    #[must_use]
    pub fn topic_key(self, name: &str, key: &str, value: impl Display) -> Self {
        self.set(&format!("topic={name}"), key, value)
    }

    /// Sets a key of a section; a key that is there already gets the value.
    #[must_use]
    pub fn set(mut self, section: &str, key: &str, value: impl Display) -> Self {
        let keys = self.section(section);
        keys.retain(|(known, _)| known != key);
        keys.push((key.into(), value.to_string()));
        self
    }

    /// Takes a key out of `[system]`.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.section("system").retain(|(known, _)| known != key);
        self
    }

    /// Takes out a whole section.
    #[must_use]
    pub fn without_section(mut self, name: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self
    }

    fn section(&mut self, name: &str) -> &mut Vec<(String, String)> {
        let at = self.0.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.0.push((name.into(), Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

impl Default for Ini {
    fn default() -> Self {
        Ini::new()
    }
}

impl Display for Ini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (section, keys) in &self.0 {
            writeln!(f, "[{section}]")?;
            for (key, value) in keys {
                writeln!(f, "{key}={value}")?;
            }
            f.write_char('\n')?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_once_where_it_belongs() {
        let ini = Ini(Vec::new()).system("a", 1).topic("t").topic_key("u*", "b", "x").system("a", 2).system("c", 3);
        assert_eq!(ini.to_string(), "[system]\na=2\nc=3\n\n[topic=t]\n\n[topic=u*]\nb=x\n\n");
        assert_eq!(Ini::parse(&ini.to_string()).to_string(), ini.to_string());
        assert_eq!(ini.without("a").to_string(), "[system]\nc=3\n\n[topic=t]\n\n[topic=u*]\nb=x\n\n");
    }
}
