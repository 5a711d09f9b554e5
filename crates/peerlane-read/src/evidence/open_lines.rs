//! Lines that speak of trouble and that nothing here knows: they are shown, so that silence is never taken for health.
//!
//! A line counts if a program says so: by its level, by words of failure in a line of a log, by a status, or by a counter of
//! errors that is not zero. Prose, options, help texts and counters of zero do not. In logs of the system, whose lines are about anything,
//! a line must name a device or a driver of paths between GPUs, adapters and host memory.

mod traceback;
mod went_on;
mod words;

use std::collections::HashMap;

use super::host_headings::HostHeadings;
use super::line_head::{Head, Level, head};
use super::said::is_title;
use super::{Fact, Found, KernelFacts, Text, fabric_manager, kernel, tool};
use peerlane_machine::fact::{OpenKind, OpenLine};
pub(super) use traceback::Tracebacks;
use went_on::Progress;
use words::{Words, exception, is_counter, is_failure, is_of_others, is_setting, names_part};

const TOOL: &str = "lines that are not known";

/// The most forms of lines that are kept; more are counted with the last.
const MOST: usize = 64;

/// The most of a line that is kept, in characters.
const MAX_QUOTE: usize = 200;

/// Longer lines are data.
const LONGEST: usize = 2000;

/// Tools whose lines are read one by one: those that say nothing of their format may be of trouble all the same.
const LOGS: [&str; 5] = [tool::NCCL_LOG, kernel::TOOL, kernel::COMMAND_LINE, fabric_manager::LOG, super::LINE_PREFIX];

/// Finds the lines, where `understood` has those of known messages.
pub(super) fn scan(text: &Text, understood: &[bool], hosts: &HostHeadings, found: &mut Found) {
    let known = known(text, understood, found, false);
    let mut forms: HashMap<(Option<String>, String), usize> = HashMap::new();
    // with the index of the last line of each form
    let mut all: Vec<(OpenLine, usize, usize)> = Vec::new();
    let tracebacks = Tracebacks::of(text);
    let is_excerpt = is_excerpt(text, found);
    for (i, line) in text.iter() {
        let is_passed_over = known.get(i) == Some(&true) || tracebacks.is_within(i);
        if is_passed_over || line.len() > LONGEST || line.trim().is_empty() {
            continue;
        }
        let head = head(line);
        let rest = without_place(line.get(head.end..).unwrap_or_default()).trim();
        let is_trouble = speaks_of_trouble(&head, rest)
            || tracebacks.ends_program(i)
            || is_excerpt && is_late_trouble(line, &head, rest);
        if !is_trouble
            || is_title(text, i)
            || is_count_of_few(text, i, rest)
            || kernel::is_read(line)
            || fabric_manager::is_read(line)
        {
            continue;
        }
        let host = head.host.or(hosts.at(i)).map(str::to_owned);
        let form = (host.clone(), form(rest));
        let last = all.len().checked_sub(1).filter(|_| all.len() >= MOST);
        match forms.get(&form).copied().or(last).and_then(|at| all.get_mut(at)) {
            Some((known, _, last)) => {
                *last = i;
                known.count = known.count.saturating_add(1);
                known.kind = known.kind.min(kind(&head, rest, tracebacks.ends_program(i)));
            }
            None => {
                forms.insert(form, all.len());
                // a report that is cut says where it was
                let place = tracebacks.cut_at(i).map(|place| format!("{rest} cut, at {place}"));
                let quote = place.as_deref().unwrap_or(rest).chars().take(MAX_QUOTE).collect();
                let kind = kind(&head, rest, tracebacks.ends_program(i));
                // a log of the system goes on, whatever failed
                let went_on = !head.is_system && went_on::may_be_passed(rest, kind);
                all.push((OpenLine { quote, host, count: 1, kind, went_on }, i, i));
            }
        }
    }
    if all.iter().any(|(one, ..)| one.went_on) {
        let progress = Progress::of(text);
        // what failed after it may follow from it
        let last_failure = all.iter().filter(|(one, ..)| !one.went_on).map(|(.., last)| *last).max();
        for (one, _, last) in &mut all {
            one.went_on &= last_failure.is_none_or(|failed| failed < *last) && progress.is_after(*last, one.kind);
        }
    }
    for (one, first, _) in all {
        found.push(text, TOOL, text.numbers(first, first), Fact::OpenLine(one));
    }
}

/// Whether the text is a short piece of the kernel's log in which nothing is understood: what a person cut out is about something.
fn is_excerpt(text: &Text, found: &Found) -> bool {
    /// More lines are a log that may be about anything.
    const SHORT: usize = 120;
    let says_nothing = |fact: &Fact| matches!(fact, Fact::Kernel(log) if *log == KernelFacts::default());
    text.len() <= SHORT && found.evidence.iter().all(|one| says_nothing(&one.fact))
}

/// Whether a line of the kernel reports trouble long after the machine's start, when drivers no longer try what they may do without.
fn is_late_trouble(line: &str, head: &Head, rest: &str) -> bool {
    /// Seconds after the start.
    const LATE: f64 = 60.0;
    let stamp = line.trim_start_matches(['>', ' ']).strip_prefix('[').and_then(|rest| rest.split(']').next());
    let is_late = stamp.and_then(|time| time.trim().parse::<f64>().ok()).is_some_and(|seconds| seconds >= LATE);
    let words = Words::of(rest);
    head.is_system && is_late && words.is_strong && !words.is_denied && !is_of_others(rest) && !is_setting(rest)
}

/// Whether a line counts failed items beside many that succeeded, which is a program's result: `Total failed examples: 6`.
fn is_count_of_few(text: &Text, i: usize, line: &str) -> bool {
    /// Lines around it that count the others.
    const NEAR: usize = 3;
    /// Of so many items one may fail.
    const MANY: u64 = 100;
    let count = |line: &str| line.trim().rsplit([':', '=', ' ']).next()?.replace(',', "").parse::<u64>().ok();
    let lower = line.to_ascii_lowercase();
    if !lower.contains("fail") || names_part(line) {
        return false;
    }
    let Some(failed) = count(line) else { return false };
    let near = (i.saturating_sub(NEAR)..text.len().min(i + NEAR + 1)).map(|k| text.line(k));
    near.filter(|line| line.contains("ucce") || line.contains("assed"))
        .any(|line| count(line) > failed.checked_mul(MANY))
}

/// What a line is.
fn kind(head: &Head, line: &str, ends_program: bool) -> OpenKind {
    // what is tried again has not failed yet
    const RETRIES: [&str; 6] = ["etrying", "ill retry", "rying again", "econnecting", "ry again in ", "etry in "];
    let warns = ["WARNING", "Warning", "warning"].iter().any(|word| line.starts_with(word))
        || RETRIES.iter().any(|words| line.contains(words));
    // a program of Go prints its stack and ends
    if ends_program || line.starts_with("panic: ") && !head.is_system {
        OpenKind::End
    } else if exception(line) && !head.is_system {
        OpenKind::Exception
    } else if warns || head.level == Some(Level::Warning) {
        OpenKind::Warning
    } else {
        OpenKind::Error
    }
}

/// A line without the place in a Python program where it was logged, `[core.py:1231] `, which a head may end with.
fn without_place(line: &str) -> &str {
    let place = || {
        let (place, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
        let (file, number) = place.rsplit_once(':')?;
        let is_place = file.ends_with(".py") && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        is_place.then(|| rest.strip_prefix(' ').unwrap_or(rest))
    };
    place().unwrap_or(line)
}

/// Leaves of a file of a whole system's report only the lines that name a part, where nothing else was understood in it: such
/// files are about anything.
pub(super) fn keep_those_of_parts(found: &mut Found) {
    if found.evidence.iter().all(|e| matches!(e.fact, Fact::OpenLine(_))) {
        found.evidence.retain(|e| matches!(&e.fact, Fact::OpenLine(line) if names_part(&line.quote)));
    }
}

/// The lines that are understood: `messages` has those of known messages. Rows of rates may have a state next to the rate, so that
/// they do not count `but_rates`.
pub(super) fn known(text: &Text, messages: &[bool], found: &Found, but_rates: bool) -> Vec<bool> {
    let mut known = read_lines(text, found, but_rates);
    known.iter_mut().zip(messages).for_each(|(known, message)| *known |= message);
    known
}

/// The lines that readers of whole blocks understood.
fn read_lines(text: &Text, found: &Found, but_rates: bool) -> Vec<bool> {
    let mut read = vec![false; text.len()];
    let blocks =
        found.evidence.iter().filter(|e| !LOGS.contains(&e.origin.tool) && !matches!(e.fact, Fact::Message(_)));
    let blocks = blocks.filter(|e| !(but_rates && matches!(e.fact, Fact::Rates(_))));
    for (first, last) in blocks.filter_map(|e| e.origin.lines) {
        let lines = (first as usize).saturating_sub(1)..(last as usize).min(read.len());
        if let Some(lines) = read.get_mut(lines) {
            lines.fill(true);
        }
    }
    for line in &found.unused {
        if let Some(line) = read.get_mut((*line as usize).saturating_sub(1)) {
            *line = false;
        }
    }
    read
}

/// The line with its numbers left out, by which lines of one form are counted together.
fn form(line: &str) -> String {
    let mut form = String::with_capacity(line.len());
    for word in line.split_whitespace().take(24) {
        let is_number = word.bytes().any(|b| b.is_ascii_digit());
        form.push_str(if is_number { "#" } else { word });
        form.push(' ');
    }
    form
}

/// Whether a line, without what stands before it, speaks of trouble.
fn speaks_of_trouble(head: &Head, line: &str) -> bool {
    if head.level == Some(Level::Quiet) {
        return false;
    }
    // most lines hold no word of trouble, and are passed over quickly
    let words = Words::of(line);
    // numbers behind such a word are a row of counters, as in `/proc/interrupts`
    let is_error = head.level == Some(Level::Error) && line.contains(char::is_alphabetic);
    if !is_error && !words.any_trouble {
        return false;
    }
    // what is deprecated still works, whatever its name
    if words.is_denied || is_setting(line) || line.contains("is deprecated") {
        return false;
    }
    if head.is_system {
        let is_of_path = || names_part(line) && !is_of_others(line);
        return (is_error || words.is_strong || is_failure(line)) && is_of_path();
    }
    if is_error {
        return true;
    }
    (head.is_log && words.is_strong) || is_failure(line) || is_counter(line)
}

#[cfg(test)]
mod tests {
    use super::super::scan_text;
    use super::*;

    fn open(body: &str) -> Vec<(String, u32)> {
        let of = |fact| if let Fact::OpenLine(line) = fact { Some((line.quote, line.count)) } else { None };
        scan_text(&Text::new("t", body.as_bytes())).evidence.into_iter().filter_map(|e| of(e.fact)).collect()
    }

    #[test]
    fn lines_of_trouble_in_any_programs_style() {
        for line in [
            "[ 12.345678] nvidia 0000:01:00.0: frobnication of the doorbell failed",
            "Jul 20 16:15:36 h kernel: mlx5_core 0000:01:00.0: firmware command timed out",
            "[Mar 21 2025 20:45:38] [ERROR] [tid 39] the widget of the fabric is gone",
            "ERROR: no route between the two",
            "error: cannot map the memory of the other GPU",
            "RuntimeError: the collective did not complete",
            "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nWidgetError: no widget",
            "[ 12.345] (EE) NVIDIA(0): the widget of the GPU is gone",
            "peer exchange ... FAILED",
            "Result = FAIL",
            "test 3: FAIL",
            "Trace/breakpoint trap (core dumped)",
            "frobnicate.cu:12: CUDA error: an unusual state",
            "rx_widget_errors: 12",
            "Recovery Errors: 505",
            "widget_error_counter = 3",
            "level=error msg=\"lost the link\"",
            "E0720 16:15:36.123456 4753 agent.cc:12] handshake refused",
        ] {
            assert_eq!(open(&format!("{line}\n")).len(), 1, "{line}");
        }
    }

    #[test]
    fn a_piece_of_the_kernel_s_log_is_about_something() {
        let late = "[  812.5] widgetfs: mirror 3 is unreachable\n";
        assert_eq!(open(late).len(), 1);
        for other in
            ["[    1.5] widgetfs: mirror 3 is unreachable\n", "[  812.5] usb 1-2: device not responding, timed out\n"]
        {
            assert_eq!(open(other), [], "{other}");
        }
        assert_eq!(
            open(&format!("{late}{}", "[  900.1] widgetfs: works\n".repeat(150))),
            [],
            "a log is about anything"
        );
    }

    #[test]
    fn few_failed_items_of_many_are_a_result() {
        let of = |good: u32| {
            open(&format!(
                "2026-03-02 21:28:36 Total successful results: {good}\n2026-03-02 21:28:36 Total failed examples: 6\n"
            ))
            .len()
        };
        assert_eq!((of(1_374_534), of(12)), (0, 1));
    }

    #[test]
    fn what_only_looks_like_trouble() {
        for line in [
            "rx_crc_errors: 0",
            "Recovery Errors: 0",
            "errors: 0, warnings: 0",
            "Mmap : n=1 ok=1 err=0 munmap=2",
            "stats['failures'] += 1",
            "0 errors, 12 passed",
            "No errors found.",
            "#  Out of bounds values : 0 OK",
            "  --fail-on LEVEL   exit with 1 where a finding fails",
            "  -e, --errors      show error counters",
            "The error comes from the cable, which failed twice.",
            "If the test fails, see the log for errors.",
            "2025-01-01 10:00:00 INFO retrying after error budget check: ok",
            "[ 1.234567] ACPI BIOS Error (bug): Could not resolve symbol",
            "[ 1.234567] usb 1-2: device descriptor read/64, error -71",
            "[ 1.234567] ehci-pci 0000:00:1a.7: cache line size of 64 is not supported",
            "[ 1.234567] ACPI: \\_SB_.PCI0.GFX0: failed to evaluate _DSM of 0000:00:02.0",
            "[ 1.234567] i915 0000:00:02.0: registered panic notifier",
            "[ 0.000000] Command line: widget.error_behavior=3 nvidia.widget_failed=1 ro",
            "[ 1.234567] i915 0000:00:02.0: [drm] *ERROR* Failed to probe lspcon",
            "[ 1.234567] nf_widget: default widget rule not found",
            "[ 1.234567] i915 0000:00:02.0: [drm] Panel is missing widgets, which are not used",
            "[ 12.345] (WW) NVIDIA(0): the widget is missing",
            "2024-05-20 10:11:12.123456: I core/util/port.cc:113] widgets failed before and are invalid now",
            "ERR:          0",
            "ERRORS",
            "error handling",
            "Errors per lane      Total errors",
            "| test | error |",
            "double err = fabs(a - b);",
            "(TaskRunner pid=12) 'nccl_timeout': 600,",
            "(TaskRunner pid=12) 'truncation': 'error',",
            "(TaskRunner pid=12) \"max_retries_on_failure\": 3,",
            "2025-01-01 10:00:00 nccl_timeout: 600",
            "2025-01-01 10:00:00 ignore_mismatch=True",
            "[W301 10:00:05.0 ProcessGroupNCCL.cpp:1250] Warning: WIDGET_ERROR_HANDLING is deprecated",
            "2025-01-01 10:00:00 Namespace(lr=1, timeout=60, on_failure='abort')",
            "if (err != 0) return err;",
        ] {
            assert_eq!(open(&format!("{line}\n")), [], "{line}");
        }
    }

    #[test]
    fn exceptions_errors_and_warnings_without_tracebacks() {
        let text = "(E pid=1) WARNING 08-03 21:02:53 [v.py:1] a widget failed\n\
                    (E pid=1) ERROR 08-03 21:02:54 [v.py:2] E failed to start.\n\
                    (E pid=1) ERROR 08-03 21:02:54 [v.py:2] Traceback (most recent call last):\n\
                    (E pid=1) ERROR 08-03 21:02:54 [v.py:2]   File \"a.py\", line 2\n\
                    (E pid=1) ERROR 08-03 21:02:54 [v.py:2] KeyError: one\n";
        let of = |fact| if let Fact::OpenLine(line) = fact { Some((line.quote, line.kind)) } else { None };
        let found = scan_text(&Text::new("t", text.as_bytes()));
        let all: Vec<_> = found.evidence.into_iter().filter_map(|e| of(e.fact)).collect();
        let all: Vec<_> = all.iter().map(|(quote, kind)| (quote.as_str(), *kind)).collect();
        assert_eq!(
            all,
            [
                ("a widget failed", OpenKind::Warning),
                ("E failed to start.", OpenKind::Error),
                ("KeyError: one", OpenKind::End)
            ]
        );
    }

    #[test]
    fn the_exception_that_ends_a_program() {
        let kinds = |text: &str| -> Vec<(String, OpenKind)> {
            let of = |fact| if let Fact::OpenLine(line) = fact { Some((line.quote, line.kind)) } else { None };
            scan_text(&Text::new("t", text.as_bytes())).evidence.into_iter().filter_map(|e| of(e.fact)).collect()
        };
        let report = "Traceback (most recent call last):\n  File \"a.py\", line 2, in f\n    raise Failed(timeout=3)\n";
        let ended = format!("step 1\n{report}data.Missing: no failed part\n");
        assert_eq!(kinds(&ended), [("data.Missing: no failed part".to_owned(), OpenKind::End)]);
        // it went on, or the text is cut
        let went_on = format!("{report}ValueError: one\n{}", "step\n".repeat(20));
        assert_eq!(kinds(&went_on), [("ValueError: one".to_owned(), OpenKind::Exception)]);
        let cut = "Traceback (most recent call last): cut, at a.py, line 2, in f: raise Failed(timeout=3)";
        assert_eq!(kinds(report), [(cut.to_owned(), OpenKind::Error)]);
        // what only carries another exception
        let wrapper = format!("{report}torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 0:\n");
        assert_eq!(
            kinds(&format!("{wrapper}{report}ValueError: one\n")),
            [("ValueError: one".to_owned(), OpenKind::End)]
        );
        assert_eq!(kinds(&format!("{wrapper}{report}")), [(cut.to_owned(), OpenKind::End)]);
        assert_eq!(kinds(&wrapper).len(), 1, "a wrapper alone is all that is known");
        // the cause, and not what follows from it
        let chain = format!(
            "{report}ValueError: one\n\nThe above exception was the direct cause of the following exception:\n\n\
             {report}RuntimeError: two\n"
        );
        assert_eq!(kinds(&chain), [("ValueError: one".to_owned(), OpenKind::End)]);
        // two processes at the same time
        let two = "(W pid=1) Traceback (most recent call last):\n(W pid=2) Traceback (most recent call last):\n\
                   (W pid=1)   File \"a.py\", line 2\n(W pid=2)     raise timeout\n(W pid=1) ValueError: one\n(W pid=2) ValueError: two\n";
        assert_eq!(
            kinds(two).iter().map(|(quote, _)| quote.as_str()).collect::<Vec<_>>(),
            ["ValueError: one", "ValueError: two"]
        );
        // a warning with its source
        assert_eq!(kinds("/x/y.py:12: FutureWarning: z is old\n  warnings.warn(\n"), []);
    }

    fn lines(text: &str) -> Vec<OpenLine> {
        let of = |fact| if let Fact::OpenLine(line) = fact { Some(line) } else { None };
        scan_text(&Text::new("t", text.as_bytes())).evidence.into_iter().filter_map(|e| of(e.fact)).collect()
    }

    #[test]
    fn programs_that_went_on() {
        let went_on = |text: &str| lines(text).iter().map(|line| line.went_on).collect::<Vec<_>>();
        let error = "ERROR: unable to write the widget at /home/u\n";
        let work = "unpacking\n".repeat(25);
        assert_eq!(went_on(&format!("{error}{work}Installed 3 packages in 1s\n")), [true]);
        assert_eq!(went_on(&format!("{error}{work}")), [false], "nothing came to an end");
        assert_eq!(went_on(&format!("{error}Installed 3 packages in 1s\n")), [false], "not much followed");
        let failed = format!("{error}{work}Installed 3 packages\nRuntimeError: no widget of the GPU\n");
        assert_eq!(went_on(&failed), [false, false], "what failed later may follow from it");
        let part = error.replace("widget", "CUDA context");
        assert_eq!(went_on(&format!("{part}{work}Installed 3 packages in 1s\n")), [false]);
        let warning = "W0101 10:00:00.000000 7 w.c:186] failed to rotate the widget\n";
        let log = "I0101 10:00:01.000000 7 w.c:133] selecting a widget\n".repeat(6);
        assert_eq!((went_on(&format!("{warning}{log}")), went_on(warning)), (vec![true], vec![false]));
        // what is tried again, and then works
        let retry = "ERROR: widget refused, retrying in 3 s\n";
        let log = "2026-01-01 10:00:01,123 INFO selecting a widget\n".repeat(6);
        assert_eq!((went_on(&format!("{retry}{log}")), went_on(retry)), (vec![true], vec![false]));
        // a log of the system goes on, whatever fails
        let kernel = "[    1.0] nvidia 0000:01:00.0: frobnication failed\n";
        assert_eq!(went_on(&format!("{kernel}{}", "[    2.0] usb 1-2: completed\n".repeat(30))), [false]);
    }

    #[test]
    fn exceptions_that_python_ignored_ended_nothing() {
        let report = |first: &str, last: &str| {
            format!("{first}Traceback (most recent call last):\n  File \"a.py\", line 2, in f\n{last}\n")
        };
        let ended = report("", "ValueError: heads do not divide");
        let ignored = report(
            "Exception ignored in atexit callback: <function f at 0x7f>\n",
            "FileNotFoundError: [Errno 2] No such file or directory: '/x'",
        );
        let found = scan_text(&Text::new("t", format!("{ended}{ignored}").as_bytes()));
        assert!(found.evidence.iter().all(|e| !matches!(e.fact, Fact::Message(_))), "{found:#?}");
        let all = lines(&format!("{ended}{ignored}"));
        assert_eq!(
            all.iter().map(|line| (line.quote.as_str(), line.kind)).collect::<Vec<_>>(),
            [("ValueError: heads do not divide", OpenKind::End)]
        );
    }

    #[test]
    fn the_same_exception_of_ranks_behind_labels_and_launchers() {
        let rank = |task: u32, n: u32| {
            format!(
                "{task}: [rank{n}]: Traceback (most recent call last):\n{task}: [rank{n}]:   File \"a.py\", line 2\n{task}: [rank{n}]: WidgetError: 4 of 8\n"
            )
        };
        let report = "0: ============================================================\n0: train.py FAILED\n0: Root Cause (first observed failure):\n0: [0]:\n\
                      0:   time      : 2026-01-01\n0:   host      : h\n0:   rank      : 2 (local_rank: 2)\n"
            .repeat(3);
        let text = format!("{}{}{}{report}", rank(0, 0), rank(0, 1), rank(1, 2));
        let all = lines(&text);
        let first = all.iter().find(|line| line.quote.starts_with("WidgetError")).unwrap();
        assert_eq!((first.count, first.kind), (3, OpenKind::End), "{all:#?}");
    }

    #[test]
    fn a_program_of_go_ends_with_its_panic() {
        let all = lines(
            "2023/01/05 20:00:00 Starting\npanic: widget 3 has no parts\n\ngoroutine 1 [running]:\nmain.main()\n",
        );
        assert_eq!(all.iter().map(|line| line.kind).collect::<Vec<_>>(), [OpenKind::End]);
    }

    #[test]
    fn lines_of_one_form_are_counted_together() {
        let all =
            open("[1.0] nvidia 0000:01:00.0: doorbell 12 failed\n[2.0] nvidia 0000:01:00.0: doorbell 14 failed\n");
        assert_eq!(all, [("nvidia 0000:01:00.0: doorbell 12 failed".to_owned(), 2)]);
    }
}
