//! The one normal form of tables: plain columns, parted by tabs, with numbers as tools print them.
//!
//! Documents draw a tool's table with bars (Markdown, boxes, the cells of a web page), list it as comma- or semicolon-separated
//! values, write its numbers with decimal commas, or lose its line breaks. Readers of tables are shown the text with such
//! tables in the form that tools print, and need to know none of the others. Line numbers stay those of the source.

mod numbers;
mod reflow;
mod sizes;

use std::collections::BTreeMap;

use self::numbers::Style;
use super::{Found, Text};

pub(super) const TOOL: &str = "table";

/// More cells in a line are data and no table for readers.
const MAX_CELLS: usize = 520;

/// Longer lines are no rows.
const MAX_LINE: usize = 16 << 10;

/// Lines above a table in which its title may stand.
const TITLE_DISTANCE: usize = 3;

/// Longer cells of comma- or semicolon-separated values are sentences.
const MAX_VALUE: usize = 48;

/// The text with its tables in plain columns; `None` where all tables have that form already.
pub(super) fn in_columns(text: &Text, found: &mut Found) -> Option<Text> {
    let straight = reflow::reflowed(text, found);
    let text = straight.as_ref().unwrap_or(text);
    let blocks = blocks(text);
    let style = Style::of(blocks.iter().flat_map(Block::numbers));
    let mut lines: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    lines.extend(text.iter().filter(|(_, line)| is_rule_of_columns(line)).map(|(i, _)| (i, Vec::new())));
    for block in blocks {
        block.rewrite(text, style, &mut lines, found);
    }
    let rewritten = (!lines.is_empty()).then(|| text.rewritten(&lines));
    rewritten.or(straight)
}

/// What parts the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Bars,
    Semicolons,
    Commas,
    Tabs,
    /// A line of numbers, which stays as it is but for them.
    Blanks,
}

/// A line of a table.
struct Row {
    line: usize,
    cells: Vec<String>,
    /// A bar stands before its first cell.
    framed: bool,
}

/// Lines of one form that follow each other.
struct Block {
    form: Form,
    rows: Vec<Row>,
    /// Rules and rows without words, which tools do not print.
    empty: Vec<usize>,
}

/// All blocks that are tables.
fn blocks(text: &Text) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for (i, line) in text.iter() {
        let is_rule = is_rule(line);
        if is_rule && let Some(block) = open.as_mut().filter(|block| block.form != Form::Tabs) {
            block.empty.push(i);
            continue;
        }
        let row = (!is_rule && line.len() <= MAX_LINE).then(|| row(i, line)).flatten();
        let goes_on = match (&open, &row) {
            (Some(block), Some((form, row))) => block.takes(*form, row),
            _ => false,
        };
        if !goes_on {
            all.extend(open.take().filter(Block::is_table));
            // a rule may be the upper edge of a box
            open = is_rule.then(|| Block { form: Form::Bars, rows: Vec::new(), empty: vec![i] });
        }
        if let Some((form, row)) = row {
            let block = open.get_or_insert_with(|| Block { form, rows: Vec::new(), empty: Vec::new() });
            if row.cells.iter().all(|cell| cell.is_empty()) { block.empty.push(i) } else { block.rows.push(row) }
        }
    }
    all.extend(open.filter(Block::is_table));
    all
}

/// `|---|--:|`, `+----+----+`, `├──┼──┤`, `=== ===`.
fn is_rule(line: &str) -> bool {
    let drawn = |c: char| matches!(c, '-' | '=' | '\u{2500}'..='\u{257f}');
    let mut strokes = 0;
    let all = line.trim().chars().all(|c| {
        strokes += usize::from(drawn(c));
        drawn(c) || matches!(c, '|' | '+' | ':' | ' ')
    });
    // bars alone are a row without words
    all && strokes >= 3 && line.contains(['-', '=', '─', '━', '═', '╌', '┄'])
}

/// `=== ===`, `--- ---`: a stroke for each column, which no tool prints.
fn is_rule_of_columns(line: &str) -> bool {
    let line = line.trim();
    let of = |stroke: char| line.starts_with(stroke) && line.chars().all(|c| c == stroke || c == ' ');
    line.contains(' ') && (of('=') || of('-'))
}

fn is_bar(c: char) -> bool {
    matches!(c, '|' | '│' | '┃' | '║' | '┆' | '┇' | '┊' | '┋' | '╎' | '╏')
}

/// A line as a row, and its form.
fn row(line: usize, text: &str) -> Option<(Form, Row)> {
    let trimmed = text.trim();
    let framed = trimmed.starts_with(is_bar);
    let whole = |form, cells: Vec<String>| (cells.len() <= MAX_CELLS).then_some((form, Row { line, cells, framed }));
    if framed || trimmed.contains(is_bar) {
        return whole(Form::Bars, barred(trimmed));
    }
    if numbers::is_row(trimmed) {
        return whole(Form::Blanks, trimmed.split_whitespace().map(str::to_owned).collect());
    }
    if text.contains('\t') {
        return whole(Form::Tabs, text.split('\t').map(cell).collect());
    }
    let (form, sign) = if trimmed.contains(';') { (Form::Semicolons, ';') } else { (Form::Commas, ',') };
    let cells = trimmed.contains(sign).then(|| separated(trimmed, sign))?;
    whole(form, cells)
}

/// The cells between bars; a bar behind a backslash is none.
fn barred(line: &str) -> Vec<String> {
    let inner = line.strip_prefix(is_bar).unwrap_or(line);
    let mut cells = Vec::new();
    let mut from = 0;
    for (at, bar) in inner.match_indices(is_bar) {
        if inner.get(..at).is_some_and(|before| before.ends_with('\\')) {
            continue;
        }
        cells.push(cell(inner.get(from..at).unwrap_or_default()));
        from = at + bar.len();
        if cells.len() > MAX_CELLS {
            return cells;
        }
    }
    let last = inner.get(from..).unwrap_or_default();
    // the right edge of a box ends the last cell
    if !last.trim().is_empty() || cells.is_empty() || !line.ends_with(is_bar) {
        cells.push(cell(last));
    }
    cells
}

/// The cells of a line of separated values, of which some may be quoted.
fn separated(line: &str, sign: char) -> Vec<String> {
    let mut cells = Vec::new();
    let mut from = 0;
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        quoted ^= c == '"';
        if c == sign && !quoted {
            cells.push(cell(line.get(from..at).unwrap_or_default()));
            from = at + c.len_utf8();
        }
    }
    cells.push(cell(line.get(from..).unwrap_or_default()));
    cells
}

/// A cell without blanks, quotation marks, escapes and marks for bold and code.
fn cell(text: &str) -> String {
    let trimmed = text.trim().trim_matches(['"', '“', '”', '„', '«', '»', '`']);
    let trimmed = trimmed.trim_matches(['*', '`', ' ']).replace("**", "");
    let mut plain = String::with_capacity(trimmed.len());
    let mut chars = trimmed.chars().peekable();
    while let Some(c) = chars.next() {
        let escapes = c == '\\' && chars.peek().is_some_and(|next| matches!(next, '_' | '*' | '|' | '#' | '\\' | '`'));
        match c {
            _ if escapes => plain.extend(chars.next()),
            '\t' => plain.push(' '),
            _ => plain.push(c),
        }
    }
    plain
}

impl Block {
    /// Whether a row may follow the block's.
    fn takes(&self, form: Form, row: &Row) -> bool {
        let Some(first) = self.rows.first() else { return form == Form::Bars };
        let alike = match form {
            Form::Bars => row.framed == first.framed,
            Form::Semicolons | Form::Commas => row.cells.len() == first.cells.len(),
            Form::Tabs | Form::Blanks => true,
        };
        self.form == form && alike
    }

    /// Whether it is more than lines that happen to hold such a sign.
    fn is_table(&self) -> bool {
        let framed = self.rows.first().is_some_and(|row| row.framed);
        match self.form {
            Form::Bars if framed || !self.empty.is_empty() => self.rows.len() > 1,
            Form::Bars | Form::Semicolons | Form::Commas => self.rows.len() > 1 && self.has_values(),
            Form::Tabs => self.rows.len() > 1,
            Form::Blanks => !self.rows.is_empty(),
        }
    }

    /// Whether the greater part of what stands below the header, its first column aside, are values and no words.
    fn has_values(&self) -> bool {
        let body = || self.rows.iter().skip(1).flat_map(|row| row.cells.iter().skip(1)).filter(|cell| !cell.is_empty());
        let values = body().filter(|cell| numbers::is_value(cell)).count();
        let short = self.rows.iter().flat_map(|row| &row.cells).all(|cell| cell.len() <= MAX_VALUE);
        // several words before a comma are a line that holds one
        let words = |cell: &String| cell.split(' ').count();
        let lone =
            self.form == Form::Bars || self.rows.iter().skip(1).flat_map(|row| &row.cells).all(|c| words(c) <= 2);
        short && lone && values > 0 && values * 2 >= body().count()
    }

    /// Whether its numbers are lists of CPUs, in which a comma parts numbers.
    fn has_lists(&self) -> bool {
        self.rows.iter().take(2).flat_map(|row| &row.cells).any(|cell| cell.contains("ffinity"))
    }

    /// What may be a number with a sign in it that decides how numbers are written.
    fn numbers(&self) -> impl Iterator<Item = &str> {
        let any = !self.has_lists();
        self.rows.iter().filter(move |_| any).flat_map(|row| row.cells.iter().map(String::as_str))
    }

    /// The unit of a matrix with numbered columns, the same in all cells, where a line above the table names it too.
    fn common_unit(&self, text: &Text) -> Option<String> {
        if !self.rows.first()?.cells.iter().skip(1).all(|label| label.parse::<u32>().is_ok()) {
            return None;
        }
        let mut units =
            self.rows.iter().skip(1).flat_map(|row| row.cells.iter().skip(1)).filter_map(|c| numbers::unit(c));
        let unit = units.next()?;
        let first = self.rows.first()?.line;
        let above = || (first.saturating_sub(TITLE_DISTANCE)..first).any(|i| text.line(i).contains(unit));
        let several = units.clone().next().is_some();
        (several && units.all(|other| other == unit) && above()).then(|| unit.to_owned())
    }

    /// The lines of the table in plain columns, where they differ; none for a line that goes.
    fn rewrite(self, text: &Text, style: Style, lines: &mut BTreeMap<usize, Vec<String>>, found: &mut Found) {
        let own = Style::of(self.numbers());
        let style = own.or(style);
        let (lists, form) = (self.has_lists(), self.form);
        let sizes = self.rows.first().and_then(|row| row.cells.first()).and_then(|head| sizes::unit(head));
        let unit = self.common_unit(text).filter(|_| form != Form::Blanks);
        let mut unclear = None;
        for Row { line, cells, .. } in self.rows {
            let mut plain = |cell: &str| match numbers::plain(cell, style) {
                _ if lists => cell.to_owned(),
                Ok(plain) => plain,
                Err(number) => {
                    unclear.get_or_insert_with(|| (line, number.to_owned()));
                    cell.to_owned()
                }
            };
            let original = text.line(line);
            let rewritten = if form == Form::Blanks {
                numbers::in_place(original, &mut plain)
            } else {
                let mut cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
                for cell in cells.iter_mut().skip(1) {
                    let bare = unit.as_deref().and_then(|unit| cell.strip_suffix(unit)).map(|bare| bare.trim().len());
                    cell.truncate(bare.unwrap_or(cell.len()));
                }
                if let Some((first, unit)) = cells.first_mut().zip(sizes) {
                    *first = sizes::bytes(first, unit).map_or_else(|| std::mem::take(first), |bytes| bytes.to_string());
                }
                cells.join("\t")
            };
            if rewritten != original {
                lines.insert(line, vec![rewritten]);
            }
        }
        if form == Form::Bars {
            lines.extend(self.empty.into_iter().map(|line| (line, Vec::new())));
        }
        if let Some((line, number)) = unclear {
            let message =
                format!("'{number}' may have a decimal comma or separate thousands: such numbers are not used");
            found.warn(text, TOOL, text.numbers(line, line), message);
        }
    }
}

#[cfg(test)]
mod tests;
