//! Links between pages lead somewhere, and the site has every page.

use std::fs;
use std::path::{Path, PathBuf};

use super::{pages, root};

/// The lines of a page outside of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence && !line.starts_with("    ")
    })
}

/// What links and pictures of a page point to.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for after in line.split("](").skip(1) {
            let target = after.split([')', ' ']).next().unwrap();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// The anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    heading.trim().to_lowercase().chars().filter(|c| kept(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(page).unwrap();
    let mut headings = prose(&text).filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line.trim_start_matches('#')) == wanted)
}

fn all_pages() -> Vec<PathBuf> {
    let folders = ["", "docs", "examples", "published", "recipes", "validation"];
    let mut all: Vec<PathBuf> = folders.iter().flat_map(|folder| pages(folder)).collect();
    for folder in ["recipes", "captures"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let page = entry.unwrap().path().join("README.md");
            all.extend(page.is_file().then_some(page));
        }
    }
    all
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut dead = Vec::new();
    let mut links = 0;
    for page in all_pages() {
        let text = fs::read_to_string(&page).unwrap();
        for target in targets(&text) {
            links += 1;
            let (file, wanted) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let markdown = path.extension().is_some_and(|e| e == "md");
            if !path.exists() || !wanted.is_empty() && markdown && !has_anchor(&path, wanted) {
                dead.push(format!("{}: {target}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(links > 200, "{links} links: are they still recognised?");
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn the_site_has_every_page_once() {
    let summary = root().join("docs/SUMMARY.md");
    let mut listed = targets(&fs::read_to_string(&summary).unwrap());
    listed.sort();
    let name = |page: PathBuf| page.file_name().unwrap().to_str().unwrap().to_owned();
    let present: Vec<String> = pages("docs").into_iter().map(name).filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, present, "docs/SUMMARY.md against the pages of docs/");
}
