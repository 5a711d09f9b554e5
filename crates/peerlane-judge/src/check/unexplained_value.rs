//! A measured value that nothing known explains: no assumption about links that sources leave open, or no finding where the value is
//! worse than its interval allows.

use super::prelude::*;
use peerlane_model::assumptions::Unexplained;
use peerlane_model::comparison::{Measurement, Series, Standing};

pub(super) const RULE: Rule = Rule::new("unexplained-value", Many(run)).and_left(beyond);

/// A pair below this share of the lowest of all others: no two kinds of sound paths of one machine are so far apart that only
/// one pair has the worse one.
const DEAD: f64 = 0.25;

/// Pairs that are not compared with fewer others.
const FEWEST: usize = 6;

fn run(view: &View) -> Vec<Raised> {
    let Some(fit) = &view.fit else { return Vec::new() };
    let by_metric = grouped(fit.unexplained.iter().map(|value| (value.metric, value)));
    by_metric.into_iter().filter_map(|(_, values)| report(view, &values, fit.scored)).collect()
}

fn report(view: &View, values: &[&Unexplained], sets: usize) -> Option<Raised> {
    let off = |value: &&Unexplained| {
        let [least, most] = value.allowed;
        if value.measured < least { least / value.measured } else { value.measured / most }
    };
    let worst = highest(values.iter().copied(), |value| off(value))?;
    let name = |value: &Unexplained| value.ends.clone().into();
    let between: Vec<(String, String)> = values.iter().map(|value| name(value)).collect();
    let unit = worst.metric.unit.name();
    let [least, most] = worst.allowed;
    let [from, to] = &worst.ends;
    let pair = |value: &&Unexplained| {
        let [a, b] = value.ends.each_ref().map(|name| view.fabric().find(name));
        a.zip(b).map(|(a, b)| view.pair(a, b))
    };
    let named = values.iter().filter_map(pair);
    let subjects: Vec<_> = distinct(named);
    let least_other = least_of_others(view, values).filter(|least| worst.measured < DEAD * least);
    let (certainty, summary) = match least_other {
        Some(least) => {
            let others = format!("where every other pair has {least:.2} {unit} or more");
            (Likely, format!("{from} and {to} reach {:.2} {unit}, {others}", worst.measured))
        }
        None => {
            let between = words::pairs(&between);
            (Possible, format!("No assumption about the unknown links explains what was measured between {between}"))
        }
    };
    let raised = RULE
        .raise(Fault, Warning, certainty)
        .summary(summary)
        .expected(format!(
            "{least:.2} to {most:.2} {unit}: the widest interval of the likely ones of {sets} sets of assumptions"
        ))
        .measured(format!("{from}→{to} {:.2} {unit} ({})", worst.measured, worst.metric.describe()))
        .evidence(view.cite([&worst.origin]))
        .fix(match least_other {
            Some(_) => {
                "Look at what only this pair shares: a bridge or cable between the two, the switch above them, a redirect (ACS) at \
                 their ports. Compare the output of `lspci -vvv` (link widths, ACSCtl) and of `nvidia-smi topo -p2p r`."
            }
            None => "Check again with the output of `nvidia-smi -q` or `lspci -vvv` (link widths) and of `nvidia-smi topo -p2p r`.",
        })
        .confirm("`nvidia-smi -q`")
        .about(subjects);
    Some(raised)
}

/// The lowest value of the same kind between other devices, where only one pair is unexplained and there are enough others.
fn least_of_others(view: &View, values: &[&Unexplained]) -> Option<f64> {
    let first = values.first()?;
    let is_of_pair = |a: &str, b: &str| first.ends == [a, b] || first.ends == [b, a];
    if !values.iter().all(|value| is_of_pair(&value.ends[0], &value.ends[1])) {
        return None;
    }
    let series = view.comparison.series().iter().find(|series| {
        series.metric() == first.metric && series.source().origin().is_some_and(|origin| *origin == first.origin)
    })?;
    let matrix = series.matrix();
    let mut others = Vec::new();
    for (i, row) in matrix.rows.iter().enumerate() {
        let other = |(j, col): (usize, &String)| matrix.value(i, j).filter(|_| col != row && !is_of_pair(row, col));
        others.extend(matrix.cols.iter().enumerate().filter_map(other));
    }
    (others.len() >= FEWEST).then(|| others.into_iter().fold(f64::INFINITY, f64::min))
}

/// A value that is worse than its interval allows.
struct Worse<'c> {
    series: &'c Series<'c>,
    ends: [&'c str; 2],
    at: (usize, usize),
    /// How many times worse than expected it is.
    times: f64,
}

/// Values of which an expectation exists, that are worse than their interval allows, and that no finding at their ends explains.
fn beyond(view: &View, known: &[Raised]) -> Vec<Raised> {
    let mut worse: Vec<Worse> = Vec::new();
    for series in view.comparison.series().iter().filter(|series| series.is_predicted()) {
        let matrix = series.matrix();
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate().filter(|(_, col)| *col != row) {
                let ends = [row.as_str(), col.as_str()];
                if series.standing(i, j) != Some(Standing::Worse) || known.iter().any(|raised| raised.explains(&ends)) {
                    continue;
                }
                let values = series.expected(i, j).zip(series.measured(i, j));
                let ratio = values.map_or(1.0, |(expected, measured)| measured.value / expected.value);
                worse.push(Worse { series, ends, at: (i, j), times: ratio.max(1.0 / ratio) });
            }
        }
    }
    let by_metric = grouped(worse.into_iter().map(|one| (one.series.metric(), one)));
    by_metric.into_iter().filter_map(|(_, worse)| report_beyond(view, &worse)).collect()
}

fn report_beyond(view: &View, worse: &[Worse]) -> Option<Raised> {
    let worst = highest(worse, |one| one.times)?;
    let (i, j) = worst.at;
    let (expected, Measurement { upto, source, .. }) = worst.series.expected(i, j).zip(worst.series.measured(i, j))?;
    let metric = worst.series.metric();
    let between: Vec<(String, String)> = worse.iter().map(|one| one.ends.map(str::to_owned).into()).collect();
    let [from, to] = worst.ends;
    let unit = metric.unit.name();
    let pair = |one: &Worse| {
        let [a, b] = one.ends.map(str::to_owned);
        Subject::Pair(a, b)
    };
    let origins = worse.iter().filter_map(|one| one.series.source().origin());
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!("Nothing known explains what was measured between {}", words::pairs(&between)))
        .expected(format!("{from}→{to} {:.2} {unit}, {:.2} to {:.2}: {}", expected.value, expected.low, expected.high, expected.binding.words))
        .measured(format!("{from}→{to} {upto:.2} {unit} ({}){}", metric.describe(), if source.published() { ", as published" } else { "" }))
        .evidence(view.cite(origins))
        .fix("Measure again on an idle machine. If the value stays, look at what only these paths share: slots, bridges, settings of the BIOS.")
        .confirm("`peerlane measure -o run.json`, then `peerlane check run.json`")
        .about(distinct(worse.iter().map(pair)))
        .losing(1.0 - 1.0 / worst.times);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::see_with;
    use super::*;
    use crate::finding::Finding;
    use peerlane_read::assemble::assemble;
    use peerlane_read::catalogue::Parts;
    use peerlane_read::evidence::{Text, scan_text};

    fn found(odd: &str) -> Vec<Finding> {
        let text = format!(
            "\
        GPU0    GPU1    GPU2    GPU3    CPU Affinity
GPU0     X      PIX     PIX     PIX     0-9
GPU1    PIX      X      PIX     PIX     0-9
GPU2    PIX     PIX      X      PIX     0-9
GPU3    PIX     PIX     PIX      X      0-9

Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2      3
     0 230.00  25.01  25.02  25.02
     1  25.01 230.00  25.01  {odd}
     2  25.02  25.01 230.00  25.01
     3  25.02  25.01  25.02 230.00
"
        );
        let machine = assemble(scan_text(&Text::new("post.txt", text.as_bytes()))).remove(0);
        see_with(&machine, Parts::embedded(), |view| run(view).into_iter().map(|r| r.finding).collect())
    }

    #[test]
    fn a_value_far_from_all_others_of_its_kind_is_reported() {
        assert_eq!(found("25.03"), vec![]);
        let found = found("3.10");
        assert_eq!((found.len(), found[0].severity, found[0].certainty), (1, Warning, Likely));
        assert!(found[0].summary.contains("every other pair has 25.01"), "{}", found[0].summary);
        assert!(found[0].measured.starts_with("GPU1→GPU3 3.10 GB/s"), "{}", found[0].measured);
    }
}
