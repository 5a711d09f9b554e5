//! What readers of states, counters and results gather: reports by area, with the lines that they used.

use std::collections::BTreeMap;

use super::text::Used;
use super::{Fact, Found, Text};
use peerlane_machine::fact::{Area, Grade, HealthReport, Trouble};

/// The most troubles of one area that are kept of one block.
const MOST: usize = 256;

/// The longest value that is kept, in characters.
const LONGEST: usize = 160;

/// Reports that are being gathered.
#[derive(Default)]
pub(super) struct Health {
    reports: BTreeMap<Area, HealthReport>,
    lines: Used,
}

impl Health {
    /// A line shows that something is as it should be.
    pub(super) fn sound(&mut self, area: Area, line: usize) {
        let report = self.report(area, line);
        report.sound = report.sound.saturating_add(1);
    }

    /// A line reports trouble.
    pub(super) fn trouble(
        &mut self,
        area: Area,
        grade: Grade,
        part: Option<&str>,
        what: &str,
        value: &str,
        line: usize,
    ) {
        let report = self.report(area, line);
        if report.troubles.len() < MOST {
            let value = value.trim().chars().take(LONGEST).collect();
            report.troubles.push(Trouble { part: part.map(str::to_owned), what: what.trim().to_owned(), value, grade });
        }
    }

    /// A line states something that is sound where `bad` is `None`.
    pub(super) fn judge(
        &mut self,
        area: Area,
        bad: Option<Grade>,
        part: Option<&str>,
        what: &str,
        value: &str,
        line: usize,
    ) {
        match bad {
            None => self.sound(area, line),
            Some(grade) => self.trouble(area, grade, part, what, value, line),
        }
    }

    /// A line was used for what other lines state.
    pub(super) fn used(&mut self, line: usize) {
        self.lines.add(line);
    }

    /// Shares the lines with another statement of the same block: what either used is used.
    pub(super) fn lend(&mut self, lines: &mut Used) {
        lines.join(&self.lines);
        self.lines = lines.clone();
    }

    /// Pushes what was gathered, and starts anew.
    pub(super) fn push(&mut self, text: &Text, tool: &'static str, found: &mut Found) {
        let Health { reports, lines } = std::mem::take(self);
        if reports.is_empty() {
            return;
        }
        let Some(span) = lines.numbers(text, found) else { return };
        for report in reports.into_values() {
            found.push(text, tool, span, Fact::Health(report));
        }
    }

    fn report(&mut self, area: Area, line: usize) -> &mut HealthReport {
        self.lines.add(line);
        self.reports.entry(area).or_insert(HealthReport { area, sound: 0, troubles: Vec::new() })
    }
}
