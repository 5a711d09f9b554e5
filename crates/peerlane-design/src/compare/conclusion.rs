//! What a comparison comes to, in sentences that cite its figures.

use super::{Alone, Bisection, Design, Figure, Latency, MeasuredValue, Reach, Together};
use peerlane_machine::names::ranges;

/// Designs are alike in a figure where the best is less than this above the worst.
const ALIKE: f64 = 1.05;

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
}

impl Value {
    /// What was measured, or what is predicted: never the one of one design against the other of another.
    fn ranked(&self, by_measured: bool) -> Option<f64> {
        let measured = self.measured.as_ref().map(|s| (s.low + s.high) / 2.0);
        if by_measured { measured } else { self.predicted }.filter(|v| *v > 0.0)
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

/// The worst of transfers that each run alone.
fn worst(alone: &Option<Alone>, arrow: &str) -> Option<Value> {
    let Alone { worst, worst_pair: [a, b], .. } = alone.as_ref()?;
    Some(of_figure(worst, format!("{a} {arrow} {b}, {}", bound(worst))))
}

/// The figures that designs of different sizes can be ranked by, in the order in which they are reported.
const MEASURES: [Measure; 7] = [
    Measure::rate("worst pair one way", |d| worst(&d.pair, "→")),
    Measure::rate("worst pair both ways", |d| worst(&d.pair_both_ways, "↔")),
    Measure::rate("bisection per GPU", |d| {
        let Bisection { figure, one, other, .. } = d.bisection.as_ref()?;
        Some(per_gpu(d, figure, &format!("{} against {}, ", ranges(one), ranges(other))))
    }),
    Measure::rate("all-to-all of equal messages per GPU", |d| Some(per_gpu(d, &d.all_to_all.as_ref()?.equal, ""))),
    Measure::rate("ring all-reduce", |d| {
        let figure = &d.ring_all_reduce.as_ref()?.figure;
        Some(of_figure(figure, bound(figure)))
    }),
    Measure::rate("slowest GPU while hosts feed all", |d| {
        let Together { slowest, slowest_pair: [_, to], .. } = d.host_feed.as_ref()?;
        Some(of_figure(slowest, format!("{to}, {}", bound(slowest))))
    }),
    Measure {
        name: "longest latency",
        unit: "us",
        less: true,
        of: |d| {
            let Latency { most, most_pair: [a, b], published, evidence, .. } = d.latency.as_ref()?;
            let measured = MeasuredValue { low: *most, high: *most, published: *published, evidence: evidence.clone() };
            Some(Value { predicted: None, measured: Some(measured), detail: format!("{a} → {b}") })
        },
    },
];

/// The sentences: each figure, which design is ahead, which pairs have peer access, and what unused lanes are worth.
pub(super) fn sentences(designs: &[Design]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut ahead: Vec<(&str, Vec<&str>)> = designs.iter().map(|d| (d.name.as_str(), Vec::new())).collect();
    let mut compared = 0;
    let mut alike = Vec::new();
    for measure in &MEASURES {
        let values: Vec<(&Design, Value)> = designs.iter().filter_map(|d| Some((d, (measure.of)(d)?))).collect();
        let by_measured = values.iter().all(|(_, v)| v.measured.is_some() || v.predicted.is_none());
        let ranked = values.into_iter().filter_map(|(d, v)| v.ranked(by_measured).map(|r| (d, v, r)));
        let mut known: Vec<(&Design, Value, f64)> = ranked.collect();
        if known.len() < 2 {
            continue;
        }
        let better = |a: &f64, b: &f64| if measure.less { a.total_cmp(b) } else { b.total_cmp(a) };
        known.sort_by(|a, b| better(&a.2, &b.2));
        let (Some(best), Some(worst)) = (known.first(), known.last()) else { continue };
        let ratio = if measure.less { worst.2 / best.2 } else { best.2 / worst.2 };
        if ratio < ALIKE {
            alike.push(format!("{} ({} {})", measure.name, span(worst.2, best.2), measure.unit));
            continue;
        }
        compared += 1;
        for (design, _, value) in &known {
            let near = if measure.less { value / best.2 } else { best.2 / value };
            if near < ALIKE
                && let Some((_, wins)) = ahead.iter_mut().find(|(name, _)| *name == design.name)
            {
                wins.push(measure.name);
            }
        }
        let ratio = number(ratio);
        let factor = if measure.less { format!("{ratio} times as long") } else { format!("a factor of {ratio} less") };
        sentences.push(format!(
            "{}: {} has {} ({}); {} has {} ({}), {factor}.",
            capital(measure.name),
            best.0.name,
            best.1.in_words(measure.unit),
            best.1.detail,
            worst.0.name,
            worst.1.in_words(measure.unit),
            worst.1.detail,
        ));
    }
    if !alike.is_empty() {
        sentences.push(format!("Alike within 5 %: {}.", alike.join(", ")));
    }
    sentences.splice(0..0, verdict(&ahead, compared));
    sentences.extend(reach(designs));
    sentences.extend(designs.iter().filter_map(full_width));
    sentences
}

/// Which design is ahead, and in which figures.
fn verdict(ahead: &[(&str, Vec<&str>)], ranked: usize) -> Option<String> {
    let most = ahead.iter().map(|(_, wins)| wins.len()).max().filter(|_| ranked > 0)?;
    let first: Vec<&str> = ahead.iter().filter(|(_, wins)| wins.len() == most).map(|(name, _)| *name).collect();
    let of = format!("{most} of the {ranked} figures in which the designs differ");
    Some(match first.as_slice() {
        [] => return None,
        [only] => {
            let wins = ahead.iter().find(|(name, _)| name == only).map(|(_, wins)| wins.join(", ")).unwrap_or_default();
            format!("{only} is ahead, or within 5 % of the best, in {of}: {wins}.")
        }
        several => format!("{} are each ahead, or within 5 % of the best, in {of}.", several.join(" and ")),
    })
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
