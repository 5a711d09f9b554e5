//! What commands print, each run once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::common::{command, err, stdout};

/// Outputs by command.
pub(super) struct Outputs(BTreeMap<String, Output>);

pub(super) struct Output {
    /// As printed.
    pub(super) text: String,
    /// On one line, each run of white space as one space: where lines are wrapped does not matter.
    pub(super) flat: String,
}

impl Output {
    fn new(text: String) -> Self {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { text, flat }
    }
}

/// The words of a command as a shell divides them, with `'…'` for words with spaces.
pub(super) fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in command.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    assert!(!quoted, "{command}: an open quote");
    words
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The command with the paths of the documents that it reads, unless one is not there.
fn with_paths(command: &str) -> Option<String> {
    let mut command = command.to_owned();
    while let Some((before, rest)) = command.split_once('{') {
        let (number, after) = rest.split_once('}').unwrap();
        let files = std::fs::read_dir(root().join("../shared/seeds")).ok()?;
        let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let name = names.find(|name| name.starts_with(number))?;
        command = format!("{before}../shared/seeds/{name}{after}");
    }
    Some(command)
}

/// What `peerlane` prints, of several commands (`one && two`) one after the other; where it refuses, what it says.
fn printed(commands: &str) -> Option<Output> {
    let mut text = String::new();
    for one in with_paths(commands)?.split(" && ") {
        let words = words(one);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // in the repository's root, as a reader of the page would
        let output = command(&words).current_dir(root()).output().unwrap();
        let printed = stdout(&output);
        text += &if printed.is_empty() { err(&output) } else { printed };
    }
    Some(Output::new(text))
}

impl Outputs {
    /// Runs each of these once, as many at a time as there are processors.
    pub(super) fn of<'a>(commands: impl Iterator<Item = &'a str>) -> Self {
        let distinct: BTreeSet<&str> = commands.collect();
        let waiting = Mutex::new(distinct.into_iter());
        let done = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    loop {
                        let Some(commands) = waiting.lock().unwrap().next() else { break };
                        if let Some(output) = printed(commands) {
                            done.lock().unwrap().insert(commands.to_owned(), output);
                        }
                    }
                });
            }
        });
        Self(done.into_inner().unwrap())
    }

    /// None where it reads a document that is not here.
    pub(super) fn get(&self, command: &str) -> Option<&Output> {
        self.0.get(command)
    }
}

#[test]
fn a_command_is_divided_as_by_a_shell() {
    let words = words("predict 7gforce --what-if 'GPU0.link=pcie 3.0 x8'");
    assert_eq!(words, ["predict", "7gforce", "--what-if", "GPU0.link=pcie 3.0 x8"]);
}
