//! Reads the JSON of `nvbandwidth -j`, alone or among other text; `nvbandwidth_tests` knows what each table means.

use serde::Deserialize;
use serde_json::Value;

use super::nvbandwidth::named_device;
use super::nvbandwidth_tests::TestTable;
use super::{Fact, Found, Text, grid, json};

const TOOL: &str = super::tool::NVBANDWIDTH_JSON;

/// More GPUs than any machine has.
const MAX_COLUMNS: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    json::documents(text, "nvbandwidth", "", |lines, read: Result<Output, _>| match read {
        Ok(output) => take(text, lines, output.nvbandwidth, found),
        Err(error) => found.warn(text, TOOL, lines, format!("the JSON cannot be read: {error}")),
    });
}

#[derive(Deserialize)]
struct Output {
    nvbandwidth: Run,
}

#[derive(Deserialize)]
struct Run {
    #[serde(rename = "GPU Device list", default)]
    devices: Vec<String>,
    #[serde(default)]
    testcases: Vec<Testcase>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Testcase {
    name: String,
    status: String,
    #[serde(rename = "bandwidth_description", default)]
    description: String,
    #[serde(rename = "bandwidth_matrix", default)]
    matrix: Vec<Vec<Value>>,
}

fn take(text: &Text, lines: (u32, u32), run: Run, found: &mut Found) {
    if let Some(error) = run.error {
        found.warn(text, TOOL, lines, format!("nvbandwidth reports an error: {error}"));
    }
    // each is followed by the host's name: "0: NAME (ADDRESS): (HOST)"
    let device = |d: &String| named_device(d.rsplit_once(": (").map_or(d.as_str(), |(device, _)| device));
    let gpus: Vec<_> = run.devices.iter().filter_map(device).collect();
    found.push(text, TOOL, lines, Fact::Gpus(gpus));
    for case in run.testcases {
        if case.status != "Passed" {
            found.warn(text, TOOL, lines, format!("{} gave no numbers: {}", case.name, case.status));
            continue;
        }
        match tables(&case) {
            Some(tables) => {
                for table in tables {
                    found.push(text, TOOL, lines, Fact::Matrix(table.into_matrix()));
                }
            }
            None => found.warn(text, TOOL, lines, format!("{}: its table cannot be read", case.name)),
        }
    }
}

/// The tables of a test. A bidirectional test of pairs stacks its three tables and describes the last.
fn tables(case: &Testcase) -> Option<Vec<TestTable<'_>>> {
    let columns = case.matrix.first().map(Vec::len).filter(|n| (1..=MAX_COLUMNS).contains(n))?;
    let cells: Vec<Vec<Option<f64>>> =
        case.matrix.iter().map(|row| row.iter().map(cell).collect()).collect::<Option<_>>()?;
    if cells.iter().any(|row| row.len() != columns) {
        return None;
    }
    let stacked = case.name.contains("device_to_device_bidirectional") && cells.len() == 3 * columns;
    let parts: &[&str] = match (stacked, case.name.contains("_read")) {
        (true, true) => &["Read1", "Read2", "Total"],
        (true, false) => &["Write1", "Write2", "Total"],
        (false, _) => &[],
    };
    let numbers = |n: usize| (0..n as u32).collect();
    let table = |description, cells: Vec<_>| TestTable {
        test: &case.name,
        description,
        rows: numbers(cells.len()),
        cols: numbers(columns),
        cells,
    };
    Some(match parts {
        [] => vec![table(case.description.as_str(), cells)],
        parts => parts.iter().zip(cells.chunks(columns)).map(|(part, rows)| table(*part, rows.to_vec())).collect(),
    })
}

/// A cell: a number or its text; the outer `None` where it is neither that nor `N/A`.
fn cell(value: &Value) -> Option<Option<f64>> {
    match value {
        Value::String(text) => grid::cell(text),
        Value::Number(number) => Some(number.as_f64()),
        Value::Null => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Direction;
    use super::super::testing::scanned;
    use super::*;

    const RUN: &str = r#"$ nvbandwidth -j
{
	"nvbandwidth" :
	{
		"GPU Device list" : [ "0: Card (00000000:C1:00): (host{1)" ],
		"testcases" : [
			{ "name" : "host_to_device_memcpy_ce", "status" : "Passed",
			  "bandwidth_description" : "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
			  "bandwidth_matrix" : [ [ "10.5", "N/A" ] ] },
			{ "name" : "device_to_device_bidirectional_memcpy_read_ce", "status" : "Passed",
			  "bandwidth_description" : "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)",
			  "bandwidth_matrix" : [ ["N/A","1"], ["2","N/A"], ["N/A","3"], ["4","N/A"], ["N/A","4"], ["6","N/A"] ] },
			{ "name" : "one_to_all_write_ce", "status" : "Waived" }
		]
	}
}
done
"#;

    #[test]
    fn an_object_that_ends_before_its_key_ends_the_search() {
        for text in
            ["{}{\n\"nvbandwidth\":", "{}{\n\"nvbandwidth\": {}}\n", "{{\n\"nvbandwidth\":\n\"nvbandwidth\": }}}"]
        {
            assert!(scanned(scan, text).evidence.is_empty(), "{text}");
        }
    }

    #[test]
    fn a_run_among_text() {
        let found = scanned(scan, RUN);
        assert_eq!(found.warnings.len(), 1, "the waived test");
        assert_eq!(found.evidence.len(), 5);
        assert_eq!(found.evidence[0].origin.lines, Some((2, 16)));
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!() };
        assert_eq!(gpus[0].address.unwrap().to_string(), "0000:c1:00.0");
        let Fact::Matrix(down) = &found.evidence[1].fact else { panic!() };
        assert_eq!(down.values, [[Some(10.5), None]]);
        let Fact::Matrix(read2) = &found.evidence[3].fact else { panic!() };
        assert_eq!((read2.between("GPU1", "GPU0"), read2.between("GPU0", "GPU1")), (Some(3.0), Some(4.0)));
        let Fact::Matrix(total) = &found.evidence[4].fact else { panic!() };
        assert_eq!((total.value(1, 0), total.direction), (Some(6.0), Some(Direction::Bidirectional)));
    }

    #[test]
    fn cut_or_broken_json_is_said() {
        let cut = RUN.get(..RUN.len() - 40).unwrap();
        assert_eq!((scanned(scan, cut).evidence.len(), scanned(scan, cut).warnings.len()), (0, 1));
        let broken = scanned(scan, "{ \"nvbandwidth\": { testcases } }\n");
        assert_eq!((broken.evidence.len(), broken.warnings.len()), (0, 1));
        assert_eq!(scanned(scan, "{ \"other\": \"nvbandwidth\" }\n"), Found::default());
    }
}
