//! Reads the graphs that NCCL dumps under `NCCL_GRAPH_DUMP_FILE`: which channels it chose and what it expects of them.

use super::xml::documents;
use super::{Fact, Found, NcclGraph, Text};

const TOOL: &str = "NCCL graph dump";

pub(super) fn scan(text: &Text, found: &mut Found) {
    for document in documents(text, "graphs") {
        if !text.line(document.lines.0 as usize - 1).contains("<graphs version") {
            continue;
        }
        document.warn_if_broken(text, TOOL, found);
        for (at, graph) in document.children(0).filter(|(_, e)| e.name == "graph") {
            let gpus = |(channel, _)| {
                let gpus = document.children(channel).filter(|(_, e)| e.name == "gpu");
                gpus.filter_map(|(_, gpu)| gpu.number("dev")).collect()
            };
            let channels: Vec<Vec<u32>> =
                document.children(at).filter(|(_, e)| e.name == "channel").map(gpus).collect();
            let announced: usize = graph.number("nchannels").unwrap_or_default();
            let lines = text.numbers(graph.line as usize - 1, graph.last_line as usize - 1);
            if channels.len() != announced {
                let message = format!("the graph lists {} of its {announced} channels", channels.len());
                found.warn(text, TOOL, lines, message);
            }
            let graph = NcclGraph {
                pattern: graph.number("pattern").unwrap_or_default(),
                speed: graph.number("speedintra").unwrap_or_default(),
                channels,
            };
            found.push(text, TOOL, lines, Fact::NcclGraph(graph));
        }
    }
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
