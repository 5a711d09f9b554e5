//! Every option of every command does something, or is refused: `options/table.txt` says where.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{command, err, everything, out, some, status, stdout};
use crate::help::commands;

const TABLE: &str = include_str!("options/table.txt");

/// A site's own entry.
const KNOWLEDGE: &str = r#"
program = "site"
source = "our runbook"
[[entry]]
id = "site-widget"
pattern = ["the widget is gone"]
class = "hardware"
summary = "The widget is gone"
fix = "Bring another one."
example = ["ERROR: the widget is gone"]
"#;

/// What the table says of an option.
struct Line {
    command: String,
    option: String,
    kind: String,
    text: String,
}

/// What a command line did.
#[derive(Debug, PartialEq)]
struct Effect {
    status: i32,
    out: String,
    err: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

fn table() -> Vec<Line> {
    let mut command = String::new();
    let mut lines = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut command);
            continue;
        }
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_else(|| panic!("{line}"));
        lines.push(Line { command: command.clone(), option: part(), kind: part(), text: part() });
    }
    lines
}

/// The long options of a command, as its help lists them from clap's own tree.
fn options(command: &str) -> Vec<String> {
    let help = out(&[command, "--help"]);
    let of_line = |line: &str| {
        let text = line.trim_start();
        let indented = line.len() - text.len();
        // what stands further right is a sentence
        let text = if indented == 2 { text.get(4..)? } else { text };
        let name = text.strip_prefix("--").filter(|_| indented == 2 || indented == 6)?;
        Some(format!("--{}", name.split([' ', '=', '[']).next()?))
    };
    help.lines().filter_map(of_line).filter(|option| option != "--help").collect()
}

/// Words of a command line; quotes hold one together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in text.split('\'').enumerate() {
        match at % 2 {
            1 => words.push(part.to_owned()),
            _ => words.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    words
}

/// The files that the command lines name.
fn files(folder: &Path) {
    let system =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/h200x4-vm.toml")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    for name in ["here", "runs", "knowledge"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    write("slow.toml", &format!("{system}\n[[faults]]\nthrottle = \"GPU2\"\nfactor = 0.8\n"));
    write("weaker.toml", &format!("{system}\n[[faults]]\nfrom = \"GPU2\"\nto = \"GPU3\"\nfactor = 0.91\n"));
    write(
        "topo.txt",
        "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tPIX\tPIX\nGPU1\tPIX\t X \tPIX\nNIC0\tPIX\tPIX\t X \n\nNIC Legend:\n\n  NIC0: mlx5_acme_7\n",
    );
    for name in ["rank0.json", "rank1.json"] {
        fs::create_dir_all(folder.join("trace")).unwrap();
        fs::copy(crate::docs::root().join("examples/trace").join(name), folder.join("trace").join(name)).unwrap();
    }
    write("slots.txt", "SLOT1 x16 @cpu0\n");
    write(
        "trouble.txt",
        "GPU 0: NVIDIA H100 (UUID: GPU-a5c192c2-0000-0000-0000-000000000000)\nERROR: the widget is gone\n",
    );
    write("knowledge/site.toml", KNOWLEDGE);
    write("old.toml", "mine");
    let rules = ["gpu-throttled", "worse-than-before"]
        .map(|rule| format!("[[waive]]\nrule = \"{rule}\"\nmachines = [\"*\"]\nreason = \"known\"\n"));
    write("rules.toml", &rules.concat());
    let measured = [
        ("h200x4-vm", "run.json", &["--quick"][..]),
        ("slow.toml", "slower.json", &["--quick"]),
        ("cluster:tessa-pair", "nodes.json", &[]),
    ];
    for (target, name, how) in measured {
        let output = command(&[&["measure", target, "-o", name], how].concat()).current_dir(folder).output().unwrap();
        assert!(status(&output) < 2, "{}", err(&output));
    }
    for name in ["a.json", "b.json", "c.json"] {
        fs::copy(folder.join("run.json"), folder.join("runs").join(name)).unwrap();
    }
}

/// All files below a folder.
fn listed(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let kind = entry.symlink_metadata().unwrap();
        match (kind.is_dir(), kind.is_symlink()) {
            (true, _) => all.extend(listed(&entry)),
            (_, true) => drop(all.insert(entry, Vec::new())),
            _ => drop(all.insert(entry.clone(), fs::read(&entry).unwrap())),
        }
    }
    all
}

/// Runs a command line in a copy of the folder.
fn effect(files: &BTreeMap<PathBuf, Vec<u8>>, from: &Path, work: &Path, words: &[String]) -> Effect {
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work.join("here")).unwrap();
    fs::create_dir_all(work.join("runs")).unwrap();
    fs::create_dir_all(work.join("knowledge")).unwrap();
    fs::create_dir_all(work.join("trace")).unwrap();
    for (path, content) in files {
        fs::write(work.join(path.strip_prefix(from).unwrap()), content).unwrap();
    }
    let before = listed(work);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = command(&words).current_dir(work).env_remove("PEERLANE_SECRET").output().unwrap();
    let mut files = listed(work);
    files.retain(|path, content| before.get(path) != Some(content));
    let mut out = stdout(&output);
    if words.first() == Some(&"gate") {
        // it says when it began and how long it took
        files.values_mut().for_each(Vec::clear);
        let lines = out.lines().filter(|line| !line.contains("\"seconds\""));
        out = lines.map(|line| line.split(" tests, ").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    }
    Effect { status: status(&output), out, err: err(&output), files }
}

#[test]
fn the_table_has_every_option_of_every_command() {
    let table = table();
    let mut missing = Vec::new();
    for name in commands() {
        for option in options(&name) {
            let lines = |section: &str| {
                let of: Vec<&str> = table
                    .iter()
                    .filter(|line| line.command == section && line.option == option)
                    .map(|line| line.kind.as_str())
                    .collect();
                of
            };
            let kinds = [lines(&name), lines("*")].concat();
            let has = |kinds: &[&str], one: [&str; 2]| one.iter().any(|kind| kinds.contains(kind));
            if !has(&kinds, ["shows", "unseen"]) || !has(&kinds, ["refuses", "always"]) {
                missing.push(format!("{name} {option}: {kinds:?}"));
            }
        }
    }
    assert!(missing.is_empty(), "complete tests/suite/options/table.txt:\n{}", missing.join("\n"));
    for line in table.iter().filter(|line| line.command != "*") {
        assert!(options(&line.command).contains(&line.option), "{} has no {}", line.command, line.option);
        assert!(["shows", "refuses", "always", "unseen"].contains(&line.kind.as_str()), "{}", line.kind);
    }
}

#[test]
fn every_option_shows_or_is_refused() {
    let folder = std::env::temp_dir().join(format!("peerlane-options-{}", std::process::id()));
    let from = folder.join("from");
    files(&from);
    let files = listed(&from);
    let table = table();
    let told = table.iter().filter(|line| ["shows", "refuses"].contains(&line.kind.as_str()));
    let lines: Vec<&Line> = some(told, 6).collect();
    // lines of a command share what to compare with
    let sections: Vec<&[&Line]> = lines.chunk_by(|a, b| a.command == b.command).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let of_thread = |thread: usize| {
            let (sections, next, files, from, work) =
                (&sections, &next, &files, &from, folder.join(format!("work{thread}")));
            move || -> Vec<String> {
                let run = |words: &[String]| effect(files, from, &work, words);
                let section = || sections.get(next.fetch_add(1, Ordering::Relaxed));
                let of_section = |lines: &&[&Line]| -> Vec<String> {
                    let mut bases = BTreeMap::new();
                    lines.iter().filter_map(|line| tried(line, &run, &mut bases).err()).collect()
                };
                std::iter::from_fn(section).flat_map(of_section).collect()
            }
        };
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(of_thread(thread))).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    fs::remove_dir_all(folder).unwrap();
    assert!(wrong.is_empty(), "{} of {} lines:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
    assert!(lines.len() > if everything() { 300 } else { 50 }, "{}", lines.len());
}

/// The first lines of two outputs.
fn brief(out: &str, err: &str) -> String {
    format!("{:?} {:?}", out.lines().next(), err.lines().next())
}

/// Whether an option does what its line says.
fn tried(
    line: &Line,
    run: &dyn Fn(&[String]) -> Effect,
    bases: &mut BTreeMap<Vec<String>, Effect>,
) -> Result<(), String> {
    let Line { command, option, kind, text } = line;
    let name = format!("{command} {option} {kind} {text}");
    let of_command = |text: &str| [vec![command.clone()], words(text)].concat();
    if kind == "refuses" {
        let (words, expected) = text.split_once(" => ").ok_or_else(|| format!("{name}: no '=>'"))?;
        let Effect { status, out, err, files } = run(&of_command(words));
        let refused = status == 2 && out.is_empty() && files.is_empty() && err.contains(expected);
        return if refused {
            Ok(())
        } else {
            Err(format!("{name}: {status}, {} files, {}", files.len(), brief(&out, &err)))
        };
    }
    let (base, with) =
        format!(" {text}").split_once(" + ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap_or_default();
    let (base, with) = (of_command(&base), [of_command(&base), words(&with)].concat());
    let short = option.chars().nth(2).map(|letter| format!("-{letter}")).unwrap_or_default();
    if !with.iter().any(|word| word.split('=').next() == Some(option) || *word == short) {
        return Err(format!("{name}: the line lacks the option"));
    }
    if !bases.contains_key(&base) {
        let twice = [run(&base), run(&base)];
        if twice[0] != twice[1] {
            return Err(format!("{name}: not the same twice, {}", brief(&twice[0].out, &twice[1].out)));
        }
        bases.extend(twice.into_iter().map(|effect| (base.clone(), effect)));
    }
    let with = run(&with);
    let cannot = with.status == 2 && with.err.contains("Usage:");
    match bases[&base] == with || cannot {
        true => Err(format!("{name}: no effect, {}", brief(&with.out, &with.err))),
        false => Ok(()),
    }
}
