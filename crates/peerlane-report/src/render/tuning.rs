//! NCCL's settings: what to change, why, and what it gains by prediction and measurement.

use std::io::{self, Write};

use peerlane::names::ranges;
use peerlane::tune::{Action, Gain, Proof, Rate, Suggestion, TuningDocument};

use super::style::{self, paint};
use super::table::columns;
use super::text::{hang, number};

/// Writes the document for a person.
pub fn write(out: &mut dyn Write, document: &TuningDocument, verbose: bool) -> io::Result<()> {
    let TuningDocument { machine, collective, gpus, environment, over, .. } = document;
    hang(out, "", &format!("{machine}: NCCL's {} of {}, over {over}", collective.name(), ranges(gpus)))?;
    let set: Vec<String> = environment.iter().map(|s| format!("{}={} ({})", s.name, s.value, s.source)).collect();
    let set = if set.is_empty() { "no variable of NCCL".to_owned() } else { set.join(", ") };
    hang(out, "  set        ", &set)?;
    let assumed = "one process for all GPUs, and NVLink SHARP (NVLS) off, as --prove runs them; 'predict --collectives' assumes a \
                   process for each GPU, and NVLS where the switches have it";
    hang(out, "  assumes    ", assumed)?;
    writeln!(out)?;
    rates(out, document)?;
    measured(out, document)?;
    let (sure, open): (Vec<_>, Vec<_>) = document.suggestions.iter().partition(|s| !s.predicted.is_empty());
    match (sure.is_empty(), &document.proof) {
        (true, None) => hang(out, "\n", "No setting is predicted to help.")?,
        (true, Some(_)) => {}
        (false, _) => list(out, "Suggestions", &sure)?,
    }
    if !open.is_empty() && (verbose || document.proof.is_none()) {
        list(out, "No gain is predicted; --prove measures these", &open)?;
    }
    match &document.proof {
        Some(proof) => proven(out, document, proof),
        None => Ok(()),
    }
}

/// Lines for a shell.
pub fn environment(out: &mut dyn Write, document: &TuningDocument) -> io::Result<()> {
    let chosen = chosen(document);
    for suggestion in &chosen {
        let comment = match suggestion.action {
            Action::Bind { .. } => format!("# run under: {}", suggestion.command),
            _ => suggestion.command.clone(),
        };
        writeln!(out, "# {}\n{comment}", suggestion.reason)?;
    }
    if chosen.is_empty() {
        let how = if document.proof.is_some() { "was measured" } else { "is predicted" };
        writeln!(out, "# no setting {how} to help")?;
    }
    Ok(())
}

/// What is kept, else what is predicted to help.
fn chosen(document: &TuningDocument) -> Vec<&Suggestion> {
    let is = |s: &&Suggestion| match (&document.proof, &s.proven) {
        (Some(_), proven) => proven.as_ref().is_some_and(|proven| proven.kept),
        (None, _) => !s.predicted.is_empty(),
    };
    document.suggestions.iter().filter(is).collect()
}

fn rates(out: &mut dyn Write, document: &TuningDocument) -> io::Result<()> {
    let mut headings = vec!["predicted bus bandwidth, GB/s".to_owned()];
    headings.extend(document.as_is.iter().map(|rate| rate.size.to_string()));
    headings.push(String::new());
    let row = |name: &str, rates: &[Rate]| {
        let cell = |r: &Rate| format!("{} ({} to {})", number(r.rate), number(r.low), number(r.high));
        [vec![name.to_owned()], rates.iter().map(cell).collect()].concat()
    };
    let mut rows = vec![row("as it is", &document.as_is)];
    if document.suggestions.iter().any(|s| !s.predicted.is_empty()) {
        rows.push(row("with the suggestions", &document.tuned));
    }
    columns(out, &headings, &rows, 1)
}

fn measured(out: &mut dyn Write, document: &TuningDocument) -> io::Result<()> {
    let Some(m) = &document.measured else { return Ok(()) };
    let share = 100.0 * m.rate / m.predicted;
    let words = format!("{} GB/s at {}, {share:.0} % of the prediction; {}", number(m.rate), m.size, m.source);
    hang(out, "  measured   ", &words)?;
    if m.likely.is_empty() {
        return Ok(());
    }
    let likely: Vec<String> = m.likely.iter().map(|l| format!("{} ({} GB/s)", l.setting, number(l.rate))).collect();
    let words = format!("such a rate is predicted with {}; `NCCL_DEBUG=INFO` shows what is set", likely.join(", "));
    hang(out, "             ", &words)
}

fn list(out: &mut dyn Write, heading: &str, suggestions: &[&Suggestion]) -> io::Result<()> {
    writeln!(out, "\n{}", paint(style::HEADING, heading))?;
    for suggestion in suggestions {
        writeln!(out, "  {}", paint(style::GPU, &suggestion.command))?;
        hang(out, "    why        ", &suggestion.reason)?;
        if let Some(gain) = suggestion.best() {
            let rates = format!("{} → {} GB/s at {}", number(gain.before), number(gain.after), gain.size);
            hang(out, "    predicted  ", &format!("{} times as fast ({})", factor(gain, "to"), rates))?;
        }
    }
    Ok(())
}

/// `12.2, 9.0 to 16.5`
fn factor(gain: &Gain, word: &str) -> String {
    format!("{} ({} {word} {})", number(gain.gain), number(gain.low), number(gain.high))
}

fn proven(out: &mut dyn Write, document: &TuningDocument, proof: &Proof) -> io::Result<()> {
    let version = proof.nccl.as_ref().map_or_else(String::new, |nccl| format!(", NCCL {nccl}"));
    let time = if proof.seconds > 0.0 { format!(" in {:.0} s", proof.seconds) } else { String::new() };
    let head = format!(
        "Measured gains, medians of {} interleaved pairs with 95 % intervals; {} runs{time}{version}",
        proof.pairs, proof.runs
    );
    writeln!(out)?;
    hang(out, "", &head)?;
    let headings = ["change", "size", "predicted", "measured", ""].map(str::to_owned);
    let mut rows = Vec::new();
    for suggestion in &document.suggestions {
        let Some(proven) = &suggestion.proven else { continue };
        let verdict = match (&proven.why_not, proven.kept) {
            (_, true) => "kept".to_owned(),
            (Some(why), _) => why.clone(),
            (None, false) => "not kept".to_owned(),
        };
        rows.extend(block(&suggestion.command, &suggestion.predicted, &proven.gains, &verdict));
    }
    if !proof.all.is_empty() {
        rows.extend(block("all of predicted gain", &document.gains, &proof.all, ""));
    }
    columns(out, &headings, &rows, 2)?;
    proof.notes.iter().try_for_each(|note| hang(out, "  note       ", note))?;
    writeln!(out)?;
    let kept = chosen(document);
    if kept.is_empty() {
        return hang(out, "", "Nothing is kept: no setting was faster in every pair.");
    }
    writeln!(out, "{}", paint(style::HEADING, "Keep"))?;
    kept.iter().try_for_each(|s| writeln!(out, "  {}", paint(style::GPU, &s.command)))
}

/// The lines of one change, a size each; the verdict is on the last.
fn block(name: &str, predicted: &[Gain], measured: &[Gain], verdict: &str) -> Vec<Vec<String>> {
    if measured.is_empty() {
        let cells = [name, "", "", "", verdict];
        return vec![cells.map(str::to_owned).to_vec()];
    }
    let line = |(at, gain): (usize, &Gain)| {
        let expected = predicted.iter().find(|p| p.size == gain.size);
        let first = if at == 0 { name.to_owned() } else { String::new() };
        let last = if at + 1 == measured.len() { verdict.to_owned() } else { String::new() };
        let expected = expected.map_or_else(|| "–".to_owned(), |p| factor(p, "to"));
        let interval = format!("{} [{}, {}]", number(gain.gain), number(gain.low), number(gain.high));
        vec![first, gain.size.to_string(), expected, interval, last]
    };
    measured.iter().enumerate().map(line).collect()
}
