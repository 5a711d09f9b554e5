//! A computed step as a timeline for Perfetto or `chrome://tracing`: what each stage does when, and each kind of communication beside it.
//!
//! A step is computed in closed form, so that the timeline is one that has its sums: a stage's row has computing, exposed
//! communication, the bubble and the optimizer of its micro-batches one after the other, and is as long as the step; a row for each
//! kind of communication has what of it is exposed, at the time at which its stage waits, and what goes on beside computing.

use serde_json::{Value, json};

use super::super::trace_events::{row_name, row_span};
use super::report::{SpentOn, StepSummary};
use super::spent::Of;

/// Most parts that a row is drawn in: of micro-batches or layers, several are one.
const MOST_PARTS: usize = 64;
/// Most stages that are drawn.
const MOST_STAGES: usize = 64;

/// The events of a step.
pub fn chrome_trace(step: &StepSummary) -> String {
    let mut all = Vec::new();
    match &step.apart {
        None => {
            // a token or a prompt passes all stages, one after the other
            let stages = if step.micro_batches.is_some() { step.stages.clamp(1, MOST_STAGES) } else { 1 };
            for stage in 0..stages {
                let name = if stages > 1 { format!("stage {stage} of {}", step.stages) } else { step.kind.to_owned() };
                Rows { step, pid: stage, begin: 0.0, early: early(stage, stages) }.draw(&name, &mut all);
            }
        }
        Some(apart) => {
            process(0, "prefill", &mut all);
            thread(0, 0, "computing", &mut all);
            thread(0, 1, "keys and values", &mut all);
            all.push(span((0, 0), "prefill", [0.0, apart.prefill], json!({})));
            let sent = [apart.prefill, apart.prefill + apart.transfer];
            all.push(span((0, 1), "transfer", sent, json!({"bytes": apart.transfer_bytes})));
            // a token of the sequences that are decoded, after the first one has come
            Rows { step, pid: 1, begin: step.time, early: 0.0 }.draw("decode: one token", &mut all);
        }
    }
    json!({"traceEvents": all, "displayTimeUnit": "ms", "otherData": {"computed": "in closed form: the order within a stage is schematic"}})
        .to_string()
}

/// The share of the bubble that comes before a stage's first micro-batch.
fn early(stage: usize, stages: usize) -> f64 {
    if stages > 1 { stage as f64 / (stages - 1) as f64 } else { 0.0 }
}

fn process(pid: usize, name: &str, all: &mut Vec<Value>) {
    all.push(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}));
}

fn thread(pid: usize, tid: usize, name: &str, all: &mut Vec<Value>) {
    all.push(row_name(pid, tid, name));
}

fn span((pid, tid): (usize, usize), name: &str, times: [f64; 2], arguments: Value) -> Value {
    row_span((pid, tid), (name, if tid == 0 { "stage" } else { "communication" }), times, arguments)
}

/// The rows of one stage.
struct Rows<'s> {
    step: &'s StepSummary,
    pid: usize,
    begin: f64,
    early: f64,
}

impl Rows<'_> {
    fn spent(&self, on: &str) -> f64 {
        self.step.spent.iter().find(|spent| spent.on == on).map_or(0.0, |SpentOn { time, .. }| *time)
    }

    fn draw(&self, name: &str, all: &mut Vec<Value>) {
        let Rows { step, pid, .. } = *self;
        process(pid, name, all);
        thread(pid, 0, "computing and waiting", all);
        let (units, what) = match step.micro_batches {
            Some(micro) => (micro.max(1), "micro-batches"),
            None => (step.layers.max(1), "layers"),
        };
        let parts = units.min(MOST_PARTS);
        let mut at = self.begin;
        let mut push = |name: &str, time: f64, arguments: Value, all: &mut Vec<Value>| {
            let from = at;
            if time > 0.0 {
                at += time;
                all.push(span((pid, 0), name, [from, at], arguments));
            }
            from
        };
        let bubble = self.spent("bubble");
        push("bubble", bubble * self.early, json!({}), all);
        // when each kind was waited for, and when its stage computed
        let mut exposed: [Vec<[f64; 2]>; Of::ALL.len()] = Default::default();
        let mut computed = Vec::with_capacity(parts);
        for part in 0..parts {
            let units = [part * units / parts + 1, (part + 1) * units / parts];
            let arguments =
                json!({what: format!("{} to {} of {}", units[0], units[1], step.micro_batches.unwrap_or(step.layers))});
            let time = self.spent("computing") / parts as f64;
            let from = push("computing", time, arguments, all);
            computed.push([from, from + time]);
            // gradients and parameters of copies are waited for at the end
            for (of, exposed) in Of::ALL.into_iter().zip(&mut exposed).filter(|(of, _)| *of != Of::Copies) {
                let time = self.spent(of.name()) / parts as f64;
                let from = push(of.name(), time, json!({"exposed": true}), all);
                exposed.push([from, from + time]);
            }
        }
        push("bubble", bubble * (1.0 - self.early), json!({}), all);
        let time = self.spent(Of::Copies.name());
        let from = push(Of::Copies.name(), time, json!({"exposed": true}), all);
        exposed[Of::Copies as usize].push([from, from + time]);
        push("optimizer", self.spent("optimizer"), json!({}), all);
        for (row, (of, exposed)) in Of::ALL.into_iter().zip(exposed).enumerate() {
            self.communication(row + 1, of.name(), &exposed, &computed, all);
        }
    }

    /// A kind's row: what is waited for, and what goes on while its stage computes.
    fn communication(&self, tid: usize, kind: &str, exposed: &[[f64; 2]], computed: &[[f64; 2]], all: &mut Vec<Value>) {
        let of_kind = || self.step.communication.iter().filter(move |one| one.of == kind);
        let total: f64 = of_kind().map(|one| one.time).sum();
        let waited: f64 = exposed.iter().map(|[from, to]| to - from).sum();
        if total <= 0.0 && waited <= 0.0 {
            return;
        }
        thread(self.pid, tid, &format!("{kind} communication"), all);
        let what: Vec<String> = of_kind()
            .map(|one| format!("{} {} of {} ranks, {:.0} bytes", one.times, one.what, one.ranks, one.bytes))
            .collect();
        let arguments = |exposed: bool| json!({"exposed": exposed, "of a step": what});
        for times in exposed.iter().filter(|[from, to]| to > from) {
            all.push(span((self.pid, tid), kind, *times, arguments(true)));
        }
        let hidden = (total - waited).max(0.0) / computed.len().max(1) as f64;
        for [from, to] in computed.iter().filter(|_| hidden > 0.0) {
            // ends where computing ends, as gradients do; what is longer than that began before
            let from = from.min(to - hidden);
            all.push(span((self.pid, tid), kind, [from, from + hidden], arguments(false)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Step;
    use super::*;
    use crate::cluster::{Cluster, Wanted};
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::system;
    use std::collections::BTreeMap;

    fn summary(kind: &str, words: &str) -> StepSummary {
        let wanted: Wanted = "rail".parse().unwrap();
        let node = system("hgx-h100").unwrap().unwrap();
        let cluster = Cluster::of(node, 4, &wanted, None, Seconds::from_us(0.3)).unwrap();
        Step::read(kind, words).unwrap().unwrap().summary(&cluster, None, None).unwrap().0
    }

    /// Spans by process, row and name: from, to, whether exposed.
    type Spans = BTreeMap<(u64, u64, String), Vec<(f64, f64, Option<bool>)>>;

    fn spans(step: &StepSummary) -> Spans {
        let trace: Value = serde_json::from_str(&chrome_trace(step)).unwrap();
        let mut found = Spans::new();
        for event in trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X") {
            let number = |key: &str| event[key].as_f64().unwrap() / 1e6;
            let key = (
                event["pid"].as_u64().unwrap(),
                event["tid"].as_u64().unwrap(),
                event["name"].as_str().unwrap().to_owned(),
            );
            let times = (number("ts"), number("ts") + number("dur"), event["args"]["exposed"].as_bool());
            found.entry(key).or_default().push(times);
        }
        found
    }

    fn sum(of: &[(f64, f64, Option<bool>)]) -> f64 {
        of.iter().map(|(from, to, _)| to - from).sum()
    }

    #[test]
    fn rows_have_the_times_that_are_printed() {
        for (kind, words) in [
            ("training", "model=llama-3-70b,tp=8,pp=4,v=5,batch=64"),
            ("training", "model=llama-3-8b,zero=3,micro=1"),
            ("training", "model=llama-3-8b,tp=2,cp=2,pp=2,zb,batch=64,seq=8192"),
            ("training", "model=mixtral-8x7b,ep=8,zero=1,micro=130"),
            ("decode", "model=llama-3-70b,tp=8,batch=32,context=4096"),
            ("prefill", "model=llama-3-70b,tp=8,batch=1,prompt=4096"),
        ] {
            let step = summary(kind, words);
            let found = spans(&step);
            let close = |got: f64, expected: f64, what: &str| {
                assert!((got / expected - 1.0).abs() < 1e-6, "{words}, {what}: {got} s for {expected}");
            };
            let stages = if kind == "training" { step.stages as u64 } else { 1 };
            for pid in 0..stages {
                let own: Vec<_> = found.iter().filter(|((p, tid, _), _)| (*p, *tid) == (pid, 0)).collect();
                close(own.iter().map(|(_, spans)| sum(spans)).sum(), step.time, "a stage's row");
                let ends = own.iter().flat_map(|(_, spans)| spans.iter().map(|(_, to, _)| *to));
                close(ends.fold(0.0, f64::max), step.time, "its end");
                for spent in &step.spent {
                    close(sum(&found[&(pid, 0, spent.on.to_owned())]), spent.time, spent.on);
                }
                for kind in Of::ALL.map(Of::name) {
                    let row: Vec<_> = found
                        .iter()
                        .filter(|((p, tid, name), _)| *p == pid && *tid > 0 && name == kind)
                        .flat_map(|(_, spans)| spans.clone())
                        .collect();
                    let printed: f64 = step.communication.iter().filter(|one| one.of == kind).map(|one| one.time).sum();
                    let waited = step.spent.iter().find(|spent| spent.on == kind).map_or(0.0, |spent| spent.time);
                    if printed.max(waited) > 0.0 {
                        close(sum(&row), printed.max(waited), kind);
                        let exposed: Vec<_> = row.iter().filter(|span| span.2 == Some(true)).copied().collect();
                        assert!((sum(&exposed) - waited).abs() <= 1e-9 * step.time, "{words}: {kind}");
                    } else {
                        assert!(row.is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn prompts_and_tokens_apart() {
        let step = summary("serve", "model=llama-3-70b,tp=8,prefill-tp=8,batch=32,prompt=4096,output=512");
        let (apart, found) = (step.apart.clone().unwrap(), spans(&step));
        assert!((sum(&found[&(0, 0, "prefill".to_owned())]) / apart.prefill - 1.0).abs() < 1e-6);
        let (_, to, _) = found[&(0, 1, "transfer".to_owned())][0];
        assert!((to / step.time - 1.0).abs() < 1e-6);
        let token: f64 =
            found.iter().filter(|((pid, tid, _), _)| (*pid, *tid) == (1, 0)).map(|(_, spans)| sum(spans)).sum();
        assert!((token / apart.token - 1.0).abs() < 1e-6, "{token}");
    }
}
