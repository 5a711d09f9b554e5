//! The picture of `top`: the tree of a machine with the traffic on each link now, and its share of what one copy alone should get.
//!
//! Lines are made of styled pieces and know nothing of terminals, so that the same picture can be drawn on a screen, printed once
//! and tested.

mod bars;
mod branches;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anstyle::Style;
use peerlane::fabric::{Fabric, NodeId, NodeKind};
use peerlane::run::GpuState;
use peerlane::traffic::{BothWays, Gauge, Kind, Rates, Sample};

use super::label;
use super::style::{BAD, DIM, GPU, HEADING, INNER, NIC, PLAIN, WARN};
use super::text::{fit, number, width, wrap};
use bars::{Half, strip};
use branches::{Row, rows};

/// A line: pieces of text, each in a style.
pub type Line = Vec<(Style, String)>;

/// The columns of a link's name, with the tree before it.
const LEFT: usize = 20;

/// The most lines for what cannot be read.
const MOST_MISSING: usize = 3;

/// One moment: the counters, and what flowed since the moment before.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// What was read.
    pub sample: Sample,
    /// Rates; empty for the first one.
    pub rates: Rates,
}

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The machine, its links and what they should carry.
    pub fabric: &'a Fabric,
    /// As [`peerlane::traffic::gauges`] lists them.
    pub gauges: &'a [Gauge],
    /// All moments that are kept.
    pub moments: &'a VecDeque<Moment>,
    /// Which of them is drawn.
    pub at: usize,
    /// Draws the past of each link in place of its bar.
    pub past: bool,
    /// Draws each NVLink.
    pub each_link: bool,
}

impl View<'_> {
    /// The body of the picture in so many columns: a line or more for each device.
    pub fn lines(&self, columns: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        for row in rows(self.fabric) {
            lines.extend(self.of_row(&row, columns));
        }
        lines
    }

    /// What cannot be read at this moment.
    pub fn missing(&self, columns: usize) -> Vec<Line> {
        let Some(now) = self.moments.get(self.at) else { return Vec::new() };
        let sentences = &now.sample.missing;
        let mut lines: Vec<Line> = Vec::new();
        for sentence in sentences.iter().take(MOST_MISSING) {
            let text = format!("not counted: {sentence}");
            lines.extend(wrap(&text, columns).into_iter().take(2).map(|line| vec![(WARN, line)]));
        }
        if sentences.len() > MOST_MISSING {
            lines.push(vec![(WARN, format!("and {} more", sentences.len() - MOST_MISSING))]);
        }
        lines
    }

    fn of_row(&self, row: &Row, columns: usize) -> Vec<Line> {
        let node = self.fabric.node(row.node);
        match node.kind {
            NodeKind::Gpu => {
                let mut lines = vec![self.device(row, columns)];
                let own = self.gauges.iter().filter(|gauge| gauge.node == row.node);
                for gauge in own {
                    lines.push(self.gauge(&row.below, &gauge.label, gauge, columns));
                    if gauge.kind == Kind::Nvlink && self.each_link {
                        lines.extend(self.each(row, gauge, columns));
                    }
                }
                lines
            }
            NodeKind::Nic => {
                let gauge = self.gauges.iter().find(|gauge| gauge.node == row.node);
                let name = node.aliases.first().unwrap_or(&node.name);
                gauge.map(|gauge| self.gauge(&row.lead, name, gauge, columns)).into_iter().collect()
            }
            _ => vec![self.inner(row, columns)],
        }
    }

    /// A CPU or a switch, with the sum of what the GPUs below it exchange.
    fn inner(&self, row: &Row, columns: usize) -> Line {
        let node = self.fabric.node(row.node);
        let mut line = vec![(DIM, row.lead.clone()), (INNER, node.name.clone())];
        let product = label::product(node);
        let mut rest = if product.is_empty() { String::new() } else { format!("  {product}") };
        if node.kind == NodeKind::Switch
            && let Some([sent, received]) = self.below(row.node)
        {
            rest += &format!("  GPUs below: ▲ {} ▼ {} GB/s", number(sent * 1e-9), number(received * 1e-9));
        }
        line.push((DIM, fit(&rest, columns.saturating_sub(width(&row.lead) + width(&node.name)))));
        line
    }

    /// What the PCIe links of all GPUs below a node carry together.
    fn below(&self, node: NodeId) -> Option<BothWays<f64>> {
        let now = self.moments.get(self.at)?;
        let inside = |gpu: NodeId| {
            let mut above = self.fabric.upstream(gpu);
            while let Some((_, up)) = above {
                if up == node {
                    return true;
                }
                above = self.fabric.upstream(up);
            }
            false
        };
        let own = self.gauges.iter().filter(|gauge| gauge.kind == Kind::Pcie && inside(gauge.node));
        own.filter_map(|gauge| gauge.rates(self.fabric, &now.sample, &now.rates))
            .reduce(|a, b| [a[0] + b[0], a[1] + b[1]])
    }

    /// A GPU and its state.
    fn device(&self, row: &Row, columns: usize) -> Line {
        let node = self.fabric.node(row.node);
        let state = self.moments.get(self.at).and_then(|now| now.sample.gpus.iter().find(|s| s.gpu == node.name));
        let (words, held) = state.map(in_words).unwrap_or_default();
        let mut line = vec![(DIM, row.lead.clone()), (GPU, node.name.clone())];
        let mut left = columns.saturating_sub(width(&row.lead) + width(&node.name));
        for (style, text) in [(PLAIN, label::product(node)), (PLAIN, words), (BAD, held)] {
            if !text.is_empty() && left > 2 {
                let text = fit(&format!("  {text}"), left);
                left = left.saturating_sub(width(&text));
                line.push((style, text));
            }
        }
        line
    }

    /// A link with its name, and both directions.
    fn gauge(&self, lead: &str, name: &str, gauge: &Gauge, columns: usize) -> Line {
        let half = columns.saturating_sub(LEFT) / 2;
        let name = fit(name, LEFT.saturating_sub(width(lead) + 1));
        let style = if gauge.kind == Kind::Port { NIC } else { PLAIN };
        let pad = LEFT.saturating_sub(width(lead) + width(&name));
        let mut line = vec![(DIM, lead.to_owned()), (style, name), (PLAIN, " ".repeat(pad))];
        let rates = self.moments.get(self.at).and_then(|now| gauge.rates(self.fabric, &now.sample, &now.rates));
        for way in [0, 1] {
            let half = Half { way, rate: rates.map(|r| r[way]), carries: gauge.carries.map(|c| c[way]), columns: half };
            match self.past {
                true => half.past(&self.past_of(gauge, way, half.bar()), &mut line),
                false => half.now(&mut line),
            }
        }
        line
    }

    /// The last rates of a link up to the moment that is drawn, the oldest first.
    fn past_of(&self, gauge: &Gauge, way: usize, most: usize) -> Vec<Option<f64>> {
        let from = (self.at + 1).saturating_sub(most);
        let moments = self.moments.iter().take(self.at + 1).skip(from);
        moments.map(|m| gauge.rates(self.fabric, &m.sample, &m.rates).map(|rates| rates[way])).collect()
    }

    /// Each NVLink of a GPU, a character for each direction.
    fn each(&self, row: &Row, gauge: &Gauge, columns: usize) -> Option<Line> {
        let half = columns.saturating_sub(LEFT) / 2;
        let now = self.moments.get(self.at)?;
        let links = now.rates.nvlinks.get(&self.fabric.node(row.node).name)?;
        let pad = LEFT.saturating_sub(width(&row.below) + 4);
        let mut line = vec![(DIM, row.below.clone()), (DIM, "each".to_owned()), (PLAIN, " ".repeat(pad))];
        for way in [0, 1] {
            let carries = gauge.carries.map(|all| all[way] / links.len() as f64);
            strip(links.iter().map(|link| link.map(|rates| rates[way])), carries, half, &mut line);
        }
        Some(line)
    }
}

/// A GPU's state, and what holds its clocks down.
fn in_words(state: &GpuState) -> (String, String) {
    let mut words = Vec::new();
    words.extend(state.utilization.map(|percent| format!("{percent} % busy")));
    words.extend(state.temperature_c.map(|c| format!("{c:.0} °C")));
    words.extend(state.power_w.map(|w| format!("{w:.0} W")));
    words.extend(state.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")));
    words.extend(state.memory_used.map(|used| format!("{:.1} GiB", used.0 as f64 / (1u64 << 30) as f64)));
    let processes = state.processes.filter(|n| *n > 0);
    words.extend(processes.map(|n| if n == 1 { "1 process".to_owned() } else { format!("{n} processes") }));
    (words.join("  "), state.clock_event_reasons.join(", "))
}

/// The line that says what is drawn and how to read it.
pub fn legend(columns: usize) -> Line {
    vec![(DIM, fit("▲ sent  ▼ received, in GB/s, of what one copy alone should get", columns))]
}

/// The heading: the machine, and what of it.
pub fn heading(title: &str, rest: &str, columns: usize) -> Line {
    let name = fit(title, columns.saturating_sub(width(rest) + 2));
    let pad = columns.saturating_sub(width(&name) + width(rest));
    vec![(HEADING, name), (PLAIN, " ".repeat(pad)), (DIM, rest.to_owned())]
}
