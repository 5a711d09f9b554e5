//! Words that a reader of manuals would stumble over occur in no help, output or page.

use std::fs;
use std::path::PathBuf;

use super::{commands, pages, root};
use crate::common::out;

/// Not this, but that. Letters are compared in lower case, and phrases also across lines.
const PHRASES: [(&str, &str); 61] = [
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("remedy", "fix"),
    ("remedies", "fixes"),
    ("untold", "unknown"),
    ("told", "known, or stated"),
    ("a way", "a method"),
    ("this way", "so, or by this method"),
    ("the way to", "how to"),
    ("ways of", "methods of"),
    ("ways to", "methods to"),
    ("in a similar way", "similarly"),
    ("manner", "method"),
    ("lift", "upgrade"),
    ("observed", "measured"),
    ("as seen", "as measured"),
    ("odd one", "outlier"),
    ("odd ones", "outliers"),
    ("odd machine", "outlier"),
    ("odd node", "outlier"),
    ("odd value", "outlier"),
    ("odd values", "outliers"),
    ("looks odd", "is an outlier"),
    ("odds", "anomalies"),
    ("told apart", "distinguished"),
    ("tells apart", "distinguishes"),
    ("tells them apart", "distinguishes them"),
    ("no source tells", "no source states"),
    ("is odd", "is an outlier"),
    ("what is odd", "anomalies"),
    ("odd one out", "outlier"),
    ("oddity", "anomaly"),
    ("endless", "asymptotic, or unlimited"),
    ("put beside it", "add"),
    ("to judge it", "for a verdict"),
    ("read are", "supported inputs"),
    ("by name only", "only when requested"),
    ("asked for", "requested"),
    ("virtual machine of ours", "simulated machine"),
    ("is said", "is stated"),
    ("of ours", "of peerlane"),
    ("anew", "again"),
    ("beyond doubt", "certainly"),
    ("thus", "so"),
    ("hence", "so"),
    ("whilst", "while"),
    ("albeit", "although"),
    ("in order to", "to"),
    ("note that", "nothing"),
    ("please", "nothing"),
    ("simply", "nothing"),
    ("obviously", "nothing"),
    ("easily", "a figure"),
    ("utilize", "use"),
    ("utilise", "use"),
    ("leverage", "use"),
    ("seamless", "what it does"),
    ("robust", "what it withstands"),
    ("blazing", "a figure"),
    ("cutting-edge", "a figure"),
];

/// Pages that name what was renamed.
const QUOTES: [&str; 1] = ["CHANGELOG.md"];

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|file| file.extension().is_some_and(|e| e == ending)).collect()
}

/// Lower case, one space between words, and one at each end.
fn words(text: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || c == '-' { c } else { ' ' };
    let text: String = text.to_lowercase().chars().map(kept).collect();
    format!(" {} ", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn unusual_phrases_occur_nowhere() {
    let mut texts: Vec<(String, String)> = Vec::new();
    let folders = [("", "md"), ("docs", "md"), ("examples", "md"), ("recipes", "md")];
    let outputs = ("crates/peerlane-cli/tests/golden", "txt");
    for path in folders.into_iter().chain([outputs]).flat_map(|(folder, ending)| files(folder, ending)) {
        if !QUOTES.iter().any(|name| path.ends_with(name)) {
            texts.push((path.strip_prefix(root()).unwrap().display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(texts.len() > 60 && pages("docs").len() > 30, "{} texts", texts.len());
    texts.push(("--help".to_owned(), out(&["--help"])));
    texts.extend(commands().into_iter().map(|name| (format!("{name} --help"), out(&[&name, "--help"]))));
    let mut found = Vec::new();
    for (name, text) in &texts {
        let text = words(text);
        for (phrase, instead) in PHRASES {
            if text.contains(&format!(" {phrase} ")) {
                found.push(format!("{name}: \"{phrase}\"; instead: {instead}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
