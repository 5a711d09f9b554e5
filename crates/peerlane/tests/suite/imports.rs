//! Imports go one way: a crate, a module of a crate and a file of a folder import what stands below them. What is not so yet is in
//! `CIRCLES`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates from the lowest to the highest, each with its modules from the lowest to the highest.
const ORDER: [(&str, &str); 11] = [
    (
        "peerlane-machine",
        "schema one_line blame bounds units names subject gap stats copy_time date random origin fabric matrix fit curve fact transfer exchange halo spin_glass bfs counter fault machine",
    ),
    ("peerlane-read", "input_file knowledge evidence catalogue assemble"),
    ("peerlane-model", "solve model flows collectives expectation comparison assumptions"),
    ("peerlane-measure", "kinds plan run measure simulated_machine traffic nodes"),
    (
        "peerlane-gpu",
        "system pattern timeline foreign counters kernels host output search session library bindings open cuda failure nccl nvml discover live",
    ),
    (
        "peerlane-net",
        "transport gpu_memory verbs error secret wire handshake door message launcher tcp gpu agent head local",
    ),
    (
        "peerlane-design",
        "what_if builder cluster simulate nic_gpus simulated_cluster measured_cluster site infer case upgrades compare place planner tune",
    ),
    ("peerlane-judge", "thresholds finding verdict action check nodes fleet gate selftest accuracy"),
    ("peerlane", "export target"),
    ("peerlane-report", "item samples render report formats html"),
    (
        "peerlane-cli",
        "console progress system host output_file pages printable program redact live args target measuring site fleet confine commands",
    ),
];

/// Files of a folder that import each other in a circle. None may be added; one that is resolved leaves the list.
const CIRCLES: [&str; 5] = [
    "peerlane-design simulated_cluster: nccl predictor",
    "peerlane-judge check: corrupt_data gpu_nic_apart host_buffers_far missing_peer_module narrow_link nic_gpu_refused nic_gpu_slow nic_slow nodes prelude rule slow_path unexplained_value",
    "peerlane-judge fleet: between captured culprit machines outliers read usual",
    "peerlane-judge fleet: judge network",
    "peerlane-model model: access assumptions nccl nvlink rdma resources route staging",
];

/// A module by the names on the way to it; the root of a crate has none.
type Module = Vec<String>;

/// What a crate's modules import of each other, as pairs, without what is for tests only.
fn imports(name: &str) -> BTreeSet<(Module, Module)> {
    let mut code = BTreeMap::new();
    read(&folder(name).join("src"), &Module::new(), &mut code);
    let mut found = BTreeSet::new();
    for (from, text) in &code {
        let known = |module: &Module| code.contains_key(module);
        let all = paths(text).into_iter().filter_map(|path| absolute(from, &path, known));
        let modules = all.map(|path| (0..=path.len()).rev().map(|n| path[..n].to_vec()).find(known).unwrap());
        found.extend(modules.filter(|to| to != from).map(|to| (from.clone(), to)));
    }
    found
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn child(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
}

/// The code of all modules in a folder, without comments and tests.
fn read(folder: &Path, parent: &Module, code: &mut BTreeMap<Module, String>) {
    let mut for_tests = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_stem().unwrap().to_str().unwrap();
        let is_root = ["lib", "main", "mod"].contains(&name);
        let module = if is_root { parent.clone() } else { child(parent, name) };
        if entry.is_dir() {
            read(&entry, &module, code);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            let declared =
                text.split("#[cfg(test)]\n").skip(1).filter_map(|after| after.lines().next()?.split_once("mod "));
            for_tests.extend(declared.filter_map(|(_, name)| Some(child(&module, name.strip_suffix(';')?))));
            let lines = text.split("\nmod tests {").next().unwrap().lines();
            code.insert(module, lines.flat_map(|line| [line.split("//").next().unwrap(), "\n"]).collect());
        }
    }
    code.retain(|module, _| !for_tests.iter().any(|tests| module.starts_with(tests)));
}

/// All paths of at least two names; those of a list in braces one by one.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let (mut rest, mut found) = (code, Vec::new());
    while let Some(at) = rest.find(in_a_name) {
        rest = path(&[], &rest[at..], &mut found);
    }
    found.retain(|path: &Vec<&str>| path.len() > 1);
    found
}

fn in_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Adds the path, or the paths in braces, that the code begins with; returns the code after it.
fn path<'a>(before: &[&'a str], code: &'a str, found: &mut Vec<Vec<&'a str>>) -> &'a str {
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = path(before, rest.trim_start(), found);
            let Some(end) = rest.find([',', '}']) else { return "" };
            let closed = rest[end..].starts_with('}');
            rest = &rest[end + 1..];
            if closed {
                return rest;
            }
        }
    }
    let (name, rest) = code.split_at(code.find(|c| !in_a_name(c)).unwrap_or(code.len()));
    let path_so_far = [before, &[name]].concat();
    match rest.strip_prefix("::") {
        Some(rest) if rest.starts_with(|c| in_a_name(c) || c == '{') => path(&path_so_far, rest, found),
        _ => {
            found.push(path_so_far);
            rest
        }
    }
}

/// The path from the crate's root, if it is in this crate.
fn absolute(from: &Module, path: &[&str], known: impl Fn(&Module) -> bool) -> Option<Module> {
    let up = path.iter().take_while(|name| **name == "super").count();
    let (start, rest) = match path[0] {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => (from[..from.len().checked_sub(up)?].to_vec(), &path[up..]),
        name if known(&child(from, name)) => (from.clone(), path),
        _ => return None,
    };
    Some(rest.iter().fold(start, |module, name| child(&module, name)))
}

/// What the members of a folder import of each other, with all that is in them.
fn within<'a>(folder: &[String], imports: &'a BTreeSet<(Module, Module)>) -> BTreeSet<(&'a str, &'a str)> {
    let member = |module: &'a Module| module.starts_with(folder).then(|| module.get(folder.len())).flatten();
    let pairs = imports.iter().filter_map(|(from, to)| Some((member(from)?.as_str(), member(to)?.as_str())));
    pairs.filter(|(from, to)| from != to).collect()
}

/// The groups whose members import each other, directly or not.
fn circles<'a>(mut pairs: BTreeSet<(&'a str, &'a str)>) -> BTreeSet<BTreeSet<&'a str>> {
    let mut before = 0;
    while pairs.len() > before {
        before = pairs.len();
        for (from, by) in pairs.clone() {
            let through: Vec<&str> = pairs.iter().filter(|(start, _)| *start == by).map(|(_, to)| *to).collect();
            pairs.extend(through.into_iter().map(|to| (from, to)));
        }
    }
    let in_one: Vec<&str> = pairs.iter().filter(|(from, to)| from == to).map(|(one, _)| *one).collect();
    let both = |one: &str, other: &str| pairs.contains(&(one, other)) && pairs.contains(&(other, one));
    in_one.iter().map(|one| in_one.iter().copied().filter(|other| both(one, other)).collect()).collect()
}

#[test]
fn crates_import_crates_below_them() {
    for (at, (name, _)) in ORDER.iter().enumerate() {
        let manifest = fs::read_to_string(folder(name).join("Cargo.toml")).unwrap();
        let above =
            ORDER[at..].iter().filter(|(other, _)| manifest.lines().any(|l| l.starts_with(&format!("{other}."))));
        let above: Vec<&str> = above.map(|(other, _)| *other).collect();
        assert!(above.is_empty(), "{name} depends on {above:?}, which stand above it");
    }
}

#[test]
fn modules_import_modules_below_them() {
    let mut found = BTreeSet::new();
    for (name, order) in ORDER {
        let order: Vec<&str> = order.split_whitespace().collect();
        let all = imports(name);
        let at = |module: &str| order.iter().position(|m| *m == module).unwrap_or_else(|| panic!("{name} {module}"));
        let up = within(&[], &all).into_iter().filter(|(from, to)| at(to) > at(from));
        found.extend(up.map(|(from, to)| format!("{name}: {from}→{to}")));
    }
    assert!(found.is_empty(), "these imports go up: {found:?}");
}

#[test]
fn files_of_a_folder_import_each_other_one_way() {
    let mut found = BTreeSet::new();
    for (name, _) in ORDER {
        let all = imports(name);
        let folders: BTreeSet<&[String]> =
            all.iter().filter_map(|(from, _)| from.split_last()).map(|(_, f)| f).collect();
        for folder in folders {
            let members = |circle: BTreeSet<&str>| circle.into_iter().collect::<Vec<_>>().join(" ");
            let circles = circles(within(folder, &all)).into_iter().map(members);
            found.extend(circles.map(|members| format!("{name} {}: {members}", folder.join("/"))));
        }
    }
    assert_eq!(found, CIRCLES.into_iter().map(str::to_owned).collect());
}

/// What commands share has a module of its own.
#[test]
fn no_command_imports_another_commands_file() {
    let all = imports("peerlane-cli");
    let found = within(&["commands".to_owned()], &all);
    assert!(found.is_empty(), "{found:?}");
}
