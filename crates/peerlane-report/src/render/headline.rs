//! The answer of `check`: the machine, the verdict with its first cause and what that costs, and what to do. It is wrapped and
//! never cut.

use std::io::{self, Write};

use peerlane::check::{Finding, TOPOLOGY};
use peerlane::export::json::MachineCheck;
use peerlane::machine::Machine;
use peerlane::one_line::quoted;
use peerlane::verdict::Verdict;

use super::findings::counts;
use super::style::{self, paint};
use super::text::{headline, rounded, width, wrap};
use super::{has_width, line_width};

/// The answer.
pub struct Headline {
    /// The machine's name and title.
    pub machine: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub cause: String,
    /// What to do first: `fix` or `next`, and the sentence.
    pub step: Option<(&'static str, String)>,
}

impl Headline {
    /// The answer about a machine: the cause is the first finding that the verdict follows from.
    pub fn of(machine: &Machine, checked: &MachineCheck) -> Self {
        let first = first(checked);
        let cause = match first {
            Some(finding) => format!("{}{}", finding.summary, rates(finding)),
            None if checked.verdict == Verdict::NotJudged => not_judged(checked),
            None => format!("{}; {}", counts(&checked.findings), what_was_checked(checked)),
        };
        let fix = first.map(|finding| finding.fix.clone()).filter(|fix| !fix.is_empty()).map(|fix| ("fix", fix));
        let commands: Vec<String> = checked.next.iter().map(|command| format!("`{command}`")).collect();
        let resume = || {
            let rest = "measure the rest: the same `peerlane measure` with --resume";
            checked.missing.as_ref().map(|_| ("next", rest.to_owned()))
        };
        let next = || {
            let commands = commands.join(" or ");
            (!commands.is_empty()).then(|| ("next", format!("for a verdict, add the output of {commands}")))
        };
        Headline { machine: title(machine), verdict: checked.verdict, cause, step: fix.or_else(resume).or_else(next) }
    }

    /// Why, and what would give a verdict where there is none.
    pub fn sentence(&self) -> String {
        match &self.step {
            Some(("next", step)) => format!("{}; {step}", self.cause),
            _ => self.cause.clone(),
        }
    }

    /// The fix, if that is the first step.
    pub fn fix(&self) -> Option<&str> {
        self.step.as_ref().filter(|(label, _)| *label == "fix").map(|(_, fix)| fix.as_str())
    }

    /// Writes it, wrapped to the terminal. For a program that reads it each part is one whole line.
    pub fn write(&self, out: &mut dyn Write, quiet: bool) -> io::Result<()> {
        let (machine, columns) = match quiet && !has_width() {
            true => (vec![self.machine.clone()], usize::MAX),
            false => (headline(&self.machine), line_width()),
        };
        for line in machine {
            writeln!(out, "{}", paint(style::HEADING, &line))?;
        }
        let words = self.verdict.words();
        let indent = width(words) + 2;
        let verdict = (words, style::of_verdict(self.verdict), self.cause.as_str());
        let step = self.step.as_ref().map(|(label, text)| (*label, style::HEADING, text.as_str()));
        let columns = columns.saturating_sub(indent);
        for (label, look, text) in [verdict].into_iter().chain(step) {
            for (i, line) in wrap(text, columns).iter().enumerate() {
                let label = if i == 0 { label } else { "" };
                writeln!(out, "{}{:gap$}{line}", paint(look, label), "", gap = indent - width(label))?;
            }
        }
        Ok(())
    }
}

/// The finding that the verdict follows from: the first that contributes it.
fn first(checked: &MachineCheck) -> Option<&Finding> {
    checked.findings.iter().find(|finding| finding.contributes() == Some(checked.verdict))
}

/// What was judged, and what was not: `checked: link widths; not checked: rates`.
fn what_was_checked(checked: &MachineCheck) -> String {
    let list = |label: &str, all: &[&str]| (!all.is_empty()).then(|| format!("{label}: {}", all.join(", ")));
    let both = [list("checked", &checked.checked), list("not checked", &checked.unchecked)];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Why there is no verdict.
pub(crate) fn not_judged(checked: &MachineCheck) -> String {
    match &checked.missing {
        Some(missing) => format!("{missing}; {}", what_was_checked(checked)),
        None if checked.checked.iter().any(|what| *what != TOPOLOGY) => {
            format!("what was measured is compared with nothing; {}", what_was_checked(checked))
        }
        None if checked.checked.contains(&TOPOLOGY) => "no fault in the topology; nothing measured".to_owned(),
        None => format!("nothing given could show a fault; {}", what_was_checked(checked)),
    }
}

/// `; 243 of 466 GB/s expected`, where the finding rests on a measured rate.
pub(crate) fn rates(finding: &Finding) -> String {
    let unit = finding.cost.map_or("", |cost| cost.unit.name());
    let rates = finding.measured_and_expected().map(|rates| rates.map(rounded));
    rates.map_or(String::new(), |[measured, expected]| format!("; {measured} of {expected} {unit} expected"))
}

/// A machine's name and title.
pub fn title(machine: &Machine) -> String {
    let title = match &machine.title {
        Some(title) if *title != machine.name => format!("{}: {title}", machine.name),
        _ => machine.name.clone(),
    };
    quoted(&title).into_owned()
}
