//! What the page says of machines that were met for the first time: the scores of `validation/first-contact-machines.csv`, which stay as
//! they are, and how the same machines do now.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::super::{Class, SinglePath, evaluate_cases, percentile};
use peerlane_design::case::Case;
use peerlane_read::catalogue::{Parts, read_system};

/// Of a class: figures, those that were predicted, those inside their interval, and a machine's median error for each that was predicted.
#[derive(Default)]
struct Scored {
    figures: usize,
    predicted: usize,
    inside: usize,
    errors: Vec<f64>,
}

impl Scored {
    fn add(&mut self, other: &Scored) {
        self.figures += other.figures;
        self.predicted += other.predicted;
        self.inside += other.inside;
        self.errors.extend(&other.errors);
    }

    fn row(&self, name: &str) -> String {
        let Scored { figures, predicted, inside, errors } = self;
        let at = |share| percentile(errors.clone(), share).map_or("—".to_owned(), |e| format!("{:.1} %", e * 100.0));
        let share = 100 * inside / (*figures).max(1);
        format!("| {name} | {figures} | {predicted} | {} | {} | {share} % |\n", at(0.5), at(0.85))
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A line of the table: `batch,machine,source,class,figures,predicted,median error,inside`; a source may have commas.
fn line(line: &str) -> (String, Scored) {
    let [inside, error, predicted, figures, class] = line.rsplitn(6, ',').take(5).collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    let number = |text: &str| text.parse::<usize>().unwrap_or(0);
    let errors = error.parse::<f64>().map(|error| vec![error; number(predicted)]).unwrap_or_default();
    let scored = Scored { figures: number(figures), predicted: number(predicted), inside: number(inside), errors };
    (class.to_owned(), scored)
}

/// How the machines of these batches do now.
fn now(batches: &[&str]) -> SinglePath {
    let mut cases = Vec::new();
    for batch in batches {
        for entry in fs::read_dir(root().join("published/first-contact").join(batch)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let read = read_system(&fs::read_to_string(&path).unwrap(), &name);
            cases.push(Case::from(read.unwrap_or_else(|e| panic!("{e}"))));
        }
    }
    evaluate_cases(&cases, Parts::embedded()).single_path
}

fn section() -> String {
    let table = fs::read_to_string(root().join("validation/first-contact-machines.csv")).unwrap();
    let mut by_class: BTreeMap<String, Scored> = BTreeMap::new();
    let mut machines: Vec<&str> = Vec::new();
    let batch = |text: &&str| text.split(',').next().unwrap_or_default().parse::<u32>().unwrap();
    let lines: Vec<&str> = table.lines().skip(1).collect();
    let last = lines.iter().map(batch).max().unwrap();
    for text in lines.iter().filter(|text| batch(text) + 1 >= last) {
        let (class, scored) = line(text);
        by_class.entry(class).or_default().add(&scored);
        machines.extend(text.split(',').nth(1));
    }
    machines.dedup();
    let mut all = Scored::default();
    let mut rows = String::new();
    for class in Class::ALL {
        let Some(scored) = by_class.get(class.name()) else { continue };
        if class.is_single_path() {
            all.add(scored);
        }
        rows += &scored.row(class.name());
    }
    let batches = [last - 1, last].map(|batch| batch.to_string());
    let now = now(&batches.each_ref().map(String::as_str));
    let pc = |share: Option<f64>| share.map_or("—".to_owned(), |share| format!("{:.0} %", share * 100.0));
    format!(
        "{} machines of the last two batches (of {last}), which nobody here had seen, described from their sources alone by people who saw no\n\
         prediction ([published/first-contact](../published/README.md)), and scored once, at the commits that\n\
         [README.md](README.md) names. A figure without a prediction counts as outside. Most sources do not state how wide a link\n\
         is. Errors are of the figures that had one, by the median of a machine and\n\
         class.\n\n\
         | class | figures | predicted | median | 85th percentile | inside, of all |\n|---|---|---|---|---|---|\n{}{rows}\n\
         These machines belong to the fit now, so this is no score: of {} bandwidths of single paths {} lie inside their intervals, whose\n\
         median half-width is {}. A card whose width no source states may have a quarter of its rate.\n",
        machines.len(),
        all.row("single paths together"),
        now.n,
        pc(now.inside),
        pc(now.half_width),
    )
}

#[test]
fn the_section_on_first_contact_is_fresh() {
    let path = root().join("crates/peerlane-judge/src/accuracy/first_contact.md");
    let fresh = section();
    if std::env::var_os("UPDATE_ACCURACY").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == fresh,
        "first_contact.md is stale: run twice UPDATE_ACCURACY=1 cargo test -p peerlane-judge accuracy"
    );
}

/// A table's lines with those between its marks in the page that leads the manual's part on accuracy.
fn hold_table(mark: &str, table: &str) {
    // another test may have written its table meanwhile
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap();
    let path = root().join("docs/accuracy.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- {mark} -->\n"), "<!-- end of the table -->\n");
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("docs/accuracy.md lacks {begin}"));
    let (_, after) = rest.split_once(end).unwrap();
    let fresh = format!("{before}{begin}{table}{end}{after}");
    if std::env::var_os("UPDATE_ACCURACY").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(kept == fresh, "docs/accuracy.md is stale: UPDATE_ACCURACY=1 cargo test -p peerlane-judge accuracy");
}

/// The lines of each batch of a table of `validation/`, in order.
fn batches(file: &str) -> BTreeMap<u32, Vec<String>> {
    let mut batches: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for line in fs::read_to_string(root().join("validation").join(file)).unwrap().lines().skip(1) {
        batches.entry(line.split(',').next().unwrap().parse().unwrap()).or_default().push(line.to_owned());
    }
    batches
}

#[test]
fn the_curve_of_machines_is_fresh() {
    let mut table =
        "| batch | machines | single paths | predicted | median error | 85th percentile | inside, of all |\n\
                     | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for (batch, lines) in batches("first-contact-machines.csv") {
        let mut all = Scored::default();
        for text in &lines {
            let (class, scored) = line(text);
            if Class::ALL.iter().any(|known| known.name() == class && known.is_single_path()) {
                all.add(&scored);
            }
        }
        let mut machines: Vec<&str> = lines.iter().filter_map(|text| text.split(',').nth(1)).collect();
        machines.dedup();
        table += &all.row(&format!("{batch} | {}", machines.len()));
    }
    hold_table("machines by batch", &table);
}

#[test]
fn the_curve_of_clusters_is_fresh() {
    let mut table =
        "| batch | figures | predicted | median error | 85th percentile |\n| --- | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for (batch, lines) in batches("first-contact-clusters.csv") {
        let mut figures = 0;
        let mut errors = Vec::new();
        for text in &lines {
            // batch,cluster,source,collective,bytes,measured,microseconds,predicted; a source may have commas
            let [predicted, _, measured, bytes] = text.rsplitn(5, ',').take(4).collect::<Vec<_>>()[..] else {
                panic!("{text}")
            };
            if bytes.parse::<u64>().unwrap() < 256 << 20 {
                continue;
            }
            figures += 1;
            let rate = |text: &str| text.parse::<f64>().ok();
            errors.extend(rate(predicted).zip(rate(measured)).map(|(p, m)| (p / m - 1.0).abs()));
        }
        let at = |share| percentile(errors.clone(), share).map_or("—".to_owned(), |e| format!("{:.0} %", e * 100.0));
        table += &format!("| {batch} | {figures} | {} | {} | {} |\n", errors.len(), at(0.5), at(0.85));
    }
    hold_table("clusters by batch", &table);
}

/// Classes of the table of left-out machines in words.
const IN_WORDS: [(&str, &str); 11] = [
    ("host-one-way", "host memory and a GPU, one way"),
    ("p2p-pcie", "two GPUs over PCIe, direct"),
    ("p2p-sockets", "two GPUs between sockets, direct"),
    ("nvlink-copy", "NVLink, copies"),
    ("xgmi", "xGMI"),
    ("c2c", "CPU and GPU of one module (C2C)"),
    ("staged-one-way", "through host memory, one way"),
    ("rdma-gpu", "GPU memory and a NIC"),
    ("latency", "latency"),
    ("collective-large", "collectives from 256 MiB on, one machine"),
    ("local", "within a GPU's memory"),
];

#[test]
fn the_table_of_left_out_machines_is_that_of_the_fit() {
    let written = include_str!("../left_out.md");
    let mut table = "| path | figures | median error | inside |\n| --- | ---: | ---: | ---: |\n".to_owned();
    for (class, words) in IN_WORDS {
        let line = written.lines().find(|line| line.starts_with(&format!("| {class} |"))).unwrap();
        let cells: Vec<&str> = line.split(" | ").collect();
        let short = |cell: &str| format!("{:.0} %", cell.trim_end_matches(" %").parse::<f64>().unwrap());
        table += &format!("| {words} | {} | {} | {} |\n", cells[1], short(cells[2]), short(cells[5]));
    }
    hold_table("machines that were left out", &table);
}
