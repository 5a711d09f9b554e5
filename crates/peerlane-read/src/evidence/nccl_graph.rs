//! Reads the graphs that NCCL dumps under `NCCL_GRAPH_DUMP_FILE`: which channels it chose and what it expects of them.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Fact, Found, NcclGraph, Text};

const TOOL: &str = "NCCL graph dump";

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut i = 0;
    while i < text.len() {
        i = if text.line(i).contains("<graphs version") { document(text, i, found) } else { i + 1 };
    }
}

/// Reads the document that begins on line `first`; returns the line after it.
fn document(text: &Text, first: usize, found: &mut Found) -> usize {
    let end = (first..text.len()).find(|i| text.line(*i).contains("</graphs>"));
    let last = end.unwrap_or(text.len().saturating_sub(1));
    if end.is_none() {
        found.warn(text, TOOL, text.numbers(first, last), "the XML is cut: </graphs> is missing");
    }
    let xml = text.join(first, last);
    let xml = xml.find("<graphs").and_then(|at| xml.get(at..)).unwrap_or_default();
    let mut reader = Reader::from_str(xml);
    let mut lines = Lines { xml, read: 0, line: first };
    let mut open: Option<(NcclGraph, u32, usize)> = None;
    loop {
        let event = reader.read_event();
        let line = lines.at(reader.buffer_position());
        match event {
            Ok(Event::Start(tag)) if tag.name().as_ref() == "graph" => open = Some(begin(&tag, line)),
            Ok(Event::Empty(tag) | Event::Start(tag)) => {
                if let Some((graph, ..)) = &mut open {
                    inside(&tag, graph);
                }
            }
            Ok(Event::End(tag)) if tag.name().as_ref() == "graph" => {
                push(text, open.take(), line, found);
            }
            Ok(Event::Eof) => break,
            Err(error) => {
                found.warn(text, TOOL, text.numbers(line, line), format!("the XML cannot be read on: {error}"));
                break;
            }
            Ok(_) => {}
        }
    }
    // what precedes a cut is kept
    push(text, open, last, found);
    last + 1
}

/// Counts lines as the reader moves on.
struct Lines<'a> {
    xml: &'a str,
    read: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, position: u64) -> usize {
        let position = usize::try_from(position).unwrap_or(self.xml.len()).min(self.xml.len());
        let passed = self.xml.as_bytes().get(self.read..position).unwrap_or_default();
        self.line += passed.iter().filter(|b| **b == b'\n').count();
        self.read = self.read.max(position);
        self.line
    }
}

fn attribute(tag: &BytesStart, name: &str) -> Option<String> {
    let attribute = tag.try_get_attribute(name).ok().flatten()?;
    Some(attribute.value.into_owned())
}

fn number<T: std::str::FromStr>(tag: &BytesStart, name: &str) -> Option<T> {
    attribute(tag, name)?.parse().ok()
}

/// A graph without its channels, how many of those it announces, and its line.
fn begin(tag: &BytesStart, line: usize) -> (NcclGraph, u32, usize) {
    let graph = NcclGraph {
        pattern: number(tag, "pattern").unwrap_or_default(),
        speed: number(tag, "speedintra").unwrap_or_default(),
        channels: Vec::new(),
    };
    (graph, number(tag, "nchannels").unwrap_or_default(), line)
}

fn inside(tag: &BytesStart, graph: &mut NcclGraph) {
    let device: Option<u32> = number(tag, "dev");
    match (tag.name().as_ref(), graph.channels.last_mut()) {
        ("channel", _) => graph.channels.push(Vec::new()),
        ("gpu", Some(channel)) => channel.extend(device),
        _ => {}
    }
}

fn push(text: &Text, graph: Option<(NcclGraph, u32, usize)>, last: usize, found: &mut Found) {
    let Some((graph, announced, first)) = graph else { return };
    let lines = text.numbers(first, last);
    if graph.channels.len() != announced as usize {
        let message = format!("the graph lists {} of its {announced} channels", graph.channels.len());
        found.warn(text, TOOL, lines, message);
    }
    found.push(text, TOOL, lines, Fact::NcclGraph(graph));
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    const DUMP: &str = "$ cat graph.xml\n<graphs version=\"1\">\n\
        \x20 <graph id=\"1\" pattern=\"4\" nchannels=\"2\" speedintra=\"20.5\" speedinter=\"12\" typeintra=\"NVL\" typeinter=\"PIX\">\n\
        \x20   <channel>\n      <net dev=\"3\"/>\n      <gpu dev=\"0\"/>\n      <gpu dev=\"2\"/>\n    </channel>\n\
        \x20   <channel>\n      <gpu dev=\"1\"/>\n    </channel>\n  </graph>\n\
        \x20 <graph id=\"3\" pattern=\"5\" nchannels=\"0\" speedintra=\"0\" speedinter=\"0\">\n  </graph>\n</graphs>\nafter\n";

    #[test]
    fn graphs_with_their_lines() {
        let found = scanned(scan, DUMP);
        assert_eq!(found.warnings, []);
        assert_eq!(found.evidence.len(), 2);
        assert_eq!(found.evidence[0].origin.lines, Some((3, 12)));
        let Fact::NcclGraph(graph) = &found.evidence[0].fact else { panic!() };
        assert_eq!((graph.pattern, graph.speed), (4, 20.5));
        assert_eq!(graph.channels, [vec![0, 2], vec![1]]);
    }

    #[test]
    fn every_cut_keeps_what_precedes_it() {
        for end in 0..DUMP.find("</graphs>").unwrap() {
            let found = scanned(scan, DUMP.get(..end).unwrap());
            let begun = DUMP.get(..end).unwrap().contains("<graphs version");
            assert_eq!(!found.warnings.is_empty(), begun, "cut at byte {end}");
        }
        let cut = scanned(scan, DUMP.split("  <graph id=\"3\"").next().unwrap());
        assert_eq!(cut.evidence.len(), 1);
    }
}
