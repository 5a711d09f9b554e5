//! The report as a page of Markdown: `docs/accuracy.md`.

use std::fmt::Write;

use super::{Accuracy, Errors, FarCell, Group, Kind, LeftOut, Scores};

/// The page. A test compares it with `docs/accuracy.md`.
pub fn page(accuracy: &Accuracy) -> String {
    let mut out = String::from(INTRODUCTION);
    summary(accuracy, &mut out);
    groups(accuracy, &mut out);
    systems(accuracy, &mut out);
    left_out(accuracy, &mut out);
    far(accuracy, &mut out);
    out
}

const INTRODUCTION: &str = "\
# How near the model comes

Every published and recorded number of the catalogue that the model predicts, against its prediction. Made by
`peerlane accuracy --page`, and compared with what it prints by a test; the equations are in [model.md](model.md).

* *Cells* weigh every number alike, bandwidths off the diagonal. *Groups* (a system × class of path × quantity, direction
  and engine) compare the median prediction with the median number.
* Errors are absolute, and those between two ranks interpolated. \"worst\" is the greatest.
* *fitted*: a constant was taken from this very system's numbers; *derived*: none was. What a fitted prediction would be
  without those constants stands beside it as \"left out\". Rules that several systems share stay: that a request
  asks for 256 bytes, that copy engines lose 16 bytes a packet, and the default latencies were chosen with numbers of
  several of these systems in view ([model.md](model.md) says of which).
* *raw*: the slowest link's raw rate. *NCCL*: the constants of its `src/graph/topo.h` at 5067397c, GB/s of one direction:
  PCIe x16 3, 6, 12, 24, 48, 96 (1.0 to 6.0); an NVLink 18, 20, 20, 20.6, 40.1 (generations 1 to 5; 12 on GA10x); between
  sockets QPI 6, UPI 10, 22 (Sapphire Rapids), 40 (Emerald Rapids), AMD 16, POWER 32, ARM 6; 5/6 of it for GPU pairs
  through an Intel root complex. The slowest link counts, staged or not; both ways is twice one way.

";

fn summary(accuracy: &Accuracy, out: &mut String) {
    let o = &accuracy.overall;
    line(out, "## All together\n");
    line(out, "| | | n | median | 85th percentile | worst |");
    line(out, "|---|---|---|---|---|---|");
    let mut scores = |what: &str, scores: &Scores| {
        for (unit, e) in [("cells", &scores.cells), ("groups", &scores.groups)] {
            if e.n > 0 {
                row(out, &[what.to_owned(), unit.to_owned(), e.n.to_string(), pc(e.median), pc(e.p85), pc(e.worst)]);
            }
        }
    };
    scores("bandwidth, peerlane", &o.bandwidth.peerlane);
    scores("bandwidth, NCCL's constants", &o.bandwidth.nccl);
    scores("bandwidth, raw link rates", &o.bandwidth.raw);
    scores("bandwidth of documents, peerlane", &o.documents.peerlane);
    scores("bandwidth of documents, NCCL's constants", &o.documents.nccl);
    scores("bandwidth of documents, raw link rates", &o.documents.raw);
    scores("latency, peerlane", &o.latency);
    let held = accuracy.groups.iter().filter(|g| g.interval[0] <= g.published && g.published <= g.interval[1]).count();
    let _ = writeln!(
        out,
        "\n{held} of {} groups have their median inside the prediction's interval.\n",
        accuracy.groups.len()
    );
}

fn groups(accuracy: &Accuracy, out: &mut String) {
    line(out, "## Groups\n");
    line(
        out,
        "| system | figures | path | n | seen | predicted | interval | error | left out | NCCL | raw | | what binds |",
    );
    line(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for g in &accuracy.groups {
        let Group { range: [low, high], interval: [least, most], .. } = g;
        row(
            out,
            &[
                g.system.clone(),
                g.label.replace("bandwidth, ", ""),
                g.path.clone(),
                g.cells.to_string(),
                span(*low, *high),
                number(g.predicted),
                span(*least, *most),
                signed(g.error),
                g.left_out.map_or_else(String::new, signed),
                g.nccl.map_or_else(String::new, signed),
                g.raw.map_or_else(String::new, signed),
                kind(g.kind).to_owned(),
                g.bottleneck.clone(),
            ],
        );
    }
    line(out, "");
}

fn systems(accuracy: &Accuracy, out: &mut String) {
    line(out, "## Matrices\n");
    line(out, "| system | figures | cells | median | 85th percentile | worst | |");
    line(out, "|---|---|---|---|---|---|---|");
    for system in &accuracy.systems {
        for m in &system.matrices {
            let errors = [pc(m.median), pc(m.p85), pc(m.worst)];
            let [median, p85, worst] = errors;
            let first = [system.name.clone(), m.label.replace("bandwidth, ", ""), m.cells.to_string()];
            let [name, label, cells] = first;
            row(out, &[name, label, cells, median, p85, worst, kind(m.kind).to_owned()]);
        }
    }
    line(out, "");
}

fn left_out(accuracy: &Accuracy, out: &mut String) {
    line(out, "## Leave one system out\n");
    line(
        out,
        "Each system's median error over its cells, and the same without the constants fitted to its numbers: another source's\n\
         value stands in where there is one (*), else the model's default. Constants in bold describe hardware of which\n\
         no other source tells; without this system they cannot be known.\n",
    );
    line(
        out,
        "| system | bandwidths | all known | left out | latencies | all known | left out | constants that were left out |",
    );
    line(out, "|---|---|---|---|---|---|---|---|");
    for l in &accuracy.left_out {
        let errors = |n: usize, e: f64| if n > 0 { pc(e) } else { String::new() };
        let constant = |name: &String| match name {
            name if l.only_here.contains(name) => format!("**{name}**"),
            name if l.elsewhere.contains(name) => format!("{name}*"),
            name => name.clone(),
        };
        row(
            out,
            &[
                l.system.clone(),
                l.cells.to_string(),
                errors(l.cells, l.known),
                errors(l.cells, l.median),
                l.latency_cells.to_string(),
                errors(l.latency_cells, l.latency_known),
                errors(l.latency_cells, l.latency_median),
                l.constants.iter().map(constant).collect::<Vec<_>>().join(", "),
            ],
        );
    }
    let median = |of: &dyn Fn(&LeftOut) -> Option<f64>| {
        let errors = Errors::of(accuracy.left_out.iter().filter_map(of).collect());
        (errors.n, pc(errors.median))
    };
    let rate = |l: &LeftOut| (l.cells > 0).then_some(l.median);
    let (all, rates) = median(&rate);
    let (knowable, of_these) = median(&|l| rate(l).filter(|_| l.only_here.is_empty()));
    let (timed, times) = median(&|l| (l.latency_cells > 0).then_some(l.latency_median));
    let _ = writeln!(
        out,
        "\nMedian over the systems, left out: bandwidths {rates} of all {all}, {of_these} of the {knowable} without constants in \
         bold;\nlatencies {times} of {timed}.\n"
    );
}

fn far(accuracy: &Accuracy, out: &mut String) {
    line(out, "## Cells that are off by more than 15 %\n");
    line(
        out,
        "Cells of one matrix that share a reason stand together; those in brackets lie outside their interval.\n",
    );
    line(out, "| system | figures | n | seen | predicted | error | cells | reason |");
    line(out, "|---|---|---|---|---|---|---|---|");
    for cells in accuracy.far.chunk_by(|a, b| a.system == b.system && a.label == b.label && a.reason == b.reason) {
        let Some(first) = cells.first() else { continue };
        let range = |of: fn(&FarCell) -> f64| {
            let values = || cells.iter().map(of);
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
        };
        let ((seen, most_seen), (predicted, most)) = (range(|c| c.published), range(|c| c.predicted));
        let (least, greatest) = range(|c| c.error);
        let error = if signed(least) == signed(greatest) {
            signed(least)
        } else {
            format!("{} to {}", signed(least), signed(greatest))
        };
        let name = |c: &FarCell| {
            let pair = format!("{}→{}", c.row, c.col);
            if c.within { pair } else { format!("({pair})") }
        };
        row(
            out,
            &[
                first.system.clone(),
                first.label.replace("bandwidth, ", ""),
                cells.len().to_string(),
                span(seen, most_seen),
                span(predicted, most),
                error,
                cells.iter().map(name).collect::<Vec<_>>().join(", "),
                first.reason.clone(),
            ],
        );
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn row(out: &mut String, cells: &[String]) {
    line(out, &format!("| {} |", cells.join(" | ")));
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Derived => "derived",
        Kind::Fitted => "fitted",
    }
}

fn pc(error: f64) -> String {
    format!("{:.1} %", error * 100.0)
}

fn signed(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}

/// Three or more digits.
fn number(v: f64) -> String {
    if v.abs() >= 1000.0 {
        format!("{v:.0}")
    } else if v.abs() >= 100.0 {
        format!("{v:.1}")
    } else {
        format!("{v:.2}")
    }
}

fn span(low: f64, high: f64) -> String {
    let (low, high) = (number(low), number(high));
    if low == high { low } else { format!("{low} to {high}") }
}
