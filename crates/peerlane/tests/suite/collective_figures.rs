//! Published and recorded figures of collectives next to what is predicted: the tables of `docs/collectives.md` and `validation/collectives.md`, and how far they
//! may be apart.

#[path = "../../../peerlane-design/examples/collectives/points.rs"]
mod points;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use peerlane::transfer::Collective;
use peerlane::units::Bytes;
use points::{LARGE, Point, SMALL, Scored, geometric, quantile, read, recorded, score};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scored(points: Vec<Point>) -> Vec<Scored> {
    let (scored, without) = score(points);
    let why: Vec<&String> = without.iter().map(|(_, why)| why).collect();
    assert!(why.is_empty(), "{why:?}");
    scored
}

fn file(name: &str) -> Vec<Scored> {
    scored(read(&root().join("published/collectives").join(name)).unwrap())
}

/// All-reduces of nccl-tests of one process on all GPUs; of several runs the median of each size.
fn curve(machine: &str, gpus: usize, files: &[&str]) -> Vec<Scored> {
    let like = Point {
        machine: machine.to_owned(),
        target: "h200x4-vm".to_owned(),
        nodes: 1,
        gpus,
        nics: None,
        network: String::new(),
        collective: Collective::AllReduce,
        size: 0,
        setting: "nvls off;one process".to_owned(),
        time: 0.0,
        source: files.join(", "),
    };
    let runs: Vec<Vec<Point>> = files
        .iter()
        .map(|file| recorded(&std::fs::read_to_string(root().join("captures").join(file)).unwrap(), &like))
        .collect();
    let of = |i: usize| {
        let mut times: Vec<f64> = runs.iter().map(|run| run[i].time).collect();
        times.sort_by(f64::total_cmp);
        Point { time: times[times.len() / 2], ..runs[0][i].clone() }
    };
    scored((0..runs[0].len()).map(of).collect())
}

fn two() -> Vec<Scored> {
    let files = [1, 2, 3].map(|i| format!("h200x2-vm-collectives/all_reduce_perf-{i}.txt"));
    curve("2 x H200", 2, &files.each_ref().map(String::as_str))
}

fn four() -> Vec<Scored> {
    curve("4 x H200", 4, &["h200x4-vm/all_reduce_perf.txt"])
}

fn rows(scored: &[Scored]) -> String {
    let mut text = String::from(
        "| machine | GPUs | collective | size | setting | measured, µs | predicted, µs | by | error of bandwidth | source |\n\
         | --- | --- | --- | --- | --- | ---: | ---: | --- | ---: | --- |\n",
    );
    for s in scored {
        let Point { machine, nodes, gpus, collective, size, setting, time, source, .. } = &s.point;
        let gpus = if *nodes > 1 { format!("{nodes} × {gpus}") } else { gpus.to_string() };
        let by = format!("{}+{}", s.predicted.algorithm, s.predicted.protocol);
        writeln!(
            text,
            "| {machine} | {gpus} | {} | {} | {setting} | {time:.1} | {:.1} | {by} | {:+.0} % | {source} |",
            collective.name(),
            Bytes(*size),
            s.predicted.time * 1e6,
            100.0 * s.error(),
        )
        .unwrap();
    }
    text
}

fn summary(sets: &[(&str, &[&Scored])]) -> String {
    type Range<'r> = (&'r str, fn(&Scored) -> bool);
    const RANGES: [Range; 4] = [
        ("≥ 256 MiB, one node", |s| s.point.size >= LARGE && s.point.nodes == 1),
        ("≥ 256 MiB, several nodes", |s| s.point.size >= LARGE && s.point.nodes > 1),
        ("between", |s| s.point.size < LARGE && s.point.size > SMALL),
        ("≤ 1 MiB", |s| s.point.size <= SMALL),
    ];
    let mut text = String::from(
        "| set | sizes | figures | median error | 85th percentile | geometric mean |\n| --- | --- | ---: | ---: | ---: | ---: |\n",
    );
    for (name, all) in sets {
        for (range, of) in RANGES {
            let some: Vec<&Scored> = all.iter().copied().filter(|s| of(s)).collect();
            let (Some(median), Some(high)) = (quantile(&some, 0.5), quantile(&some, 0.85)) else { continue };
            let mean = geometric(&some);
            writeln!(text, "| {name} | {range} | {} | {median:.1} % | {high:.1} % | {mean:.1} % |", some.len())
                .unwrap();
        }
    }
    text
}

/// The clusters of the last two batches that were met for the first time, by size: `batch,cluster,source,collective,bytes,measured busbw,
/// measured us,predicted busbw`, where a source may have commas.
fn first_contact() -> String {
    let table = std::fs::read_to_string(root().join("validation/first-contact-clusters.csv")).unwrap();
    let batch = |line: &str| line.split(',').next().unwrap().parse::<u32>().unwrap();
    let last = table.lines().skip(1).map(batch).max().unwrap();
    let mut by_size: [Vec<Option<f64>>; 3] = Default::default();
    for line in table.lines().skip(1).filter(|line| batch(line) + 1 >= last) {
        let [predicted, _, measured, bytes] = line.rsplitn(5, ',').take(4).collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let bytes: u64 = bytes.parse().unwrap();
        // rates of smaller sizes are printed with one digit or none
        let at = match bytes {
            LARGE.. => 0,
            0x40_0000.. => 1,
            0x1_0000.. => 2,
            _ => continue,
        };
        let rate = |text: &str| text.parse::<f64>().ok();
        by_size[at].push(rate(predicted).zip(rate(measured)).map(|(p, m)| (p / m - 1.0).abs()));
    }
    let mut text = format!(
        "Batches {} and {last}:\n\n| sizes | figures | predicted | median error | 85th percentile |\n| --- | ---: | ---: | ---: | ---: |\n",
        last - 1
    );
    for (name, all) in ["≥ 256 MiB", "4 to 256 MiB", "64 KiB to 4 MiB"].iter().zip(&by_size) {
        let mut errors: Vec<f64> = all.iter().flatten().copied().collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| errors.get(((errors.len() as f64 * share) as usize).min(errors.len().saturating_sub(1)));
        let percent = |error: Option<&f64>| error.map_or("—".to_owned(), |e| format!("{:.0} %", e * 100.0));
        writeln!(text, "| {name} | {} | {} | {} | {} |", all.len(), errors.len(), percent(at(0.5)), percent(at(0.85)))
            .unwrap();
    }
    text
}

/// Compares a part of the page with what it should be, or writes it.
fn hold(page: &str, mark: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->\n"));
    let from = page.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
    let to = page.find(&end).unwrap_or_else(|| panic!("no {end}"));
    format!("{}{text}{}", &page[..from], &page[to..])
}

/// Compares a page with what it should be, or writes it.
fn settle(name: &str, change: impl Fn(String) -> String) {
    let path = root().join(name);
    let new = change(std::fs::read_to_string(&path).unwrap());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &new).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page == new, "{name} is out of date: UPDATE_DOCS=1 cargo test -p peerlane collective_figures");
}

#[test]
fn the_pages_have_every_figure() {
    let (published, fitted, held) = (file("scored.csv"), file("fit.csv"), file("held-out.csv"));
    let (two, four) = (two(), four());
    let own: Vec<&Scored> = four.iter().chain(&two).collect();
    let summary = summary(&[
        ("published, scored", &published.iter().collect::<Vec<_>>()),
        ("recorded, scored", &own),
        ("kept apart, now", &held.iter().collect::<Vec<_>>()),
        ("used for constants", &fitted.iter().collect::<Vec<_>>()),
    ]);
    settle("docs/collectives.md", |page| hold(&page, "first contact", &first_contact()));
    settle("validation/collectives.md", |page| {
        let sets = [("scored", &published), ("four", &four), ("two", &two), ("kept apart", &held), ("fit", &fitted)];
        sets.iter().fold(hold(&page, "summary", &summary), |page, (mark, of)| hold(&page, mark, &rows(of)))
    });
}

#[test]
fn predictions_are_as_near_as_the_page_claims() {
    let (published, two, four) = (file("scored.csv"), two(), four());
    let all: Vec<&Scored> = published.iter().chain(&two).chain(&four).collect();
    let large: Vec<&Scored> = all.iter().copied().filter(|s| s.point.size >= LARGE).collect();
    assert!(quantile(&large, 0.5).unwrap() <= 6.0 && quantile(&large, 0.85).unwrap() <= 15.0);
    // the whole curve on one box: 8 × H200 published, 4 and 2 × H200 recorded
    let eight = published.iter().filter(|s| s.point.machine == "HGX H200");
    let whole: Vec<&Scored> = eight.chain(&two).chain(&four).collect();
    let mean = geometric(&whole);
    println!("whole curve on one box: {} figures, geometric mean error {mean:.1} %", whole.len());
    assert!(mean <= 9.0, "{mean}");
}
