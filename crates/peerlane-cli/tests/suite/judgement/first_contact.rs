//! What `check` made of texts that nobody here had seen: `validation/first-contact.csv`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const INTRODUCTION: &str = "
Texts of public repositories, drawn by chance and given to `check` once, before anybody here had seen them. The wanted answers were
written by someone who knows neither the program nor its rules. The two latest batches together:
";

const EXPLANATION: &str = "
[README.md](README.md) has the rule of drawing and each text's address. *As wanted*: FAULT of a fault, LIMITED of a limit, HEALTHY
of a sound machine, NOT JUDGED where the text shows nothing to judge; what is not read counts as wrong. The interval is Wilson's, of 95 %.
*Cause first*, *wrong statement* and *false alarm* are a reader's, who saw no code; a dash stands where none has scored the batch.
";

/// A text's scores.
struct Row {
    batch: u32,
    wanted: String,
    got: String,
    /// Cause first, wrong statement, false alarm; `None` where nobody scored it, or where it does not apply.
    scores: [Option<bool>; 3],
}

impl Row {
    fn is_as_wanted(&self) -> bool {
        let verdict = match self.wanted.as_str() {
            "sound" => "healthy",
            "unjudgeable" => "not-judged",
            wanted => wanted,
        };
        self.got == verdict
    }

    fn is_cause(&self) -> bool {
        ["fault", "limited"].contains(&self.wanted.as_str())
    }
}

fn rows() -> Vec<Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/first-contact.csv");
    let text = fs::read_to_string(file).unwrap();
    let row = |line: &str| {
        // a path has no comma; the last six fields are these
        let fields: Vec<&str> = line.split(',').collect();
        let [.., wanted, got, cause, wrong, alarm, _whole] = fields.as_slice() else { panic!("{line}") };
        let score = |field: &str| (!field.is_empty()).then(|| field == "1");
        Row {
            batch: fields[0].parse().unwrap(),
            wanted: (*wanted).to_owned(),
            got: (*got).to_owned(),
            scores: [score(cause), score(wrong), score(alarm)],
        }
    };
    text.lines().skip(1).map(row).collect()
}

/// The section that leads the page.
pub(super) fn section() -> String {
    let rows = rows();
    let last = rows.iter().map(|row| row.batch).max().unwrap();
    let mut section = format!("\n## First contact\n{INTRODUCTION}\n");
    let head = "| batches | texts | not read | faults and limits as wanted | sound called HEALTHY | cause first | wrong statements | false alarms |";
    let _ = writeln!(section, "{head}\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let both: Vec<&Row> = rows.iter().filter(|row| row.batch + 1 >= last).collect();
    let _ = writeln!(section, "| {} and {last} | {} |", last - 1, cells(&both));
    let _ = writeln!(section, "\nBatch by batch:\n\n{head}\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for batch in 1..=last {
        let of: Vec<&Row> = rows.iter().filter(|row| row.batch == batch).collect();
        let _ = writeln!(section, "| {batch} | {} |", cells(&of));
    }
    section.push_str(EXPLANATION);
    section
}

fn cells(rows: &[&Row]) -> String {
    let count = |is: &dyn Fn(&&&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    let causes = count(&|row| row.is_cause());
    let sound = count(&|row| row.wanted == "sound");
    let score = |at: usize| {
        // where something is wrong, reporting it is no false alarm
        let applies = |row: &&&Row| at != 2 || !row.is_cause();
        let scored: Vec<bool> = rows.iter().filter(applies).filter_map(|row| row.scores[at]).collect();
        let hits = scored.iter().filter(|hit| **hit).count();
        if scored.is_empty() { "–".to_owned() } else { format!("{hits} of {}", scored.len()) }
    };
    [
        rows.len().to_string(),
        count(&|row| row.got == "unread").to_string(),
        share(count(&|row| row.is_cause() && row.is_as_wanted()), causes),
        share(count(&|row| row.wanted == "sound" && row.is_as_wanted()), sound),
        score(0),
        score(1),
        score(2),
    ]
    .join(" | ")
}

/// `4 of 27 (15 %, 6 to 33)`.
fn share(hits: usize, of: usize) -> String {
    /// The normal distribution's 97.5 % point.
    const Z: f64 = 1.96;
    if of == 0 {
        return "–".to_owned();
    }
    let (n, p) = (of as f64, hits as f64 / of as f64);
    let middle = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let percent = |share: f64| format!("{:.0}", 100.0 * share.clamp(0.0, 1.0));
    format!("{hits} of {of} ({} %, {} to {})", percent(p), percent(middle - half), percent(middle + half))
}

#[test]
fn the_interval_is_wilsons() {
    // the textbook's: 0 of 10 is 0 to 28 %, 5 of 10 is 24 to 76 %
    assert_eq!(share(0, 10), "0 of 10 (0 %, 0 to 28)");
    assert_eq!(share(5, 10), "5 of 10 (50 %, 24 to 76)");
}

#[test]
fn the_curve_of_texts_is_fresh() {
    let rows = rows();
    let last = rows.iter().map(|row| row.batch).max().unwrap();
    let mut table = "| batch | texts | faults and limits as wanted | sound called HEALTHY | cause first | wrong statements | false alarms |\n\
                     | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    // all of them are in validation/judgement.md
    for batch in last.saturating_sub(7)..=last {
        let of: Vec<&Row> = rows.iter().filter(|row| row.batch == batch).collect();
        let cells = cells(&of);
        let mut cells: Vec<&str> = cells.split(" | ").collect();
        cells.remove(1);
        // the interval is in validation/judgement.md
        let cells = cells.iter().map(|cell| cell.split(" (").next().unwrap());
        let _ = writeln!(table, "| {batch} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/accuracy.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- texts by batch -->\n", "<!-- end of the table -->\n");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    crate::docs::hold(&path, &format!("{before}{begin}{table}{end}{after}"), "UPDATE_DOCS");
}
