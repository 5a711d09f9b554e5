//! Every machine, table, figure, claim, practice and question of five published documents, each with the command that
//! answers it: `validation/documents.md`. The questions that they leave open: `validation/questions.md`.
//! `UPDATE_DOCS=1 cargo test -p peerlane-cli documents::` rewrites both pages.
//!
//! The documents themselves are not in this repository. An item whose command reads one (`{000}`) is tried where
//! `../shared/seeds` has it; elsewhere its row stays as it was recorded.

mod items;
mod outputs;
mod page;
mod questions;

use std::path::{Path, PathBuf};

use items::{Document, State};
use outputs::Outputs;

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation").join(name)
}

/// Writes the page, or compares it with the one in the repository.
fn settle(name: &str, page: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(docs(name), page).unwrap();
    } else {
        let kept = std::fs::read_to_string(docs(name)).unwrap_or_default();
        assert!(kept == page, "validation/{name} is stale: UPDATE_DOCS=1 cargo test -p peerlane-cli documents::");
    }
}

#[test]
fn every_item_of_the_documents_has_its_answer() {
    let documents = items::read();
    let outputs = Outputs::of(documents.iter().flat_map(|document| &document.items).map(|item| item.command.as_str()));
    let kept = std::fs::read_to_string(docs("documents.md")).unwrap_or_default();
    let mut rows = Vec::new();
    let mut untrue = Vec::new();
    for item in documents.iter().flat_map(|document| &document.items) {
        let row = match outputs.get(&item.command) {
            Some(output) => {
                let answer = item.answer(output);
                if let Some(complaint) = item.complaint(&answer) {
                    untrue.push(complaint);
                }
                page::Row::of(item, &answer)
            }
            None => page::Row::kept(item, &kept),
        };
        rows.push(row);
    }
    let skipped = rows.iter().filter(|row| row.kept).count();
    if skipped > 0 {
        eprintln!("skipped: ../shared/seeds lacks the documents that {skipped} items read");
    }
    assert!(untrue.is_empty(), "{} items are not as stated:\n{}", untrue.len(), untrue.join("\n"));
    let page = page::page(&documents, &rows);
    let items = documents.iter().flat_map(|document| &document.items);
    let again: Vec<page::Row> = items.map(|item| page::Row::kept(item, &page)).collect();
    assert!(page::page(&documents, &again) == page, "a page without the documents would differ");
    settle("documents.md", &page);
}

#[test]
fn no_item_is_stated_twice_or_without_a_reason() {
    let documents = items::read();
    let mut ids = std::collections::BTreeSet::new();
    for Document { number, items, .. } in &documents {
        assert!(items.windows(2).all(|two| two[0].line <= two[1].line), "{number}: not in the order of its lines");
        for item in items {
            assert!(item.id.starts_with(&format!("{number}-")), "{}", item.id);
            assert!(ids.insert(item.id.as_str()), "{} twice", item.id);
            assert_eq!(item.state == State::Works, item.why.is_empty(), "{}: why is for what does not work", item.id);
            assert!(item.has_a_test(), "{}: nothing would show that it does not work", item.id);
        }
    }
    assert!(ids.len() >= 164, "{} items", ids.len());
}

#[test]
fn every_open_question_has_its_answer_or_its_experiment() {
    settle("questions.md", &questions::page());
}
