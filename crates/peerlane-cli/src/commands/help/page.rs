//! A page of the manual, from Markdown to lines of a terminal: paragraphs are wrapped, code and tables stay as they are.

use std::io::{self, Write};

use crate::render::line_width;
use crate::render::style::{self, paint};
use crate::render::text::wrap;

/// A page by the name of its file.
pub(super) struct Page {
    pub(super) name: String,
    pub(super) text: String,
}

/// A part of a page.
#[derive(Clone, Copy)]
pub(super) struct Section<'a>(&'a str);

impl Page {
    pub(super) fn whole(&self) -> Section<'_> {
        Section(&self.text)
    }

    /// Its name, its headings and its terms, as words to ask for.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let titles = lines(&self.text).filter_map(|(_, line)| title(line).map(|(_, title)| slug(title)));
        std::iter::once(self.name.clone()).chain(titles)
    }

    /// The part below the heading, or at the term, of this name: up to the next heading that is as high.
    pub(super) fn section(&self, name: &str) -> Option<Section<'_>> {
        let titles = || lines(&self.text).filter_map(|(at, line)| title(line).map(|(level, title)| (at, level, title)));
        let (from, level, _) = titles().find(|(_, _, title)| slug(title) == name)?;
        let to = titles().find(|(at, other, _)| *at > from && *other <= level).map_or(self.text.len(), |(at, ..)| at);
        self.text.get(from..to).map(Section)
    }
}

impl Section<'_> {
    pub(super) fn print(self, out: &mut dyn Write) -> io::Result<()> {
        let mut paragraph = String::new();
        let mut is_code = false;
        for line in self.0.lines() {
            let fence = line.trim_start().starts_with("```");
            let item = !is_code && ["* ", "- ", "> "].iter().any(|mark| line.trim_start().starts_with(mark));
            let apart = is_code || fence || line.is_empty() || line.starts_with(['|', '#', '!', '<']);
            if apart || item {
                flush(&mut paragraph, out)?;
            }
            match (fence, title(line)) {
                (true, _) => is_code = !is_code,
                (false, _) if is_code => writeln!(out, "    {line}")?,
                (false, Some((level, title))) if level <= LEAST_LEVEL => {
                    writeln!(out, "{}", paint(style::HEADING, &plain(title)))?;
                }
                _ if line.starts_with('|') => writeln!(out, "{}", plain(line))?,
                // pictures, comments and anchors are not for a terminal
                _ if line.starts_with(['!', '<']) => {}
                _ if line.is_empty() => writeln!(out)?,
                _ => {
                    paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
                    paragraph.push_str(if paragraph.is_empty() { line } else { line.trim_start() });
                }
            }
        }
        flush(&mut paragraph, out)
    }
}

/// The level of terms, below all headings: `**Term** · what it is`, `- **term**: what it is`.
const TERM: usize = 7;

/// The lowest heading.
const LEAST_LEVEL: usize = 6;

/// Lines outside code, each with where it begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut at, mut is_code) = (0, false);
    text.split_inclusive('\n').filter_map(move |line| {
        let from = at;
        at += line.len();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        (!is_code).then(|| (from, line.trim_end()))
    })
}

/// The level and the words of a heading or of a term.
fn title(line: &str) -> Option<(usize, &str)> {
    let level = line.chars().take_while(|c| *c == '#').count();
    if level > 0 {
        return line[level..].strip_prefix(' ').map(|title| (level, title));
    }
    let (term, after) = line.trim_start_matches("- ").strip_prefix("**")?.split_once("**")?;
    after.starts_with([' ', ':']).then_some((TERM, term))
}

/// As one would type it: `GPUDirect RDMA` is `gpudirect-rdma`.
fn slug(title: &str) -> String {
    let words = plain(title).to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// Without the marks of links and of bold words.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        match after.split_once("](").and_then(|(words, target)| Some((words, target.split_once(')')?))) {
            Some((words, (target, left))) if !words.contains('[') => {
                out.push_str(words);
                if target.starts_with("http") {
                    out.push_str(&format!(" ({target})"));
                }
                rest = left;
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.replace("**", "")
}

/// Prints a paragraph or an item of a list, wrapped; what follows the first line of an item is indented.
fn flush(paragraph: &mut String, out: &mut dyn Write) -> io::Result<()> {
    let text = plain(&std::mem::take(paragraph));
    let own = text.len() - text.trim_start().len();
    let is_item = ["* ", "- ", "> "].iter().any(|mark| text.trim_start().starts_with(mark));
    let hang = own + if is_item { 2 } else { 0 };
    for (nth, line) in wrap(&text, line_width().saturating_sub(hang)).into_iter().enumerate() {
        writeln!(out, "{:1$}{line}", "", if nth == 0 { own } else { hang })?;
    }
    Ok(())
}
