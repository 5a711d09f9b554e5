//! The tables of `docs/compare.md` are what the program says; `UPDATE_DOCS=1 cargo test --test compare_doc` rewrites them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

#[path = "../examples/claims/main.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod claims;

#[test]
fn the_statements_and_their_figures_are_fresh() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compare.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut fresh = text.clone();
    for (name, table) in claims::tables() {
        let open = format!("<!-- claims: {name} -->\n");
        let (before, rest) = fresh.split_once(&open).unwrap_or_else(|| panic!("no {open}"));
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        fresh = format!("{before}{open}{table}<!-- end -->{after}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, fresh).unwrap();
    } else {
        assert!(fresh == text, "{} is stale: UPDATE_DOCS=1 cargo test -p peerlane --test compare_doc", path.display());
    }
}
