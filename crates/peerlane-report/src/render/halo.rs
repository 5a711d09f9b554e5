//! How to exchange faces between neighbours: the method by size, what each takes, and what overlap does.

use std::io::{self, Write};

use peerlane::exchange::Exchange;
use peerlane::model::{FastestFrom, HaloAdvice, OverlapFrom, SideAdvice, SpinGlassAdvice};
use peerlane::units::Bytes;

use super::text::{hang, number};

/// Columns before the text of a line.
const LABEL: usize = 13;

/// The recommendation, a row for each method, and from which lattice overlap pays.
pub(super) fn show(out: &mut dyn Write, advice: &HaloAdvice) -> io::Result<()> {
    let label = |name: &str| format!("  {name:<width$}", width = LABEL - 2);
    hang(out, &label("exchange"), &recommended(&advice.fastest))?;
    let Some(first) = advice.methods.first() else { return Ok(()) };
    let sizes: String = first.times.iter().map(|(face, _)| format!("{:>9}", Bytes(*face).to_string())).collect();
    writeln!(out, "{}{sizes}", label("face, us"))?;
    for method in &advice.methods {
        let times: String = method.times.iter().map(|(_, us)| format!("{:>9}", number(*us))).collect();
        writeln!(out, "{}{times}", label(method.exchange.name()))?;
    }
    let moved: Vec<f64> = first.times.iter().filter_map(|(face, _)| advice.hidden_by(*face)).collect();
    if !moved.is_empty() {
        let moved: String = moved.iter().map(|bytes| format!("{:>9}", number(bytes / 1e6))).collect();
        writeln!(out, "{}{moved}   MB of memory traffic", label("hidden by"))?;
    }
    let overlaps = advice.methods.iter().filter_map(|method| Some((method.exchange.name(), method.spin_glass?)));
    for (i, (name, from)) in overlaps.enumerate() {
        hang(out, &label(if i == 0 { "overlap" } else { "" }), &format!("{name}: {}", overlap(from)))?;
    }
    advice.spin_glass.as_ref().map_or(Ok(()), |advice| spin_glass(out, advice))
}

/// From which lattice on several GPUs are faster than one, and what an update takes.
pub fn spin_glass(out: &mut dyn Write, advice: &SpinGlassAdvice) -> io::Result<()> {
    let label = |name: &str| format!("  {name:<width$}", width = LABEL - 2);
    let gpus = format!("{} GPUs", advice.gpus);
    let side = |side: u32| format!("L {} {side}", if side < advice.predicted { '≈' } else { '=' });
    let at = |wanted: u32| advice.sides.iter().find(|at| at.side == wanted);
    let way = |at: &SideAdvice| format!("{}, {}", at.exchange.name(), if at.overlap { "overlap" } else { "serial" });
    let words = match advice.from.and_then(at) {
        Some(first) => {
            // the way only where it changes
            let (mut known, mut later) = (way(first), String::new());
            for at in advice.sides.iter().filter(|at| at.side > first.side) {
                if way(at) != known {
                    known = way(at);
                    later.push_str(&format!("; by {known} from L = {}", at.side));
                }
            }
            let latest = if advice.at_the_latest { ", or from a smaller one, which is not predicted," } else { "" };
            format!("{gpus} are faster than one from {} on{latest} by {}{later}", side(first.side), way(first))
        }
        None => format!("{gpus} are faster than one at no side"),
    };
    hang(out, &label("spin glass"), &words)?;
    let row = |name: &str, value: &dyn Fn(&SideAdvice) -> String| {
        format!("{}{}", label(name), advice.sides.iter().map(|at| format!("{:>8}", value(at))).collect::<String>())
    };
    writeln!(out, "{}", row("L", &|at| at.side.to_string()))?;
    writeln!(out, "{}", row("1 GPU, ps", &|at| number(at.one)))?;
    writeln!(out, "{}", row(&format!("{gpus}, ps"), &|at| number(at.all)))?;
    hang(out, &label(""), "ps: of an update, by the fastest way")
}

/// `stores; copies from 2.2 MiB a face`.
fn recommended(fastest: &[FastestFrom]) -> String {
    let words = |exchange: Exchange| match exchange {
        Exchange::Stores => "stores of the kernel that computes the face",
        Exchange::Copies => "peer copies",
        Exchange::Staged => "copies staged through host memory",
    };
    match fastest {
        [only] => format!("{}, at every size", words(only.exchange)),
        [first, more @ ..] => {
            let more = more.iter().map(|next| format!("; {} from {}", words(next.exchange), Bytes(next.face)));
            format!("{}{} a face", words(first.exchange), more.collect::<String>())
        }
        [] => String::new(),
    }
}

/// `pays from L ≈ 64, hides all from L = 448`: about, where caches hold a notable part of the lattice.
fn overlap(from: OverlapFrom) -> String {
    let side = |side: u32| format!("L {} {side}", if side < from.predicted { '≈' } else { '=' });
    match (from.pays, from.hides) {
        (Some(pays), Some(hides)) if hides <= pays => format!("pays and hides all from {}", side(pays)),
        (Some(pays), Some(hides)) => format!("pays from {}, hides all from {}", side(pays), side(hides)),
        (Some(pays), None) => format!("pays from {}, never hides all", side(pays)),
        (None, _) => "never pays".to_owned(),
    }
}
