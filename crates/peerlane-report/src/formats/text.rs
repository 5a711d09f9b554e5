//! Reports as text for a terminal.

use std::io::{self, Write};

use crate::render::findings::{self, Amount, sentences};
use crate::render::style::{self, paint};
use crate::render::text::{fit, hang};
use crate::render::{Detail, line_width, screen, table, whole};
use crate::report::{Block, Report, Subject, Table};

/// Rows of a table of nodes, and sentences of a kind, by default.
const ROWS: usize = 8;
const FEW: usize = 4;

/// Findings by default. Those of a fleet are of different machines, each of which somebody looks for.
const FINDINGS: Amount = Amount { full: 3, brief: 6 };
const OF_MANY: Amount = Amount { full: 20, brief: 6 };

/// Writes a report: on one screen, or with `verbose` everything, or with `quiet` the answer alone.
///
/// # Errors
/// Those of `out`.
pub fn text(out: &mut dyn Write, report: &Report, detail: Detail) -> io::Result<()> {
    let Detail { verbose, quiet } = detail;
    match report.subject {
        Subject::Machine(case, comparison, checked) if verbose => return whole::write(out, case, comparison, checked),
        Subject::Machine(case, comparison, checked) if !quiet => return screen::write(out, case, comparison, checked),
        _ => {}
    }
    report.headline.write(out, quiet)?;
    if quiet {
        return Ok(());
    }
    let fix = report.headline.fix();
    let amount = if matches!(report.subject, Subject::Fleet(_)) { OF_MANY } else { FINDINGS };
    let most = |few: usize| if verbose { usize::MAX } else { few };
    let mut in_sentences = false;
    for block in report.blocks(most(ROWS), verbose) {
        let in_sentence = matches!(block, Block::Sentence(_));
        if in_sentence && !in_sentences {
            writeln!(out)?;
        }
        in_sentences = in_sentence;
        match block {
            Block::Findings if verbose => findings::write(out, &report.items)?,
            Block::Findings => findings::brief(out, &report.items, amount, fix)?,
            Block::Table(of) => of_table(out, &of)?,
            Block::Drawing(title, drawn) => write!(out, "\n{}\n{drawn}", paint(style::HEADING, title))?,
            Block::Sentence(sentence) => hang(out, "", &sentence)?,
            Block::Sentences(title, all) => sentences(out, title, &all, most(FEW))?,
        }
    }
    Ok(())
}

fn of_table(out: &mut dyn Write, of: &Table) -> io::Result<()> {
    if of.rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    if !of.title.is_empty() {
        writeln!(out, "{}", paint(style::HEADING, of.title))?;
    }
    // long names must not push numbers off the screen
    let widest = line_width() / 3;
    let row = |row: &Vec<String>| row.iter().map(|cell| fit(cell, widest)).collect();
    table::numbers(out, &of.headings, &of.rows.iter().map(row).collect::<Vec<_>>(), of.words)?;
    match &of.left_out {
        Some(which) => writeln!(out, "{}", paint(style::DIM, &format!("  {which} (-v shows them)"))),
        None => Ok(()),
    }
}
