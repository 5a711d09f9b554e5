//! The figures of a comparison, one row each, for the terminal and the HTML page.

use peerlane::compare::{Alone, ComparisonDocument, Design, Figure, MeasuredValue};
use peerlane::names::ranges;

use super::text::{number, span};

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// The larger one.
    More,
    /// The smaller one.
    Less,
    /// Neither: a fact.
    Neither,
}

/// One figure of all designs.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What it is; in GB/s unless it names another unit.
    pub(crate) label: &'static str,
    /// Which of two values is better.
    pub(crate) better: Better,
    /// One cell per design; `None` if unknown.
    pub(crate) cells: Vec<Option<Cell>>,
}

/// One figure of one design.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The text in tables.
    pub(crate) text: String,
    /// The value; of a range, the worse end.
    pub(crate) value: f64,
    /// The measured or published value.
    pub(crate) measured: Option<MeasuredValue>,
    /// The bottleneck; may be empty.
    pub(crate) bound: String,
    /// The GPUs it refers to; may be empty.
    pub(crate) about: String,
}

impl Cell {
    fn fact(value: f64) -> Cell {
        Cell::labelled(number(value), value)
    }

    fn labelled(text: String, value: f64) -> Cell {
        Cell { text, value, measured: None, bound: String::new(), about: String::new() }
    }

    fn of(figure: &Figure, about: String) -> Cell {
        let Figure { rate, bottleneck, measured } = figure;
        Cell { text: number(*rate), value: *rate, measured: measured.clone(), bound: bottleneck.clone(), about }
    }

    /// Marks a value that is only the best or worst of those tried.
    fn or(self, exact: bool, mark: char) -> Cell {
        if exact { self } else { Cell { text: format!("{mark} {}", self.text), ..self } }
    }
}

/// All rows for which any design has a cell.
pub(crate) fn rows(document: &ComparisonDocument) -> Vec<Row> {
    let mut all = Vec::new();
    let mut add = |better, label, of: &dyn Fn(&Design) -> Option<Cell>| {
        let cells: Vec<Option<Cell>> = document.designs.iter().map(of).collect();
        if cells.iter().any(Option::is_some) {
            all.push(Row { label, better, cells });
        }
    };
    let from_to = |[a, b]: &[String; 2]| format!("{a} → {b}");
    let worst = |alone: &Option<Alone>| alone.as_ref().map(|a| Cell::of(&a.worst, from_to(&a.worst_pair)));
    let mean = |alone: &Option<Alone>| alone.as_ref().map(|a| Cell::of(&a.mean, String::new()));
    let more = Better::More;
    add(Better::Neither, "GPUs", &|d| Some(Cell::labelled(d.gpus.to_string(), d.gpus as f64)));
    add(more, "worst pair, one way", &|d| worst(&d.pair));
    add(more, "mean pair, one way", &|d| mean(&d.pair));
    add(more, "worst pair, both ways", &|d| {
        let alone = d.pair_both_ways.as_ref()?;
        Some(Cell::of(&alone.worst, alone.worst_pair.join(" ↔ ")))
    });
    add(more, "mean pair, both ways", &|d| mean(&d.pair_both_ways));
    add(more, "bisection, both ways", &|d| {
        let cut = d.bisection.as_ref()?;
        let halves = format!("{} | {}", ranges(&cut.one), ranges(&cut.other));
        Some(Cell::of(&cut.figure, halves).or(cut.exact, '≤'))
    });
    add(more, "all to all, equal messages", &|d| Some(Cell::of(&d.all_to_all.as_ref()?.equal, String::new())));
    add(more, "all to all, sum of rates", &|d| Some(Cell::of(&d.all_to_all.as_ref()?.together.sum, String::new())));
    add(more, "all to all, slowest transfer", &|d| {
        let together = &d.all_to_all.as_ref()?.together;
        Some(Cell::of(&together.slowest, from_to(&together.slowest_pair)))
    });
    add(more, "all to one, worst", &|d| {
        let one = d.all_to_one.as_ref()?;
        Some(Cell::of(&one.worst, format!("→ {}", one.worst_to)))
    });
    add(more, "ring all-reduce, bus", &|d| {
        let ring = d.ring_all_reduce.as_ref()?;
        let order = ring.rings.first().map_or_else(String::new, |first| first.order.join(" "));
        Some(Cell::of(&ring.figure, order).or(ring.exact, '≥'))
    });
    add(more, "host → one GPU, worst", &|d| worst(&d.from_host));
    add(more, "one GPU → host, worst", &|d| worst(&d.to_host));
    add(more, "host → all GPUs, sum", &|d| Some(Cell::of(&d.host_feed.as_ref()?.sum, String::new())));
    add(more, "host → all GPUs, slowest", &|d| {
        let feed = d.host_feed.as_ref()?;
        Some(Cell::of(&feed.slowest, from_to(&feed.slowest_pair)))
    });
    add(more, "all GPUs → host, sum", &|d| Some(Cell::of(&d.host_drain.as_ref()?.sum, String::new())));
    add(Better::Less, "GPU–GPU latency, us, measured", &|d| {
        let latency = d.latency.as_ref()?;
        let about = from_to(&latency.most_pair);
        Some(Cell { about, ..Cell::labelled(span(latency.least, latency.most), latency.most) })
    });
    add(more, "pairs with direct access", &|d| {
        let reach = d.reach.filter(|r| r.of > 0)?;
        Some(Cell::labelled(format!("{} of {}", reach.direct, reach.of), reach.direct as f64 / reach.of as f64))
    });
    add(Better::Neither, "PCIe lanes of GPUs (of slots)", &|d| {
        let slots = d.lanes.slots.map(|s| format!(" of {s}")).unwrap_or_default();
        (d.lanes.gpus > 0).then(|| Cell::labelled(format!("{}{slots}", d.lanes.gpus), f64::from(d.lanes.gpus)))
    });
    add(Better::Neither, "PCIe lanes at CPUs", &|d| {
        let (used, all) = d.lanes.cpus_used.zip(d.lanes.cpus)?;
        Some(Cell::labelled(format!("{used} of {all}"), f64::from(used)))
    });
    add(Better::Less, "price, US$", &|d| d.facts.price_usd.map(Cell::fact));
    add(more, "all to all, GB/s per 1000 US$", &|d| {
        let price = d.facts.price_usd.filter(|p| *p > 0.0)?;
        Some(Cell::fact(d.all_to_all.as_ref()?.equal.rate / price * 1000.0))
    });
    add(Better::Less, "rack units", &|d| d.facts.rack_units.map(|u| Cell::labelled(format!("{u}"), u)));
    add(more, "all to all, GB/s per rack unit", &|d| {
        let units = d.facts.rack_units.filter(|u| *u > 0.0)?;
        Some(Cell::fact(d.all_to_all.as_ref()?.equal.rate / units))
    });
    add(more, "TFLOP/s", &|d| d.facts.tflops.map(Cell::fact));
    add(Better::Less, "power, W", &|d| d.facts.power_w.map(Cell::fact));
    all
}
