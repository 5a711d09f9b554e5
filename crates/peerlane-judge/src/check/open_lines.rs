//! Lines that speak of trouble and that nothing here explains.

use std::cmp::Reverse;

use super::prelude::*;
use peerlane_machine::fact::{Area, OpenKind, OpenLine};
use peerlane_read::knowledge::{Entry, Weight, entry};

pub(super) const RULE: Rule = Rule::new("open-line", One(run)).watched();

/// Lines that are quoted; the others are counted.
const SHOWN: usize = 5;

fn run(view: &View) -> Option<Raised> {
    let all = view.facts(|fact| if let Fact::OpenLine(line) = fact { Some(line) } else { None });
    let mut all: Vec<(&OpenLine, &Origin)> = all.collect();
    all.sort_by_key(|(line, origin)| {
        let at = origin.lines.map_or(0, |(first, _)| first);
        // what stopped nothing comes last
        let kind = if line.went_on { OpenKind::Warning } else { line.kind };
        // of exceptions the one that came most often, and the last one, ended the program; of other lines the first may be the cause
        match kind {
            OpenKind::End | OpenKind::Exception => (kind, line.went_on, Reverse(line.count), u32::MAX - at),
            _ => (kind, line.went_on, Reverse(0), at),
        }
    });
    let (first, _) = all.first()?;
    let quote = |(line, origin): &(&OpenLine, &Origin)| {
        let times = if line.count > 1 { format!("{} times, ", line.count) } else { String::new() };
        let host = line.host.as_ref().map_or_else(String::new, |host| format!("{host}, "));
        let at = origin.lines.map_or(0, |(first, _)| first);
        format!("\"{}\" ({times}{host}{}:{at})", line.quote, origin.source)
    };
    let more = all.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} other kinds of lines") } else { String::new() };
    let lines = all.iter().map(|(line, _)| line.count).fold(0, u32::saturating_add);
    let ends = first.kind == OpenKind::End;
    let own = own_fault(&first.quote).filter(|_| ends);
    let summary = match lines {
        _ if let Some((what, _)) = own => {
            let of = if first.count > 1 { format!(" ({} processes of it)", first.count) } else { String::new() };
            format!("A program ended{of} with an error of {what}, and not of the machine: \"{}\"", first.quote)
        }
        _ if ends && first.count > 1 => {
            format!("{} processes of a program ended with the same error: \"{}\"", first.count, first.quote)
        }
        _ if ends => format!("A program ended with an error: \"{}\"", first.quote),
        1 => format!("A line speaks of trouble that is not known here: \"{}\"", first.quote),
        _ => format!("{lines} lines speak of trouble that is not known here, foremost: \"{}\"", first.quote),
    };
    // what warns of something and then works has shown that it works
    let is_noise =
        all.iter().all(|(line, origin)| line.went_on || line.kind == OpenKind::Warning && works(view, origin));
    let (kind, severity, certainty) = match ends {
        _ if is_noise => (Measurement, Info, Certain),
        true => (Fault, Error, Likely),
        false => (Fault, Warning, Possible),
    };
    let summary = if is_noise && all.iter().any(|(_, origin)| is_ended(view, origin)) {
        format!("Lines that are not known here, beside what ended the program: \"{}\"", first.quote)
    } else if is_noise {
        format!("Lines that are not known here, of a program that worked afterwards: \"{}\"", first.quote)
    } else {
        summary
    };
    let raised = RULE
        .raise(kind, severity, certainty)
        .summary(summary)
        .expected("no line that reports a failure")
        .measured(all.iter().take(SHOWN).map(quote).collect::<Vec<_>>().join("; ") + &more)
        .evidence(view.cite(all.iter().map(|(_, origin)| *origin)))
        .fix(if let Some((_, fix)) = own {
            fix
        } else if ends {
            "Read the traceback above that line: its last place in the program's own files says where, the exception what. Mostly it is \
             the program, its data or its settings, and not the machine; a word of CUDA, NCCL or memory in it says otherwise."
        } else {
            "Read the lines in their place in the log, the first one first, and look for their words in the documents of the \
             program that printed them. If they are known to be harmless here, add them to a folder of knowledge (`--knowledge`)."
        })
        .confirm("whether the lines come again when the job is started again");
    Some(raised)
}

/// Whether the text of a line shows that its program worked: requests that were answered, steps with losses, an end.
fn works(view: &View, origin: &Origin) -> bool {
    view.machine.evidence.iter().any(|one| {
        one.origin.source == origin.source
            && matches!(&one.fact, Fact::Health(report) if report.area == Area::Program && report.sound > 0)
    })
}

/// Whether the same text reports what ends a program.
fn is_ended(view: &View, origin: &Origin) -> bool {
    let ends = |entry: &Entry| matches!(entry.weight, Weight::Certain | Weight::Likely);
    view.messages().any(|(message, of)| of.source == origin.source && entry(message.id).is_some_and(ends))
}

/// What exceptions of Python's own say that went wrong, and what to do. `RuntimeError` and those of frameworks may be about anything.
const OWN: [(&[&str], &str, &str); 5] = [
    (
        &["FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "FileExistsError"],
        "a path",
        "Give the program a path that exists on the node where it runs: a relative one depends on the folder of the job, and local disks \
         are not shared.",
    ),
    (
        &["PermissionError"],
        "a permission",
        "Let the user of the job read or write what the line names, or name another place; a container may have another user.",
    ),
    (
        &["ModuleNotFoundError", "ImportError"],
        "its environment",
        "Install what is missing in the release that the program asks for, in the environment in which the job runs (`pip list`; `which \
         python` in the job).",
    ),
    (
        &["ConnectionError", "ConnectionRefusedError", "HTTPError", "URLError", "ReadTimeout", "ConnectTimeout"],
        "a service that it calls",
        "Look whether that service answers from the node (`curl -v`), with the job's proxy and token; nodes often have no way out.",
    ),
    (
        &[
            "KeyError",
            "IndexError",
            "AttributeError",
            "NameError",
            "TypeError",
            "ValueError",
            "AssertionError",
            "UnboundLocalError",
            "ZeroDivisionError",
            "SyntaxError",
            "IndentationError",
            "RecursionError",
            "NotImplementedError",
            "JSONDecodeError",
            "UnicodeDecodeError",
            "StopIteration",
            "OverflowError",
            "EOFError",
        ],
        "its own code, data or arguments",
        "Read the last place of the traceback that is in the program's own files. Arguments or data that it does not expect, or a package of \
         a release that no longer fits it, are the usual causes.",
    ),
];

/// Whose fault an exception is by its name, if not the machine's.
fn own_fault(quote: &str) -> Option<(&'static str, &'static str)> {
    let name = quote.split([':', ' ']).next()?.rsplit('.').next()?;
    // what is raised of devices and their libraries has such names, too
    let is_of_device =
        ["CUDA", "cuda", "NCCL", "GPU", "gpu", "device", "memory"].iter().any(|word| quote.contains(word));
    OWN.iter().find(|(names, ..)| names.contains(&name) && !is_of_device).map(|(_, what, fix)| (*what, *fix))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;

    fn raised(view: &View) -> Vec<Raised> {
        run(view).into_iter().collect()
    }

    #[test]
    fn the_last_exception_leads() {
        let mut machine = switched(1);
        let lines =
            [("a warning", 9, OpenKind::Warning), ("an error", 1, OpenKind::Error), ("E: 1", 1, OpenKind::Exception)];
        for (quote, count, kind) in lines {
            let line = OpenLine { quote: quote.to_owned(), host: None, count, kind, went_on: false };
            state(&mut machine, "lines that are not known", Fact::OpenLine(line));
        }
        let all = findings(&machine, raised);
        assert!(all[0].summary.ends_with("foremost: \"E: 1\""), "{}", all[0].summary);
    }

    #[test]
    fn what_a_program_left_behind_is_good_to_know() {
        let found = |lines: &[(&str, OpenKind, bool)]| {
            let mut machine = switched(1);
            for (quote, kind, went_on) in lines {
                let line =
                    OpenLine { quote: (*quote).to_owned(), host: None, count: 1, kind: *kind, went_on: *went_on };
                state(&mut machine, "lines that are not known", Fact::OpenLine(line));
            }
            let one = findings(&machine, raised).remove(0);
            (one.severity, one.summary)
        };
        let passed = ("no cache", OpenKind::Error, true);
        assert_eq!(found(&[passed]).0, Info);
        let (severity, summary) = found(&[passed, ("no widget", OpenKind::Error, false)]);
        assert!(severity == Warning && summary.ends_with("foremost: \"no widget\""), "{summary}");
    }

    #[test]
    fn an_exception_at_the_end_is_a_fault() {
        let mut machine = switched(1);
        let line = OpenLine { quote: "E: 1".to_owned(), host: None, count: 1, kind: OpenKind::End, went_on: false };
        state(&mut machine, "lines that are not known", Fact::OpenLine(line));
        let all = findings(&machine, raised);
        assert_eq!((all[0].severity, all[0].certainty), (Error, Likely));
        assert_eq!(all[0].summary, "A program ended with an error: \"E: 1\"");
        let what = |quote: &str| own_fault(quote).map(|(what, _)| what);
        assert_eq!(what("builtins.KeyError: 'x'"), Some("its own code, data or arguments"));
        assert_eq!(what("PermissionError: [Errno 13] Permission denied: '/x'"), Some("a permission"));
        assert_eq!((what("ValueError: no CUDA device"), what("RuntimeError: x")), (None, None));
    }

    #[test]
    fn lines_are_quoted_counted_and_placed() {
        let mut machine = switched(1);
        assert_eq!(findings(&machine, raised), []);
        for (quote, count) in [("the widget is gone", 3), ("no route", 1)] {
            let line = OpenLine {
                quote: quote.to_owned(),
                host: Some("h1".to_owned()),
                count,
                kind: OpenKind::Error,
                went_on: false,
            };
            state(&mut machine, "lines that are not known", Fact::OpenLine(line));
        }
        let all = findings(&machine, raised);
        assert_eq!((all.len(), all[0].severity, all[0].certainty), (1, Warning, Possible));
        assert!(all[0].summary.starts_with("4 lines") && all[0].measured.contains("3 times, h1"), "{:?}", all[0]);
    }
}
