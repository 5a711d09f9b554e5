//! XML inside a text, as a small tree whose elements know their lines.
//!
//! A capture may hold XML among prose, in a Markdown fence, cut off, or after a licence comment, so
//! the tree starts at the line of its root element and ends at the matching tag. Whatever precedes a
//! fault is kept. Only the five standard entities and character references are expanded.

use std::str::FromStr;

use peerlane_machine::one_line::one_line;
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::limits::MAX_XML_BYTES;
use super::{Found, Text};

/// The most levels of nesting that are followed; real topologies stay below 30.
const MAX_DEPTH: usize = 256;

/// The most attributes of an element that are kept; hwloc writes fewer than twenty.
const MAX_ATTRIBUTES: usize = 64;

/// The most bytes of an element's own text.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// The most broken trees that are read of one text: each may make the parser look ahead to the end.
const MAX_BROKEN: usize = 16;

/// One element.
#[derive(Debug, Default)]
pub(super) struct Element {
    /// Its tag.
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    /// Its own text, without that of its children.
    pub(super) text: String,
    /// The element around it.
    pub(super) parent: Option<usize>,
    children: Vec<usize>,
    /// The line its tag starts on, from 1.
    pub(super) line: u32,
    /// The line it ends on.
    pub(super) last_line: u32,
}

impl Element {
    /// The memory that it takes, roughly, but for its own text.
    fn bytes(&self) -> usize {
        let attributes =
            self.attributes.iter().map(|(name, value)| 2 * size_of::<String>() + 32 + name.len() + value.len());
        size_of::<Element>() + 32 + attributes.sum::<usize>()
    }

    /// The value of an attribute, unescaped.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// An attribute that is a number in decimal.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.attribute(name).and_then(|v| v.trim().parse().ok())
    }
}

/// A tree of elements; the root has index 0, and parents stand before children.
#[derive(Debug)]
pub(super) struct Document {
    elements: Vec<Element>,
    /// First and last line, from 1.
    pub(super) lines: (u32, u32),
    /// The line and reason, where the tree ends before its root element does.
    pub(super) broken: Option<(u32, String)>,
}

impl Document {
    /// The root element.
    pub(super) fn root(&self) -> Option<&Element> {
        self.elements.first()
    }

    /// All elements in the order of their tags.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Element)> {
        self.elements.iter().enumerate()
    }

    /// An element, if there is one of that index.
    pub(super) fn get(&self, at: usize) -> Option<&Element> {
        self.elements.get(at)
    }

    /// Warns of a tree that ends before its root element does.
    pub(super) fn warn_if_broken(&self, text: &Text, tool: &'static str, found: &mut Found) {
        if let Some((line, reason)) = &self.broken {
            let message = format!("the XML breaks off ({reason}); what precedes that is used");
            found.warn(text, tool, (*line, *line), message);
        }
    }

    /// The elements just inside one.
    pub(super) fn children(&self, at: usize) -> impl Iterator<Item = (usize, &Element)> {
        let children = self.elements.get(at).map_or(&[][..], |e| &e.children);
        children.iter().filter_map(|&c| Some((c, self.elements.get(c)?)))
    }
}

/// Every tree in the text whose root element is called `root`, in order; one that is cut within its root tag is empty.
pub(super) fn documents(text: &Text, root: &str) -> Vec<Document> {
    let mut all = Vec::new();
    let tag = format!("<{root}");
    if !text.holds(&[&tag]) {
        return all;
    }
    let starts = root_lines(text, &tag);
    if starts.is_empty() {
        return all;
    }
    let mut free_from = 0;
    let mut broken = 0;
    let mut room = MAX_XML_BYTES;
    for (i, at) in starts {
        if i < free_from || broken >= MAX_BROKEN || room == 0 {
            continue;
        }
        let document = parse(text, i, at, room);
        room = room.saturating_sub(document.elements.iter().map(Element::bytes).sum());
        free_from = document.lines.1 as usize;
        broken += usize::from(document.broken.is_some());
        if document.broken.as_ref().is_some_and(|(line, _)| *line as usize == free_from) {
            // the fault may be that the next tree starts here
            free_from = free_from.saturating_sub(1).max(i + 1);
        }
        all.push(document);
    }
    all
}

/// Indices of the lines on which a root tag opens outside comments, with the tag's offset in the line.
fn root_lines(text: &Text, tag: &str) -> Vec<(usize, usize)> {
    let last_end = text.iter().filter(|(_, l)| l.contains("-->")).last().map(|(i, _)| i);
    let mut in_comment = false;
    let mut starts = Vec::new();
    for (i, line) in text.iter() {
        if in_comment {
            in_comment = !line.contains("-->");
            continue;
        }
        let comment = line.rfind("<!--").filter(|at| !line[*at..].contains("-->"));
        // a comment that never closes is prose
        in_comment = comment.is_some() && last_end.is_some_and(|end| end > i);
        let Some(at) = line.find(tag) else { continue };
        let before = line[..at].trim();
        let after = line[at + tag.len()..].chars().next();
        let ends_name = after.is_none_or(|c| c.is_whitespace() || c == '>' || c == '/');
        if ends_name && (before.is_empty() || before.starts_with('<') && before.ends_with('>')) {
            starts.push((i, at));
        }
    }
    starts
}

/// Reads one tree of at most `room` bytes of memory, whose root tag opens in the line of index `line` at byte `at`.
fn parse(text: &Text, line: usize, at: usize, room: usize) -> Document {
    let start = text.offset(line) + at;
    let mut reader = Reader::from_str(text.joined().get(start..).unwrap_or_default());
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut broken = None;
    let mut taken = 0;
    let end = loop {
        let offset = start + reader.buffer_position() as usize;
        let event = reader.read_event();
        let mut stop = |reason: &str| broken = Some((text.line_at(offset), reason.to_owned()));
        match event {
            Ok(event @ (Event::Start(_) | Event::Empty(_))) => {
                let (Event::Start(tag) | Event::Empty(tag)) = &event else { continue };
                if open.len() >= MAX_DEPTH {
                    stop("nested too deeply");
                    break offset;
                }
                let mut element = element(tag, text.line_at(offset));
                taken += element.bytes();
                if taken > room {
                    stop("too many elements");
                    break offset;
                }
                if elements.first().is_some_and(|root| root.name == element.name) {
                    stop("the next one starts before this one ends");
                    break offset;
                }
                let index = elements.len();
                element.parent = open.last().copied();
                if let Some(parent) = element.parent.and_then(|p| elements.get_mut(p)) {
                    parent.children.push(index);
                }
                elements.push(element);
                if matches!(event, Event::Start(_)) {
                    open.push(index);
                }
            }
            Ok(Event::End(_)) => {
                if let Some(element) = open.pop().and_then(|e| elements.get_mut(e)) {
                    element.last_line = text.line_at(offset);
                }
            }
            Ok(Event::Text(content)) => {
                if let Some(at) = content.find("```") {
                    let offset = offset + at;
                    broken = Some((text.line_at(offset), "cut off: the fenced block ends first".to_owned()));
                    break offset;
                }
                let inside = open.last().and_then(|&e| elements.get_mut(e));
                if let Some(element) = inside.filter(|e| e.text.len() + content.len() <= MAX_TEXT_BYTES) {
                    element.text.push_str(&content);
                }
            }
            Ok(Event::Eof) => {
                stop("cut off: the text ends first");
                break offset;
            }
            Ok(_) => {}
            Err(error) => {
                stop(&error.to_string());
                break offset;
            }
        }
        if open.is_empty() {
            break (start + reader.buffer_position() as usize).saturating_sub(1);
        }
    };
    let _ = text.spend(line, end.saturating_sub(start));
    let last = text.line_at(end.min(text.joined().len().saturating_sub(1)));
    for at in open {
        elements[at].last_line = last;
    }
    Document { elements, lines: (line as u32 + 1, last), broken }
}

fn element(tag: &BytesStart<'_>, line: u32) -> Element {
    let mut attributes = Vec::new();
    for attribute in tag.attributes().with_checks(false).flatten().take(MAX_ATTRIBUTES) {
        let key: &str = attribute.key.as_ref();
        // a value with an unknown entity stays as it is written
        let value = unescape(&attribute.value).map_or_else(|_| attribute.value.to_string(), |v| v.into_owned());
        // a reference such as `&#10;` or `&#27;` must not add a line or move a terminal's cursor
        let value = one_line(&value).into_owned();
        attributes.push((key.to_owned(), value));
    }
    let name: &str = tag.name().0;
    Element { name: name.to_owned(), attributes, line, last_line: line, ..Element::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Document> {
        documents(&Text::new("x", text.as_bytes()), "system")
    }

    #[test]
    fn a_tree_with_lines_among_prose() {
        let all = read(
            "<!-- licence\n<system> is meant\n-->\nThe file:\n```xml\n<system version=\"1\">\n <cpu a='x &amp; &quot;y'>1 2</cpu>\n</system>\n```\nend",
        );
        assert_eq!(all.len(), 1);
        let (cpu, element) = all[0].children(0).next().unwrap();
        assert_eq!((element.line, element.attribute("a"), element.text.as_str()), (7, Some("x & \"y"), "1 2"));
        assert_eq!(all[0].children(cpu).count(), 0);
        assert_eq!((all[0].lines, &all[0].broken), ((6, 8), &None));
    }

    #[test]
    fn what_precedes_a_fault_is_kept() {
        let cut = read("<system>\n<cpu>\n<pci busid=\"0\"/>\n<pci bu");
        assert_eq!(cut[0].iter().count(), 3);
        assert_eq!(cut[0].broken.as_ref().unwrap().0, 4);
        let two = read("<system>\n<cpu>\n```\nand\n```\n<system><cpu/><cpu/></system>\n```");
        assert_eq!(two.iter().map(|d| d.iter().count()).collect::<Vec<_>>(), [2, 3]);
        let crossed = read("<system>\n<cpu>\n</system>\n<system/>");
        assert_eq!(crossed.len(), 2);
        assert_eq!(crossed[0].broken.as_ref().unwrap().0, 3);
        let unclosed = read("<system>\n<cpu/>\n<system version=\"2\"/>");
        assert_eq!(unclosed.len(), 2);
        assert!(unclosed[1].broken.is_none());
    }

    #[test]
    fn depth_is_limited() {
        let deep = format!("<system>{}", "<a>".repeat(1000));
        let all = read(&deep);
        assert_eq!(all[0].iter().count(), MAX_DEPTH);
        assert!(all[0].broken.is_some());
    }

    #[test]
    fn one_line_and_declarations() {
        let all = read("<?xml version=\"1.0\"?><!DOCTYPE system><system><cpu/></system>");
        assert_eq!(all[0].iter().count(), 2);
        assert!(read("<systems/> and the <system> word in prose").is_empty());
    }
}
