//! Reads the tables of the OSU micro-benchmarks (`osu_bw`, `osu_latency`, `osu_allreduce` …).
//!
//! OSU's MB is 10⁶ bytes, which is no unit of ours: rates are given in GB/s, a thousandth of the printed number.

use std::collections::BTreeMap;

use super::{Curve, Fact, Found, Series, Text, Unit};
use peerlane_machine::units::Bytes;

const TOOL: &str = "OSU micro-benchmarks";

/// Comment lines between the title and the column titles.
const TITLE_GAP: usize = 8;

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|i| Some(table(text, i, title(text.line(i))?, found)));
}

/// `OSU MPI-CUDA Bandwidth Test v5.9` after its `#`, which Markdown takes for a heading's.
fn title(line: &str) -> Option<&str> {
    let title = line.trim().trim_matches(['#', '*', ' ']);
    (title.starts_with("OSU ") && title.contains(" Test")).then_some(title)
}

/// The column of `-c`, which has `Pass` or `Fail`.
const VALIDATION: &str = "Validation";

/// Reads the table below a title; returns the line to go on with.
fn table(text: &Text, title_line: usize, title: &str, found: &mut Found) -> usize {
    let mut settings = BTreeMap::from([("title".to_owned(), title.to_owned())]);
    let mut header = None;
    for i in title_line + 1..=title_line + TITLE_GAP {
        let line = text.line(i).trim();
        let comment = line.trim_start_matches('#').trim();
        if comment.starts_with("Size") {
            header = Some((i, columns(comment)));
            break;
        }
        if !line.starts_with('#') {
            if line.is_empty() || line.starts_with("```") { continue } else { break }
        }
        if comment.contains("Buffer on") {
            settings.insert("buffers".to_owned(), comment.to_owned());
        } else if let Some((key, value)) = comment.split_once(':') {
            settings.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    let Some((header, mut series)) = header else {
        found.warn(text, TOOL, text.numbers(title_line, title_line), "a title without a table; the text may be cut");
        return title_line + 1;
    };
    series.retain(|s| s.name != VALIDATION);
    let mut sizes = Vec::new();
    let mut last = header;
    for i in header + 1..text.len() {
        let line = text.line(i).trim_end();
        // newer releases print the datatype below the columns
        if let Some((key, value)) = line.strip_prefix('#').and_then(|c| c.split_once(':')).filter(|_| sizes.is_empty())
        {
            settings.insert(key.trim().to_owned(), value.trim().to_owned());
            continue;
        }
        // rows that somebody left out
        if matches!(line.trim(), "..." | "[...]") && !sizes.is_empty() {
            continue;
        }
        let failed = line.strip_suffix("Fail");
        if failed.is_some() {
            settings.insert(VALIDATION.to_owned(), "failed".to_owned());
        }
        let line = failed.or_else(|| line.strip_suffix("Pass")).unwrap_or(line);
        let Some((size, values)) = row(line, series.len()) else { break };
        sizes.push(size);
        series.iter_mut().zip(values).for_each(|(s, value)| {
            let scale = if s.unit == Some(Unit::GigabytesPerSecond) { 1e-3 } else { 1.0 };
            s.values.push(Some(value * scale));
        });
        last = i;
    }
    let lines = text.numbers(title_line, last);
    if sizes.is_empty() {
        found.warn(text, TOOL, lines, "a table without a row; the text may be cut");
    } else {
        let what = program(text, title_line, title);
        found.push(text, TOOL, lines, Fact::Curve(Curve { what, ends: Vec::new(), sizes, series, settings }));
    }
    last + 1
}

/// The columns after `Size`: `Avg Latency(us)` ends with its unit, `MB/s`, `Messages/s` and `Iterations` are one word.
fn columns(header: &str) -> Vec<Series> {
    let mut rest = header.strip_prefix("Size").unwrap_or(header).trim();
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(')').map(|at| at + 1).or_else(|| rest.find(char::is_whitespace)).unwrap_or(rest.len());
        let (column, after) = rest.split_at(end);
        columns.push(series(column));
        rest = after.trim_start();
    }
    columns
}

fn series(column: &str) -> Series {
    let (name, unit) = match column.split_once('(') {
        Some((name, unit)) => (name.trim(), unit.trim_end_matches(')')),
        None if column == "MB/s" => ("Bandwidth", column),
        None => (column, ""),
    };
    let unit = match unit {
        "MB/s" => Some(Unit::GigabytesPerSecond),
        "us" => Some(Unit::Microseconds),
        _ => None,
    };
    Series { name: name.to_owned(), unit, values: Vec::new() }
}

fn row(line: &str, columns: usize) -> Option<(Bytes, Vec<f64>)> {
    let mut words = line.split_whitespace();
    let size = words.next()?.parse().ok()?;
    let values: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    (values.len() == columns).then_some((Bytes(size), values))
}

/// The program's name: from a command a few lines above, else from the title, else the title itself.
fn program(text: &Text, title_line: usize, title: &str) -> String {
    const NAMES: [(&str, &str); 6] = [
        ("Bi-Directional Bandwidth", "osu_bibw"),
        ("Multiple Bandwidth", "osu_mbw_mr"),
        ("Multi Latency", "osu_multi_lat"),
        ("Multi-threaded Latency", "osu_latency_mt"),
        ("All-to-All", "osu_alltoall"),
        ("Broadcast", "osu_bcast"),
    ];
    let command = (title_line.saturating_sub(4)..title_line).rev().find_map(|i| {
        let name = |word: &'_ str| word.rsplit('/').next().filter(|name| name.starts_with("osu_")).map(str::to_owned);
        text.line(i).split_whitespace().find_map(name)
    });
    if let Some(name) = command {
        return name;
    }
    if let Some((_, name)) = NAMES.iter().find(|(words, _)| title.contains(words)) {
        return (*name).to_owned();
    }
    // "OSU MPI-CUDA Bandwidth Test", "OSU MPI Allreduce Latency Test"
    let words: Vec<&str> = title.split(" Test").next().unwrap_or_default().split_whitespace().skip(2).collect();
    match words.as_slice() {
        ["Bandwidth"] => "osu_bw".to_owned(),
        ["Latency"] => "osu_latency".to_owned(),
        [collective, "Latency"] => format!("osu_{}", collective.to_lowercase()),
        _ => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(body: &str) -> Vec<Curve> {
        let mut found = Found::default();
        scan(&Text::new("t", body.as_bytes()), &mut found);
        found.evidence.into_iter().filter_map(|e| if let Fact::Curve(c) = e.fact { Some(c) } else { None }).collect()
    }

    #[test]
    fn a_megabyte_is_a_million_bytes() {
        let c = curves(
            "# OSU MPI-CUDA Bandwidth Test v5.9\n# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n\
             # Size      Bandwidth (MB/s)\n1                       0.50\n4194304             12000.00\n\n",
        );
        assert_eq!((c[0].what.as_str(), c[0].sizes[1]), ("osu_bw", Bytes(4 << 20)));
        assert_eq!(c[0].series[0].unit, Some(Unit::GigabytesPerSecond));
        assert!((c[0].series[0].values[1].unwrap() - 12.0).abs() < 1e-9);
        assert!(c[0].settings["buffers"].contains("DEVICE"));
    }

    #[test]
    fn a_page_that_takes_the_comments_for_headings() {
        let c = curves("### OSU MPI Latency Test v7.0\n\n```\nSize\tLatency (us)\n8\t1.5\n```\n");
        assert_eq!((c[0].what.as_str(), c[0].series[0].unit), ("osu_latency", Some(Unit::Microseconds)));
        assert!(curves("The OSU MPI Latency Test is small.\nSize matters\n").is_empty());
    }

    #[test]
    fn a_collective_with_all_columns() {
        let c = curves(
            "# OSU MPI Allreduce Latency Test v5.6.2\n# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n\
             4                       2.50              2.00              3.00        1000\n",
        );
        assert_eq!(c[0].what, "osu_allreduce");
        let names: Vec<&str> = c[0].series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["Avg Latency", "Min Latency", "Max Latency", "Iterations"]);
        assert_eq!((c[0].series[2].values[0], c[0].series[3].unit), (Some(3.0), None));
    }

    #[test]
    fn validated_rows_have_a_word_at_their_end() {
        let table = |word: &str| {
            format!(
                "# OSU MPI Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)        Validation\n1   0.5   Pass\n2   1.0   {word}\n\n"
            )
        };
        let (good, bad) = (curves(&table("Pass")), curves(&table("Fail")));
        assert_eq!((good[0].sizes.len(), good[0].series.len()), (2, 1));
        assert_eq!((good[0].settings.get("Validation"), bad[0].settings["Validation"].as_str()), (None, "failed"));
    }

    #[test]
    fn a_datatype_may_stand_below_the_columns() {
        let c = curves(
            "# OSU MPI-CUDA Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n# Datatype: MPI_CHAR.\n1   1.5\n2   3.0\n\n",
        );
        assert_eq!((c[0].sizes.len(), c[0].settings["Datatype"].as_str()), (2, "MPI_CHAR."));
        let c =
            curves("# OSU MPI Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n1   1.5\n[...]\n4   3.0\nand more\n");
        assert_eq!(c[0].sizes, [Bytes(1), Bytes(4)], "rows that are left out");
    }

    #[test]
    fn the_command_names_the_program() {
        let c = curves(
            "$ mpirun -np 2 ./pt2pt/osu_bibw D D\n# OSU MPI-CUDA Bi-Directional Bandwidth Test v7.0\n# Size  Bandwidth (MB/s)\n8 1.0\n",
        );
        assert_eq!(c[0].what, "osu_bibw");
        let c = curves("# OSU MPI Multiple Bandwidth / Message Rate Test\n# Size MB/s Messages/s\n1 2.0 3.0\n");
        assert_eq!((c[0].what.as_str(), c[0].series[0].name.as_str()), ("osu_mbw_mr", "Bandwidth"));
        assert_eq!((c[0].series[1].name.as_str(), c[0].series[1].values[0]), ("Messages/s", Some(3.0)));
        assert!(curves("# OSU MPI Latency Test v7.0\n# Size  Latency (us)\n").is_empty());
    }
}
