//! The rules of the house, read from the manifests, the sources and the pages: which crate may use
//! which, and what each must do without.
//!
//! A new crate gets a row in [`CRATES`]; a rule that has to give way is changed here, with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// What a crate may do without asking.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// No file, no socket, no clock, no chance.
    Pure,
    /// The only one that opens files on the way of data.
    Files,
    /// Works on files through the disk: no network and no runtime.
    Disk,
    /// May do all of it.
    Free,
}

/// Every folder of a crate below `crates/`, its kind, and the crates that it may use directly; what those
/// may use it may use too.
const CRATES: &[(&str, Kind, &[&str])] = &[
    ("protocol", Kind::Pure, &[]),
    ("registry", Kind::Pure, &["protocol"]),
    ("groups", Kind::Pure, &["protocol"]),
    ("transaction", Kind::Pure, &["protocol"]),
    ("replication", Kind::Pure, &["protocol", "registry"]),
    ("disk", Kind::Files, &[]),
    ("log", Kind::Disk, &["protocol", "disk"]),
    ("broker", Kind::Disk, &["protocol", "registry", "groups", "transaction", "replication", "log"]),
    ("listen", Kind::Free, &["protocol"]),
    ("server", Kind::Free, &["broker", "listen"]),
    ("link", Kind::Free, &["broker", "replication"]),
    ("http", Kind::Free, &["broker", "listen"]),
    ("kafka", Kind::Free, &["broker", "listen"]),
    ("zookeeper", Kind::Free, &["registry"]),
    ("offsets", Kind::Free, &["protocol", "disk"]),
    ("offsets-sql", Kind::Free, &["offsets"]),
    ("client", Kind::Free, &["protocol", "registry", "groups", "offsets", "disk"]),
    ("capi", Kind::Free, &["client"]),
];

/// What a crate may use only if a feature asks for it.
const BY_FEATURE: &[(&str, &[&str])] = &[("client", &["zookeeper", "offsets-sql"])];

/// Folders of packages that may use everything, since they join or try the parts.
const WIRING: &[&str] = &["bin", "dev", "bench"];

/// The foreign crates that a pure crate may use: each works on what it is given.
const PURE_FOREIGN: &[&str] = &["crc32fast", "itoa", "memchr", "thiserror"];

/// The foreign crates that `log` and `broker` do without.
const NETWORK_FOREIGN: &[&str] =
    &["tokio", "tokio-util", "mio", "socket2", "axum", "hyper", "tower", "futures", "async-trait", "rustix", "libc"];

/// What the sources of a pure crate don't mention.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "std::os",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::thread",
    "SystemTime::now",
    "Instant::now",
];

/// What the sources of `log` and `broker` don't mention.
const FILES_AND_SOCKETS: &[&str] = &[
    "std::fs",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "tokio",
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "core", "util", "utils", "types", "helpers", "misc", "shared"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(path: &Path) -> Table {
    read(path).parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A package of the workspace.
struct Package {
    /// Its folder from the root, as `crates/log`.
    folder: String,
    manifest: Table,
}

impl Package {
    /// Its folder's own name.
    fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or_default()
    }

    fn kind(&self) -> Kind {
        let row = CRATES.iter().find(|(name, ..)| self.folder == format!("crates/{name}"));
        row.map_or(Kind::Free, |(_, kind, _)| *kind)
    }

    /// What it is built from, or with `dev` what its tests are; for all targets.
    fn dependencies(&self, dev: bool) -> BTreeMap<&str, &Value> {
        let places: &[&str] = if dev { &["dev-dependencies"] } else { &["dependencies", "build-dependencies"] };
        let targets = self.manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
        let tables = targets.filter_map(Value::as_table).chain([&self.manifest]);
        let dependencies = tables.flat_map(|table| places.iter().filter_map(|place| table.get(*place)?.as_table()));
        dependencies.flatten().map(|(name, value)| (name.as_str(), value)).collect()
    }

    /// Its sources below `src`, without their tests, by path.
    fn sources(&self) -> Vec<(PathBuf, String)> {
        let paths = files(&root().join(&self.folder).join("src"), "rs");
        let tests: BTreeSet<_> = paths.iter().flat_map(|path| test_modules(path, &read(path))).collect();
        let sources = paths.into_iter().filter(|path| !tests.contains(path));
        sources.map(|path| (path.clone(), without_tests(&read(&path)))).collect()
    }

    /// Which of the paths its sources mention.
    fn mentioned(&self, forbidden: &[&str]) -> Vec<String> {
        let of_source = |(path, source): (PathBuf, String)| {
            let found: Vec<_> = forbidden.iter().filter(|name| mentions(&source, name)).collect();
            found.into_iter().map(|name| format!("{} mentions {name}", path.display())).collect::<Vec<_>>()
        };
        self.sources().into_iter().flat_map(of_source).collect()
    }
}

/// All packages of the workspace.
fn packages() -> Vec<Package> {
    let root = root();
    let workspace = manifest(&root.join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().expect("the workspace lists its members");
    let mut packages = Vec::new();
    for member in members.iter().filter_map(Value::as_str) {
        let folders = match member.strip_suffix("/*") {
            None => vec![member.to_owned()],
            Some(parent) => folders(&root.join(parent)).into_iter().map(|name| format!("{parent}/{name}")).collect(),
        };
        packages.extend(folders.into_iter().filter_map(|folder| {
            let path = root.join(&folder).join("Cargo.toml");
            path.exists().then(|| Package { manifest: manifest(&path), folder })
        }));
    }
    assert!(packages.len() > 5, "the workspace wasn't found");
    packages
}

fn folders(parent: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(parent).unwrap_or_else(|error| panic!("{}: {error}", parent.display()));
    let entries = entries.map(|entry| entry.expect("a folder can be listed")).filter(|entry| entry.path().is_dir());
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// All files below a folder with that ending, but those that were built.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("a folder can be listed").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != "node_modules" && !name.starts_with('.') {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A source without comments and without the modules that are built for tests alone.
fn without_tests(source: &str) -> String {
    let mut kept = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let item = lines.by_ref().find(|line| !line.starts_with("#[")).unwrap_or_default();
            if item.ends_with('{') {
                lines.by_ref().find(|line| *line == "}");
            }
            continue;
        }
        kept.push_str(line.split("//").next().unwrap_or_default());
        kept.push('\n');
    }
    kept
}

/// The files of the modules that a source declares for tests alone.
fn test_modules(path: &Path, source: &str) -> Vec<PathBuf> {
    let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
    let folder = if is_root { path.with_file_name("") } else { path.with_extension("") };
    let pairs = source.lines().zip(source.lines().skip(1));
    let modules = pairs.filter(|(first, _)| *first == "#[cfg(test)]");
    let named = modules.filter_map(|(_, second)| second.strip_prefix("mod ")?.strip_suffix(';'));
    named.map(|name| folder.join(format!("{name}.rs"))).collect()
}

/// Whether a source names a path such as `std::fs`, be it within a group as `use std::{fs, io}`.
fn mentions(source: &str, path: &str) -> bool {
    let source: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let starts_word = |at: usize| !source[..at].ends_with(is_word);
    let ends_word = |at: usize| !source[at..].starts_with(is_word);
    let whole = source.match_indices(path).any(|(at, _)| starts_word(at) && ends_word(at + path.len()));
    let grouped = path.match_indices("::").any(|(at, _)| {
        let (parent, child) = (format!("{}::{{", &path[..at]), &path[at + 2..]);
        source.match_indices(&parent).any(|(start, _)| {
            starts_word(start)
                && members(&source[start + parent.len()..]).iter().any(|member| begins_with(member, child))
        })
    });
    whole || grouped
}

/// Whether a member of a group is that path or lies below it.
fn begins_with(member: &str, path: &str) -> bool {
    let rest = member.strip_prefix(path);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')) || {
        let path = path.split_once("::");
        path.is_some_and(|(first, rest)| {
            let group = member.strip_prefix(first).and_then(|member| member.strip_prefix("::{"));
            group.is_some_and(|group| members(group).iter().any(|member| begins_with(member, rest)))
        })
    }
}

/// The members of a group, from behind its `{`.
fn members(group: &str) -> Vec<String> {
    let mut members = vec![String::new()];
    let mut depth = 0;
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => members.push(String::new()),
            c => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                members.last_mut().expect("there is always a member being read").push(c);
            }
        }
    }
    members.into_iter().map(|member| member.trim().to_owned()).collect()
}

/// What a crate may use, and what that may use.
fn closure(name: &str) -> BTreeSet<&'static str> {
    let direct = CRATES.iter().find(|(row, ..)| *row == name).map_or(&[][..], |(.., direct)| direct);
    direct.iter().flat_map(|used| closure(used).into_iter().chain([*used])).collect()
}

/// Panics with all breaches of a rule.
fn none_of(breaches: impl IntoIterator<Item = String>, rule: &str) {
    let breaches: Vec<_> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}

#[test]
fn arrows_go_only_where_the_table_lets_them() {
    let mut breaches = Vec::new();
    for package in packages().iter().filter(|package| package.folder.starts_with("crates/")) {
        let this = package.name();
        if CRATES.iter().all(|(name, ..)| *name != this) {
            breaches.push(format!("{} has no row in the table", package.folder));
        }
        let allowed = closure(this);
        let on_request = |name| BY_FEATURE.iter().any(|(row, more)| *row == this && more.contains(&name));
        for (name, value) in package.dependencies(false) {
            let Some(used) = name.strip_prefix("metaq-") else { continue };
            let optional = value.get("optional").and_then(Value::as_bool) == Some(true);
            let fine = allowed.contains(used) || (optional && on_request(used));
            if !fine {
                breaches.push(format!("{} may not use {name}", package.folder));
            }
        }
        for name in package.dependencies(true).into_keys() {
            let Some(used) = name.strip_prefix("metaq-") else { continue };
            if !allowed.contains(used) && used != this && used != "testkit" {
                breaches.push(format!("the tests of {} may not use {name}", package.folder));
            }
        }
    }
    none_of(breaches, "an arrow goes upward or sideways");
}

#[test]
fn only_what_joins_the_parts_lies_outside_crates() {
    let packages = packages();
    let outside = packages.iter().filter(|package| !package.folder.starts_with("crates/"));
    let strange = outside.filter(|package| !WIRING.contains(&package.folder.split('/').next().unwrap_or_default()));
    none_of(strange.map(|package| package.folder.clone()), "a package lies where none is expected");
}

#[test]
fn pure_crates_own_no_file_no_socket_no_clock_and_no_chance() {
    let mut breaches = Vec::new();
    for package in packages().iter().filter(|package| package.kind() == Kind::Pure) {
        let foreign = package.dependencies(false).into_keys().filter(|name| !name.starts_with("metaq-"));
        let unknown = foreign.filter(|name| !PURE_FOREIGN.contains(name));
        breaches.extend(unknown.map(|name| format!("{} uses {name}, which isn't known to be pure", package.folder)));
        breaches.extend(package.mentioned(IMPURE));
    }
    none_of(breaches, "a pure crate isn't");
}

#[test]
fn log_and_broker_know_no_network_no_runtime_and_only_the_disks_files() {
    let mut breaches = Vec::new();
    for package in packages().iter().filter(|package| package.kind() == Kind::Disk) {
        let dependencies = package.dependencies(false);
        let network = NETWORK_FOREIGN.iter().filter(|name| dependencies.contains_key(*name));
        breaches.extend(network.map(|name| format!("{} uses {name}", package.folder)));
        breaches.extend(package.mentioned(FILES_AND_SOCKETS));
    }
    none_of(breaches, "the data path reaches past the disk");
}

#[test]
fn no_crate_has_a_name_that_says_nothing() {
    let packages = packages();
    let empty = packages.iter().filter(|package| EMPTY_NAMES.contains(&package.name()));
    none_of(empty.map(|package| package.folder.clone()), "a crate is named after nothing");
}

#[test]
fn a_package_is_named_after_its_folder() {
    let mut breaches = Vec::new();
    for package in packages() {
        let name = package.manifest["package"]["name"].as_str().unwrap_or_default();
        if name != package.name() && name.strip_prefix("metaq-") != Some(package.name()) {
            breaches.push(format!("{} is named {name}", package.folder));
        }
    }
    none_of(breaches, "packages are named metaq-FOLDER");
}

/// Whether a table takes this key from the workspace.
fn inherits(table: &Value, key: &str) -> bool {
    table.get(key).and_then(|value| value.get("workspace")?.as_bool()) == Some(true)
}

#[test]
fn versions_stand_only_in_the_workspace() {
    let mut breaches = Vec::new();
    for package in packages() {
        for (name, value) in package.dependencies(false).into_iter().chain(package.dependencies(true)) {
            if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                breaches.push(format!("{}: {name} isn't taken from the workspace", package.folder));
            }
        }
    }
    none_of(breaches, "a dependency has its version in a package");
}

#[test]
fn every_package_has_the_licence_and_the_lints_of_the_workspace() {
    let mut breaches = Vec::new();
    for package in packages() {
        let keys = ["license", "edition", "rust-version", "publish"].into_iter();
        let own = keys.filter(|key| !inherits(&package.manifest["package"], key));
        breaches.extend(own.map(|key| format!("{}: {key} isn't the workspace's", package.folder)));
        let lints = package.manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
        if lints != Some(true) {
            breaches.push(format!("{}: [lints] isn't the workspace's", package.folder));
        }
    }
    let workspace = manifest(&root().join("Cargo.toml"));
    assert_eq!(workspace["workspace"]["package"]["license"].as_str(), Some("Apache-2.0"));
    none_of(breaches, "a package goes its own way");
}

#[test]
fn nothing_is_patched_and_everything_comes_from_the_registry_or_from_here() {
    let workspace = manifest(&root().join("Cargo.toml"));
    let mut breaches = Vec::new();
    for (folder, manifest) in packages()
        .into_iter()
        .map(|package| (package.folder, package.manifest))
        .chain([(".".to_owned(), workspace.clone())])
    {
        let replaced = ["patch", "replace"].into_iter().filter(|key| manifest.contains_key(*key));
        breaches.extend(replaced.map(|key| format!("{folder} has [{key}]")));
    }
    let dependencies = workspace["workspace"]["dependencies"].as_table().expect("the workspace has dependencies");
    for (name, value) in dependencies {
        if value.get("git").is_some() || value.get("path").is_some() != name.starts_with("metaq-") {
            breaches.push(format!("{name} comes from elsewhere"));
        }
    }
    none_of(breaches, "a dependency isn't what its name says");
}

/// All sources that people write, with their paths from the root.
fn all_sources() -> Vec<(String, String)> {
    let root = root();
    let relative = |path: &Path| path.strip_prefix(&root).expect("it lies below").to_string_lossy().into_owned();
    files(&root, "rs").iter().map(|path| (relative(path), read(path))).collect()
}

/// Whether a source doesn't say first what it is.
fn is_silent(source: &str) -> bool {
    let first = source.lines().next().unwrap_or_default();
    // A crate that isn't begun has nothing to say yet.
    !first.starts_with("//!") || (first.trim() == "//!" && source.lines().nth(1).is_some())
}

#[test]
fn every_source_says_first_what_it_is() {
    let silent = all_sources().into_iter().filter(|(_, source)| is_silent(source)).map(|(path, _)| path);
    none_of(silent, "a file doesn't begin with //! and a sentence");
}

#[test]
fn no_test_is_switched_off() {
    let off = concat!("#[", "ignore");
    let ignored = all_sources().into_iter().filter(|(_, source)| source.contains(off)).map(|(path, _)| path);
    none_of(ignored, "a test is ignored");
}

#[test]
fn only_the_disk_and_the_c_interface_hold_unsafe_code() {
    let packages = packages();
    let safe = packages.iter().filter(|package| !matches!(package.name(), "disk" | "capi"));
    none_of(safe.flat_map(|package| package.mentioned(&["unsafe"])), "unsafe code lies outside its crates");
}

/// The pages that people read.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name));
    top.into_iter().filter(|path| path.exists()).chain(files(&root.join("docs"), "md")).collect()
}

/// The targets of a page's links that point into the project.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.map(|target| target.split(['#', ' ']).next().unwrap_or_default());
    targets.filter(|target| !target.is_empty() && !target.contains(':')).collect()
}

#[test]
fn every_page_is_linked_from_the_first_two() {
    let root = root();
    let first = [root.join("README.md"), root.join("ARCHITECTURE.md")];
    let mut linked = BTreeSet::new();
    for page in first.iter().filter(|page| page.exists()) {
        linked.extend(links(&read(page)).into_iter().filter_map(|target| root.join(target).canonicalize().ok()));
    }
    // Until there is a first page, there is nothing to link from.
    let unlinked =
        files(&root.join("docs"), "md").into_iter().filter(|page| first[0].exists() && !linked.contains(page));
    none_of(unlinked.map(|page| page.display().to_string()), "a page is linked from nowhere");
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut breaches = Vec::new();
    for page in pages() {
        let folder = page.parent().expect("a page lies in a folder");
        let text = read(&page);
        let dead = links(&text).into_iter().filter(|target| !folder.join(target).exists());
        breaches.extend(dead.map(|target| format!("{} → {target}", page.display())));
    }
    none_of(breaches, "a link is dead");
}

/// The rules above are only as good as what they read with.
mod reading {
    use super::*;

    #[test]
    fn a_mention_is_found_however_it_is_written() {
        for source in [
            "use std::fs;",
            "std::fs::read(path)",
            "use std::{fs, io};",
            "use std::{\n    io::{self, Read},\n    fs::{self, File},\n};",
            "use std::fs::File as F;",
        ] {
            assert!(mentions(source, "std::fs"), "{source}");
        }
        for source in
            ["use std::{io, fmt};", "my_std::fs", "std::fsx", "let fs = 1;", "use other::{fs};", "use std::{a::fs};"]
        {
            assert!(!mentions(source, "std::fs"), "{source}");
        }
        for source in ["use std::net::{IpAddr, TcpStream};", "use std::{io, net::{IpAddr, TcpStream}};"] {
            assert!(mentions(source, "std::net::TcpStream"), "{source}");
        }
        assert!(!mentions("use std::net::{IpAddr, SocketAddr};", "std::net::TcpStream"));
        assert!(mentions("let now = Instant::now();", "Instant::now"));
    }

    #[test]
    fn tests_and_comments_are_not_judged() {
        let source = "use a; // std::fs\n/// std::fs\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n\
                      fn g() {}\n#[cfg(test)]\nmod out;\n";
        let kept = without_tests(source).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(kept, "use a; fn f() {} fn g() {}");
    }

    #[test]
    fn a_silent_source_is_told_from_an_empty_crate() {
        assert!(is_silent("") && is_silent("fn f() {}\n") && is_silent("//!\nfn f() {}\n"));
        assert!(!is_silent("//! \n") && !is_silent("//! A file.\nfn f() {}\n"));
    }

    #[test]
    fn what_a_crate_may_use_includes_what_that_may_use() {
        let server =
            ["broker", "disk", "groups", "listen", "log", "protocol", "registry", "replication", "transaction"];
        assert_eq!(closure("server").into_iter().collect::<Vec<_>>(), server);
        assert!(!closure("client").contains("broker") && !closure("client").contains("zookeeper"));
        assert!(CRATES.iter().all(|(name, ..)| !closure(name).contains(name)));
    }

    #[test]
    fn links_into_the_project_are_told_from_others() {
        let page = "[a](docs/a.md) [b](docs/b.md#part) [c](https://c) [d](#here) [e](x.md \"title\")";
        assert_eq!(links(page), ["docs/a.md", "docs/b.md", "x.md"]);
    }
}
