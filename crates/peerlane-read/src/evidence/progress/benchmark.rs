//! Tables of benchmarks whose columns have units of computing in their heads, with rates of memory beside them: HPL, mixbench, SHOC, those of
//! matrix products; NVSHMEM's tables and any line that states a bandwidth with the time that it took. The best of each is reported.

use super::super::words::rate_of;

/// Longer lines are data.
const LONGEST: usize = 600;

/// Fewer columns are no table, more are data.
const FEWEST: usize = 3;
const MOST: usize = 64;

/// Units that make a line with words the head of such a table, in lower case.
const COMPUTE: [&str; 10] =
    ["gflops", "tflops", "gflop/s", "tflop/s", "gflops/s", "tflops/s", "mflops", "giops", "gteps", "gups"];

/// Units of memory that count beside those.
const MEMORY: [&str; 4] = ["gb/s", "gb/sec", "gib/s", "mb/s"];

/// The columns of the table that is read.
#[derive(Default)]
pub(super) struct Columns {
    cells: usize,
    /// The columns with a rate, by unit.
    rates: Vec<(usize, String)>,
    /// Whether it is a table of SHOC, whose rows name their unit.
    is_shoc: bool,
    /// The column with the rate of each function, of a table like STREAM's.
    function: Option<(usize, &'static str)>,
    /// The test that a table of NVSHMEM is of, and its unit.
    nvshmem: Option<(String, String)>,
    title: Option<String>,
}

impl Columns {
    /// The rates of the next line, with what they are of.
    pub(super) fn read(&mut self, line: &str) -> Option<Vec<(f64, String)>> {
        let line = line.trim_end();
        if line.len() > LONGEST || line.is_empty() {
            return None;
        }
        if let Some(one) = machine_readable(line).or_else(|| stated(line)) {
            return Some(vec![one]);
        }
        let cells = cells(line);
        if cells.len() == 2 && line.starts_with('|') {
            return self.of_nvshmem(&cells);
        }
        if !(FEWEST..=MOST).contains(&cells.len()) {
            // rules and empty lines part heads from rows
            if line.chars().any(char::is_alphanumeric) {
                *self = Columns::default();
            }
            return None;
        }
        if cells.starts_with(&["test", "atts", "units", "median"]) {
            *self = Columns { cells: cells.len(), is_shoc: true, ..Columns::default() };
            return None;
        }
        if let Some(function) = functions(&cells) {
            *self = Columns { cells: cells.len(), function: Some(function), ..Columns::default() };
            return None;
        }
        if let Some(rates) = head(&cells) {
            *self = Columns { cells: cells.len(), rates, ..Columns::default() };
            return None;
        }
        if cells.len() != self.cells {
            return None;
        }
        if self.is_shoc {
            let [name, _, unit, median, ..] = cells.as_slice() else { return None };
            let is_rate = unit.ends_with("/s") || unit.ends_with("FLOPS") || unit.ends_with("flops");
            return is_rate.then(|| rate_of(median).map(|rate| vec![(rate, format!("{unit} ({name}, median)"))]))?;
        }
        if let Some((at, unit)) = self.function {
            let name = cells.first().filter(|name| name.chars().all(char::is_alphabetic))?;
            return Some(vec![(rate_of(cells.get(at)?)?, format!("{unit} ({name})"))]);
        }
        let all = self.rates.iter().filter_map(|(at, unit)| Some((rate_of(cells.get(*at)?)?, unit.clone())));
        let all: Vec<_> = all.collect();
        (!all.is_empty()).then_some(all)
    }

    /// `| shmem_put_bw | 32 blocks |`, `| size (B) | BW GB/sec |`, `| 1048576 | 240.1 |`.
    fn of_nvshmem(&mut self, cells: &[&str]) -> Option<Vec<(f64, String)>> {
        let [first, second] = cells else { return None };
        if first.contains("shmem") && !first.contains(' ') {
            self.title = Some((*first).to_owned());
        } else if first.starts_with("size") {
            let unit = second.split_whitespace().next_back()?.to_owned();
            self.nvshmem =
                self.title.take().filter(|_| MEMORY.contains(&unit.to_ascii_lowercase().as_str())).zip(Some(unit));
        } else if let Some((title, unit)) = &self.nvshmem {
            first.split('.').next()?.parse::<u64>().ok()?;
            return Some(vec![(rate_of(second)?, format!("{unit} ({title})"))]);
        }
        None
    }
}

/// The cells of a line, parted by tabs, bars, commas or blanks.
fn cells(line: &str) -> Vec<&str> {
    let all: Vec<&str> = if line.contains('\t') {
        line.trim_end_matches('\t').split('\t').collect()
    } else if line.starts_with('|') {
        line.trim_matches('|').split('|').collect()
    } else if line.matches(',').count() >= FEWEST - 1 {
        line.split(',').collect()
    } else {
        // a unit in brackets is part of the word before it
        line.split_whitespace().filter(|word| !(word.starts_with('(') && word.ends_with(')'))).collect()
    };
    all.into_iter().map(str::trim).collect()
}

/// The column with rates of BabelStream's tables: `Function    MBytes/sec  Min (sec) …`, `function,num_times,…,max_mbytes_per_sec,…`.
fn functions(cells: &[&str]) -> Option<(usize, &'static str)> {
    const UNITS: [(&str, &str); 4] = [
        ("MBytes/sec", "MB/s"),
        ("GBytes/sec", "GB/s"),
        ("max_mbytes_per_sec", "MB/s"),
        ("max_gbytes_per_sec", "GB/s"),
    ];
    cells.first().filter(|first| first.eq_ignore_ascii_case("function"))?;
    UNITS.iter().find_map(|(name, unit)| Some((cells.iter().position(|cell| cell == name)?, *unit)))
}

/// The columns with rates of a head that has one of computing.
fn head(cells: &[&str]) -> Option<Vec<(usize, String)>> {
    // a value makes it a row or a sentence
    let is_name = |cell: &&str| cell.len() <= 32 && !cell.ends_with(['.', ':']) && cell.parse::<f64>().is_err();
    if !cells.iter().all(is_name) {
        return None;
    }
    let unit = |cell: &str, of: &[&str]| {
        let words = cell.split([' ', '(', ')', '[', ']', '_']);
        words
            .filter(|word| !word.is_empty())
            .find(|word| of.contains(&word.to_ascii_lowercase().as_str()))
            .map(str::to_owned)
    };
    let is_goal =
        |cell: &str| ["peak", "theor", "target", "max "].iter().any(|word| cell.to_ascii_lowercase().contains(word));
    let of_computing = cells.iter().filter(|cell| unit(cell, &COMPUTE).is_some()).count();
    if of_computing == 0 {
        return None;
    }
    let both = |cell: &str| unit(cell, &COMPUTE).or_else(|| unit(cell, &MEMORY));
    let all = cells.iter().enumerate().filter(|(_, cell)| !is_goal(cell));
    let all: Vec<_> = all.filter_map(|(at, cell)| Some((at, both(cell)?))).collect();
    (!all.is_empty()).then_some(all)
}

/// NVSHMEM's tests for programs: `&&&& PERF shmem_put_bw___None___size__1024___BW 1.234000 +GB/sec`.
fn machine_readable(line: &str) -> Option<(f64, String)> {
    let rest = line.strip_prefix("&&&& PERF ")?;
    let mut words = rest.split_whitespace();
    let (name, rate, unit) = (words.next()?, words.next()?, words.next()?);
    let rate = rate_of(rate)?;
    let unit = unit.strip_prefix('+').filter(|unit| MEMORY.contains(&unit.to_ascii_lowercase().as_str()))?;
    Some((rate, format!("{unit} ({})", name.split("___").next()?)))
}

/// A bandwidth beside the time that it took: `PE 0 average time: 24.19 bandwidth: 41.32 GB/s`.
fn stated(line: &str) -> Option<(f64, String)> {
    let lower = line.to_ascii_lowercase();
    let at = lower.rfind("bandwidth")?;
    let has_time = ["time", "latency", "elapsed"].iter().any(|word| lower.contains(word));
    if !has_time || ["peak", "theoretical", "expected"].iter().any(|word| lower.contains(word)) {
        return None;
    }
    let rest = line.get(at + "bandwidth".len()..)?.trim_start().strip_prefix([':', '='])?.trim_start();
    let (number, unit) = rest.split_once(' ')?;
    let unit = unit.split([' ', ',', ';', ')']).next()?;
    let rate = rate_of(number)?;
    MEMORY.contains(&unit.to_ascii_lowercase().as_str()).then(|| (rate, format!("{unit} of bandwidth")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best rate of each kind.
    fn best(text: &str) -> Vec<(String, f64)> {
        let (mut columns, mut all): (Columns, Vec<(String, f64)>) = (Columns::default(), Vec::new());
        for (rate, what) in text.lines().filter_map(|line| columns.read(line)).flatten() {
            match all.iter_mut().find(|(known, _)| *known == what) {
                Some((_, known)) => *known = known.max(rate),
                None => all.push((what, rate)),
            }
        }
        all
    }

    #[test]
    fn tables_of_any_benchmark() {
        let of = |what: &str, rate: f64| (what.to_owned(), rate);
        let hpl = "T/V                N    NB     P     Q               Time                 Gflops\n\
                   --------------------------------\nWR11C2R4       29184   192     2     2               6.65              2.492e+03\n";
        assert_eq!(best(hpl), [of("Gflops", 2492.0)]);
        let mix = "Compute iters, Flops/byte, ex.time,  GFLOPS, GB/sec, Iops/byte, ex.time,   GIOPS, GB/sec\n\
                   0,  0.000,  33.1,    0.00, 258.88,  0.000,   32.64,    0.00, 263.21\n9,  0.129,   35.84,   29.96, 232.19,     inf,   34.81,   30.85, inf\n";
        assert_eq!(best(mix), [of("GB/sec", 263.21), of("GFLOPS", 29.96), of("GIOPS", 30.85)]);
        let shoc = "test\tatts\tunits\tmedian\tmean\nSim\tv:10\tGB/s\t0.11\t0.10\t\nSim_time\tv:10\ts\t0.1\t0.1\t\n";
        assert_eq!(best(shoc), [of("GB/s (Sim, median)", 0.11)]);
        let gemm = "| M | N | K | time (us) | TFLOPS | peak TFLOPS |\n|---|---|---|---|---|---|\n| 1 | 2 | 3 | 9.5 | 512.5 | 989 |\n";
        assert_eq!(best(gemm), [of("TFLOPS", 512.5)]);
    }

    #[test]
    fn tables_of_babelstream() {
        // the head has words more than the rows, where blanks part them
        for text in [
            "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime\nCopy,100,33554432,8,812.5,0.1\nTriad,100,33554432,8,850.5,0.1\n",
            "Function    MBytes/sec  Min (sec)   Max         Average\nCopy        812.5  0.1 0.2 0.3\nTriad  850.5 0.1 0.2 0.3\n",
        ] {
            let all = best(text);
            assert_eq!(all, [("MB/s (Copy)".to_owned(), 812.5), ("MB/s (Triad)".to_owned(), 850.5)], "{text}");
        }
    }

    #[test]
    fn rates_of_nvshmem_and_with_their_time() {
        let table = "+---+---+\n| shmem_put_bw           | 32_blocks            |\n+---+---+\n| size (B)               |         BW GB/sec    |\n+---+---+\n\
                     | 1024                   | 1.5                  |\n+---+---+\n| 1048576.0              | 40.5                 |\n";
        assert_eq!(best(table), [("GB/sec (shmem_put_bw)".to_owned(), 40.5)]);
        let line = "&&&& PERF shmem_put_bw___None___size__1024___BW 1.250000 +GB/sec\n";
        assert_eq!(best(line), [("GB/sec (shmem_put_bw)".to_owned(), 1.25)]);
        let own = "PE 0 average time: 24.1 bandwidth: 41.3 GB/s\nPE 1 average time: 24.2 bandwidth: 41.1 GB/s\n";
        assert_eq!(best(own), [("GB/s of bandwidth".to_owned(), 41.3)]);
    }

    #[test]
    fn what_is_no_result() {
        for text in [
            "The card has 40 TFLOPS, 900 GB/s, 80 GB.\n1 2 3\n",
            "GPU, memory, GB/s\na, 80, 900\n",
            "Memory bandwidth: 336.48 GB/sec\n",
            "peak bandwidth: 900 GB/s at any time\n",
            "GPU, peak TFLOPS, watts\na, 989, 700\n",
        ] {
            assert_eq!(best(text), [], "{text}");
        }
    }
}
