//! The text of a system file: where something stands in it, for errors and origins.

use std::ops::Range;
use std::sync::Arc;

use super::problems::{Problem, SystemError};
use crate::evidence::Text;
use peerlane_machine::fabric::Node;
use peerlane_machine::origin::Origin;

/// A system file's name and text, with an index of its lines.
pub(super) struct Source<'a> {
    name: Arc<str>,
    text: &'a str,
    /// Offsets of the line ends.
    ends: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(name: &str, text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i).collect();
        Source { name: name.into(), text, ends }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The line, from 1, that an offset is on.
    pub(super) fn line(&self, offset: usize) -> u32 {
        self.ends.partition_point(|end| *end < offset) as u32 + 1
    }

    /// Refuses the file for what stands at `span`.
    pub(super) fn error(&self, span: Range<usize>, message: impl std::fmt::Display) -> SystemError {
        self.at_line(self.line(span.start), message)
    }

    /// Refuses the file for what stands on a line.
    pub(super) fn at_line(&self, line: u32, message: impl std::fmt::Display) -> SystemError {
        let problem = Problem { line: Some(line), message: message.to_string() };
        SystemError { file: self.name.to_string(), problems: vec![problem] }
    }

    /// Refuses the file for a node.
    pub(super) fn of_node(&self, node: &Node, message: String) -> SystemError {
        match node.origins.first().and_then(|origin| origin.lines) {
            Some((line, _)) => self.at_line(line, message),
            None => self.refuse(message),
        }
    }

    /// Refuses the file as a whole.
    pub(super) fn refuse(&self, message: String) -> SystemError {
        SystemError::whole(&self.name, message)
    }

    /// Where a statement stands.
    pub(super) fn origin(&self, tool: &'static str, span: Range<usize>) -> Origin {
        let last = span.end.saturating_sub(1).max(span.start);
        Origin { source: self.name.clone(), tool, lines: Some((self.line(span.start), self.line(last))) }
    }

    /// The line on which the content of a string begins: the next one after an opening `"""` that ends its line.
    pub(super) fn content_line(&self, span: Range<usize>) -> u32 {
        let written = self.text.get(span.clone()).unwrap_or_default();
        let opened = written.trim_start_matches(['"', '\'']);
        self.line(span.start) + u32::from(opened.starts_with('\n') || opened.starts_with("\r\n"))
    }

    /// The content of a string as a text whose line numbers are those of the file.
    pub(super) fn excerpt(&self, content: &str, span: Range<usize>) -> Text {
        let above = self.content_line(span).saturating_sub(1) as usize;
        Text::new(&self.name, ("\n".repeat(above) + content).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_files_own() {
        let text = "a = 1\nm = \"\"\"\n1 2\n\"\"\"\nn = \"3\"\n";
        let source = Source::new("x", text);
        assert_eq!(source.line(0), 1);
        assert_eq!(source.line(6), 2);
        let at = text.find("\"\"\"").unwrap();
        assert_eq!(source.content_line(at..at + 11), 3);
        assert_eq!(source.excerpt("1 2\n", at..at + 11).line(2), "1 2");
        let at = text.find("\"3\"").unwrap();
        assert_eq!(source.content_line(at..at + 3), 5);
    }
}
