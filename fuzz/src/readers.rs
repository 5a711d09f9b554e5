//! Texts and archives that anybody may send.

use peerlane::assemble::assemble;
use peerlane::evidence::{Files, Found, Item, MAX_STATEMENTS, Reader, Text, read_files, read_stream, scan_text};

/// One reader of a text.
pub fn read(reader: &Reader, data: &[u8]) {
    let text = Text::new("input", data);
    sound(&reader.read(&text), last_line(&text));
}

/// All readers of a text, and the machines that it describes.
pub fn text(data: &[u8]) {
    let text = Text::new("input", data);
    let found = scan_text(&text);
    sound(&found, last_line(&text));
    assemble(found);
}

/// A text or an archive, packed or not, as it comes through a pipe.
pub fn archive(data: &[u8]) {
    if let Ok(found) = read_stream("input", data) {
        assemble(found);
    }
}

/// A tree of sysfs: lines `path<TAB>content`, or `path<TAB>-> link`.
pub fn sysfs(data: &[u8]) {
    let mut files = Files::default();
    for line in String::from_utf8_lossy(data).lines() {
        let Some((path, content)) = line.split_once('\t') else { continue };
        let item = match content.strip_prefix("-> ") {
            Some(to) => Item::Link(to.to_owned()),
            None => Item::File(content.replace("\\n", "\n").into_bytes()),
        };
        files.insert(path, item);
    }
    assemble(read_files("input", &files));
}

/// The number of a text's last line; one that has been taken out of a document is counted there.
fn last_line(text: &Text) -> usize {
    // what is joined over several lines has fewer lines than numbers
    text.len().max(text.numbers(0, text.len().saturating_sub(1)).1 as usize)
}

/// Every statement stands on lines that the text has, unless it is of a file within it; and there are no more than may be
/// kept.
fn sound(found: &Found, lines: usize) {
    assert!(found.evidence.len() <= MAX_STATEMENTS, "{} statements", found.evidence.len());
    for evidence in &found.evidence {
        let Some((first, last)) = evidence.origin.lines else { continue };
        let within = 1 <= first && first <= last && last as usize <= lines;
        assert!(within, "{} on lines {first} to {last} of {lines}", evidence.origin.tool);
    }
}
