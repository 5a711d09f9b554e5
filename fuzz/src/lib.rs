//! What is fuzzed: one function a target, each given bytes that nobody has looked at.
//!
//! A target fails by a panic: of the code under test, or of an assertion here about what it returned. `fuzz_targets/fuzz.rs`
//! runs the one that it is given under libFuzzer; `tests/replay.rs` runs all of them over the seeds with the stable toolchain.

pub mod documents;
pub mod machines;
pub mod mutate;
pub mod readers;
pub mod seeds;
pub mod specs;

/// What is done with the bytes of an input.
#[derive(Clone, Copy)]
enum Act {
    /// A reader of texts, by its number in [`peerlane::evidence::READERS`].
    Read(usize),
    /// Any other function.
    Call(Call),
}

/// A target: its name, and what it does.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in `seeds/`.
    pub name: &'static str,
    act: Act,
}

impl Target {
    /// Runs it on an input.
    ///
    /// # Panics
    /// Where the code under test panics, or returns what cannot be true.
    pub fn run(&self, data: &[u8]) {
        match self.act {
            Act::Read(at) => readers::read(&peerlane::evidence::READERS[at], data),
            Act::Call(call) => call(data),
        }
    }

    /// Whether it is one of the readers of texts.
    pub fn is_reader(&self) -> bool {
        matches!(self.act, Act::Read(_))
    }
}

/// What is done with an input.
type Call = fn(&[u8]);

const OTHERS: &[(&str, Call)] = &[
    ("text", readers::text),
    ("archive", readers::archive),
    ("sysfs", readers::sysfs),
    ("round_trip", machines::round_trip),
    ("judge", machines::judge),
    ("limits", machines::limits),
    ("placement", machines::placement),
    ("system", documents::system),
    ("cluster", documents::cluster),
    ("part", documents::part),
    ("rules", documents::rules),
    ("run", documents::run),
    ("growing_run", documents::growing_run),
    ("nodes_run", documents::nodes_run),
    ("fleet", documents::fleet),
    ("inference", documents::inference),
    ("what_if", specs::what_if),
    ("simulation", specs::simulation),
    ("trace", specs::trace),
    ("recording", specs::recording),
];

/// All targets: the readers in their order, then the rest.
pub fn targets() -> impl Iterator<Item = Target> {
    let readers = peerlane::evidence::READERS.iter().enumerate();
    let readers = readers.map(|(at, reader)| Target { name: reader.name, act: Act::Read(at) });
    readers.chain(OTHERS.iter().map(|(name, call)| Target { name, act: Act::Call(*call) }))
}

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    targets().find(|t| t.name == name)
}
