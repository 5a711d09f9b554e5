//! The model's figures in the tables of `validation/compare.md`, each beside a statement of a document, are what the program says.

use peerlane::catalogue::{Parts, system};
use peerlane::compare::{Alone, Design, Subject, compare};
use peerlane::what_if::{Edit, apply};

/// A system of the catalogue, changed as asked.
fn of(name: &str, edits: &[&str]) -> Design {
    let edits: Vec<Edit> = edits.iter().map(|e| e.parse().unwrap()).collect();
    let machine = apply(&system(name).unwrap().unwrap(), &edits, Parts::embedded()).unwrap();
    compare(&[Subject { name, machine: &machine, run: None }], Parts::embedded()).designs.remove(0)
}

fn one_way(design: &Design) -> &Alone {
    design.pair.as_ref().unwrap()
}

fn both_ways(design: &Design) -> &Alone {
    design.pair_both_ways.as_ref().unwrap()
}

/// A GPU alone from and to the host.
fn alone(design: &Design) -> [f64; 2] {
    [&design.from_host, &design.to_host].map(|figure| figure.as_ref().unwrap().worst.rate)
}

fn bisection(design: &Design) -> f64 {
    design.bisection.as_ref().unwrap().figure.rate
}

/// As the tables have it: about three digits.
fn number(value: f64) -> String {
    let digits = if value < 100.0 { 2 } else { 1 };
    format!("{value:.digits$}")
}

#[test]
fn the_figures_of_the_model_are_fresh() {
    let [traditional, devbox, txr430, txr550, txr414, twenty] =
        ["exxact-traditional", "exxact-devbox", "exxact-txr430", "exxact-txr550", "exxact-txr414", "exxact-txr414-20"]
            .map(|name| of(name, &[]));
    let [power, x86] = ["microway-s822lc", "microway-p100-pcie"].map(|name| of(name, &[]));
    let [riser, azure, dgx] = ["7gforce", "az-2x-m60", "dgx-1"].map(|name| of(name, &[]));
    let wide = of("7gforce", &["GPU6.link=pcie 3.0 x16"]);
    let slots = of(
        "7gforce",
        &["GPU0", "GPU1", "GPU2", "GPU3", "GPU4", "GPU5"]
            .map(|g| format!("{g}.link=x8"))
            .each_ref()
            .map(String::as_str),
    );
    let equal = |design: &Design| design.all_to_all.as_ref().unwrap().equal.rate;
    let at_first = devbox.all_to_all.as_ref().unwrap().together.sum.rate;
    let fed = |design: &Design| design.host_feed.as_ref().unwrap().clone();
    let best_from_host = |design: &Design| design.from_host.as_ref().unwrap().best;
    let (wide, narrow) = (best_from_host(&wide), best_from_host(&riser));
    let times = |a: [f64; 2], b: [f64; 2]| vec![a[0] / b[0], a[1] / b[1]];
    let ends = |pairs: &Alone| [pairs.worst.rate, pairs.best];
    let latency = |design: &Design| {
        let predicted = design.predicted_latency.as_ref().unwrap();
        vec![predicted.most, predicted.least]
    };
    let share = |design: &Design| design.gpu_memory.as_ref().unwrap().share.unwrap().to_vec();
    let figures: Vec<(&str, usize, Vec<f64>)> = vec![
        ("exxact", 6, latency(&traditional)),
        ("exxact", 13, vec![latency(&devbox)[0], latency(&traditional)[0]]),
        ("exxact", 20, latency(&txr550)),
        ("microway", 4, latency(&power)),
        ("microway", 5, [latency(&x86), latency(&power)].concat()),
        ("rossum", 13, [share(&riser), share(&azure)].concat()),
        ("exxact", 3, ends(both_ways(&traditional)).to_vec()),
        ("exxact", 4, vec![both_ways(&devbox).best]),
        ("exxact", 9, vec![equal(&devbox) / 8.999]),
        ("exxact", 10, vec![bisection(&devbox)]),
        ("exxact", 11, vec![both_ways(&devbox).best]),
        ("exxact", 12, vec![equal(&devbox), at_first]),
        ("exxact", 14, vec![both_ways(&txr430).best, both_ways(&devbox).worst.rate]),
        ("exxact", 15, vec![both_ways(&txr430).worst.rate]),
        ("exxact", 18, vec![bisection(&txr550), bisection(&txr550) / 8.0]),
        ("exxact", 19, ends(both_ways(&txr550)).to_vec()),
        ("exxact", 23, vec![both_ways(&txr414).best, equal(&txr414) / 10.0, equal(&twenty) / 20.0]),
        ("microway", 2, vec![one_way(&power).best]),
        ("microway", 3, vec![one_way(&power).worst.rate]),
        // across sockets PCIe stages, which is faster than through one root complex
        ("microway", 6, times(ends(one_way(&power)), [one_way(&x86).best, one_way(&x86).worst.rate])),
        ("microway", 7, vec![alone(&power)[0], alone(&x86)[0]]),
        ("microway", 8, vec![alone(&power)[1], alone(&x86)[1]]),
        ("microway", 9, times(alone(&power), alone(&x86))),
        ("microway", 10, vec![fed(&x86).sum.rate, fed(&power).sum.rate]),
        ("rossum", 1, ends(one_way(&devbox)).to_vec()),
        ("rossum", 2, vec![one_way(&dgx).best]),
        ("rossum", 3, vec![alone(&riser)[0], wide]),
        ("rossum", 4, vec![one_way(&dgx).best]),
        ("rossum", 7, alone(&riser).to_vec()),
        ("rossum", 8, vec![wide, narrow, wide / narrow]),
        ("rossum", 9, vec![alone(&riser)[0]]),
        ("rossum", 10, ends(both_ways(&riser)).to_vec()),
        ("rossum", 11, ends(one_way(&riser)).to_vec()),
        ("rossum", 12, ends(one_way(&riser)).to_vec()),
        ("rossum", 14, alone(&azure).to_vec()),
        ("rossum", 15, vec![one_way(&azure).worst.rate]),
        ("rossum", 16, vec![narrow, alone(&azure)[0]]),
        ("rossum", 18, vec![one_way(&riser).worst.rate, one_way(&slots).worst.rate]),
        ("rossum", 18, vec![fed(&riser).slowest.rate, fed(&slots).slowest.rate]),
    ];
    let document = include_str!("../../../../validation/compare.md");
    let model_column = |table: &str, row: usize| -> String {
        let table = document.split(&format!("<!-- claims: {table} -->")).nth(1).unwrap();
        let line = table.lines().find(|line| line.starts_with(&format!("| {row} |"))).unwrap();
        line.split(" | ").nth(3).unwrap().to_owned()
    };
    for (table, row, values) in &figures {
        let says = model_column(table, *row);
        let words: Vec<&str> = says.split([' ', ',', ';', ':']).collect();
        for value in values.iter().map(|v| number(*v)) {
            assert!(words.contains(&value.as_str()), "{table}, row {row}: the model gives {value}, not '{says}'");
        }
    }
    let direct =
        [(8, &devbox), (15, &txr430), (17, &txr550), (21, &twenty)].map(|(row, design)| ("exxact", row, design));
    for (table, row, design) in direct.into_iter().chain([("rossum", 11, &riser), ("rossum", 15, &azure)]) {
        let reach = design.reach.unwrap();
        let expected = format!("{} of {} ", reach.direct, reach.of);
        assert!(model_column(table, row).contains(&expected), "{table}, row {row}: {expected}");
    }
    let lanes = &slots.lanes;
    assert_eq!((lanes.cpus_used, lanes.cpus), (Some(32), Some(40)), "rossum, row 6");
}
