//! A measured value that no assumption about unknown links explains. No other rule uses assumptions, and this one makes no statement
//! about the machine.

use super::prelude::*;
use peerlane_model::assumptions::Unexplained;

pub(super) const RULE: Rule = Rule { id: "unexplained-value", run: Many(run) };

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
    let raised = RULE
        .raise(Measurement, Warning, Possible)
        .summary(format!("No assumption about the unknown links explains what was measured between {}", words::pairs(&between)))
        .expected(format!(
            "{least:.2} to {most:.2} {unit}: the widest interval of the likely ones of {sets} sets of assumptions"
        ))
        .measured(format!("{from}→{to} {:.2} {unit} ({})", worst.measured, worst.metric.describe()))
        .evidence(view.cite([&worst.origin]))
        .fix("Check again with the output of `nvidia-smi -q` or `lspci -vvv` (link widths) and of `nvidia-smi topo -p2p r`.")
        .confirm("`nvidia-smi -q`")
        .about(subjects);
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
        assert_eq!((found.len(), found[0].severity, found[0].certainty), (1, Warning, Possible));
        assert!(found[0].measured.starts_with("GPU1→GPU3 3.10 GB/s"), "{}", found[0].measured);
    }
}
