//! `peerlane help`: the help of a command, a page of the manual, or a section of one, such as that of a rule. The pages are in the
//! program, so that every hint it prints can be followed without a network.

mod page;

use std::io::{self, Read, Write};

use crate::args::{self, HelpArgs};
use crate::render::text::wrap;
use crate::render::{line_width, style};
use crate::{Failure, Outcome};
use page::Page;

/// Pages as `build.rs` packs them.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages.deflate"));

/// Topics that a word nearly is, at most.
const NEAR: usize = 6;

pub(super) fn run(args: &HelpArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let topic = args.topic.join("-").to_lowercase();
    let mut cli = args::command();
    cli.build();
    if topic.is_empty() {
        write!(out, "{}", cli.render_long_help().ansi())?;
        return topics(&pages()?, out).map(|()| Outcome::default()).map_err(Failure::from);
    }
    if let Some(command) = cli.get_subcommands_mut().find(|command| command.get_name() == topic) {
        write!(out, "{}", command.render_long_help().ansi())?;
        if pages()?.iter().any(|page| page.name == topic) {
            writeln!(out, "\n'peerlane help {topic}.md' shows the page of the manual.")?;
        }
        return Ok(Outcome::default());
    }
    let pages = pages()?;
    let name = topic.trim_start_matches("docs/").trim_end_matches(".md");
    if let Some(page) = pages.iter().find(|page| page.name == name) {
        page.whole().print(out)?;
        return Ok(Outcome::default());
    }
    // the section of a rule, before another page's of that name
    let sections = pages.iter().filter_map(|page| Some((page, page.section(name)?)));
    let found = sections.min_by_key(|(page, _)| page.name != "rules");
    if let Some((page, section)) = found {
        section.print(out)?;
        writeln!(out, "\nFrom the page {0}: 'peerlane help {0}.md' shows all of it.", page.name)?;
        return Ok(Outcome::default());
    }
    Err(Failure::new(unknown(name, &pages)))
}

fn topics(pages: &[Page], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", style::paint(style::HEADING, "Pages of the manual: peerlane help TOPIC"))?;
    let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    for line in wrap(&names.join(", "), line_width() - 2) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "\nTOPIC may also be a rule, a word of the glossary or a heading: 'peerlane help narrow-link'.")
}

fn unknown(name: &str, pages: &[Page]) -> String {
    let mut near: Vec<String> = pages.iter().flat_map(Page::names).filter(|known| known.contains(name)).collect();
    near.dedup();
    near.truncate(NEAR);
    match near.is_empty() {
        true => format!("no page, command, rule or section is named '{name}'; 'peerlane help' lists the pages"),
        false => format!("no page, command, rule or section is named '{name}'; near it: {}", near.join(", ")),
    }
}

fn pages() -> io::Result<Vec<Page>> {
    let mut text = String::new();
    flate2::read::DeflateDecoder::new(PACKED).read_to_string(&mut text)?;
    let mut rest = text.as_str();
    let mut pages = Vec::new();
    while let Some((head, after)) = rest.split_once('\n') {
        let Some((name, bytes)) = head.split_once(' ') else { break };
        let Some((page, after)) = bytes.parse().ok().and_then(|bytes| after.split_at_checked(bytes)) else { break };
        pages.push(Page { name: name.to_owned(), text: page.to_owned() });
        rest = after;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::check::{Scope, rule_ids};

    fn help(topic: &str) -> Result<String, String> {
        let mut out = Vec::new();
        let args = HelpArgs { topic: topic.split(' ').map(str::to_owned).collect() };
        match run(&args, &mut out) {
            Ok(_) => Ok(anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()),
            Err(Failure::Message(why)) => Err(why),
            Err(Failure::Output(why)) => Err(why.to_string()),
        }
    }

    #[test]
    fn a_page_a_rule_a_word_and_a_command_are_shown() {
        let begins = |topic: &str, with: &str| {
            let text = help(topic).unwrap();
            assert!(text.starts_with(with), "{topic}: {}", &text[..80.min(text.len())]);
            text
        };
        begins("what-if", "What if");
        begins("docs/what-if.md", "What if");
        assert!(begins("narrow-link", "narrow-link").contains("From the page rules"));
        begins("gpudirect rdma", "GPUDirect RDMA");
        assert!(begins("fleet", "Compare the records").contains("help fleet.md"));
    }

    #[test]
    fn every_rule_has_a_section_that_ends_before_the_next() {
        for rule in [Scope::Machine, Scope::Nodes, Scope::Fleet].into_iter().flat_map(rule_ids) {
            let text = help(rule).unwrap_or_else(|why| panic!("{why}"));
            assert!(
                text.trim_start_matches("- ").starts_with(rule) && text.len() < 6000,
                "{rule}: {} bytes",
                text.len()
            );
        }
    }

    #[test]
    fn topics_that_the_help_of_commands_names_are_there() {
        let mut cli = args::command();
        cli.build();
        let mut named = 0;
        for command in cli.get_subcommands_mut() {
            let text = command.render_long_help().to_string();
            for after in text.split("`peerlane help ").skip(1) {
                let topic = after.split('`').next().unwrap();
                help(topic).unwrap_or_else(|why| panic!("{}: {why}", command.get_name()));
                named += 1;
            }
        }
        assert!(named >= 4, "{named} topics: are they still recognised?");
    }

    #[test]
    fn an_unknown_topic_names_those_near_it() {
        assert!(help("narrow").unwrap_err().contains("narrow-link"));
        assert!(help("zzz").unwrap_err().contains("lists the pages"));
    }

    #[test]
    fn no_page_prints_marks_of_links() {
        for page in pages().unwrap() {
            let mut out = Vec::new();
            page.whole().print(&mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let prose = text.lines().filter(|line| !line.starts_with(' ') && !line.starts_with('|'));
            let marked: Vec<&str> = prose.filter(|line| line.contains("](")).collect();
            assert!(marked.is_empty(), "{}: {marked:?}", page.name);
        }
    }
}
