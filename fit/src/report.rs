//! What is printed.

use std::collections::BTreeMap;

use peerlane::accuracy::{Class, ClassScore, Figure, SinglePath, scores as by_class};
use peerlane::catalogue::Parts;
use peerlane::check::{Context, FindingKind, Severity, check};
use peerlane::comparison::Comparison;
use peerlane::model::Model;

use crate::figures::Measured;
use crate::solve::Fit;
use crate::tree::{Leaf, Tree};

/// What `check` calls a fault on a machine.
pub(crate) fn faults(machine: &Measured, parts: &Parts) {
    let model = Model::new(&machine.case.machine, parts);
    let findings = check(&Context::of(&machine.case, &Comparison::of(&model)));
    for f in findings.iter().filter(|f| f.kind == FindingKind::Fault && f.severity >= Severity::Warning) {
        println!("  {:24} {:24} {:?} {:?} {}", machine.name(), f.rule, f.severity, f.certainty, f.summary);
    }
}

/// The constants of parts that figures are of.
pub(crate) fn constants(tree: &Tree, fit: &Fit) {
    println!(
        "{:28} {:24} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "constant", "part", "value", "low", "high", "figures", "machines"
    );
    let mut parts: BTreeMap<(usize, &str), (&Leaf, usize, usize)> = BTreeMap::new();
    for (leaf, figures) in tree.leaves.iter().zip(fit.seen(tree)).filter(|(_, figures)| *figures > 0) {
        let known = parts.entry((leaf.spec, &leaf.part)).or_insert((leaf, 0, 0));
        (known.1, known.2) = (known.1 + figures, known.2 + 1);
    }
    for (leaf, figures, machines) in parts.into_values() {
        let spec = &tree.specs[leaf.spec];
        let (value, deviation) =
            (tree.value(leaf.spec, leaf.of_part(), &fit.at), fit.deviation(tree, leaf, leaf.of_part()));
        let [low, value, high] = [-1.645, 0.0, 1.645].map(|share| (value + share * deviation).exp());
        let (name, part) = (&spec.name, &leaf.part);
        println!("{name:28} {part:24} {value:10.4} {low:10.4} {high:10.4} {figures:8} {machines:8}");
    }
}

/// Errors by class, and of the bandwidths of single paths.
pub(crate) fn scores(title: &str, machines: &[Measured], predicted: &[(usize, Vec<Figure>)], verbose: bool) {
    println!("\n{title}");
    if verbose {
        for (number, figures) in predicted {
            for Figure { class, measured, predicted, label } in figures {
                let machine = machines[*number].name();
                match predicted {
                    Some(p) => {
                        let inside = if p.low <= *measured && *measured <= p.high { "" } else { "outside" };
                        let error = 100.0 * (p.value / measured - 1.0);
                        println!(
                            "  {:17} {machine:22} {label:60} {measured:9.4} {:9.4} [{:9.4}, {:9.4}] {error:+7.1} % {inside}",
                            class.name(),
                            p.value,
                            p.low,
                            p.high
                        );
                    }
                    None => println!("  {:17} {machine:22} {label:60} {measured:9.4} none", class.name()),
                }
            }
        }
    }
    let part = |title: &str, of: &dyn Fn(&Measured) -> bool| {
        let chosen = predicted.iter().filter(|(number, _)| of(&machines[*number]));
        let figures: Vec<Figure> = chosen.flat_map(|(_, figures)| figures.iter().cloned()).collect();
        table(title, &figures);
    };
    part("all machines", &|_| true);
    part("catalogue", &|m| m.of_catalogue);
    part("others", &|m| !m.of_catalogue);
}

/// The scores of all machines as a table of Markdown: what `validation/accuracy.md` begins with.
pub(crate) fn page(machines: usize, predicted: &[(usize, Vec<Figure>)]) -> String {
    let figures: Vec<Figure> = predicted.iter().flat_map(|(_, figures)| figures.iter().cloned()).collect();
    let (classes, single) = by_class(&figures);
    let percent = |share: Option<f64>| share.map_or("—".to_owned(), |s| format!("{:.1} %", 100.0 * s));
    let SinglePath { n, median, p85, inside, half_width } = single;
    let [median, p85, inside, half_width] = [median, p85, inside, half_width].map(percent);
    let mut out = format!(
        "Of {n} bandwidths of single paths on {machines} machines, each predicted without itself: median error {median}, 85th \
         percentile {p85}, {inside} inside their intervals, whose median half-width is {half_width}.\n\n\
         | class | figures | median | 85th percentile | bias | inside the interval | no prediction |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for ClassScore { class, n, median, p85, bias, inside, none } in classes {
        let none = Some(none).filter(|share| *share > 0.0);
        let [median, p85, bias, inside, none] = [median, p85, bias, inside, none].map(percent);
        let name = Class::name(class);
        out += &format!("| {name} | {n} | {median} | {p85} | {bias} | {inside} | {none} |\n");
    }
    out
}

fn table(title: &str, figures: &[Figure]) {
    let (classes, single) = by_class(figures);
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.1}", 100.0 * s));
    println!("{title:24} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}", "n", "median", "p85", "bias", "inside", "none");
    for ClassScore { class, n, median, p85, bias, inside, none } in classes {
        let row = [median, p85, bias, inside, Some(none)].map(|s| format!("{:>8}", percent(s))).join(" ");
        println!("  {:22} {n:5} {row}", Class::name(class));
    }
    let SinglePath { n, median, p85, inside, half_width } = single;
    let row = [median, p85, None, inside, half_width].map(|s| format!("{:>8}", percent(s))).join(" ");
    println!("  {:22} {n:5} {row} (half-width)", "single paths");
}
