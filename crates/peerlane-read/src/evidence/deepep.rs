//! DeepEP's tests: the rates of dispatch and combine over RDMA and NVLink, the best of each tuning, by number of nodes where one is told.

use std::collections::BTreeMap;

use super::health::Health;
use super::{Fact, Found, Text};
use peerlane_machine::fact::{Area, Message};

const TOOL: &str = "DeepEP";

/// With less than this share of the same operation's best, a run is slower for a reason.
const FALLS: f64 = 0.6;

/// The most of a line that is kept, in characters.
const QUOTE: usize = 120;

/// A rate, with what its block is called and its line.
type Rate = (f64, String, usize);

/// More blocks than anybody compares.
const MOST: usize = 64;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["[tuning] ", "ispatch bandwidth: ", "ispatch + combine bandwidth: "]) {
        return;
    }
    let mut health = Health::default();
    // rates of one operation over one way
    let mut all: BTreeMap<(String, &'static str), Vec<Rate>> = BTreeMap::new();
    let mut block = String::new();
    for (i, raw) in text.iter() {
        let line = raw.trim_start_matches(['>', ' ', '\t']).trim_end();
        if let Some(nodes) = nodes(line) {
            block = nodes;
            continue;
        }
        let Some((operation, rates)) = best(line).or_else(|| low_latency(line)) else { continue };
        if rates.iter().all(|(rate, _)| *rate > 0.0) {
            health.sound(Area::Test, i);
        }
        for (rate, way) in rates {
            let of = all.entry((operation.clone(), way)).or_default();
            if of.len() < MOST {
                of.push((rate, block.clone(), i));
            }
        }
    }
    // ranks of one run differ little; over NVLink a run is as slow as over RDMA, on which it waits
    let has_rdma = all.keys().any(|(_, way)| *way == "RDMA");
    for ((operation, way), of) in all {
        let most = of.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let least = of.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((most, least)) = most.zip(least).filter(|(most, least)| least.0 < most.0 * FALLS) else { continue };
        if has_rdma && way != "RDMA" {
            continue;
        }
        let named = |one: &Rate| {
            if one.1.is_empty() { format!("{:.1} GB/s", one.0) } else { format!("{:.1} GB/s with {}", one.0, one.1) }
        };
        let what = format!("{operation} over {way} from {} to {}", named(most), named(least));
        let quote = text.line(least.2).trim().chars().take(QUOTE).collect();
        let message = Message { id: "deepep-falls", parts: vec![("what", what)], quote, host: None, count: 1 };
        found.push(text, TOOL, text.numbers(least.2, least.2), Fact::Message(message));
    }
    health.push(text, TOOL, found);
}

/// `# 2 nodes`, `4 Nodes:`: what the lines below are of.
fn nodes(line: &str) -> Option<String> {
    let words = line.trim_matches(|c: char| matches!(c, '#' | '*' | ':' | '-' | '=' | '`') || c.is_whitespace());
    let (number, rest) = words.split_once(' ')?;
    let is_unit = ["node", "nodes", "Node", "Nodes", "ranks", "GPUs"].contains(&rest);
    (is_unit && number.parse::<u32>().is_ok()).then(|| words.to_lowercase())
}

/// `[tuning] Best dispatch (FP8): SMs 24, NVL chunk 28, RDMA chunk 24: 38.19 GB/s (RDMA), 124.92 GB/s (NVL)`; newer releases have times before
/// `BW: `.
fn best(line: &str) -> Option<(String, Vec<(f64, &'static str)>)> {
    let (_, rest) = line.split_once("[tuning] Best ")?;
    let (operation, rest) = rest.split_once(": ")?;
    let rate = |way: &'static str| {
        let (before, _) = rest.split_once(&format!(" GB/s ({way})"))?;
        let number = before.rsplit([' ', ':']).next()?;
        Some((number.parse().ok().filter(|rate: &f64| rate.is_finite())?, way))
    };
    let rates: Vec<_> = [rate("RDMA"), rate("NVL")].into_iter().flatten().collect();
    (operation.len() < 40 && !rates.is_empty()).then(|| (operation.to_owned(), rates))
}

/// `[rank 3] Dispatch + combine bandwidth: 41.23 GB/s, avg_t=…`, `[rank 3] Dispatch bandwidth: 38.5 GB/s, avg_t=194 us | …`.
fn low_latency(line: &str) -> Option<(String, Vec<(f64, &'static str)>)> {
    let (rank, rest) = line.strip_prefix("[rank ")?.split_once("] ")?;
    rank.parse::<u32>().ok()?;
    let (operation, rest) = rest.split_once(" bandwidth: ")?;
    if !operation.starts_with("Dispatch") {
        return None;
    }
    let rate = rest.split_once(" GB/s")?.0.trim().parse().ok().filter(|rate: &f64| rate.is_finite())?;
    Some((operation.to_lowercase(), vec![(rate, "the fabric")]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn rates_that_fall_with_nodes() {
        let run = |nodes: u32, rdma: f64| {
            format!(
                "# {nodes} nodes\n[tuning] Best dispatch (FP8): SMs 24, NVL chunk 28, RDMA chunk 16: {rdma} GB/s (RDMA), {} GB/s (NVL)\n",
                rdma * 3.0
            )
        };
        let found = scanned(scan, &(run(2, 40.0) + &run(4, 12.0)));
        let what =
            found.evidence.iter().find_map(|e| if let Fact::Message(m) = &e.fact { m.part("what") } else { None });
        assert_eq!(what, Some("dispatch (FP8) over RDMA from 40.0 GB/s with 2 nodes to 12.0 GB/s with 4 nodes"));
        assert_eq!(health(scan, &(run(2, 40.0) + &run(4, 37.0))).sound, 2);
    }

    #[test]
    fn other_lines_of_its_tests() {
        let newer = "[tuning] Best combine: SMs 24, NVL chunk 2, RDMA chunk 8, transmit: 900.00 us, notify: 72.00 us, BW: 42.50 GB/s (RDMA), 83.1 GB/s (NVL)\n";
        assert_eq!(best(newer).unwrap().1, [(42.5, "RDMA"), (83.1, "NVL")]);
        let within = "[tuning] Best dispatch (BF16): SMs 24, NVL chunk 32, 153.00 GB/s (NVL), t: 123.00 us\n";
        assert_eq!(health(scan, within).sound, 1);
        let low = "[rank 3] Dispatch bandwidth: 38.50 GB/s, avg_t=194.20 us | Combine bandwidth: 40.10 GB/s, avg_t=362.10 us\n";
        assert_eq!(health(scan, low).sound, 1);
        assert_eq!(scanned(scan, "[tuning] Best of all: none\n[rank 0] Dispatch bandwidth: high\n"), Found::default());
    }
}
