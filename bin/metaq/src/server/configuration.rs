//! Reads the configuration of a broker from its file, its variables and its flags.

use crate::exit::Failure;
use metaq_broker::Loaded;
use metaq_broker::configuration::{Origin, Override, Settings, Sources};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a configuration comes from; it can be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// `server.ini`, if there is one.
    pub file: Option<PathBuf>,
    /// What variables and flags say.
    pub overrides: Vec<Override>,
}

impl Configuration {
    /// Reads and judges everything.
    pub fn load(&self) -> Result<Loaded, Mistakes> {
        let place = self.file.as_deref().map_or("the configuration".to_owned(), |file| file.display().to_string());
        let file = self.file.as_deref().map(read).transpose();
        let file = file.map_err(|why| Mistakes { place: place.clone(), lines: vec![why] })?;
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let sources = Sources { file: file.as_deref(), overrides: &self.overrides, home: home.as_deref() };
        match Settings::load(&sources) {
            Ok(mut settings) => {
                make_whole(&mut settings);
                Ok(Loaded { settings, file: file.map(Into::into) })
            }
            Err(errors) => Err(Mistakes { place, lines: errors.to_string().lines().map(str::to_owned).collect() }),
        }
    }

    /// As [`Configuration::load`], for a command that can't go on without it.
    pub fn needed(&self) -> Result<Loaded, Failure> {
        self.load().map_err(|mistakes| Failure::failed(mistakes.to_string()))
    }
}

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes {
    /// What was read.
    pub place: String,
    /// A line for each.
    pub lines: Vec<String>,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has mistakes; nothing was started or changed:", self.place)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The default folder lies where the process was started; a data directory remembers its whole path.
fn make_whole(settings: &mut Settings) {
    let given =
        settings.effective().iter().any(|value| value.key.name == "dataPath" && value.origin != Origin::Default);
    if given || !settings.data_path.is_relative() {
        return;
    }
    if let Ok(path) = std::path::absolute(&settings.data_path) {
        if settings.data_log_path == settings.data_path {
            settings.data_log_path.clone_from(&path);
        }
        settings.data_path = path;
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("it can't be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_is_remembered_by_its_whole_path() {
        let loaded = Configuration { file: None, overrides: vec![] }.load().unwrap();
        let expected = std::env::current_dir().unwrap().join("metaq-data");
        assert_eq!((&loaded.settings.data_path, &loaded.settings.data_log_path), (&expected, &expected));
        assert_eq!(loaded.settings.topic("t").data_path, expected);
        let given = Override::flag("dataPath", "x", "--data-path");
        let loaded = Configuration { file: None, overrides: vec![given] }.load().unwrap();
        assert_eq!(loaded.settings.topic("t").data_path, loaded.settings.data_path);
    }

    #[test]
    fn mistakes_are_told_with_the_file_and_a_line_each() {
        let path = std::env::temp_dir().join(format!("metaq-configuration-{}", std::process::id()));
        fs::write(&path, "[system]\nbrokerID=1\nserverPort=x\n").unwrap();
        let configuration = Configuration { file: Some(path.clone()), overrides: vec![] };
        let text = configuration.load().unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with(&path.display().to_string()), "{text}");
        assert!(lines[1].starts_with("  line 2: ") && lines[2].starts_with("  line 3: "), "{text}");
        assert!(configuration.needed().unwrap_err().text.contains("can't be read"));
    }
}
