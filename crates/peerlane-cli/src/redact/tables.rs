//! Tables of schedulers, containers and processes: what a cell is follows from the head of its column.

use super::node_list;
use super::pseudonyms::{Kind, Pseudonyms};
use super::rules;

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// A list of hosts.
    Nodes,
    /// A name, which is replaced elsewhere too.
    Name(Kind),
    /// Text up to the end of the line.
    Rest(Kind),
    /// An image of a container.
    Image,
}

use Column::{Image, Name, Nodes, Rest};

/// Heads of columns that identify.
const HEADS: [(&str, Column); 41] = [
    ("NODELIST", Nodes),
    ("NODELIST(REASON)", Nodes),
    ("HOSTNAMES", Nodes),
    ("NodeList", Nodes),
    ("NodeHost", Nodes),
    ("NODE", Name(Kind::Host)),
    ("Node", Name(Kind::Other)),
    ("HOSTNAME", Name(Kind::Host)),
    ("EXEC_HOST", Name(Kind::Host)),
    ("FROM_HOST", Name(Kind::Host)),
    ("USER", Name(Kind::User)),
    ("User", Name(Kind::User)),
    ("OWNER", Name(Kind::User)),
    ("NAME", Name(Kind::Other)),
    ("Name", Name(Kind::Other)),
    ("NAMES", Name(Kind::Other)),
    ("JobName", Name(Kind::Other)),
    ("JOB_NAME", Name(Kind::Other)),
    ("NAMESPACE", Name(Kind::Other)),
    ("Namespace", Name(Kind::Other)),
    ("ACCOUNT", Name(Kind::Other)),
    ("Account", Name(Kind::Other)),
    ("PARTITION", Name(Kind::Other)),
    ("Partition", Name(Kind::Other)),
    ("QUEUE", Name(Kind::Other)),
    ("POD", Name(Kind::Other)),
    ("SN", Name(Kind::Other)),
    ("SERIAL", Name(Kind::Other)),
    ("serial", Name(Kind::Other)),
    ("gpu_serial", Name(Kind::Other)),
    ("pci.serial", Name(Kind::Other)),
    ("CONTAINER ID", Name(Kind::Digits)),
    ("IMAGE ID", Name(Kind::Digits)),
    ("IMAGE", Image),
    ("REPOSITORY", Image),
    ("PID", Name(Kind::Number)),
    ("pid", Name(Kind::Number)),
    ("COMMAND", Rest(Kind::Process)),
    ("CMD", Rest(Kind::Process)),
    ("process_name", Name(Kind::Process)),
    ("Command", Rest(Kind::Process)),
];

/// Heads of columns that stand beside these in tables of the same programs.
const OTHERS: [&str; 47] = [
    "JOBID",
    "JobID",
    "JobId",
    "ST",
    "STATE",
    "State",
    "TIME",
    "TIMELIMIT",
    "NODES",
    "AVAIL",
    "REASON",
    "TIMESTAMP",
    "STATUS",
    "READY",
    "RESTARTS",
    "AGE",
    "ROLES",
    "VERSION",
    "CREATED",
    "PORTS",
    "%CPU",
    "%MEM",
    "VSZ",
    "RSS",
    "TTY",
    "STAT",
    "START",
    "CPUS",
    "AllocCPUS",
    "ExitCode",
    "CPU Requests",
    "IP",
    "SIZE",
    "TAG",
    "MODEL",
    "Model",
    "VIRT",
    "used_memory",
    "used_gpu_memory [MiB]",
    "used_memory [MiB]",
    "index",
    "UID",
    "DESIRED",
    "CURRENT",
    "UP-TO-DATE",
    "AVAILABLE",
    "NODE SELECTOR",
];

/// How a row is parted into cells.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cells {
    Bars,
    Commas,
    /// By two or more blanks.
    Wide,
    Blanks,
    /// By the rule below the header.
    Spans(Vec<(usize, usize)>),
}

/// A table whose rows follow.
#[derive(Debug)]
pub(super) struct Table {
    cells: Cells,
    /// Where the heads begin, and what is below them.
    columns: Vec<(usize, Option<Column>)>,
    tabs: bool,
}

impl Table {
    /// The table whose header a line is, with the line below it.
    pub(super) fn of(head: &str, below: &str) -> Option<Table> {
        let spans = spans(below).map(Cells::Spans);
        let mut best: Option<(usize, Table)> = None;
        for cells in spans.into_iter().chain([Cells::Bars, Cells::Commas, Cells::Wide, Cells::Blanks]) {
            let heads = cells.of(head);
            let mut columns = Vec::new();
            let (mut named, mut others) = (0, 0);
            for (from, to) in heads {
                let name = head[from..to].trim_start_matches('#');
                let column = HEADS.iter().find(|(head, _)| *head == name).map(|(_, column)| *column);
                named += usize::from(column.is_some());
                // a number of GPUs, whatever is counted of them
                others += usize::from(OTHERS.contains(&name) || name.starts_with("GPUs"));
                columns.push((from, column));
            }
            let is_table = named > 0 && named + others >= 2 && 2 * (named + others) >= columns.len();
            if is_table && best.as_ref().is_none_or(|(most, _)| named > *most) {
                best = Some((named, Table { cells, columns, tabs: head.contains('\t') }));
            }
        }
        best.map(|(_, table)| table)
    }

    /// A row with its names replaced; `None` where the table has ended.
    pub(super) fn row(&self, line: &str, names: &mut Pseudonyms) -> Option<String> {
        let begins = |text: &str| line.trim_start().starts_with(text);
        if line.trim().is_empty()
            || begins("GPU")
            || begins("NIC")
            || begins("#")
            || (line.contains('\t') && !self.tabs)
        {
            return None;
        }
        // a rule between rows
        if line.chars().all(|c| "-=+| ".contains(c)) {
            return Some(line.to_owned());
        }
        let cells = self.cells.of(line);
        let blanks = self.cells == Cells::Blanks;
        if cells.len() < 2 || (blanks && cells.len() < self.columns.len()) {
            return None;
        }
        // where blanks part the cells: a field of a description, or a row of another table
        let is_wide = self.cells == Cells::Wide;
        if is_wide && (line[cells[0].0..cells[0].1].ends_with(':') || 2 * cells.len() < self.columns.len()) {
            return None;
        }
        let mut done = String::new();
        let mut from = 0;
        for (i, (start, end)) in cells.into_iter().enumerate() {
            // cells may be empty, where columns are aligned
            let at = match self.cells {
                Cells::Wide => self.columns.iter().rposition(|(head, _)| *head <= start).unwrap_or(i),
                _ => i,
            };
            let Some((_, Some(column))) = self.columns.get(at) else { continue };
            let to_the_end = matches!(column, Rest(_)) && at + 1 == self.columns.len() && self.cells != Cells::Bars;
            let end = if to_the_end { line.trim_end().len() } else { end };
            if start < from || end <= start {
                continue;
            }
            let (cell, rest) = (&line[start..end], &line[end..]);
            let Some(mut new) = column.replaced(cell, names) else { continue };
            if matches!(self.cells, Cells::Spans(_)) {
                new.truncate(cell.len().max(cell.len() + (rest.len() - rest.trim_start().len()).saturating_sub(1)));
            }
            // what follows stays in its column
            let gap = rest.len() - rest.trim_start_matches(' ').len();
            let aligned = !matches!(self.cells, Cells::Bars | Cells::Commas) && gap > 0 && gap < rest.len();
            done.push_str(&line[from..start]);
            from = end;
            if aligned {
                let width = cell.len() + gap;
                done.push_str(&format!("{new:<w$} ", w = width - 1));
                from = end + gap;
            } else {
                done.push_str(&new);
            }
        }
        Some(done + &line[from..])
    }
}

impl Column {
    fn replaced(self, cell: &str, names: &mut Pseudonyms) -> Option<String> {
        if cell.starts_with(['(', '<', '[']) || matches!(cell, "-" | "N/A" | "n/a" | "None" | "none" | "root") {
            return None;
        }
        match self {
            Nodes => node_list::redacted(cell, |name| rules::host(name, names)),
            Name(Kind::Host) => rules::host(cell, names),
            // a default is marked so
            Name(kind @ (Kind::Other | Kind::User)) => {
                let name = cell.trim_end_matches('*');
                Some(names.word(kind, name) + &cell[name.len()..])
            }
            Name(Kind::Number) if !cell.bytes().all(|b| b.is_ascii_digit()) => None,
            Name(kind) | Rest(kind) => Some(names.of(kind, cell)),
            Image => (!rules::is_public_image(cell)).then(|| names.of(Kind::Other, cell)),
        }
    }
}

impl Cells {
    /// Where the cells of a line are, without the blanks around them.
    fn of(&self, line: &str) -> Vec<(usize, usize)> {
        let trimmed = |(from, to): (usize, usize)| {
            let cell = line.get(from..to).unwrap_or_default();
            let start = from + (cell.len() - cell.trim_start().len());
            (start, start + cell.trim().len())
        };
        match self {
            Cells::Bars | Cells::Commas => {
                let mark = if *self == Cells::Bars { '|' } else { ',' };
                if !line.contains(mark) {
                    return Vec::new();
                }
                let mut from = 0;
                let cells = line.split(mark).map(|cell| {
                    let at = (from, from + cell.len());
                    from += cell.len() + 1;
                    trimmed(at)
                });
                cells.collect()
            }
            Cells::Spans(spans) => spans.iter().map(|(from, to)| trimmed((*from, (*to).min(line.len())))).collect(),
            Cells::Wide | Cells::Blanks => {
                let least = if *self == Cells::Wide { 2 } else { 1 };
                let (mut cells, mut at) = (Vec::new(), 0);
                while let Some(start) = line[at..].find(|c: char| !c.is_whitespace()).map(|found| at + found) {
                    let mut end = start;
                    // a cell goes on over fewer blanks
                    loop {
                        end = line[end..].find(char::is_whitespace).map_or(line.len(), |found| end + found);
                        let gap = line[end..].len() - line[end..].trim_start().len();
                        if end == line.len() || gap >= least || line[end..].starts_with('\t') || end + gap == line.len()
                        {
                            break;
                        }
                        end += gap;
                    }
                    cells.push((start, end));
                    at = end;
                }
                cells
            }
        }
    }
}

/// The columns of a rule of dashes.
fn spans(rule: &str) -> Option<Vec<(usize, usize)>> {
    let fits = rule.contains("---") && rule.contains(' ') && rule.bytes().all(|b| matches!(b, b'-' | b' '));
    let mut from = 0;
    let cells = rule.split(' ').map(|dashes| {
        let at = (from, from + dashes.len());
        from += dashes.len() + 1;
        at
    });
    fits.then(|| cells.filter(|(from, to)| to > from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(text: &str) -> String {
        let mut names = Pseudonyms::default();
        let lines: Vec<&str> = text.lines().collect();
        let table = Table::of(lines[0], lines.get(1).unwrap_or(&"")).unwrap();
        let rows = lines[1..].iter().map(|line| table.row(line, &mut names).unwrap_or_else(|| format!("end: {line}")));
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn cells_are_replaced_by_their_heads() {
        assert_eq!(
            done(
                "  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n     71    acme-a    train1 anna22 PD       0:00      2 (Resources)\n     70    acme-a    train1 anna22  R       1:00      3 n[1-2],x9\nGPU0 X"
            ),
            "     71    redacted-1 redacted-2 user-1 PD       0:00      2 (Resources)\n     70    redacted-1 redacted-2 user-1  R       1:00      3 host-[1-3]\nend: GPU0 X"
        );
        assert_eq!(
            done(
                "CONTAINER ID   IMAGE                       COMMAND       CREATED       STATUS       PORTS     NAMES\n3f2a9b7c1d4e   reg.acme.org/llm:1          \"sh -c x\"     2 hours ago   Up 2 hours             acme-train"
            ),
            "000000000001   redacted-1                  process-1     2 hours ago   Up 2 hours             redacted-2"
        );
        assert_eq!(done("pid, process_name, used_memory\n4711, train_acme, 500 MiB"), "1, process-1, 500 MiB");
        assert_eq!(
            done(
                "JobID           JobName    Account      State\n------------ ---------- ---------- ----------\n12             acme-xyz     acme-2  NODE_FAIL"
            ),
            "------------ ---------- ---------- ----------\n12             redacted-1   redacte NODE_FAIL"
        );
        for no in ["the USER of this", "GPU0\tGPU1", "| GPU  Name | Bus-Id | USER", "NAME"] {
            assert!(Table::of(no, "").is_none(), "{no}");
        }
    }
}
