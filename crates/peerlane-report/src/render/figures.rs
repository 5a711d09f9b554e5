//! The figures of a comparison, one row each, for the terminal and the HTML page.

use std::borrow::Cow;
use std::collections::BTreeSet;

use peerlane::compare::{
    Alone, ClassLatency, ComparisonDocument, Design, Figure, GpuNic, MeasuredAlone, MeasuredValue, NicClass, NicRates,
};
use peerlane::fabric::PathClass;
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
    pub(crate) label: Cow<'static, str>,
    /// Which of two values is better.
    pub(crate) better: Better,
    /// One cell per design; `None` if unknown.
    pub(crate) cells: Vec<Option<Cell>>,
}

/// One figure of one design.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The text in tables; `-` where nothing is predicted.
    pub(crate) text: String,
    /// The value; of a range, the worse end; 0 where nothing is predicted.
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

    /// What was measured where nothing is predicted.
    fn only_measured(measured: MeasuredValue, about: String) -> Cell {
        Cell { about, ..Cell { measured: Some(measured), ..Cell::labelled("-".to_owned(), 0.0) } }
    }

    /// A range, `6.02–6.22`, with its worse end.
    fn range([low, high]: [f64; 2], worse: f64) -> Cell {
        Cell::labelled(span(low, high), worse)
    }

    /// Marks a value that is only the best or worst of those tried.
    fn or(self, exact: bool, mark: char) -> Cell {
        if exact { self } else { Cell { text: format!("{mark} {}", self.text), ..self } }
    }
}

/// All rows for which any design has a cell.
pub(crate) fn rows(document: &ComparisonDocument) -> Vec<Row> {
    let mut rows = Rows { designs: &document.designs, all: Vec::new() };
    rows.add(Better::Neither, "GPUs", |d| Some(Cell::labelled(d.gpus.to_string(), d.gpus as f64)));
    between_gpus(&mut rows);
    with_host(&mut rows);
    with_nics(&mut rows);
    latencies(&mut rows);
    memories(&mut rows);
    facts(&mut rows);
    rows.all
}

struct Rows<'d> {
    designs: &'d [Design],
    all: Vec<Row>,
}

impl Rows<'_> {
    fn add(&mut self, better: Better, label: impl Into<Cow<'static, str>>, of: impl Fn(&Design) -> Option<Cell>) {
        let cells: Vec<Option<Cell>> = self.designs.iter().map(of).collect();
        if cells.iter().any(Option::is_some) {
            self.all.push(Row { label: label.into(), better, cells });
        }
    }

    /// The path classes of which any design has something, each once, the nearest first.
    fn classes(&self, of: impl Fn(&Design) -> Vec<PathClass>) -> BTreeSet<PathClass> {
        self.designs.iter().flat_map(of).collect()
    }
}

fn from_to([a, b]: &[String; 2]) -> String {
    format!("{a} → {b}")
}

/// The slowest, as predicted or else as measured.
fn worst(alone: &Option<Alone>, measured: &Option<MeasuredAlone>, arrow: &str) -> Option<Cell> {
    let ends = |pair: &[String; 2]| pair.join(&format!(" {arrow} "));
    let predicted = alone.as_ref().map(|a| Cell::of(&a.worst, ends(&a.worst_pair)));
    predicted.or_else(|| measured.as_ref().map(|m| Cell::only_measured(m.worst.clone(), ends(&m.worst_pair))))
}

fn mean(alone: &Option<Alone>, measured: &Option<MeasuredAlone>) -> Option<Cell> {
    let predicted = alone.as_ref().map(|a| Cell::of(&a.mean, String::new()));
    predicted.or_else(|| measured.as_ref().map(|m| Cell::only_measured(m.mean.clone(), String::new())))
}

fn best(alone: &Option<Alone>, measured: &Option<MeasuredAlone>) -> Option<Cell> {
    let value = measured.as_ref().map(|m| m.best.clone());
    let about = measured.as_ref().map_or_else(String::new, |m| from_to(&m.best_pair));
    match alone {
        Some(alone) => Some(Cell { measured: value, about, ..Cell::fact(alone.best) }),
        None => value.map(|value| Cell::only_measured(value, about)),
    }
}

fn between_gpus(rows: &mut Rows) {
    let more = Better::More;
    rows.add(more, "worst pair, one way", |d| worst(&d.pair, &d.measured.pair, "→"));
    rows.add(more, "mean pair, one way", |d| mean(&d.pair, &d.measured.pair));
    rows.add(more, "fastest pair, one way", |d| best(&d.pair, &d.measured.pair));
    rows.add(more, "worst pair, both ways", |d| worst(&d.pair_both_ways, &d.measured.pair_both_ways, "↔"));
    rows.add(more, "mean pair, both ways", |d| mean(&d.pair_both_ways, &d.measured.pair_both_ways));
    rows.add(more, "bisection, both ways", |d| {
        let cut = d.bisection.as_ref()?;
        let halves = format!("{} | {}", ranges(&cut.one), ranges(&cut.other));
        Some(Cell::of(&cut.figure, halves).or(cut.exact, '≤'))
    });
    rows.add(more, "all to all, equal messages", |d| Some(Cell::of(&d.all_to_all.as_ref()?.equal, String::new())));
    rows.add(more, "all to all, sum of rates", |d| Some(Cell::of(&d.all_to_all.as_ref()?.together.sum, String::new())));
    rows.add(more, "all to all, slowest transfer", |d| {
        let together = &d.all_to_all.as_ref()?.together;
        Some(Cell::of(&together.slowest, from_to(&together.slowest_pair)))
    });
    rows.add(more, "all to one, worst", |d| {
        let one = d.all_to_one.as_ref()?;
        Some(Cell::of(&one.worst, format!("→ {}", one.worst_to)))
    });
    rows.add(more, "ring all-reduce, bus", |d| {
        let ring = d.ring_all_reduce.as_ref()?;
        let order = ring.rings.first().map_or_else(String::new, |first| first.order.join(" "));
        Some(Cell::of(&ring.figure, order).or(ring.exact, '≥'))
    });
    rows.add(more, "pairs with direct access", |d| {
        let reach = d.reach.filter(|r| r.of > 0)?;
        Some(Cell::labelled(format!("{} of {}", reach.direct, reach.of), reach.direct as f64 / reach.of as f64))
    });
}

fn with_host(rows: &mut Rows) {
    let more = Better::More;
    rows.add(more, "host → one GPU, worst", |d| worst(&d.from_host, &d.measured.from_host, "→"));
    rows.add(more, "one GPU → host, worst", |d| worst(&d.to_host, &d.measured.to_host, "→"));
    rows.add(more, "host → all GPUs, sum", |d| Some(Cell::of(&d.host_feed.as_ref()?.sum, String::new())));
    rows.add(more, "host → all GPUs, slowest", |d| {
        let feed = d.host_feed.as_ref()?;
        Some(Cell::of(&feed.slowest, from_to(&feed.slowest_pair)))
    });
    rows.add(more, "all GPUs → host, sum", |d| Some(Cell::of(&d.host_drain.as_ref()?.sum, String::new())));
}

fn with_nics(rows: &mut Rows) {
    let more = Better::More;
    rows.add(Better::Neither, "GPU–NIC path, furthest GPU", |d| {
        let nic = d.gpu_nic.as_ref()?;
        Some(Cell { about: nic.class_pair.join(", "), ..Cell::labelled(nic.class.clone(), 0.0) })
    });
    rows.add(more, "NIC, out and back, worst", |d| worst(&None, &d.measured.nic_loopback, "→"));
    rows.add(more, "NIC → NIC, worst", |d| worst(&None, &d.measured.nic_to_nic, "→"));
    rows.add(more, "GPU → host by NIC, worst", |d| worst(&None, &d.measured.gpu_out, "→"));
    rows.add(more, "GPU → host by NIC, staged", |d| worst(&None, &d.measured.gpu_out_staged, "→"));
    rows.add(more, "host → GPU by NIC, worst", |d| worst(&None, &d.measured.gpu_back, "→"));
    rows.add(more, "host → GPU by NIC, staged", |d| worst(&None, &d.measured.gpu_back_staged, "→"));
    type Way = fn(&GpuNic) -> (&NicRates, &Option<MeasuredAlone>);
    let ways: [(&str, &str, Way); 2] = [
        ("GPU → NIC, worst GPU", "GPU → NIC, through host memory", |nic| (&nic.to_nic, &nic.measured_to_nic)),
        ("NIC → GPU, worst GPU", "NIC → GPU, through host memory", |nic| (&nic.from_nic, &nic.measured_from_nic)),
    ];
    for (direct, staged, way) in ways {
        rows.add(more, direct, |d| {
            let (rates, measured) = way(d.gpu_nic.as_ref()?);
            let ends = rates.direct_pair.as_ref().map_or_else(String::new, |pair| pair.join(", "));
            let predicted = rates.direct.as_ref().map(|figure| Cell::of(figure, ends));
            predicted.or_else(|| worst(&None, measured, "→"))
        });
        rows.add(more, staged, |d| Some(Cell::of(way(d.gpu_nic.as_ref()?).0.staged.as_ref()?, String::new())));
    }
    // a single class is the row above
    let of = |d: &Design| d.gpu_nic.as_ref().map_or(&[][..], |nic| nic.by_class.as_slice()).to_vec();
    let several = rows.designs.iter().any(|d| of(d).len() > 1);
    let classes = rows.classes(|d| of(d).into_iter().map(|class| class.rank).collect());
    for class in classes.into_iter().filter(|_| several) {
        let rate = |d: &Design, rate: fn(&NicClass) -> Option<f64>| {
            of(d).iter().find(|of| of.rank == class).and_then(rate).map(Cell::fact)
        };
        rows.add(more, format!("GPU → NIC over {class}"), |d| rate(d, |class| class.to_nic));
        rows.add(more, format!("NIC → GPU over {class}"), |d| rate(d, |class| class.from_nic));
    }
    rows.add(Better::Less, "GPU to a like machine's GPU, us", |d| {
        let message = d.gpu_nic.as_ref()?.message.as_ref()?;
        Some(Cell { about: message.pair.join(", "), ..Cell::fact(message.direct?) })
    });
    rows.add(Better::Less, "the same by host memory, us", |d| {
        d.gpu_nic.as_ref()?.message.as_ref()?.staged.map(Cell::fact)
    });
}

fn latencies(rows: &mut Rows) {
    rows.add(Better::Less, "GPU–GPU latency, us", |d| {
        let measured = d.latency.as_ref().map(|l| {
            let (published, evidence) = (l.published, l.evidence.clone());
            MeasuredValue { low: l.least, high: l.most, published, evidence }
        });
        let longest = d.latency.as_ref().map(|l| from_to(&l.most_pair));
        match &d.predicted_latency {
            Some(predicted) => Some(Cell {
                measured,
                about: longest.unwrap_or_else(|| from_to(&predicted.most_pair)),
                bound: predicted.why.clone(),
                ..Cell::range([predicted.least, predicted.most], predicted.most)
            }),
            None => Some(Cell::only_measured(measured?, longest.unwrap_or_default())),
        }
    });
    let several = rows.designs.iter().any(|d| d.latency_by_class.len() > 1);
    let classes = rows.classes(|d| d.latency_by_class.iter().map(|class| class.rank).collect());
    for class in classes.into_iter().filter(|_| several) {
        rows.add(Better::Less, format!("GPU–GPU latency, {class}, us"), |d| {
            let of: &ClassLatency = d.latency_by_class.iter().find(|of| of.rank == class)?;
            let about = if of.staged { "through host memory".to_owned() } else { String::new() };
            match of.predicted {
                Some(span) => Some(Cell { measured: of.measured.clone(), about, ..Cell::range(span, span[1]) }),
                None => Some(Cell::only_measured(of.measured.clone()?, about)),
            }
        });
    }
}

fn memories(rows: &mut Rows) {
    let more = Better::More;
    rows.add(more, "GPU memory, GiB", |d| {
        let [low, high] = d.gpu_memory.as_ref()?.size_gib?;
        Some(Cell::range([low, high], low))
    });
    rows.add(more, "GPU memory, data sheet", |d| {
        let [low, high] = d.gpu_memory.as_ref()?.data_sheet?;
        Some(Cell::range([low, high], low))
    });
    rows.add(more, "copy within a GPU, worst", |d| {
        let memory = d.gpu_memory.as_ref();
        let predicted = memory.and_then(|m| Some(Cell::of(m.copy.as_ref()?, m.copy_gpu.clone().unwrap_or_default())));
        predicted.or_else(|| worst(&None, &d.measured.local, "→"))
    });
    rows.add(more, "copy, share of the data sheet", |d| {
        let memory = d.gpu_memory.as_ref()?;
        let measured = memory.measured_share.clone();
        match memory.share {
            Some(share) => Some(Cell { measured, ..Cell::range(share, share[0]) }),
            None => Some(Cell::only_measured(measured?, String::new())),
        }
    });
}

/// Rack units of a full rack.
const RACK: f64 = 42.0;

fn facts(rows: &mut Rows) {
    let more = Better::More;
    rows.add(Better::Neither, "PCIe lanes of GPUs (of slots)", |d| {
        let slots = d.lanes.slots.map(|s| format!(" of {s}")).unwrap_or_default();
        (d.lanes.gpus > 0).then(|| Cell::labelled(format!("{}{slots}", d.lanes.gpus), f64::from(d.lanes.gpus)))
    });
    rows.add(Better::Neither, "PCIe lanes at CPUs", |d| {
        let (used, all) = d.lanes.cpus_used.zip(d.lanes.cpus)?;
        Some(Cell::labelled(format!("{used} of {all}"), f64::from(used)))
    });
    let over = |value: Option<f64>, of: Option<f64>| Some(Cell::fact(value? / of.filter(|of| *of > 0.0)?));
    let all_to_all = |d: &Design| d.all_to_all.as_ref().map(|all| all.equal.rate);
    rows.add(Better::Less, "price, US$", |d| d.facts.price_usd.map(Cell::fact));
    rows.add(more, "all to all, GB/s per 1000 US$", |d| over(all_to_all(d), d.facts.price_usd.map(|usd| usd / 1000.0)));
    rows.add(Better::Less, "rack units", |d| d.facts.rack_units.map(|u| Cell::labelled(format!("{u}"), u)));
    rows.add(more, "all to all, GB/s per rack unit", |d| over(all_to_all(d), d.facts.rack_units));
    rows.add(Better::Less, "power, W", |d| d.facts.power_w.map(Cell::fact));
    rows.add(more, "all to all, GB/s per kW", |d| over(all_to_all(d), d.facts.power_w.map(|watts| watts / 1000.0)));
    rows.add(more, "TFLOP/s", |d| d.facts.tflops.map(Cell::fact));
    rows.add(more, "TFLOP/s per kW", |d| over(d.facts.tflops, d.facts.power_w.map(|watts| watts / 1000.0)));
    rows.add(more, "PFLOP/s per rack of 42 units", |d| {
        // a machine that is a rack of its own has no such figure
        let units = d.facts.rack_units.filter(|units| *units > 0.0 && *units <= RACK)?;
        Some(Cell::fact((RACK / units).floor() * d.facts.tflops? / 1000.0))
    });
}
