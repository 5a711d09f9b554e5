//! Imports go one way: a module may import the modules that stand before it in `ORDER`, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Crates with their modules from the lowest to the highest.
const ORDER: [(&str, &str); 10] = [
    (
        "peerlane-machine",
        "one_line units names subject gap stats copy_time date fit random origin fabric matrix curve fact transfer exchange halo spin_glass bfs counter fault machine",
    ),
    ("peerlane-read", "evidence catalogue assemble"),
    ("peerlane-model", "solve model flows collectives expectation comparison assumptions"),
    ("peerlane-measure", "plan run measure simulated_machine nodes"),
    (
        "peerlane-design",
        "what_if builder cluster simulate nic_gpus simulated_cluster measured_cluster infer case upgrades compare place tune",
    ),
    ("peerlane-judge", "thresholds finding check nodes action fleet gate selftest accuracy"),
    ("peerlane", "export"),
    ("peerlane-report", "item samples render report formats html"),
    (
        "peerlane-net",
        "transport gpu_memory verbs error secret wire handshake door message launcher tcp gpu agent head local",
    ),
    ("peerlane-cli", "system host output_file printable program redact live args target measuring commands"),
];

/// What paths that begin with `crate::` name first, outside comments and tests; of a list in braces, every word.
fn imported(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().lines();
    let code: String = code.map(|line| line.split("//").next().unwrap().trim()).collect();
    let other = |c: char| !c.is_alphanumeric() && c != '_';
    let paths = code.split("crate::").skip(1).flat_map(|path| {
        let list = path.strip_prefix('{').map_or("", |list| list.split(';').next().unwrap());
        let one = path.split(other).next().unwrap();
        list.split(other).chain([one]).map(str::to_owned)
    });
    paths.collect()
}

/// Adds the imports of a folder's files that go up, as `from→to`.
fn read(folder: &Path, module: &str, order: &[&str], found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_stem().unwrap().to_str().unwrap();
        let module = if module.is_empty() { name } else { module };
        if ["lib", "main", "tests", "testing"].contains(&name) {
        } else if entry.is_dir() {
            read(&entry, module, order, found);
        } else {
            let at = order.iter().position(|m| *m == module).expect(module);
            let imported = imported(&fs::read_to_string(&entry).unwrap());
            found
                .extend(order[at + 1..].iter().filter(|to| imported.contains(**to)).map(|to| format!("{module}→{to}")));
        }
    }
}

#[test]
fn imports_go_down() {
    let mut found = BTreeSet::new();
    for (name, order) in ORDER {
        let order: Vec<&str> = order.split_whitespace().collect();
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), "", &order, &mut found);
    }
    assert!(found.is_empty(), "these imports go up: {found:?}");
}
