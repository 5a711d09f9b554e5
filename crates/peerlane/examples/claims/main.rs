//! What the authors of three documents state in numbers, each beside what their own tables give and what the model
//! gives: the tables in `docs/compare.md`.
//!
//! `cargo run -p peerlane --example claims`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints, and its systems are in the catalogue")]

mod exxact;
mod figures;
mod microway;
mod rossum;

fn main() {
    for (name, table) in tables() {
        println!("{name}\n\n{table}");
    }
}

/// The tables by name; a test compares them with the document.
pub(crate) fn tables() -> [(&'static str, String); 3] {
    [
        ("exxact", table(&exxact::claims())),
        ("microway", table(&microway::claims())),
        ("rossum", table(&rossum::claims())),
    ]
}

/// One statement.
pub(crate) struct Claim {
    /// What the document says, in short.
    says: &'static str,
    /// What its tables, or its parts' data sheets, give.
    stated: String,
    /// What the model gives, where it says something of it.
    predicted: String,
    /// Whether the first holds by the others, and if not, what does.
    verdict: String,
}

/// `holds`, or what holds instead.
pub(crate) fn verdict(holds: bool, instead: impl FnOnce() -> String) -> String {
    if holds { "holds".to_owned() } else { format!("corrected: {}", instead()) }
}

fn table(claims: &[Claim]) -> String {
    let mut out = String::from("| | the document says | its own numbers | the model | |\n|---|---|---|---|---|\n");
    for (i, Claim { says, stated, predicted, verdict }) in claims.iter().enumerate() {
        out.push_str(&format!("| {} | {says} | {stated} | {predicted} | {verdict} |\n", i + 1));
    }
    out
}
