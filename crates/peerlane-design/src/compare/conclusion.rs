//! What a comparison comes to, in sentences that cite its figures.

use super::{
    Alone, Bisection, Design, Figure, GpuNic, MeasuredAlone, MeasuredValue, NicMessage, NicRates, Reach, Together,
};
use peerlane_machine::names::ranges;

/// Designs are alike in a figure where the best is less than this above the worst.
const ALIKE: f64 = 1.05;

/// How words say that what they name is assumed: nobody is ahead by it of a design that is known.
const ASSUMED: &str = "(assumed)";

/// A prediction holds where what was measured is within this factor of it.
const HELD: f64 = 1.25;

/// A figure by which designs are ranked.
struct Measure {
    /// Where it stands in a sentence: `worst pair one way`.
    name: &'static str,
    unit: &'static str,
    /// Whether less is better.
    less: bool,
    of: fn(&Design) -> Option<Value>,
}

/// A figure of one design.
struct Value {
    predicted: Option<f64>,
    measured: Option<MeasuredValue>,
    /// What it is about and what binds it.
    detail: String,
}

impl Measure {
    const fn rate(name: &'static str, of: fn(&Design) -> Option<Value>) -> Self {
        Measure { name, unit: "GB/s", less: false, of }
    }

    const fn time(name: &'static str, of: fn(&Design) -> Option<Value>) -> Self {
        Measure { name, unit: "us", less: true, of }
    }
}

impl Value {
    /// What was measured, or what is predicted: never the one of one design against the other of another.
    fn ranked(&self, by_measured: bool) -> Option<f64> {
        let measured = self.measured.as_ref().map(|s| (s.low + s.high) / 2.0);
        if by_measured { measured } else { self.predicted }.filter(|v| *v > 0.0)
    }

    /// The assumed link that binds it: `PCIe 4.0 x16`.
    fn assumed_link(&self) -> Option<&str> {
        let (before, _) = self.detail.split_once(ASSUMED)?;
        before.rsplit(", ").next().map(str::trim)
    }

    /// `12.99 GB/s predicted, 12.85 published`.
    fn in_words(&self, unit: &str) -> String {
        let predicted = self.predicted.map(|v| format!("{} {unit} predicted", number(v)));
        let measured = self.measured.as_ref().map(|s| {
            let value = span(s.low, s.high);
            let basis = if s.published { "published" } else { "measured" };
            if self.predicted.is_some() { format!("{value} {basis}") } else { format!("{value} {unit} {basis}") }
        });
        let both: Vec<String> = [predicted, measured].into_iter().flatten().collect();
        both.join(", ")
    }
}

fn of_figure(figure: &Figure, detail: String) -> Value {
    Value { predicted: Some(figure.rate), measured: figure.measured.clone(), detail }
}

fn bound(figure: &Figure) -> String {
    format!("bound by {}", figure.bottleneck)
}

/// A figure of a design, divided by its GPUs, next to what it is in all.
fn per_gpu(design: &Design, whole: &Figure, what: &str) -> Value {
    let rate = Some(whole.rate / design.gpus as f64);
    let detail = format!("{} in all, {what}{}", number(whole.rate), bound(whole));
    Value { predicted: rate, measured: None, detail }
}

/// The worst of transfers that each run alone: predicted, or else as measured.
fn worst(alone: &Option<Alone>, measured: &Option<MeasuredAlone>, arrow: &str) -> Option<Value> {
    if let Some(Alone { worst, worst_pair: [a, b], .. }) = alone {
        return Some(of_figure(worst, format!("{a} {arrow} {b}, {}", bound(worst))));
    }
    let MeasuredAlone { worst, worst_pair: [a, b], .. } = measured.as_ref()?;
    Some(Value { predicted: None, measured: Some(worst.clone()), detail: format!("{a} {arrow} {b}") })
}

/// The best of them.
fn best(alone: &Option<Alone>, measured: &Option<MeasuredAlone>) -> Option<Value> {
    let detail = measured.as_ref().map_or_else(String::new, |m| m.best_pair.join(" → "));
    let measured = measured.as_ref().map(|m| m.best.clone());
    let predicted = alone.as_ref().map(|alone| alone.best);
    (predicted.is_some() || measured.is_some()).then_some(Value { predicted, measured, detail })
}

/// One direction between GPUs and their NICs.
fn of_nic(design: &Design, rates: fn(&GpuNic) -> (&NicRates, &Option<MeasuredAlone>)) -> Option<Value> {
    let (NicRates { direct, direct_pair, .. }, measured) = rates(design.gpu_nic.as_ref()?);
    match (direct, direct_pair) {
        (Some(direct), Some([a, b])) => Some(of_figure(direct, format!("{a}, {b}, {}", bound(direct)))),
        _ => worst(&None, measured, "→"),
    }
}

/// What a source states of the machine: nothing is predicted of it.
fn stated(value: Option<f64>, detail: &str) -> Option<Value> {
    Some(Value { predicted: Some(value?), measured: None, detail: detail.to_owned() })
}

/// All-to-all of equal messages, over what a source states.
fn all_to_all_per(design: &Design, of: Option<f64>) -> Option<Value> {
    let per = design.all_to_all.as_ref()?.equal.rate / of.filter(|of| *of > 0.0)?;
    stated(Some(per), "all-to-all of equal messages")
}

/// The figures that designs of different sizes can be ranked by; of those that differ alike, in this order.
const MEASURES: [Measure; 17] = [
    Measure::rate("worst pair one way", |d| worst(&d.pair, &d.measured.pair, "→")),
    Measure::rate("fastest pair one way", |d| best(&d.pair, &d.measured.pair)),
    Measure::rate("worst pair both ways", |d| worst(&d.pair_both_ways, &d.measured.pair_both_ways, "↔")),
    Measure::rate("bisection per GPU", |d| {
        let Bisection { figure, one, other, .. } = d.bisection.as_ref()?;
        Some(per_gpu(d, figure, &format!("{} against {}, ", ranges(one), ranges(other))))
    }),
    Measure::rate("all-to-all of equal messages per GPU", |d| Some(per_gpu(d, &d.all_to_all.as_ref()?.equal, ""))),
    Measure::rate("ring all-reduce", |d| {
        let figure = &d.ring_all_reduce.as_ref()?.figure;
        Some(of_figure(figure, bound(figure)))
    }),
    Measure::rate("host to one GPU", |d| worst(&d.from_host, &d.measured.from_host, "→")),
    Measure::rate("one GPU to host", |d| worst(&d.to_host, &d.measured.to_host, "→")),
    // a lone GPU shares its host with no other: it is host to one GPU
    Measure::rate("slowest GPU while hosts feed all", |d| {
        let Together { slowest, slowest_pair: [_, to], .. } = d.host_feed.as_ref().filter(|_| d.gpus > 1)?;
        Some(of_figure(slowest, format!("{to}, {}", bound(slowest))))
    }),
    Measure::rate("GPU to its nearest NIC", |d| of_nic(d, |nic| (&nic.to_nic, &nic.measured_to_nic))),
    Measure::rate("nearest NIC to GPU", |d| of_nic(d, |nic| (&nic.from_nic, &nic.measured_from_nic))),
    Measure::time("small message between GPUs of like machines", |d| {
        let NicMessage { direct, staged, pair: [gpu, nic] } = d.gpu_nic.as_ref()?.message.as_ref()?;
        let how = if direct.is_some() { "directly" } else { "through host memory" };
        stated(direct.or(*staged), &format!("{gpu} by {nic}, {how}"))
    }),
    Measure::rate("copy within a GPU", |d| {
        let memory = d.gpu_memory.as_ref()?;
        let (copy, gpu) = (memory.copy.as_ref()?, memory.copy_gpu.as_ref()?);
        Some(of_figure(copy, format!("{gpu}, read and written")))
    }),
    Measure::time("longest latency between GPUs", |d| {
        let measured = d.latency.as_ref().map(|l| {
            let value = (l.most, l.published, l.evidence.clone());
            MeasuredValue { low: value.0, high: value.0, published: value.1, evidence: value.2 }
        });
        let predicted = d.predicted_latency.as_ref();
        let [a, b] = d.latency.as_ref().map(|l| &l.most_pair).or(predicted.map(|p| &p.most_pair))?;
        Some(Value { predicted: predicted.map(|p| p.most), measured, detail: format!("{a} → {b}") })
    }),
    Measure {
        unit: "GB/s per 1000 US$",
        ..Measure::rate("rate for the price", |d| all_to_all_per(d, d.facts.price_usd.map(|usd| usd / 1000.0)))
    },
    Measure {
        unit: "GB/s per rack unit",
        ..Measure::rate("rate for the space", |d| all_to_all_per(d, d.facts.rack_units))
    },
    Measure {
        unit: "GB/s per kW",
        ..Measure::rate("rate for the power", |d| all_to_all_per(d, d.facts.power_w.map(|watts| watts / 1000.0)))
    },
];

/// So many of the figures that differ most are described in full.
const TOLD: usize = 6;

/// A figure in which designs differ.
struct Difference {
    name: &'static str,
    ratio: f64,
    /// The sentence with the best and the worst.
    told: String,
    /// The design that is best.
    best: String,
    /// Those within 5 % of it.
    ahead: Vec<String>,
}

/// The sentences: who is ahead, each figure from the greatest difference on, which pairs have peer access, where NICs are, and what
/// unused lanes are worth.
pub(super) fn sentences(designs: &[Design]) -> Vec<String> {
    let mut differences = Vec::new();
    let mut alike = Vec::new();
    for measure in &MEASURES {
        match compared(measure, designs) {
            Some(Ok(difference)) => differences.push(difference),
            Some(Err(same)) => alike.push(same),
            None => {}
        }
    }
    // stable: equal ones stay in the order of the list
    differences.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let mut sentences: Vec<String> = verdict(designs, &differences).into_iter().collect();
    sentences.extend(nearest_nics(designs));
    let (told, rest) = differences.split_at(differences.len().min(TOLD));
    sentences.extend(told.iter().map(|difference| difference.told.clone()));
    if !rest.is_empty() {
        let each = rest.iter().map(|d| format!("{} ({}, {} times)", d.name, d.best, number(d.ratio)));
        sentences.push(format!("Smaller differences, with the best design: {}.", each.collect::<Vec<_>>().join(", ")));
    }
    if !alike.is_empty() {
        sentences.push(format!("Alike within 5 %: {}.", alike.join(", ")));
    }
    sentences.extend(reach(designs));
    sentences.extend(designs.iter().filter_map(full_width));
    sentences
}

/// The designs by one figure: in what they differ, or in what they are alike; `None` where fewer than two have it.
fn compared(measure: &Measure, designs: &[Design]) -> Option<Result<Difference, String>> {
    let values: Vec<(&Design, Value)> = designs.iter().filter_map(|d| Some((d, (measure.of)(d)?))).collect();
    let both = || values.iter().filter_map(|(_, v)| v.ranked(true).zip(v.ranked(false)));
    let off = || both().any(|(measured, predicted)| !(1.0 / HELD..=HELD).contains(&(measured / predicted)));
    let measured = values.iter().filter(|(_, v)| v.measured.is_some()).count();
    // predictions that do not hold where they were tried rank nobody, as long as two designs were measured
    let by_measured =
        values.iter().all(|(_, v)| v.measured.is_some() || v.predicted.is_none()) || measured > 1 && off();
    let ranked = values.into_iter().filter_map(|(d, v)| v.ranked(by_measured).map(|r| (d, v, r)));
    let mut known: Vec<(&Design, Value, f64)> = ranked.collect();
    let assumed = |v: &Value| !by_measured && v.detail.contains(ASSUMED);
    if known.iter().any(|(_, v, _)| !assumed(v)) {
        known.retain(|(_, v, _)| !assumed(v));
    } else if known.windows(2).any(|two| two[0].1.assumed_link() != two[1].1.assumed_link()) {
        // the difference would be that of two assumptions
        return None;
    }
    let better = |a: &f64, b: &f64| if measure.less { a.total_cmp(b) } else { b.total_cmp(a) };
    known.sort_by(|a, b| better(&a.2, &b.2));
    let [best, .., worst] = known.as_slice() else { return None };
    let times = |value: f64| if measure.less { value / best.2 } else { best.2 / value };
    let ratio = times(worst.2);
    if ratio < ALIKE {
        return Some(Err(format!("{} ({} {})", measure.name, span(worst.2, best.2), measure.unit)));
    }
    let shown = number(ratio);
    let factor = if measure.less { format!("{shown} times as long") } else { format!("a factor of {shown} less") };
    let one = |(design, value, _): &(&Design, Value, f64)| {
        let detail = if value.detail.is_empty() { String::new() } else { format!(" ({})", value.detail) };
        format!("{} has {}{detail}", design.name, value.in_words(measure.unit))
    };
    Some(Ok(Difference {
        name: measure.name,
        ratio,
        told: format!("{}: {}; {}, {factor}.", capital(measure.name), one(best), one(worst)),
        best: best.0.name.clone(),
        ahead: known.iter().filter(|(.., value)| times(*value) < ALIKE).map(|(d, ..)| d.name.clone()).collect(),
    }))
}

/// Which design is ahead, in which figures, and in which the designs differ most.
fn verdict(designs: &[Design], differences: &[Difference]) -> Option<String> {
    let wins = |name: &str| -> Vec<&str> {
        let won = differences.iter().filter(|d| d.ahead.iter().any(|ahead| ahead == name));
        won.map(|difference| difference.name).collect()
    };
    let ahead: Vec<(&str, Vec<&str>)> = designs.iter().map(|d| (d.name.as_str(), wins(&d.name))).collect();
    let most = ahead.iter().map(|(_, wins)| wins.len()).max().filter(|most| *most > 0)?;
    let first: Vec<&(&str, Vec<&str>)> = ahead.iter().filter(|(_, wins)| wins.len() == most).collect();
    let of = format!("{most} of the {} figures in which the designs differ", differences.len());
    let who = match first.as_slice() {
        [] => return None,
        [(only, wins)] => format!("{only} is ahead, or within 5 % of the best, in {of}: {}.", wins.join(", ")),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            format!("{} are each ahead, or within 5 % of the best, in {of}.", names.join(" and "))
        }
    };
    let greatest: Vec<String> =
        differences.iter().take(GREATEST).map(|d| format!("{} ({} times)", d.name, number(d.ratio))).collect();
    Some(format!("{who} They differ most in {}.", greatest.join(", ")))
}

/// So many figures are named as those that differ most.
const GREATEST: usize = 3;

/// Where the nearest NIC of each design's furthest GPU is, where they differ.
fn nearest_nics(designs: &[Design]) -> Option<String> {
    let known = || designs.iter().filter_map(|d| Some((d, d.gpu_nic.as_ref()?)));
    let mut all: Vec<(&Design, &GpuNic)> = known().collect();
    all.sort_by_key(|(_, nic)| nic.rank);
    let (first, last) = (all.first()?, all.last()?);
    if first.1.class == last.1.class {
        return None;
    }
    let each: Vec<String> = all
        .iter()
        .map(|(design, nic)| format!("{} in {} ({})", nic.class, design.name, nic.class_pair.join(", ")))
        .collect();
    Some(format!("The furthest GPU reaches its nearest NIC by {}: nearer paths first.", each.join(", ")))
}

/// Which designs let GPUs reach each other without host memory.
fn reach(designs: &[Design]) -> Option<String> {
    let share = |design: &Design| {
        let Reach { direct, of, .. } = design.reach?;
        Some(match direct {
            _ if direct == of => format!("all {of} in {}", design.name),
            0 => format!("none of {of} in {}", design.name),
            _ => format!("{direct} of {of} in {}", design.name),
        })
    };
    let each: Vec<String> = designs.iter().filter_map(share).collect();
    (!each.is_empty())
        .then(|| format!("Ordered pairs of GPUs that copy directly, not through host memory: {}.", each.join(", ")))
}

/// What a design would be with the lanes that it leaves unused.
fn full_width(design: &Design) -> Option<String> {
    let full = design.full_width.as_ref()?;
    let change = |what: &str, before: Option<f64>, after: Option<f64>| {
        let (before, after) = before.zip(after)?;
        (after > before * ALIKE).then(|| format!("{what} from {} to {} GB/s", number(before), number(after)))
    };
    let slowest_fed = design.host_feed.as_ref().map(|f| f.slowest.rate);
    let changes: Vec<String> = [
        change("worst pair goes", design.pair.as_ref().map(|p| p.worst.rate), full.worst_pair),
        change("ring all-reduce", design.ring_all_reduce.as_ref().map(|r| r.figure.rate), full.ring_all_reduce),
        change("slowest GPU fed by the host with the rest", slowest_fed, full.host_feed_slowest),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!changes.is_empty()).then(|| {
        format!("{} leaves lanes unused: with {}, its {} (predicted).", design.name, full.what, changes.join(", its "))
    })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn span(low: f64, high: f64) -> String {
    let (low, high) = (number(low), number(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// About three digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}
